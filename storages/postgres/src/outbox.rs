//! The outbox: messages, settlements and inbox notes inside a transaction the application has opened
//! on its own connection. They become true with its commit and vanish with its rollback. Nobody is
//! notified inside it; the storage watches for the commit and rings then.

use std::sync::Arc;

use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::storage::{Enqueued, Entry, Settlement};
use punctual::{Admitted, Outbox, Result};
use tokio_postgres::{Client, Transaction};

use crate::PostgresStorage;
use crate::inner::Inner;
use crate::session::Session;
use crate::within::Within;

/// An open transaction of the application, into which messages are put.
///
/// ```no_run
/// # async fn example(storage: punctual_postgres::PostgresStorage, mut client: tokio_postgres::Client, entries: Vec<punctual::storage::Entry>, now: punctual::jiff::Timestamp) -> Result<(), Box<dyn std::error::Error>> {
/// use punctual::Outbox as _;
///
/// let transaction = client.transaction().await?;
/// transaction.execute("UPDATE orders SET paid = true WHERE id = 7", &[]).await?;
/// storage.outbox(&transaction).enqueue(entries, now).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
pub struct PostgresOutbox<'a> {
    within: Within<Session<'a>>,
}

impl PostgresStorage {
    /// Puts messages into a transaction of the application, on the same database.
    pub fn outbox<'a>(&self, transaction: &'a Transaction<'_>) -> PostgresOutbox<'a> {
        PostgresOutbox::on(&self.inner, transaction.client())
    }
}

impl<'a> PostgresOutbox<'a> {
    pub(crate) fn on(inner: &Arc<Inner>, client: &'a Client) -> Self {
        Self { within: Within::new(inner, Session::within(client)) }
    }

    /// Settles an attempt with the handler's own writes: with the commit the message is done. A lease
    /// that is no longer the current one is an error, so that the transaction is rolled back.
    pub async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        self.within.settle(settlement, now).await
    }

    /// Notes that a group deals with a message, with the handler's own writes.
    pub async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<Admitted> {
        self.within.admit(group, message, now).await
    }
}

impl Outbox for PostgresOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<Enqueued>> {
        self.within.enqueue(&entries, now).await
    }
}

impl std::fmt::Debug for PostgresOutbox<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOutbox").finish_non_exhaustive()
    }
}
