//! Transactions for handlers: opened on a connection of the storage, and committed together with the settlement
//! of the handler's message. Dropping one rolls it back.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use punctual::{Context, Result};
use tokio_postgres::Client;

use crate::PostgresStorage;
use crate::application_transaction::settle;
use crate::error::StorageError;
use crate::inner::Inner;
use crate::outbox::PostgresOutbox;
use crate::pending_notifications::PendingNotifications;
use crate::pool::PooledSession;

/// Our sessions have planner settings for our own tables; a handler's statements are planned with the server's
/// defaults.
const BEGIN_FOR_HANDLER: &str =
    "BEGIN; SET LOCAL enable_seqscan = on; SET LOCAL plan_cache_mode = auto";
const PLAN_FOR_SETTLE: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan";
/// Removes settings and locks of a handler from the connection; prepared statements stay.
const RESET: &str = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP";

/// Transaction in which a handler writes, and whose commit settles its message: both happen, or neither, so the
/// writes happen exactly once.
///
/// It is a `tokio_postgres` client with an open transaction. Dropping it rolls back. The server ends it after a
/// minute without a statement, and a statement after the storage's `statement_timeout`.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use punctual::{Context, Outcome, Punctual};
/// # use punctual_postgres::PostgresStorage;
/// # fn example(storage: Arc<PostgresStorage>) -> punctual::Result<()> {
/// let handler = move |order: i64, context: Context| {
///     let storage = Arc::clone(&storage);
///     async move {
///         let transaction = storage.begin(&context).await?;
///         transaction.execute("UPDATE orders SET paid = true WHERE id = $1", &[&order]).await?;
///         transaction.commit().await?;
///         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
///     }
/// };
/// let punctual = Punctual::builder().handler("pay", handler).build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a transaction rolls it back"]
pub struct PostgresTransaction {
    inner: Arc<Inner>,
    session: PooledSession,
    context: Context,
}

impl PostgresStorage {
    /// Begins a transaction for a handler; its commit settles the handler's message.
    ///
    /// These connections are counted separately: as many handlers as `pool_size` may have one at a time, and
    /// more wait, so that they never take the connections that the engine needs. Fails for a message that a
    /// broker delivered.
    pub async fn begin(&self, context: &Context) -> Result<PostgresTransaction> {
        context.settlement()?;
        self.inner.ready().await?;
        let session = self.inner.begin_for_handler().await;
        let session = session.map_err(|error| error.during("begin"))?;
        Ok(PostgresTransaction {
            inner: Arc::clone(&self.inner),
            session,
            context: context.clone(),
        })
    }
}

impl PostgresTransaction {
    /// Returns the connection on which the transaction is open.
    pub fn client(&self) -> &Client {
        self.session.client()
    }

    /// Returns an outbox in this transaction.
    pub fn outbox(&self) -> PostgresOutbox<'_> {
        PostgresOutbox::on(&self.inner, self.client())
    }

    /// Settles the message as done and commits. Rolls the writes back and fails with a conflict when the lease
    /// of the message is lost.
    pub async fn commit(mut self) -> Result<()> {
        let notifications = match self.settle().await {
            Ok(notifications) => notifications,
            Err(error) => {
                // A session that cannot be rolled back is closed.
                let _ = self.roll_back().await;
                return Err(error.during("commit"));
            }
        };
        let ended = self.inner.with_timeout(self.session.commit()).await;
        ended.map_err(|failure| failure.error_for_caller().during("commit"))?;
        let inner = self.release().await;
        inner.notify_committed(notifications).await;
        Ok(())
    }

    /// Rolls the writes back; the handler's result then decides about its message.
    pub async fn roll_back(mut self) -> Result<()> {
        let ended = self.inner.with_timeout(self.session.roll_back()).await;
        ended.map_err(|failure| failure.error_for_caller().during("roll back"))?;
        self.release().await;
        Ok(())
    }

    async fn settle(&mut self) -> Result<PendingNotifications> {
        let settlement = self.context.settlement()?;
        let settings = async { Ok(self.session.client().batch_execute(PLAN_FOR_SETTLE).await?) };
        self.inner.with_timeout(settings).await.map_err(StorageError::error_for_caller)?;
        settle(&self.inner, &*self.session, settlement, self.inner.clock.now()).await
    }

    /// Returns the connection to the pool, or closes it when it cannot be reset.
    async fn release(self) -> Arc<Inner> {
        let reset = async { Ok(self.session.client().batch_execute(RESET).await?) };
        if self.inner.with_timeout(reset).await.is_ok() {
            self.session.give_back();
        }
        self.inner
    }
}

impl Inner {
    async fn begin_for_handler(&self) -> Result<PooledSession> {
        let mut session = self.pool.get_for_handler().await?;
        match self.with_timeout(session.begin_with(BEGIN_FOR_HANDLER)).await {
            Ok(()) => Ok(session),
            Err(failure) => {
                // The server may have closed an idle connection meanwhile; the next one is new.
                if failure.is_connection_lost() {
                    self.pool.clear();
                }
                Err(failure.error_for_caller())
            }
        }
    }
}

impl Deref for PostgresTransaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client()
    }
}

impl fmt::Debug for PostgresTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTransaction")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
