//! Transactions of the application, opened with any driver: messages, settlements and inbox records in them. No
//! notification is sent inside; the storage watches for the commit.

use std::sync::Arc;

use punctual::backend::storage::{EnqueueResult, Entry, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{InboxResult, Result};
use punctual_columns::instant::micros_up;
use tokio_postgres::types::Type;

use crate::driver::{Cells as _, Driver};
use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::enqueue::{Range, StoreResult, dedupes_of, has_older_id, is_plain_batch};
use crate::operations::inbox;
use crate::pending_notifications::PendingNotifications;
use crate::row::MessageArrays;

/// Most times a batch is planned again because of concurrent transactions.
const TRIES_MAX: u32 = 5;

/// Transaction of the application, used through its driver.
pub(crate) struct ApplicationTransaction<D> {
    inner: Arc<Inner>,
    driver: D,
    /// Transaction id, once a message was stored in it.
    transaction_id: Option<String>,
}

impl<D: Driver> ApplicationTransaction<D> {
    pub(crate) fn new(inner: &Arc<Inner>, driver: D) -> Self {
        Self { inner: Arc::clone(inner), driver, transaction_id: None }
    }

    pub(crate) async fn enqueue(
        &mut self,
        entries: &[Entry],
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.inner.ready().await?;
        let stored = self.store(entries, now).await;
        let StoreResult { results, freed } =
            stored.map_err(|failure| failure.error_for_caller().during("enqueue"))?;
        let mut notifications = PendingNotifications::default();
        notifications.add_due_queues(freed);
        for (entry, result) in entries.iter().zip(&results) {
            if !matches!(result, EnqueueResult::Duplicate(_)) {
                notifications.add_due(&entry.message.queue, micros_up(entry.message.due_at));
            }
        }
        self.notify_after_commit(notifications)
            .await
            .map_err(|failure| failure.error_for_caller().during("enqueue"))?;
        Ok(results)
    }

    /// Settles an attempt. Fails when the lease is no longer the current one, so that the transaction is rolled
    /// back.
    pub(crate) async fn settle(&mut self, settlement: Settlement, now: Timestamp) -> Result<()> {
        let during = |failure: StorageError| failure.error_for_caller().during("settle");
        let notifications = settle(&self.inner, &self.driver, settlement, now).await?;
        self.notify_after_commit(notifications).await.map_err(during)
    }

    pub(crate) async fn admit(
        &mut self,
        group: &str,
        message: MessageId,
        now: Timestamp,
    ) -> Result<InboxResult> {
        self.inner.ready().await?;
        let schema = &self.inner.schema.quoted;
        let admitted = inbox::admit(&self.driver, schema, (group, message), now).await;
        admitted.map_err(|failure| failure.error_for_caller().during("admit"))
    }

    /// Stores one new message with one statement; all other batches take the careful path, again when another
    /// transaction was faster.
    async fn store(
        &mut self,
        entries: &[Entry],
        now: Timestamp,
    ) -> Result<StoreResult, StorageError> {
        let stored_now = |results| StoreResult { results, freed: Vec::new() };
        if entries.is_empty() {
            return Ok(stored_now(Vec::new()));
        }
        let is_plain = entries.len() == 1 && is_plain_batch(entries) && !has_older_id(entries);
        if is_plain && self.store_one(entries).await? {
            return Ok(stored_now(vec![EnqueueResult::Stored]));
        }
        for _ in 0..TRIES_MAX {
            self.driver.execute_text("SAVEPOINT punctual_outbox", &[]).await?;
            match self.inner.store(&self.driver, entries, 0, now).await {
                Ok(stored) => {
                    self.driver.execute_text("RELEASE SAVEPOINT punctual_outbox", &[]).await?;
                    return Ok(stored);
                }
                Err(StorageError::Raced) => {
                    self.driver.execute_text("ROLLBACK TO SAVEPOINT punctual_outbox", &[]).await?;
                    self.driver.execute_text("RELEASE SAVEPOINT punctual_outbox", &[]).await?;
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(StorageError::Raced)
    }

    async fn store_one(&mut self, entries: &[Entry]) -> Result<bool, StorageError> {
        let columns = MessageArrays::of(entries.iter().map(|entry| &*entry.message))?;
        let range = Range::of(entries);
        let dedupes: Vec<&str> = dedupes_of(entries).collect();
        let mut params = columns.params();
        params.extend(range.params());
        params.push((&dedupes, Type::TEXT_ARRAY));
        params.extend(columns.relations());
        let rows = self.driver.query(&self.inner.sql.store_one, &params).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        self.transaction_id = Some(row.cell(0)?);
        Ok(true)
    }

    /// Registers notifications to send after the commit.
    async fn notify_after_commit(
        &mut self,
        notifications: PendingNotifications,
    ) -> Result<(), StorageError> {
        if notifications.is_empty() {
            return Ok(());
        }
        if self.transaction_id.is_none() {
            let rows = self.driver.query_text("SELECT pg_current_xact_id()::text", &[]).await?;
            self.transaction_id = rows.first().map(|row| row.cell(0)).transpose()?;
        }
        if let Some(id) = &self.transaction_id {
            self.inner.notify_after_commit(id.clone(), notifications);
        }
        Ok(())
    }
}

/// Settles an attempt in the open transaction of a driver; returns the notifications to send after its commit.
pub(crate) async fn settle(
    inner: &Inner,
    driver: &impl Driver,
    settlement: Settlement,
    now: Timestamp,
) -> Result<PendingNotifications> {
    inner.ready().await?;
    let message = settlement.lease.message;
    let settled = inner.settle_within(driver, &[settlement], now).await;
    let (settled, notifications) =
        settled.map_err(|failure| failure.error_for_caller().during("settle"))?;
    settled.or_roll_back(message)?;
    Ok(notifications)
}
