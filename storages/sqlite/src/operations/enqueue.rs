//! Enqueue: one statement for a new message; only when that stores nothing, further statements find out why.

use punctual::Message;
use punctual::backend::policy::{DedupeDecision, DedupeFacts, SameId, dedupe};
use punctual::backend::storage::{EnqueueResult, Entry};
use punctual::jiff::Timestamp;
use punctual::model::{BatchId, Key, MessageId, MessageState, Queue};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::extra;

use super::batches::wait;
use super::limits::limit_of;
use super::reserved_keys::{key_holder, reserve_key};
use crate::driver::{Cells as _, Driver};
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::row::{FINISHED_COLUMNS, Table, finished_of, id_at, maybe_id_at};
use crate::value::values;

/// Inserts a message unless it is alive or an alive message has its deduplication key.
const INSERT: &str = "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
     created_at, source, key, dedupe, exclusive, job, lane, lane_max, batch, extra, body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT DO NOTHING";

/// Whether a message is alive or dead.
const IS_ALIVE_OR_DEAD: &str = "SELECT EXISTS (SELECT 1 FROM punctual_message WHERE id = ?1) \
     OR EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1)";
/// Alive message with a deduplication key, and its state.
pub(crate) const ALIVE_WITH_KEY: &str =
    "SELECT id, state FROM punctual_message WHERE dedupe = ?1 AND freed IS NULL";
/// Finished message.
const FINISHED: &str =
    "SELECT queue, state FROM punctual_history WHERE message = ?1 AND state >= 0";
/// Deletes a finished message that has a row of its own.
const REMOVE_FINISHED: &str = "DELETE FROM punctual_history WHERE message = ?1 AND ending IS NULL";
/// Removes a finished message from the row of the attempt that ended it.
const STRIP_FINISHED: &str = "UPDATE punctual_history SET state = NULL, finished_at = NULL, \
     strayed_at = ended_at, priority = NULL, planned_at = NULL, created_at = NULL, dedupe = NULL, \
     exclusive = NULL, crashes = NULL, snoozes = NULL, error = NULL, batch = NULL, progress = NULL, \
     checkpoint = NULL, extra = NULL, body = NULL \
     WHERE message = ?1 AND state >= 0";
const REMOVE_PENDING: &str =
    "DELETE FROM punctual_message WHERE id = ?1 AND state = 0 RETURNING queue, batch";

/// Whether a message is finished or dead.
const HAS_ENDED: &str = "SELECT EXISTS (SELECT 1 FROM punctual_history WHERE message = ?1 AND state >= 0) \
     OR EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1)";
/// Newest id among the messages that have ended or were attempted.
const NEWEST_ENDED: &str =
    "SELECT (SELECT max(message) FROM punctual_history), (SELECT max(id) FROM punctual_dead)";

/// Stores a batch in the order given.
pub(crate) async fn enqueue(
    driver: &impl Driver,
    entries: &[Entry],
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<Vec<EnqueueResult>> {
    let mut enqueuer = Enqueuer::new(driver, micros(now), effects).await?;
    let mut results = Vec::with_capacity(entries.len());
    for entry in entries {
        results.push(enqueuer.enqueue(entry).await?);
    }
    enqueuer.finish().await?;
    Ok(results)
}

/// State shared by the entries of a batch.
pub(crate) struct Enqueuer<'a, D: Driver> {
    driver: &'a D,
    insert: D::Statement,
    /// Ids grow with time, so most new ones are beyond this one and need no lookup among the ended messages.
    newest_ended: Option<MessageId>,
    now: i64,
    /// Messages that may have to wait for a batch, of which more may follow.
    waiting: Vec<AwaitedBatch>,
    effects: &'a mut Effects,
}

/// Stored message that waits for a batch, if that is alive.
struct AwaitedBatch {
    message: MessageId,
    batch: BatchId,
    queue: Queue,
    due_at: i64,
}

impl<'a, D: Driver> Enqueuer<'a, D> {
    pub(crate) async fn new(
        driver: &'a D,
        now: i64,
        effects: &'a mut Effects,
    ) -> StorageResult<Self> {
        Ok(Self {
            driver,
            insert: driver.prepare(INSERT)?,
            newest_ended: newest_ended(driver).await?,
            now,
            waiting: Vec::new(),
            effects,
        })
    }

    /// Stores one message, or returns the message it is a duplicate of.
    pub(crate) async fn enqueue(&mut self, entry: &Entry) -> StorageResult<EnqueueResult> {
        let (driver, message) = (self.driver, &*entry.message);
        let is_new = self.newest_ended.is_none_or(|newest| message.id > newest);
        let has_ended = !is_new && exists(driver, HAS_ENDED, message.id).await?;
        let reserved_by = key_holder(driver, message, self.now).await?;
        if !has_ended && reserved_by.is_none() && self.insert(message).await? {
            return Ok(EnqueueResult::Stored);
        }
        let is_kept = is_alive_or_dead(driver, message.id).await?;
        let finished = if is_kept { None } else { finished(driver, message.id).await? };
        let same_id = is_kept.then_some(SameId::AliveOrDead);
        let same_id = same_id.or(finished.as_ref().map(SameId::Finished));
        let same_key = alive_with_key(driver, message.dedupe.as_ref()).await?;
        let known = DedupeFacts { same_id, same_key, reserved_by };
        let result = match dedupe(message, entry.replace, &known) {
            DedupeDecision::Insert => EnqueueResult::Stored,
            DedupeDecision::Replace(id) => {
                remove_pending(driver, id, self.effects).await?;
                EnqueueResult::Replaced(id)
            }
            DedupeDecision::Duplicate(id) => return Ok(EnqueueResult::Duplicate(id)),
        };
        remove_finished(driver, message.id, self.effects).await?;
        self.insert(message).await?;
        Ok(result)
    }

    async fn insert(&mut self, message: &Message) -> StorageResult<bool> {
        let due_at = micros_up(message.due_at);
        let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
        let (lane, lane_max) = limit_of(message);
        let row = values![
            message.id.as_uuid(),
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
            message.batch().map(BatchId::as_uuid),
            extra(message)?,
            &message.body.bytes[..],
        ];
        if self.driver.execute(&mut self.insert, &row).await? == 0 {
            return Ok(false);
        }
        self.effects.moved(&message.queue, 1, None, Some(MessageState::Pending));
        reserve_key(self.driver, message, self.now).await?;
        match message.waits_for() {
            None => self.effects.is_due(&message.queue, due_at),
            Some(batch) => {
                let queue = message.queue.clone();
                self.waiting.push(AwaitedBatch { message: message.id, batch, queue, due_at });
            }
        }
        Ok(true)
    }

    /// Makes messages wait whose batch is alive, now that all messages of the call are stored.
    pub(crate) async fn finish(self) -> StorageResult<()> {
        for waiting in self.waiting {
            if !wait(self.driver, waiting.message, waiting.batch).await? {
                self.effects.is_due(&waiting.queue, waiting.due_at);
            }
        }
        Ok(())
    }
}

async fn newest_ended(driver: &impl Driver) -> StorageResult<Option<MessageId>> {
    let Some(row) = driver.row(NEWEST_ENDED, &[]).await? else { return Ok(None) };
    Ok(maybe_id_at(&row, 0)?.max(maybe_id_at(&row, 1)?).map(MessageId::from_uuid))
}

async fn exists(driver: &impl Driver, sql: &str, id: MessageId) -> StorageResult<bool> {
    let row = driver.row(sql, &values![id.as_uuid()]).await?;
    Ok(row.map(|row| row.get(0)).transpose()?.unwrap_or_default())
}

/// Returns whether a message is alive or dead.
pub(super) async fn is_alive_or_dead(driver: &impl Driver, id: MessageId) -> StorageResult<bool> {
    exists(driver, IS_ALIVE_OR_DEAD, id).await
}

/// Returns a finished message.
async fn finished(driver: &impl Driver, id: MessageId) -> StorageResult<Option<Message>> {
    let sql = format!("SELECT {FINISHED_COLUMNS} FROM {}", Table::Finished.row());
    let row = driver.row(&sql, &values![id.as_uuid()]).await?;
    row.map(|row| finished_of(&row)).transpose()
}

/// Returns the alive message with a deduplication key, and its state.
pub(crate) async fn alive_with_key(
    driver: &impl Driver,
    dedupe: Option<&Key>,
) -> StorageResult<Option<(MessageId, MessageState)>> {
    let Some(dedupe) = dedupe else { return Ok(None) };
    let Some(row) = driver.row(ALIVE_WITH_KEY, &values![dedupe.as_str()]).await? else {
        return Ok(None);
    };
    Ok(Some((MessageId::from_uuid(id_at(&row, 0)?), MessageState::from_code(row.get(1)?)?)))
}

/// Removes a finished message, but not its attempts.
pub(crate) async fn remove_finished(
    driver: &impl Driver,
    id: MessageId,
    effects: &mut Effects,
) -> StorageResult<()> {
    let id = id.as_uuid();
    let Some(row) = driver.row(FINISHED, &values![id]).await? else { return Ok(()) };
    driver.run(REMOVE_FINISHED, &values![id]).await?;
    driver.run(STRIP_FINISHED, &values![id]).await?;
    let (queue, state): (String, i16) = (row.get(0)?, row.get(1)?);
    effects.moved(&Queue::from(queue), 1, Some(MessageState::from_code(state)?), None);
    Ok(())
}

async fn remove_pending(
    driver: &impl Driver,
    id: MessageId,
    effects: &mut Effects,
) -> StorageResult<()> {
    let Some(row) = driver.row(REMOVE_PENDING, &values![id.as_uuid()]).await? else {
        return Ok(());
    };
    let queue = Queue::from(row.get::<String>(0)?);
    effects.was_taken(&queue);
    effects.moved(&queue, 1, Some(MessageState::Pending), None);
    effects.left_batch(row.get(1)?);
    Ok(())
}
