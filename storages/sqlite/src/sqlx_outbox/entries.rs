//! Enqueue by way of sqlx: one statement for a message that is new; only when it may not be is asked
//! why.

use punctual::Message;
use punctual::bytes::Bytes;
use punctual::model::{Key, MessageId, Queue, State};
use punctual::storage::{Enqueued, Entry};
use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::{Sent, extra};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Driver, Statement, blob, fault};
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::{FINISHED_COLUMNS, Table};
use crate::work::{
    FINISHED, INSERT, KEPT, REMOVE_FINISHED, REMOVE_PENDING, STRIP_FINISHED, TWIN, as_stored,
};

/// Stores a message unless it was ever here or its deduplication key is alive.
const INSERT_NEW: &str = "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
     created_at, source, key, dedupe, exclusive, job, extra, body) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 \
     WHERE NOT EXISTS (SELECT 1 FROM punctual_history WHERE message = ?1 AND state >= 0) \
     AND NOT EXISTS (SELECT 1 FROM punctual_dead WHERE id = ?1) ON CONFLICT DO NOTHING";

/// Stores a batch in the order given.
pub(super) async fn enqueue(driver: &mut Driver<'_>, entries: &[Entry]) -> Tried<Vec<Enqueued>> {
    let mut enqueueing = Enqueueing { driver, effects: Effects::default() };
    let mut answers = Vec::with_capacity(entries.len());
    for entry in entries {
        answers.push(enqueueing.enqueue(entry).await?);
    }
    enqueueing.driver.count(&enqueueing.effects).await?;
    Ok(answers)
}

struct Enqueueing<'a, 'd> {
    driver: &'a mut Driver<'d>,
    effects: Effects,
}

impl Enqueueing<'_, '_> {
    /// Stores one message, or says which one it is a duplicate of.
    async fn enqueue(&mut self, entry: &Entry) -> Tried<Enqueued> {
        let message = &*entry.message;
        if self.insert(INSERT_NEW, message).await? {
            return Ok(Enqueued::Stored);
        }
        let Some(twin) = self.duplicate_of(message).await? else {
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
        let is_stored = self.driver.execute(insertion(sql, message)?).await? == 1;
        if is_stored {
            self.effects.moved(&message.queue, 1, None, Some(State::Pending));
        }
        Ok(is_stored)
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
        Ok(true)
    }
}

fn insertion(sql: &'static str, message: &Message) -> Tried<Statement<'static>> {
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
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
