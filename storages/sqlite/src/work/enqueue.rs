//! Enqueue: one statement for a message that is new; only when it is not stored is asked why.

use punctual::Message;
use punctual::jiff::Timestamp;
use punctual::model::{Key, MessageId, Queue};
use punctual::storage::{Enqueued, Entry};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{instant, micros, micros_up};
use punctual_rows::message::extra;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::{FINISHED_COLUMNS, record_of};

/// Stores a message unless its id is known or its deduplication key is alive.
const INSERT: &str = "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
     created_at, source, key, dedupe, exclusive, job, extra, body) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 \
     WHERE NOT EXISTS (SELECT 1 FROM punctual_finished WHERE id = ?1) \
     AND NOT EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1) \
     ON CONFLICT DO NOTHING";

/// Stores a batch in the order given.
pub(crate) fn enqueue(
    transaction: &Connection,
    entries: &[Entry],
    effects: &mut Effects,
) -> Tried<Vec<Enqueued>> {
    entries.iter().map(|entry| enqueue_one(transaction, entry, effects)).collect()
}

/// Stores one message, or says which one it is a duplicate of.
pub(crate) fn enqueue_one(
    transaction: &Connection,
    entry: &Entry,
    effects: &mut Effects,
) -> Tried<Enqueued> {
    let message = &*entry.message;
    if insert(transaction, message, effects)? {
        return Ok(Enqueued::Stored);
    }
    let Some(twin) = duplicate_of(transaction, message)? else {
        remove_finished(transaction, message.id)?;
        insert(transaction, message, effects)?;
        return Ok(Enqueued::Stored);
    };
    if entry.replace && twin != message.id && remove_pending(transaction, twin, effects)? {
        remove_finished(transaction, message.id)?;
        insert(transaction, message, effects)?;
        return Ok(Enqueued::Replaced(twin));
    }
    Ok(Enqueued::Duplicate(twin))
}

fn insert(transaction: &Connection, message: &Message, effects: &mut Effects) -> Tried<bool> {
    let due_at = micros_up(message.due_at);
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
    let stored = transaction.prepare_cached(INSERT)?.execute(params![
        message.id.as_uuid().as_bytes(),
        message.queue.as_str(),
        message.topic.as_str(),
        message.priority.level(),
        due_at,
        micros(message.created_at),
        message.source.code(),
        message.key.as_ref().map(Key::as_str),
        message.dedupe.as_ref().map(Key::as_str),
        message.exclusive,
        job,
        extra(message)?,
        &message.body.bytes[..],
    ])?;
    if stored == 1 {
        effects.is_due(&message.queue, due_at);
    }
    Ok(stored == 1)
}

/// The message that makes this one a duplicate: itself, or an alive one with its key. A done or
/// cancelled one that went and came back differently does not.
fn duplicate_of(transaction: &Connection, message: &Message) -> Tried<Option<MessageId>> {
    if is_kept(transaction, message.id)? {
        return Ok(Some(message.id));
    }
    let sql = const_format(FINISHED_COLUMNS);
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut rows = statement.query([message.id.as_uuid().as_bytes()])?;
    if let Some(row) = rows.next()? {
        let kept = record_of(row)?.message;
        if !message.may_return() || kept.is_same_sending(&as_stored(message)?) {
            return Ok(Some(message.id));
        }
    }
    twin(transaction, message.dedupe.as_ref())
}

fn const_format(columns: &str) -> String {
    format!("SELECT {columns} FROM punctual_finished WHERE id = ?1")
}

/// Whether a message is alive or dead.
pub(super) fn is_kept(transaction: &Connection, id: MessageId) -> Tried<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM punctual_message WHERE id = ?1) \
               OR EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1)";
    let mut statement = transaction.prepare_cached(sql)?;
    Ok(statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0))?)
}

/// The alive message with a deduplication key.
pub(crate) fn twin(transaction: &Connection, dedupe: Option<&Key>) -> Tried<Option<MessageId>> {
    let Some(dedupe) = dedupe else { return Ok(None) };
    let sql = "SELECT id FROM punctual_message WHERE dedupe = ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let found: Option<[u8; 16]> =
        statement.query_row([dedupe.as_str()], |row| row.get(0)).optional()?;
    Ok(found.map(|bytes| MessageId::from_uuid(punctual::uuid::Uuid::from_bytes(bytes))))
}

/// The message as it would read back: instants are kept to the microsecond.
fn as_stored(message: &Message) -> Tried<Message> {
    Ok(Message {
        due_at: instant(micros_up(message.due_at))?,
        created_at: down(message.created_at)?,
        ..message.clone()
    })
}

fn down(at: Timestamp) -> Tried<Timestamp> {
    Ok(instant(micros(at))?)
}

pub(super) fn remove_finished(transaction: &Connection, id: MessageId) -> Tried<()> {
    let mut statement =
        transaction.prepare_cached("DELETE FROM punctual_finished WHERE id = ?1")?;
    statement.execute([id.as_uuid().as_bytes()])?;
    Ok(())
}

fn remove_pending(transaction: &Connection, id: MessageId, effects: &mut Effects) -> Tried<bool> {
    let sql = "DELETE FROM punctual_message WHERE id = ?1 AND state = 0 RETURNING queue";
    let mut statement = transaction.prepare_cached(sql)?;
    let queue: Option<String> =
        statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0)).optional()?;
    let Some(queue) = queue else { return Ok(false) };
    effects.was_taken(&Queue::from(queue));
    Ok(true)
}
