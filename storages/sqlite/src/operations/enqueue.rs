//! Enqueue: one statement for a new message; only when that stores nothing, further statements find out why.

use punctual::Message;
use punctual::jiff::Timestamp;
use punctual::model::{BatchId, Key, MessageId, MessageState, Queue};
use punctual::storage::{EnqueueResult, Entry};
use punctual::uuid::Uuid;
use punctual_columns::code::Code as _;
use punctual_columns::instant::{instant, micros, micros_up};
use punctual_columns::message::extra;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::batches::wait;
use super::limits::lane_of;
use super::reserved_keys::{key_holder, reserve_key};
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::row::{FINISHED_COLUMNS, Table, record_of};

/// Inserts a message unless it is alive or an alive message has its deduplication key.
pub(crate) const INSERT: &str = "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
     created_at, source, key, dedupe, exclusive, job, lane, lane_max, batch, extra, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT DO NOTHING";

/// Whether a message is alive or dead.
pub(crate) const IS_ALIVE_OR_DEAD: &str = "SELECT EXISTS (SELECT 1 FROM punctual_message WHERE id = ?1) \
     OR EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1)";
/// Alive message with a deduplication key.
pub(crate) const ALIVE_WITH_KEY: &str =
    "SELECT id FROM punctual_message WHERE dedupe = ?1 AND freed IS NULL";
/// Finished message.
pub(crate) const FINISHED: &str =
    "SELECT queue, state FROM punctual_history WHERE message = ?1 AND state >= 0";
/// Deletes a finished message that has a row of its own.
pub(crate) const REMOVE_FINISHED: &str =
    "DELETE FROM punctual_history WHERE message = ?1 AND ending IS NULL";
/// Removes a finished message from the row of the attempt that ended it.
pub(crate) const STRIP_FINISHED: &str = "UPDATE punctual_history SET state = NULL, finished_at = NULL, \
     strayed_at = ended_at, priority = NULL, planned_at = NULL, created_at = NULL, dedupe = NULL, \
     exclusive = NULL, crashes = NULL, snoozes = NULL, error = NULL, batch = NULL, progress = NULL, \
     checkpoint = NULL, extra = NULL, body = NULL \
     WHERE message = ?1 AND state >= 0";
pub(crate) const REMOVE_PENDING: &str =
    "DELETE FROM punctual_message WHERE id = ?1 AND state = 0 RETURNING queue, batch";

/// Newest id among the messages that have ended or were attempted.
const NEWEST_ENDED: &str =
    "SELECT (SELECT max(message) FROM punctual_history), (SELECT max(id) FROM punctual_dead)";

/// Stores a batch in the order given.
pub(crate) fn enqueue(
    transaction: &Connection,
    entries: &[Entry],
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<Vec<EnqueueResult>> {
    let mut enqueuer = Enqueuer::new(transaction, micros(now), effects)?;
    let results: StorageResult<Vec<EnqueueResult>> =
        entries.iter().map(|entry| enqueuer.enqueue(entry)).collect();
    enqueuer.finish()?;
    results
}

/// State shared by the entries of a batch.
pub(crate) struct Enqueuer<'a> {
    transaction: &'a Connection,
    insert: CachedStatement<'a>,
    /// Ids grow with time, so most new ones are beyond this one and need no lookup among the ended messages.
    newest_ended: Option<MessageId>,
    now: i64,
    /// Messages that may have to wait for a batch, of which more may follow.
    waiting: Vec<Waiting>,
    effects: &'a mut Effects,
}

/// Stored message that waits for a batch, if that is alive.
struct Waiting {
    message: MessageId,
    batch: BatchId,
    queue: Queue,
    due_at: i64,
}

impl<'a> Enqueuer<'a> {
    pub(crate) fn new(
        transaction: &'a Connection,
        now: i64,
        effects: &'a mut Effects,
    ) -> StorageResult<Self> {
        Ok(Self {
            transaction,
            insert: transaction.prepare_cached(INSERT)?,
            newest_ended: newest_ended(transaction)?,
            now,
            waiting: Vec::new(),
            effects,
        })
    }

    /// Stores one message, or returns the message it is a duplicate of.
    pub(crate) fn enqueue(&mut self, entry: &Entry) -> StorageResult<EnqueueResult> {
        let message = &*entry.message;
        let is_new = self.newest_ended.is_none_or(|newest| message.id > newest);
        let has_ended = !is_new && has_ended(self.transaction, message.id)?;
        let holder = key_holder(self.transaction, message, self.now)?;
        if !has_ended && holder.is_none() && self.insert(message)? {
            return Ok(EnqueueResult::Stored);
        }
        let Some(twin) = duplicate_of(self.transaction, message)?.or(holder) else {
            remove_finished(self.transaction, message.id, self.effects)?;
            self.insert(message)?;
            return Ok(EnqueueResult::Stored);
        };
        let replaces = entry.replace && twin != message.id;
        if replaces && remove_pending(self.transaction, twin, self.effects)? {
            remove_finished(self.transaction, message.id, self.effects)?;
            self.insert(message)?;
            return Ok(EnqueueResult::Replaced(twin));
        }
        Ok(EnqueueResult::Duplicate(twin))
    }

    fn insert(&mut self, message: &Message) -> StorageResult<bool> {
        let due_at = micros_up(message.due_at);
        let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
        let (lane, lane_max) = lane_of(message);
        let stored = self.insert.execute(params![
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
            lane,
            lane_max,
            message.batch().map(|batch| batch.as_uuid().into_bytes()),
            extra(message)?,
            &message.body.bytes[..],
        ])?;
        if stored == 0 {
            return Ok(false);
        }
        self.effects.moved(&message.queue, 1, None, Some(MessageState::Pending));
        reserve_key(self.transaction, message, self.now)?;
        match message.waits_for() {
            None => self.effects.is_due(&message.queue, due_at),
            Some(batch) => {
                let queue = message.queue.clone();
                self.waiting.push(Waiting { message: message.id, batch, queue, due_at });
            }
        }
        Ok(true)
    }

    /// Makes messages wait whose batch is alive, now that all messages of the call are stored.
    pub(crate) fn finish(self) -> StorageResult<()> {
        for waiting in self.waiting {
            if !wait(self.transaction, waiting.message, waiting.batch)? {
                self.effects.is_due(&waiting.queue, waiting.due_at);
            }
        }
        Ok(())
    }
}

fn newest_ended(transaction: &Connection) -> StorageResult<Option<MessageId>> {
    let mut statement = transaction.prepare_cached(NEWEST_ENDED)?;
    let newest = statement.query_row([], |row| {
        Ok(row.get::<_, Option<[u8; 16]>>(0)?.max(row.get::<_, Option<[u8; 16]>>(1)?))
    })?;
    Ok(newest.map(|id| MessageId::from_uuid(Uuid::from_bytes(id))))
}

/// Returns whether a message is finished or dead.
fn has_ended(transaction: &Connection, id: MessageId) -> StorageResult<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM punctual_history WHERE message = ?1 AND state >= 0) \
               OR EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1)";
    let mut statement = transaction.prepare_cached(sql)?;
    Ok(statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0))?)
}

/// Returns the message that makes this one a duplicate: itself, or an alive one with its key. A finished
/// message that may be sent again and differs is no duplicate.
fn duplicate_of(transaction: &Connection, message: &Message) -> StorageResult<Option<MessageId>> {
    if is_alive_or_dead(transaction, message.id)? {
        return Ok(Some(message.id));
    }
    let sql = format!("SELECT {FINISHED_COLUMNS} FROM {}", Table::Finished.row());
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut rows = statement.query([message.id.as_uuid().as_bytes()])?;
    if let Some(row) = rows.next()? {
        let kept = record_of(row)?.message;
        if !message.may_return() || kept.is_same_sending(&as_stored(message)?) {
            return Ok(Some(message.id));
        }
    }
    alive_with_key(transaction, message.dedupe.as_ref())
}

/// Returns whether a message is alive or dead.
pub(super) fn is_alive_or_dead(transaction: &Connection, id: MessageId) -> StorageResult<bool> {
    let mut statement = transaction.prepare_cached(IS_ALIVE_OR_DEAD)?;
    Ok(statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0))?)
}

/// Returns the alive message with a deduplication key.
pub(crate) fn alive_with_key(
    transaction: &Connection,
    dedupe: Option<&Key>,
) -> StorageResult<Option<MessageId>> {
    let Some(dedupe) = dedupe else { return Ok(None) };
    let mut statement = transaction.prepare_cached(ALIVE_WITH_KEY)?;
    let found: Option<[u8; 16]> =
        statement.query_row([dedupe.as_str()], |row| row.get(0)).optional()?;
    Ok(found.map(|bytes| MessageId::from_uuid(Uuid::from_bytes(bytes))))
}

/// Returns the message as it would read back: instants are kept to the microsecond.
pub(crate) fn as_stored(message: &Message) -> StorageResult<Message> {
    Ok(Message {
        due_at: instant(micros_up(message.due_at))?,
        created_at: instant(micros(message.created_at))?,
        ..message.clone()
    })
}

/// Removes a finished message, but not its attempts.
pub(crate) fn remove_finished(
    transaction: &Connection,
    id: MessageId,
    effects: &mut Effects,
) -> StorageResult<()> {
    let id = id.as_uuid();
    let mut statement = transaction.prepare_cached(FINISHED)?;
    let finished: Option<(String, i16)> =
        statement.query_row([id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((queue, state)) = finished {
        transaction.prepare_cached(REMOVE_FINISHED)?.execute([id.as_bytes()])?;
        transaction.prepare_cached(STRIP_FINISHED)?.execute([id.as_bytes()])?;
        effects.moved(&Queue::from(queue), 1, Some(MessageState::from_code(state)?), None);
    }
    Ok(())
}

fn remove_pending(
    transaction: &Connection,
    id: MessageId,
    effects: &mut Effects,
) -> StorageResult<bool> {
    let mut statement = transaction.prepare_cached(REMOVE_PENDING)?;
    let removed: Option<(String, Option<[u8; 16]>)> = statement
        .query_row([id.as_uuid().as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((queue, batch)) = removed else { return Ok(false) };
    let queue = Queue::from(queue);
    effects.was_taken(&queue);
    effects.moved(&queue, 1, Some(MessageState::Pending), None);
    effects.left_batch(batch);
    Ok(true)
}
