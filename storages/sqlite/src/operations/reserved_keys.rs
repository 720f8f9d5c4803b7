//! Reserved keys: a deduplication key may be released at the first claim, or stay reserved for a period after
//! its message was stored, whatever the state of that message.

use std::time::Duration;

use punctual::Message;
use punctual::model::{Key, MessageId, MessageRecord, MessageState, Unique};
use punctual::uuid::Uuid;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StorageResult;

/// Message that has reserved a key at an instant.
pub(crate) const KEY_RESERVATION: &str =
    "SELECT message AS id FROM punctual_held WHERE dedupe = ?1 AND until > ?2 AND message <> ?3";
/// Reserves a key until an instant.
pub(crate) const RESERVE_KEY: &str = "INSERT INTO punctual_held (dedupe, message, until) VALUES (?1, ?2, ?3) \
     ON CONFLICT (dedupe) DO UPDATE SET message = excluded.message, until = excluded.until";
/// Deletes reservations that have expired.
pub(crate) const DELETE_EXPIRED_KEYS: &str = "DELETE FROM punctual_held WHERE dedupe IN \
     (SELECT dedupe FROM punctual_held WHERE until <= ?1 ORDER BY until LIMIT ?2)";
/// Releases the key of a message that reserves it only while it is pending.
const RELEASE_KEY: &str = "UPDATE punctual_message SET freed = 1 WHERE id = ?1";

/// Most expired reservations that are deleted with each new one.
pub(crate) const EXPIRED_KEYS_MAX: i64 = 16;

/// Returns the key that a message reserves for a period, and the end of the period.
pub(crate) fn reservation_of(message: &Message, now: i64) -> Option<(&Key, i64)> {
    match (message.unique(), &message.dedupe) {
        (Unique::For(period), Some(key)) => Some((key, now.saturating_add(micros_of(period)))),
        _ => None,
    }
}

fn micros_of(period: Duration) -> i64 {
    i64::try_from(period.as_micros()).unwrap_or(i64::MAX)
}

/// Reserves the key of a message that was accepted now, if it has a period.
pub(crate) fn reserve_key(
    transaction: &Connection,
    message: &Message,
    now: i64,
) -> StorageResult<()> {
    let Some((key, until)) = reservation_of(message, now) else { return Ok(()) };
    let id = message.id.as_uuid();
    let mut statement = transaction.prepare_cached(RESERVE_KEY)?;
    statement.execute(params![key.as_str(), id.as_bytes(), until])?;
    delete_expired_keys(transaction, now, EXPIRED_KEYS_MAX)
}

/// Deletes reservations that have expired.
pub(crate) fn delete_expired_keys(
    transaction: &Connection,
    now: i64,
    limit: i64,
) -> StorageResult<()> {
    transaction.prepare_cached(DELETE_EXPIRED_KEYS)?.execute(params![now, limit])?;
    Ok(())
}

/// Returns the message that has reserved the key of this one.
pub(crate) fn key_holder(
    transaction: &Connection,
    message: &Message,
    now: i64,
) -> StorageResult<Option<MessageId>> {
    let Some(key) = &message.dedupe else { return Ok(None) };
    let mut statement = transaction.prepare_cached(KEY_RESERVATION)?;
    let id = message.id.as_uuid();
    let values = params![key.as_str(), now, id.as_bytes()];
    let found: Option<[u8; 16]> = statement.query_row(values, |row| row.get(0)).optional()?;
    Ok(found.map(|bytes| MessageId::from_uuid(Uuid::from_bytes(bytes))))
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
