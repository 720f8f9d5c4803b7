//! Reserved keys: a deduplication key may be released at the first claim, or stay reserved for a period after
//! its message was stored, whatever the state of that message.

use std::time::Duration;

use punctual::Message;
use punctual::model::{MessageId, MessageRecord, MessageState, Unique};
use rusqlite::Connection;

use crate::driver::Driver;
use crate::error::StorageResult;
use crate::row::id_at;
use crate::value::values;

/// Message that has reserved a key at an instant.
pub(crate) const KEY_RESERVATION: &str =
    "SELECT message FROM punctual_held WHERE dedupe = ?1 AND until > ?2 AND message <> ?3";
/// Reserves a key until an instant.
const RESERVE_KEY: &str = "INSERT INTO punctual_held (dedupe, message, until) VALUES (?1, ?2, ?3) \
     ON CONFLICT (dedupe) DO UPDATE SET message = excluded.message, until = excluded.until";
/// Deletes reservations that have expired.
pub(crate) const DELETE_EXPIRED_KEYS: &str = "DELETE FROM punctual_held WHERE dedupe IN \
     (SELECT dedupe FROM punctual_held WHERE until <= ?1 ORDER BY until LIMIT ?2)";
/// Releases the key of a message that reserves it only while it is pending.
const RELEASE_KEY: &str = "UPDATE punctual_message SET freed = 1 WHERE id = ?1";

/// Most expired reservations that are deleted with each new one.
const EXPIRED_KEYS_MAX: i64 = 16;

fn micros_of(period: Duration) -> i64 {
    i64::try_from(period.as_micros()).unwrap_or(i64::MAX)
}

/// Reserves the key of a message that was accepted now, if it has a period.
pub(crate) async fn reserve_key(
    driver: &impl Driver,
    message: &Message,
    now: i64,
) -> StorageResult<()> {
    let (Unique::For(period), Some(key)) = (message.unique(), &message.dedupe) else {
        return Ok(());
    };
    let until = now.saturating_add(micros_of(period));
    let reservation = values![key.as_str(), message.id.as_uuid(), until];
    driver.run(RESERVE_KEY, &reservation).await?;
    delete_expired_keys(driver, now, EXPIRED_KEYS_MAX).await
}

/// Deletes reservations that have expired.
pub(crate) async fn delete_expired_keys(
    driver: &impl Driver,
    now: i64,
    limit: i64,
) -> StorageResult<()> {
    driver.run(DELETE_EXPIRED_KEYS, &values![now, limit]).await?;
    Ok(())
}

/// Returns the other message that has reserved the key of this one.
pub(crate) async fn key_holder(
    driver: &impl Driver,
    message: &Message,
    now: i64,
) -> StorageResult<Option<MessageId>> {
    let Some(key) = &message.dedupe else { return Ok(None) };
    let wanted = values![key.as_str(), now, message.id.as_uuid()];
    let found = driver.row(KEY_RESERVATION, &wanted).await?;
    found.map(|row| Ok(MessageId::from_uuid(id_at(&row, 0)?))).transpose()
}

/// Releases the key of a claimed message that reserves it only while it is pending.
pub(crate) fn release_key(transaction: &Connection, message: &Message) -> StorageResult<()> {
    if message.dedupe.is_some() && message.unique() == Unique::WhilePending {
        transaction.prepare_cached(RELEASE_KEY)?.execute([message.id.as_uuid().as_bytes()])?;
    }
    Ok(())
}

/// Returns whether an imported message had released its key.
pub(crate) fn was_key_released(record: &MessageRecord) -> bool {
    let was_claimed = record.state == MessageState::Running
        || record.attempt > 0
        || record.snoozes > 0
        || record.crashes > 0;
    was_claimed && record.message.unique() == Unique::WhilePending
}
