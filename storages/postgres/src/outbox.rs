//! Outbox: messages, settlements and inbox records inside a transaction that the application has opened on its
//! own connection. They take effect with its commit and vanish with its rollback. No notification is sent
//! inside the transaction; the storage watches for the commit and notifies then.

use std::sync::Arc;

use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{InboxResult, Outbox, Result};
use tokio_postgres::{Client, Transaction};

use crate::PostgresStorage;
use crate::application_transaction::ApplicationTransaction;
use crate::inner::Inner;
use crate::session::Session;

/// Outbox in an open transaction of the application.
///
/// ```no_run
/// # async fn example(storage: punctual_postgres::PostgresStorage, mut client: tokio_postgres::Client, entries: Vec<punctual::backend::storage::Entry>, now: punctual::jiff::Timestamp) -> Result<(), Box<dyn std::error::Error>> {
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
    transaction: ApplicationTransaction<Session<'a>>,
}

impl PostgresStorage {
    /// Returns an outbox in a transaction of the application, on the same database.
    pub fn outbox<'a>(&self, transaction: &'a Transaction<'_>) -> PostgresOutbox<'a> {
        PostgresOutbox::on(&self.inner, transaction.client())
    }
}

impl<'a> PostgresOutbox<'a> {
    pub(crate) fn on(inner: &Arc<Inner>, client: &'a Client) -> Self {
        Self { transaction: ApplicationTransaction::new(inner, Session::within(client)) }
    }

    /// Settles an attempt in the transaction of the handler's own writes: the message is done when it commits.
    /// Fails when the lease is no longer the current one, so that the transaction is rolled back.
    pub async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        self.transaction.settle(settlement, now).await
    }

    /// Records in the transaction that a group processes a message.
    pub async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<InboxResult> {
        self.transaction.admit(group, message, now).await
    }
}

impl Outbox for PostgresOutbox<'_> {
    async fn enqueue(&mut self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.transaction.enqueue(&entries, now).await
    }
}

impl std::fmt::Debug for PostgresOutbox<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOutbox").finish_non_exhaustive()
    }
}
