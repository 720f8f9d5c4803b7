//! Transactions for handlers: the handler's writes and the settlement of its message in one commit, which other
//! callers share.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use punctual::backend::storage::{EnqueueResult, Entry, SettleResult, Settlement};
use punctual::jiff::Timestamp;
use punctual::{Context, Error, Result};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode};

use crate::driver::at_once;
use crate::effects::Effects;
use crate::error::{StorageError, StorageResult};
use crate::storage::SqliteStorage;
use crate::{application_transaction, operations};

thread_local! {
    /// Whether the writer thread is running the work of a handler.
    static IS_RUNNING_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Error with which a handler refuses the commit.
type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// Transaction in which a handler writes; see [`SqliteStorage::settle_with`]. It is a rusqlite connection with
/// an open transaction, which the handler can neither end nor begin again, because other calls share it.
pub struct SqliteTransaction<'a> {
    connection: &'a Connection,
    now: Timestamp,
    effects: &'a mut Effects,
}

impl SqliteTransaction<'_> {
    /// Stores messages with the handler's own writes. After an error the handler must refuse the commit.
    pub fn enqueue(&mut self, entries: &[Entry]) -> Result<Vec<EnqueueResult>> {
        let stored = operations::enqueue(&self.connection, entries, self.now, self.effects);
        at_once(stored)
            .map_err(|error| application_transaction::map(&self.connection, &error, "enqueue"))
    }
}

impl Deref for SqliteTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl fmt::Debug for SqliteTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteTransaction").finish_non_exhaustive()
    }
}

impl SqliteStorage {
    /// Runs the writes of a handler and settles its message as done, in one commit: both happen, or neither, so
    /// the writes happen exactly once.
    ///
    /// The work runs on the writer thread, so it should be short and must not wait. It is repeated when the
    /// transaction it shared was rolled back because of another call. An error of the work rolls back its own
    /// writes only, and is the source of the returned error; a panic does the same. When the lease of the
    /// message is lost, the work does not run and the call fails with a conflict. Fails for a message that a
    /// broker delivered.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use punctual::{Context, Punctual};
    /// # use punctual_sqlite::SqliteStorage;
    /// # fn example(storage: Arc<SqliteStorage>) -> punctual::Result<()> {
    /// let handler = move |order: i64, context: Context| {
    ///     let storage = Arc::clone(&storage);
    ///     async move {
    ///         let paid = storage.settle_with(&context, move |transaction| {
    ///             transaction.execute("UPDATE orders SET paid = 1 WHERE id = ?1", [order])?;
    ///             Ok(())
    ///         });
    ///         paid.await
    ///     }
    /// };
    /// let punctual = Punctual::builder().handler("pay", handler).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle_with<T, F>(&self, context: &Context, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut SqliteTransaction<'_>) -> Result<T, Refusal> + Send + 'static,
    {
        let (settlement, now) = ([context.settlement()?], self.settings.clock.now());
        let refusal: Arc<Mutex<Option<Refusal>>> = Arc::default();
        let refused = Arc::clone(&refusal);
        let mut has_panicked = false;
        let step = move |connection: &Connection, effects: &mut Effects| {
            *refused.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let settled = at_once(operations::settle(&connection, &settlement, now, effects))?;
            check_lease(&settlement[0], &settled)?;
            if has_panicked {
                return Err(StorageError::Mapped(panicked()));
            }
            let mut transaction = SqliteTransaction { connection, now, effects };
            IS_RUNNING_HANDLER.set(true);
            let done = catch_unwind(AssertUnwindSafe(|| work(&mut transaction)));
            IS_RUNNING_HANDLER.set(false);
            has_panicked = done.is_err();
            let done = done.map_err(|_| panicked())?;
            done.map_err(|refusal| map_refusal(refusal, &refused))
        };
        let done = self.writer.write(2, step).await;
        done.map_err(|error| {
            let refusal = refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
            match refusal {
                Some(refusal) => error.caused_by(refusal),
                None => error,
            }
            .during("settle with")
        })
    }
}

fn check_lease(settlement: &Settlement, settled: &[SettleResult]) -> Result<()> {
    let message = settlement.lease.message;
    match settled.first() {
        Some(SettleResult::Applied) => Ok(()),
        Some(SettleResult::CancelRequested) => Err(Error::conflict(format!(
            "cancellation of the message {message} was requested; nothing was written"
        ))),
        Some(SettleResult::Lost) | None => Err(Error::conflict(format!(
            "the lease of the message {message} was lost; nothing was written"
        ))),
    }
}

/// Maps the error of a handler: an error of SQLite may concern the file; every other one concerns this call,
/// whose caller gets it back.
fn map_refusal(refusal: Refusal, kept: &Mutex<Option<Refusal>>) -> StorageError {
    let refusal = match refusal.downcast::<rusqlite::Error>() {
        Ok(error) if is_denied(&error) => {
            return StorageError::Mapped(Error::invalid(
                "the transaction is shared with other calls; remove BEGIN, COMMIT and ROLLBACK",
            ));
        }
        Ok(error) => return StorageError::Database(*error),
        Err(refusal) => refusal,
    };
    let error = match refusal.downcast_ref::<Error>() {
        Some(error) => Error::new(error.kind(), error.to_string()),
        None => Error::conflict(format!("the handler refused to commit: {refusal}")),
    };
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    StorageError::Mapped(error)
}

fn is_denied(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied)
}

fn panicked() -> Error {
    Error::conflict("the handler panicked while it wrote; nothing of it was stored")
}

/// Prevents a handler from ending the transaction that it shares with other calls.
pub(crate) fn deny_transaction_control(connection: &Connection) -> StorageResult<()> {
    connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
        AuthAction::Transaction { .. } if IS_RUNNING_HANDLER.get() => Authorization::Deny,
        _ => Authorization::Allow,
    }))?;
    Ok(())
}
