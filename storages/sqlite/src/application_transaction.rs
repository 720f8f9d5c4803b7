//! Transactions of the application, opened with any driver: messages, settlements and inbox records in them. No
//! notification is sent inside; the watcher of every storage on the file notices the commit.

use std::time::Duration;

use punctual::backend::storage::{EnqueueResult, Entry, SettleResult, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::MessageId;
use punctual::{Error, InboxResult, Result};

use crate::driver::Driver;
use crate::effects::Effects;
use crate::error::{StorageError, StorageResult};
use crate::operations::{self, inbox};

/// Stores a batch.
pub(crate) async fn enqueue(
    driver: &impl Driver,
    entries: &[Entry],
    now: Timestamp,
) -> Result<Vec<EnqueueResult>> {
    let mut effects = Effects::default();
    let stored = operations::enqueue(driver, entries, now, &mut effects).await;
    conclude(driver, effects, stored).await.map_err(|error| map(driver, &error, "enqueue"))
}

/// Settles an attempt. Fails when the lease is no longer the current one, so that the transaction is rolled
/// back.
pub(crate) async fn settle(
    driver: &impl Driver,
    settlement: Settlement,
    now: Timestamp,
) -> Result<()> {
    let (message, mut effects) = (settlement.lease.message, Effects::default());
    let settled = operations::settle(driver, &[settlement], now, &mut effects).await;
    let settled = conclude(driver, effects, settled).await;
    let settled = settled.map_err(|error| map(driver, &error, "settle"))?;
    settled.first().unwrap_or(&SettleResult::Lost).or_roll_back(message)
}

/// Records that a group processes a message.
pub(crate) async fn admit(
    driver: &impl Driver,
    group: &str,
    message: MessageId,
    now: Timestamp,
) -> Result<InboxResult> {
    let admitted = inbox::admit(driver, group, message, now).await;
    admitted.map_err(|error| map(driver, &error, "admit"))
}

/// Writes the effects of an operation, except for notifications.
async fn conclude<T>(
    driver: &impl Driver,
    mut effects: Effects,
    done: StorageResult<T>,
) -> StorageResult<T> {
    let result = done?;
    effects.write(driver).await?;
    Ok(result)
}

/// Maps an error; the transaction waits for no lock here, so its timeout does not matter.
pub(crate) fn map(driver: &impl Driver, error: &StorageError, operation: &'static str) -> Error {
    error.error_for_caller(driver.place(), Duration::ZERO).during(operation)
}
