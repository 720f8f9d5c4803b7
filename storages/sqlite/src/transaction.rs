//! A transaction for a handler: its own writes and the end of its message in one commit, which is
//! shared with whoever else writes at that moment.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::jiff::Timestamp;
use punctual::storage::{Enqueued, Entry, Settled, Settlement};
use punctual::{Context, Error, Result};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ErrorCode};

use crate::effects::Effects;
use crate::fault::{Fault, Tried};
use crate::sqlite_storage::SqliteStorage;
use crate::work;

thread_local! {
    /// Whether a handler's work is being done, on the thread that writes.
    static IS_LENT: Cell<bool> = const { Cell::new(false) };
}

/// Why a handler's part of a transaction is not to be committed.
type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// The transaction a handler writes in; see [`SqliteStorage::settle_with`]. It is a connection of
/// rusqlite with a transaction open on it, which it can neither end nor begin anew:
/// others share it.
pub struct SqliteTransaction<'a> {
    connection: &'a Connection,
    now: Timestamp,
    effects: &'a mut Effects,
}

impl SqliteTransaction<'_> {
    /// Stores messages with the handler's own writes. After an error the whole is to be refused.
    pub fn enqueue(&mut self, entries: &[Entry]) -> Result<Vec<Enqueued>> {
        work::enqueue(self.connection, entries, self.now, self.effects).map_err(|fault| {
            let path = self.connection.path().unwrap_or("the database");
            fault.told(Path::new(path), Duration::ZERO).during("enqueue")
        })
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
    /// Writes for a handler and settles its message as done, in one commit: both happen, or neither,
    /// so the writes happen exactly once.
    ///
    /// The work is done by the thread that writes, so it should be short and must not wait. It may be
    /// done again when the transaction it shared was rolled back because of somebody else. An error
    /// of it rolls back its own writes and nobody else's, and is the source of the error that is
    /// answered; a panic does the same. When the message is no longer ours the work is not done, and
    /// the answer is a conflict. Refused for a message that a broker delivered.
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
            let settled = work::settle(connection, &settlement, now, effects)?;
            is_ours(&settlement[0], &settled)?;
            if has_panicked {
                return Err(Fault::Refused(panicked()));
            }
            let mut transaction = SqliteTransaction { connection, now, effects };
            IS_LENT.set(true);
            let done = catch_unwind(AssertUnwindSafe(|| work(&mut transaction)));
            IS_LENT.set(false);
            has_panicked = done.is_err();
            let done = done.map_err(|_| panicked())?;
            done.map_err(|refusal| because_of(refusal, &refused))
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

fn is_ours(settlement: &Settlement, settled: &[Settled]) -> Result<()> {
    let message = settlement.lease.message;
    match settled.first() {
        Some(Settled::Applied) => Ok(()),
        Some(Settled::CancelRequested) => Err(Error::conflict(format!(
            "the message {message} is to be cancelled; nothing was written"
        ))),
        Some(Settled::Lost) | None => Err(Error::conflict(format!(
            "the lease of the message {message} is no longer ours; nothing was written"
        ))),
    }
}

/// What SQLite said concerns the file perhaps; all else concerns this call, whose caller gets it back.
fn because_of(refusal: Refusal, kept: &Mutex<Option<Refusal>>) -> Fault {
    let refusal = match refusal.downcast::<rusqlite::Error>() {
        Ok(error) if is_guarded(&error) => {
            return Fault::Refused(Error::invalid(
                "the transaction is not the handler's alone; leave BEGIN, COMMIT and ROLLBACK out",
            ));
        }
        Ok(error) => return Fault::Sqlite(*error),
        Err(refusal) => refusal,
    };
    let fault = match refusal.downcast_ref::<Error>() {
        Some(error) => Error::new(error.kind(), error.to_string()),
        None => Error::conflict(format!("the handler refused to commit: {refusal}")),
    };
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    Fault::Refused(fault)
}

fn is_guarded(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied)
}

fn panicked() -> Error {
    Error::conflict("the handler panicked while it wrote; nothing of it was stored")
}

/// Keeps a handler from ending the transaction that it shares with others.
pub(crate) fn guard(connection: &Connection) -> Tried<()> {
    connection.authorizer(Some(|asked: AuthContext<'_>| match asked.action {
        AuthAction::Transaction { .. } if IS_LENT.get() => Authorization::Deny,
        _ => Authorization::Allow,
    }))?;
    Ok(())
}
