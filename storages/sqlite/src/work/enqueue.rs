//! Enqueue: one statement for a message that is new; only when it may not be is asked why.

use punctual::Message;
use punctual::jiff::Timestamp;
use punctual::model::{BatchId, Key, MessageId, Queue, State};
use punctual::storage::{Enqueued, Entry};
use punctual::uuid::Uuid;
use punctual_rows::code::Code as _;
use punctual_rows::instant::{instant, micros, micros_up};
use punctual_rows::message::extra;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::batch::wait;
use super::hold::{hold, holder};
use super::lane::lane_of;
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::{FINISHED_COLUMNS, Table, record_of};

/// Stores a message unless it is alive or its deduplication key is.
pub(crate) const INSERT: &str = "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
     created_at, source, key, dedupe, exclusive, job, lane, lane_max, batch, extra, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT DO NOTHING";

/// Whether a message is alive or dead.
pub(crate) const KEPT: &str = "SELECT EXISTS (SELECT 1 FROM punctual_message WHERE id = ?1) \
     OR EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1)";
/// The alive message that holds a deduplication key.
pub(crate) const TWIN: &str = "SELECT id FROM punctual_message WHERE dedupe = ?1 AND freed IS NULL";
/// A finished message.
pub(crate) const FINISHED: &str =
    "SELECT queue, state FROM punctual_history WHERE message = ?1 AND state >= 0";
/// Removes a finished message that has a row for itself.
pub(crate) const REMOVE_FINISHED: &str =
    "DELETE FROM punctual_history WHERE message = ?1 AND ending IS NULL";
/// Removes a finished message from the row of the attempt that finished it.
pub(crate) const STRIP_FINISHED: &str = "UPDATE punctual_history SET state = NULL, finished_at = NULL, \
     strayed_at = ended_at, priority = NULL, planned_at = NULL, created_at = NULL, dedupe = NULL, \
     exclusive = NULL, crashes = NULL, snoozes = NULL, error = NULL, batch = NULL, progress = NULL, \
     checkpoint = NULL, extra = NULL, body = NULL \
     WHERE message = ?1 AND state >= 0";
pub(crate) const REMOVE_PENDING: &str =
    "DELETE FROM punctual_message WHERE id = ?1 AND state = 0 RETURNING queue, batch";

/// The newest id among the messages that have ended, and those that were attempted.
const NEWEST_ENDED: &str =
    "SELECT (SELECT max(message) FROM punctual_history), (SELECT max(id) FROM punctual_dead)";

/// Stores a batch in the order given.
pub(crate) fn enqueue(
    transaction: &Connection,
    entries: &[Entry],
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Vec<Enqueued>> {
    let mut enqueueing = Enqueueing::new(transaction, micros(now), effects)?;
    let answers: Tried<Vec<Enqueued>> =
        entries.iter().map(|entry| enqueueing.enqueue(entry)).collect();
    enqueueing.finish()?;
    answers
}

/// What many entries share.
pub(crate) struct Enqueueing<'a> {
    transaction: &'a Connection,
    insert: CachedStatement<'a>,
    /// Ids grow with time, so most new ones are beyond this and need not be looked up there.
    newest_ended: Option<MessageId>,
    now: i64,
    /// What may have to wait for a batch, of which more may be still to come.
    waiting: Vec<Waiting>,
    effects: &'a mut Effects,
}

/// A message that was stored and waits for a batch, if that is alive.
struct Waiting {
    message: MessageId,
    batch: BatchId,
    queue: Queue,
    due_at: i64,
}

impl<'a> Enqueueing<'a> {
    pub(crate) fn new(
        transaction: &'a Connection,
        now: i64,
        effects: &'a mut Effects,
    ) -> Tried<Self> {
        Ok(Self {
            transaction,
            insert: transaction.prepare_cached(INSERT)?,
            newest_ended: newest_ended(transaction)?,
            now,
            waiting: Vec::new(),
            effects,
        })
    }

    /// Stores one message, or says which one it is a duplicate of.
    pub(crate) fn enqueue(&mut self, entry: &Entry) -> Tried<Enqueued> {
        let message = &*entry.message;
        let is_new = self.newest_ended.is_none_or(|newest| message.id > newest);
        let has_ended = !is_new && has_ended(self.transaction, message.id)?;
        let holder = holder(self.transaction, message, self.now)?;
        if !has_ended && holder.is_none() && self.insert(message)? {
            return Ok(Enqueued::Stored);
        }
        let Some(twin) = duplicate_of(self.transaction, message)?.or(holder) else {
            remove_finished(self.transaction, message.id, self.effects)?;
            self.insert(message)?;
            return Ok(Enqueued::Stored);
        };
        let replaces = entry.replace && twin != message.id;
        if replaces && remove_pending(self.transaction, twin, self.effects)? {
            remove_finished(self.transaction, message.id, self.effects)?;
            self.insert(message)?;
            return Ok(Enqueued::Replaced(twin));
        }
        Ok(Enqueued::Duplicate(twin))
    }

    fn insert(&mut self, message: &Message) -> Tried<bool> {
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
        self.effects.moved(&message.queue, 1, None, Some(State::Pending));
        hold(self.transaction, message, self.now)?;
        match message.waits_for() {
            None => self.effects.is_due(&message.queue, due_at),
            Some(batch) => {
                let queue = message.queue.clone();
                self.waiting.push(Waiting { message: message.id, batch, queue, due_at });
            }
        }
        Ok(true)
    }

    /// Has those wait whose batch is alive, now that all of it is known that came with them.
    pub(crate) fn finish(self) -> Tried<()> {
        for waiting in self.waiting {
            if !wait(self.transaction, waiting.message, waiting.batch)? {
                self.effects.is_due(&waiting.queue, waiting.due_at);
            }
        }
        Ok(())
    }
}

fn newest_ended(transaction: &Connection) -> Tried<Option<MessageId>> {
    let mut statement = transaction.prepare_cached(NEWEST_ENDED)?;
    let newest = statement.query_row([], |row| {
        Ok(row.get::<_, Option<[u8; 16]>>(0)?.max(row.get::<_, Option<[u8; 16]>>(1)?))
    })?;
    Ok(newest.map(|id| MessageId::from_uuid(Uuid::from_bytes(id))))
}

/// Whether a message is finished or dead.
fn has_ended(transaction: &Connection, id: MessageId) -> Tried<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM punctual_history WHERE message = ?1 AND state >= 0) \
               OR EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1)";
    let mut statement = transaction.prepare_cached(sql)?;
    Ok(statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0))?)
}

/// The message that makes this one a duplicate: itself, or an alive one with its key. A done or
/// cancelled one that went and came back differently does not.
fn duplicate_of(transaction: &Connection, message: &Message) -> Tried<Option<MessageId>> {
    if is_kept(transaction, message.id)? {
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
    twin(transaction, message.dedupe.as_ref())
}

/// Whether a message is alive or dead.
pub(super) fn is_kept(transaction: &Connection, id: MessageId) -> Tried<bool> {
    let mut statement = transaction.prepare_cached(KEPT)?;
    Ok(statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0))?)
}

/// The alive message with a deduplication key.
pub(crate) fn twin(transaction: &Connection, dedupe: Option<&Key>) -> Tried<Option<MessageId>> {
    let Some(dedupe) = dedupe else { return Ok(None) };
    let mut statement = transaction.prepare_cached(TWIN)?;
    let found: Option<[u8; 16]> =
        statement.query_row([dedupe.as_str()], |row| row.get(0)).optional()?;
    Ok(found.map(|bytes| MessageId::from_uuid(Uuid::from_bytes(bytes))))
}

/// The message as it would read back: instants are kept to the microsecond.
pub(crate) fn as_stored(message: &Message) -> Tried<Message> {
    Ok(Message {
        due_at: instant(micros_up(message.due_at))?,
        created_at: instant(micros(message.created_at))?,
        ..message.clone()
    })
}

/// Forgets a finished message, but not its attempts.
pub(crate) fn remove_finished(
    transaction: &Connection,
    id: MessageId,
    effects: &mut Effects,
) -> Tried<()> {
    let id = id.as_uuid();
    let mut statement = transaction.prepare_cached(FINISHED)?;
    let finished: Option<(String, i16)> =
        statement.query_row([id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((queue, state)) = finished {
        transaction.prepare_cached(REMOVE_FINISHED)?.execute([id.as_bytes()])?;
        transaction.prepare_cached(STRIP_FINISHED)?.execute([id.as_bytes()])?;
        effects.moved(&Queue::from(queue), 1, Some(State::from_code(state)?), None);
    }
    Ok(())
}

fn remove_pending(transaction: &Connection, id: MessageId, effects: &mut Effects) -> Tried<bool> {
    let mut statement = transaction.prepare_cached(REMOVE_PENDING)?;
    let removed: Option<(String, Option<[u8; 16]>)> = statement
        .query_row([id.as_uuid().as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((queue, batch)) = removed else { return Ok(false) };
    let queue = Queue::from(queue);
    effects.was_taken(&queue);
    effects.moved(&queue, 1, Some(State::Pending), None);
    effects.left_batch(batch);
    Ok(true)
}
