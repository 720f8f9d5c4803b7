//! Enqueue by way of sqlx: one statement for a message that is new; only when it may not be is asked
//! why.

use punctual::Message;
use punctual::bytes::Bytes;
use punctual::jiff::Timestamp;
use punctual::model::{BatchId, Key, MessageId, Queue, State};
use punctual::storage::{Enqueued, Entry};
use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::{Sent, extra};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Driver, Statement, batch, blob, fault};
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::{FINISHED_COLUMNS, Table};
use crate::work::{
    FINISHED, FORGET, FORGOTTEN_MAX, HOLD, HOLDER, INSERT, KEPT, POSTPONE, REMOVE_FINISHED,
    REMOVE_PENDING, STRIP_FINISHED, TWIN, WAIT, as_stored, end_of_time, held, lane_of,
};

/// Stores a message unless it was ever here or its deduplication key is alive.
const INSERT_NEW: &str = "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
     created_at, source, key, dedupe, exclusive, job, lane, lane_max, batch, extra, body) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16 \
     WHERE NOT EXISTS (SELECT 1 FROM punctual_history WHERE message = ?1 AND state >= 0) \
     AND NOT EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1) ON CONFLICT DO NOTHING";

/// Stores a batch in the order given.
pub(super) async fn enqueue(
    driver: &mut Driver<'_>,
    entries: &[Entry],
    now: Timestamp,
) -> Tried<Vec<Enqueued>> {
    let effects = Effects::default();
    let mut enqueueing = Enqueueing { driver, now: micros(now), waiting: Vec::new(), effects };
    let mut answers = Vec::with_capacity(entries.len());
    for entry in entries {
        answers.push(enqueueing.enqueue(entry).await?);
    }
    enqueueing.wait().await?;
    enqueueing.driver.conclude(enqueueing.effects).await?;
    Ok(answers)
}

struct Enqueueing<'a, 'd> {
    driver: &'a mut Driver<'d>,
    now: i64,
    /// What may have to wait for a batch, of which more may be still to come.
    waiting: Vec<(MessageId, BatchId)>,
    effects: Effects,
}

impl Enqueueing<'_, '_> {
    /// Stores one message, or says which one it is a duplicate of.
    async fn enqueue(&mut self, entry: &Entry) -> Tried<Enqueued> {
        let message = &*entry.message;
        let holder = self.holder(message).await?;
        if holder.is_none() && self.insert(INSERT_NEW, message).await? {
            return Ok(Enqueued::Stored);
        }
        let Some(twin) = self.duplicate_of(message).await?.or(holder) else {
            self.remove_finished(message.id).await?;
            self.insert(INSERT, message).await?;
            return Ok(Enqueued::Stored);
        };
        let replaces = entry.replace && twin != message.id;
        if replaces && self.remove_pending(twin).await? {
            self.remove_finished(message.id).await?;
            self.insert(INSERT, message).await?;
            return Ok(Enqueued::Replaced(twin));
        }
        Ok(Enqueued::Duplicate(twin))
    }

    async fn insert(&mut self, sql: &'static str, message: &Message) -> Tried<bool> {
        if self.driver.execute(insertion(sql, message)?).await? == 0 {
            return Ok(false);
        }
        self.effects.moved(&message.queue, 1, None, Some(State::Pending));
        if let Some((key, until)) = held(message, self.now) {
            let hold = sqlx::query(HOLD).bind(key.as_str().to_owned()).bind(blob(message.id));
            self.driver.execute(hold.bind(until)).await?;
            let forget = sqlx::query(FORGET).bind(self.now).bind(FORGOTTEN_MAX);
            self.driver.execute(forget).await?;
        }
        self.waiting.extend(message.waits_for().map(|batch| (message.id, batch)));
        Ok(true)
    }

    /// Has those wait whose batch is alive, now that all of it is known that came with them.
    async fn wait(&mut self) -> Tried<()> {
        for (message, batch) in std::mem::take(&mut self.waiting) {
            let batch = batch.as_uuid().into_bytes().to_vec();
            let wait = sqlx::query(WAIT).bind(batch).bind(blob(message));
            if self.driver.execute(wait).await? == 1 {
                let postpone = sqlx::query(POSTPONE).bind(blob(message)).bind(end_of_time());
                self.driver.execute(postpone).await?;
            }
        }
        Ok(())
    }

    /// The message whose key keeps this one out for a time.
    async fn holder(&mut self, message: &Message) -> Tried<Option<MessageId>> {
        let Some(key) = &message.dedupe else { return Ok(None) };
        let asked = sqlx::query(HOLDER).bind(key.as_str()).bind(self.now).bind(blob(message.id));
        let held = self.driver.row(asked).await?;
        held.map(|row| Ok(MessageId::from_uuid(id(&row)?))).transpose()
    }

    /// The message that makes this one a duplicate; see the same in the storage's own enqueue.
    async fn duplicate_of(&mut self, message: &Message) -> Tried<Option<MessageId>> {
        let kept = self.driver.row(sqlx::query(KEPT).bind(blob(message.id))).await?;
        if let Some(row) = kept
            && row.try_get(0).map_err(fault)?
        {
            return Ok(Some(message.id));
        }
        let sql = format!("SELECT {FINISHED_COLUMNS} FROM {}", Table::Finished.row());
        let finished = sqlx::query(AssertSqlSafe(sql)).bind(blob(message.id));
        if let Some(row) = self.driver.row(finished).await? {
            let is_same = || Tried::Ok(sent(&row)?.is_same_sending(&as_stored(message)?));
            if !message.may_return() || is_same()? {
                return Ok(Some(message.id));
            }
        }
        let Some(dedupe) = &message.dedupe else { return Ok(None) };
        let twin = self.driver.row(sqlx::query(TWIN).bind(dedupe.as_str())).await?;
        twin.map(|row| Ok(MessageId::from_uuid(id(&row)?))).transpose()
    }

    async fn remove_finished(&mut self, id: MessageId) -> Tried<()> {
        let finished = self.driver.row(sqlx::query(FINISHED).bind(blob(id))).await?;
        if let Some(row) = finished {
            self.driver.execute(sqlx::query(REMOVE_FINISHED).bind(blob(id))).await?;
            self.driver.execute(sqlx::query(STRIP_FINISHED).bind(blob(id))).await?;
            let queue = Queue::from(row.try_get::<String, _>(0).map_err(fault)?);
            let state = State::from_code(row.try_get(1).map_err(fault)?)?;
            self.effects.moved(&queue, 1, Some(state), None);
        }
        Ok(())
    }

    async fn remove_pending(&mut self, id: MessageId) -> Tried<bool> {
        let removed = self.driver.row(sqlx::query(REMOVE_PENDING).bind(blob(id))).await?;
        let Some(row) = removed else { return Ok(false) };
        let queue = Queue::from(row.try_get::<String, _>(0).map_err(fault)?);
        self.effects.moved(&queue, 1, Some(State::Pending), None);
        self.effects.left_batch(batch(&row, 1)?);
        Ok(true)
    }
}

fn insertion(sql: &'static str, message: &Message) -> Tried<Statement<'static>> {
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
    let (lane, lane_max) = lane_of(message);
    Ok(sqlx::query(sql)
        .bind(blob(message.id))
        .bind(message.queue.as_str().to_owned())
        .bind(message.topic.as_str().to_owned())
        .bind(message.priority.level())
        .bind(micros_up(message.due_at))
        .bind(micros(message.created_at))
        .bind(message.source.code())
        .bind(message.key.as_ref().map(|key| Key::as_str(key).to_owned()))
        .bind(message.dedupe.as_ref().map(|key| Key::as_str(key).to_owned()))
        .bind(message.exclusive)
        .bind(job.map(str::to_owned))
        .bind(lane.map(str::to_owned))
        .bind(lane_max)
        .bind(message.batch().map(|batch| batch.as_uuid().into_bytes().to_vec()))
        .bind(extra(message)?)
        .bind(message.body.bytes.to_vec()))
}

/// What was sent, in the order of the columns that all three tables are read in.
fn sent(row: &SqliteRow) -> Tried<Message> {
    let body: &[u8] = row.try_get("body").map_err(fault)?;
    let sent = Sent {
        id: id(row)?,
        queue: row.try_get("queue").map_err(fault)?,
        topic: row.try_get("topic").map_err(fault)?,
        priority: row.try_get("priority").map_err(fault)?,
        planned_at: row.try_get("planned_at").map_err(fault)?,
        created_at: row.try_get("created_at").map_err(fault)?,
        source: row.try_get("source").map_err(fault)?,
        key: row.try_get("key").map_err(fault)?,
        dedupe: row.try_get("dedupe").map_err(fault)?,
        exclusive: row.try_get("exclusive").map_err(fault)?,
        extra: row.try_get("extra").map_err(fault)?,
        body: Bytes::copy_from_slice(body),
    };
    Ok(sent.message()?)
}

fn id(row: &SqliteRow) -> Tried<Uuid> {
    let bytes: &[u8] = row.try_get("id").map_err(fault)?;
    Ok(Uuid::from_slice(bytes).map_err(|_| {
        let sentence = format!("a stored id has {} bytes instead of 16", bytes.len());
        Error::new(ErrorKind::Corrupt, sentence)
    })?)
}
