//! How long a deduplication key keeps others out, beside the usual: it may be free from the first claim on,
//! or be held for a length of time, whatever becomes of its message.

use std::time::Duration;

use punctual::Message;
use punctual::model::{Key, MessageId, MessageRecord, State, Unique};
use punctual::uuid::Uuid;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::fault::Tried;

/// The message whose key keeps another one out at an instant.
pub(crate) const HOLDER: &str =
    "SELECT message AS id FROM punctual_held WHERE dedupe = ?1 AND until > ?2 AND message <> ?3";
/// Holds a key until an instant.
pub(crate) const HOLD: &str = "INSERT INTO punctual_held (dedupe, message, until) VALUES (?1, ?2, ?3) \
     ON CONFLICT (dedupe) DO UPDATE SET message = excluded.message, until = excluded.until";
/// Forgets keys whose time is over.
pub(crate) const FORGET: &str = "DELETE FROM punctual_held WHERE dedupe IN \
     (SELECT dedupe FROM punctual_held WHERE until <= ?1 ORDER BY until LIMIT ?2)";
/// Gives the key of a message free that holds it no longer than it is pending.
const FREE: &str = "UPDATE punctual_message SET freed = 1 WHERE id = ?1";

/// How many keys whose time is over are forgotten with each that is held.
pub(crate) const FORGOTTEN_MAX: i64 = 16;

/// The key of a message that keeps others out for a length of time, and until when.
pub(crate) fn held(message: &Message, now: i64) -> Option<(&Key, i64)> {
    match (message.unique(), &message.dedupe) {
        (Unique::For(period), Some(key)) => Some((key, now.saturating_add(length(period)))),
        _ => None,
    }
}

fn length(period: Duration) -> i64 {
    i64::try_from(period.as_micros()).unwrap_or(i64::MAX)
}

/// Holds the key of a message that was accepted now, if it says so.
pub(crate) fn hold(transaction: &Connection, message: &Message, now: i64) -> Tried<()> {
    let Some((key, until)) = held(message, now) else { return Ok(()) };
    let id = message.id.as_uuid();
    let mut statement = transaction.prepare_cached(HOLD)?;
    statement.execute(params![key.as_str(), id.as_bytes(), until])?;
    forget_held(transaction, now, FORGOTTEN_MAX)
}

/// Forgets keys whose time is over.
pub(crate) fn forget_held(transaction: &Connection, now: i64, limit: i64) -> Tried<()> {
    transaction.prepare_cached(FORGET)?.execute(params![now, limit])?;
    Ok(())
}

/// The message whose key keeps this one out for a time.
pub(crate) fn holder(
    transaction: &Connection,
    message: &Message,
    now: i64,
) -> Tried<Option<MessageId>> {
    let Some(key) = &message.dedupe else { return Ok(None) };
    let mut statement = transaction.prepare_cached(HOLDER)?;
    let id = message.id.as_uuid();
    let asked = params![key.as_str(), now, id.as_bytes()];
    let found: Option<[u8; 16]> = statement.query_row(asked, |row| row.get(0)).optional()?;
    Ok(found.map(|bytes| MessageId::from_uuid(Uuid::from_bytes(bytes))))
}

/// A message was handed out: it may have held its key no longer than that.
pub(crate) fn free(transaction: &Connection, message: &Message) -> Tried<()> {
    if message.dedupe.is_some() && message.unique() == Unique::WhilePending {
        transaction.prepare_cached(FREE)?.execute([message.id.as_uuid().as_bytes()])?;
    }
    Ok(())
}

/// Whether a message that stood somewhere else had given its key free there.
pub(crate) fn was_freed(record: &MessageRecord) -> bool {
    let was_claimed = record.state == State::Running
        || record.attempt > 0
        || record.snoozes > 0
        || record.crashes > 0;
    was_claimed && record.message.unique() == Unique::WhilePending
}
