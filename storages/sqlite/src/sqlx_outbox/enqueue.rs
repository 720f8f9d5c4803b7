//! Enqueue by way of sqlx: one statement for a new message; only when that stores nothing, further statements
//! find out why.

use punctual::Message;
use punctual::bytes::Bytes;
use punctual::jiff::Timestamp;
use punctual::model::{BatchId, Key, MessageId, MessageState, Queue};
use punctual::storage::{EnqueueResult, Entry};
use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::{MessageColumns, extra};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Driver, Statement, batch, blob, from_sqlx};
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::operations::{
    ALIVE_WITH_KEY, DELETE_EXPIRED_KEYS, EXPIRED_KEYS_MAX, FINISHED, INSERT, IS_ALIVE_OR_DEAD,
    KEY_RESERVATION, POSTPONE, REMOVE_FINISHED, REMOVE_PENDING, RESERVE_KEY, STRIP_FINISHED, WAIT,
    as_stored, end_of_time, lane_of, reservation_of,
};
use crate::row::{FINISHED_COLUMNS, Table};

/// Inserts a message unless it is or was stored or an alive message has its deduplication key.
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
) -> StorageResult<Vec<EnqueueResult>> {
    let effects = Effects::default();
    let mut enqueuer = Enqueuer { driver, now: micros(now), waiting: Vec::new(), effects };
    let mut results = Vec::with_capacity(entries.len());
    for entry in entries {
        results.push(enqueuer.enqueue(entry).await?);
    }
    enqueuer.wait().await?;
    enqueuer.driver.conclude(enqueuer.effects).await?;
    Ok(results)
}

struct Enqueuer<'a, 'd> {
    driver: &'a mut Driver<'d>,
    now: i64,
    /// Messages that may have to wait for a batch, of which more may follow.
    waiting: Vec<(MessageId, BatchId)>,
    effects: Effects,
}

impl Enqueuer<'_, '_> {
    /// Stores one message, or returns the message it is a duplicate of.
    async fn enqueue(&mut self, entry: &Entry) -> StorageResult<EnqueueResult> {
        let message = &*entry.message;
        let holder = self.key_holder(message).await?;
        if holder.is_none() && self.insert(INSERT_NEW, message).await? {
            return Ok(EnqueueResult::Stored);
        }
        let Some(twin) = self.duplicate_of(message).await?.or(holder) else {
            self.remove_finished(message.id).await?;
            self.insert(INSERT, message).await?;
            return Ok(EnqueueResult::Stored);
        };
        let replaces = entry.replace && twin != message.id;
        if replaces && self.remove_pending(twin).await? {
            self.remove_finished(message.id).await?;
            self.insert(INSERT, message).await?;
            return Ok(EnqueueResult::Replaced(twin));
        }
        Ok(EnqueueResult::Duplicate(twin))
    }

    async fn insert(&mut self, sql: &'static str, message: &Message) -> StorageResult<bool> {
        if self.driver.execute(insertion(sql, message)?).await? == 0 {
            return Ok(false);
        }
        self.effects.moved(&message.queue, 1, None, Some(MessageState::Pending));
        if let Some((key, until)) = reservation_of(message, self.now) {
            let reserve =
                sqlx::query(RESERVE_KEY).bind(key.as_str().to_owned()).bind(blob(message.id));
            self.driver.execute(reserve.bind(until)).await?;
            let forget = sqlx::query(DELETE_EXPIRED_KEYS).bind(self.now).bind(EXPIRED_KEYS_MAX);
            self.driver.execute(forget).await?;
        }
        self.waiting.extend(message.waits_for().map(|batch| (message.id, batch)));
        Ok(true)
    }

    /// Makes messages wait whose batch is alive, now that all messages of the call are stored.
    async fn wait(&mut self) -> StorageResult<()> {
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

    /// Returns the message that has reserved the key of this one.
    async fn key_holder(&mut self, message: &Message) -> StorageResult<Option<MessageId>> {
        let Some(key) = &message.dedupe else { return Ok(None) };
        let select =
            sqlx::query(KEY_RESERVATION).bind(key.as_str()).bind(self.now).bind(blob(message.id));
        let row = self.driver.row(select).await?;
        row.map(|row| Ok(MessageId::from_uuid(id(&row)?))).transpose()
    }

    /// Returns the message that makes this one a duplicate; see `duplicate_of` of the storage's own enqueue.
    async fn duplicate_of(&mut self, message: &Message) -> StorageResult<Option<MessageId>> {
        let kept = self.driver.row(sqlx::query(IS_ALIVE_OR_DEAD).bind(blob(message.id))).await?;
        if let Some(row) = kept
            && row.try_get(0).map_err(from_sqlx)?
        {
            return Ok(Some(message.id));
        }
        let sql = format!("SELECT {FINISHED_COLUMNS} FROM {}", Table::Finished.row());
        let finished = sqlx::query(AssertSqlSafe(sql)).bind(blob(message.id));
        if let Some(row) = self.driver.row(finished).await? {
            let is_same = || StorageResult::Ok(sent(&row)?.is_same_sending(&as_stored(message)?));
            if !message.may_return() || is_same()? {
                return Ok(Some(message.id));
            }
        }
        let Some(dedupe) = &message.dedupe else { return Ok(None) };
        let twin = self.driver.row(sqlx::query(ALIVE_WITH_KEY).bind(dedupe.as_str())).await?;
        twin.map(|row| Ok(MessageId::from_uuid(id(&row)?))).transpose()
    }

    async fn remove_finished(&mut self, id: MessageId) -> StorageResult<()> {
        let finished = self.driver.row(sqlx::query(FINISHED).bind(blob(id))).await?;
        if let Some(row) = finished {
            self.driver.execute(sqlx::query(REMOVE_FINISHED).bind(blob(id))).await?;
            self.driver.execute(sqlx::query(STRIP_FINISHED).bind(blob(id))).await?;
            let queue = Queue::from(row.try_get::<String, _>(0).map_err(from_sqlx)?);
            let state = MessageState::from_code(row.try_get(1).map_err(from_sqlx)?)?;
            self.effects.moved(&queue, 1, Some(state), None);
        }
        Ok(())
    }

    async fn remove_pending(&mut self, id: MessageId) -> StorageResult<bool> {
        let removed = self.driver.row(sqlx::query(REMOVE_PENDING).bind(blob(id))).await?;
        let Some(row) = removed else { return Ok(false) };
        let queue = Queue::from(row.try_get::<String, _>(0).map_err(from_sqlx)?);
        self.effects.moved(&queue, 1, Some(MessageState::Pending), None);
        self.effects.left_batch(batch(&row, 1)?);
        Ok(true)
    }
}

fn insertion(sql: &'static str, message: &Message) -> StorageResult<Statement<'static>> {
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

/// Decodes a message, in the order of the columns that all three tables are read in.
fn sent(row: &SqliteRow) -> StorageResult<Message> {
    let body: &[u8] = row.try_get("body").map_err(from_sqlx)?;
    let sent = MessageColumns {
        id: id(row)?,
        queue: row.try_get("queue").map_err(from_sqlx)?,
        topic: row.try_get("topic").map_err(from_sqlx)?,
        priority: row.try_get("priority").map_err(from_sqlx)?,
        planned_at: row.try_get("planned_at").map_err(from_sqlx)?,
        created_at: row.try_get("created_at").map_err(from_sqlx)?,
        source: row.try_get("source").map_err(from_sqlx)?,
        key: row.try_get("key").map_err(from_sqlx)?,
        dedupe: row.try_get("dedupe").map_err(from_sqlx)?,
        exclusive: row.try_get("exclusive").map_err(from_sqlx)?,
        extra: row.try_get("extra").map_err(from_sqlx)?,
        body: Bytes::copy_from_slice(body),
    };
    Ok(sent.message()?)
}

fn id(row: &SqliteRow) -> StorageResult<Uuid> {
    let bytes: &[u8] = row.try_get("id").map_err(from_sqlx)?;
    Ok(Uuid::from_slice(bytes).map_err(|_| {
        let sentence = format!("a stored id has {} bytes instead of 16", bytes.len());
        Error::new(ErrorKind::Corrupt, sentence)
    })?)
}
