//! A transaction for a handler: opened on a connection of the storage, and committed together with the
//! end of the handler's message. Dropped before that, it never was.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use punctual::{Context, Result};
use tokio_postgres::Client;

use crate::PostgresStorage;
use crate::commits::Tidings;
use crate::failure::Failure;
use crate::inner::Inner;
use crate::outbox::PostgresOutbox;
use crate::pool::Held;
use crate::within;

/// Our sessions plan for our own tables; a handler's statements are planned as the server would.
const THEIRS: &str = "BEGIN; SET LOCAL enable_seqscan = on; SET LOCAL plan_cache_mode = auto";
const OURS: &str = "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan";
/// What a handler has set or locked stays behind on no connection; prepared statements do.
const CLEAN: &str = "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP";

/// A transaction in which a handler writes, and whose commit settles its message: both happen, or
/// neither, so the writes happen exactly once.
///
/// It is a connection of `tokio_postgres` with a transaction open on it. Dropping it rolls back. It is
/// cut off when the handler leaves it alone for a minute, and by the storage's `statement_timeout`.
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
    held: Held,
    context: Context,
}

impl PostgresStorage {
    /// Begins a transaction for a handler; its commit settles the handler's message.
    ///
    /// These connections are counted apart: as many handlers as `pool_size` says may have one at a
    /// time, and more wait, so that they never take what the engine needs for its own work. Refused
    /// for a message that a broker delivered.
    pub async fn begin(&self, context: &Context) -> Result<PostgresTransaction> {
        context.settlement()?;
        self.inner.ready().await?;
        let held = self.inner.begin_for_handler().await;
        let held = held.map_err(|error| error.during("begin"))?;
        Ok(PostgresTransaction { inner: Arc::clone(&self.inner), held, context: context.clone() })
    }
}

impl PostgresTransaction {
    /// The connection the transaction is open on.
    pub fn client(&self) -> &Client {
        self.held.client()
    }

    /// Puts messages into this transaction.
    pub fn outbox(&self) -> PostgresOutbox<'_> {
        PostgresOutbox::on(&self.inner, self.client())
    }

    /// Settles the message as done and commits. When the message is no longer ours, the writes are
    /// rolled back and the answer is a conflict.
    pub async fn commit(mut self) -> Result<()> {
        let tidings = match self.settle().await {
            Ok(tidings) => tidings,
            Err(error) => {
                // What cannot be rolled back is closed.
                let _ = self.roll_back().await;
                return Err(error.during("commit"));
            }
        };
        let ended = self.inner.bounded(self.held.commit()).await;
        ended.map_err(|failure| failure.into_error().during("commit"))?;
        let inner = self.give_back().await;
        inner.tell_all(tidings.due);
        inner.tell_turns_of(&tidings.turns).await;
        Ok(())
    }

    /// Undoes the writes; what the handler returns then decides about its message.
    pub async fn roll_back(mut self) -> Result<()> {
        let ended = self.inner.bounded(self.held.roll_back()).await;
        ended.map_err(|failure| failure.into_error().during("roll back"))?;
        self.give_back().await;
        Ok(())
    }

    async fn settle(&mut self) -> Result<Tidings> {
        let settlement = self.context.settlement()?;
        let planning = async { Ok(self.held.client().batch_execute(OURS).await?) };
        self.inner.bounded(planning).await.map_err(Failure::into_error)?;
        within::settle(&self.inner, &*self.held, settlement, self.inner.clock.now()).await
    }

    /// For the next one, or closed when it cannot be cleaned.
    async fn give_back(self) -> Arc<Inner> {
        let cleaning = async { Ok(self.held.client().batch_execute(CLEAN).await?) };
        if self.inner.bounded(cleaning).await.is_ok() {
            self.held.give_back();
        }
        self.inner
    }
}

impl Inner {
    async fn begin_for_handler(&self) -> Result<Held> {
        let mut held = self.pool.get_for_handler().await?;
        match self.bounded(held.begin_with(THEIRS)).await {
            Ok(()) => Ok(held),
            Err(failure) => {
                // One that waited may have been closed by the server meanwhile; the next one is fresh.
                if failure.is_connection() {
                    self.pool.clear();
                }
                Err(failure.into_error())
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
