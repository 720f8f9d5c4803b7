//! Rows of messages: inserts a record into the table of its state, and moves rows out of the hot table.

use punctual::jiff::Timestamp;
use punctual::model::{BatchId, DeadReason, Key, MessageId, MessageRecord, MessageState};
use punctual::uuid::Uuid;
use punctual_columns::code::Code as _;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::{count_to_column, extra_of, progress_to_json};
use punctual_columns::without_nul;
use rusqlite::{Connection, ToSql, params};

use super::limits::limit_of;
use crate::driver::Driver;
use crate::error::StorageResult;
use crate::row::{id_of_finished, strayed};
use crate::value::values;

/// Columns that all three tables have besides id and error, in the order they are written.
macro_rules! common {
    () => {
        "queue, topic, priority, due_at, planned_at, created_at, source, key, dedupe, exclusive, \
         job, attempt, crashes, snoozes, batch, progress, checkpoint, extra, body"
    };
}

macro_rules! insert {
    ($table:literal, $id:literal, $ending:literal, $values:literal) => {
        concat!(
            insert!($table, $id, $ending),
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ",
            "?21",
            $values,
            ")"
        )
    };
    ($table:literal, $id:literal, $ending:literal) => {
        concat!("INSERT INTO ", $table, " (", $id, ", ", common!(), ", error", $ending, ") ")
    };
}

const PENDING: &str =
    insert!("punctual_message", "id", ", lane, lane_max, freed", ", ?22, ?23, ?24");
const DEAD: &str = insert!("punctual_dead", "id", ", ended_at, reason", ", ?22, ?23");
const FINISHED: &str = insert!(
    "punctual_history",
    "message",
    ", finished_at, state, id, strayed_at",
    ", ?22, ?23, ?24, ?25"
);

/// Copies a message from the hot table to the dead letters.
const COPY_TO_DEAD: &str = concat!(
    insert!("punctual_dead", "id", ", ended_at, reason"),
    "SELECT id, ",
    common!(),
    ", coalesce(?4, error), ?2, ?3 FROM punctual_message WHERE id = ?1"
);
/// Copies a message from the hot table to the history, into a row of its own.
const COPY_TO_HISTORY: &str = concat!(
    insert!("punctual_history", "message", ", finished_at, state, id, strayed_at"),
    "SELECT id, ",
    common!(),
    ", error, ?2, ?3, ?4, ?5 FROM punctual_message WHERE id = ?1"
);

/// Deletes a message from the hot table.
const REMOVE: &str = "DELETE FROM punctual_message WHERE id = ?1";

/// Final state of a message that leaves the hot table.
#[derive(Clone, Copy)]
pub(super) enum FinalState<'a> {
    Finished(MessageState),
    Dead(DeadReason, Option<&'a str>),
}

impl FinalState<'_> {
    pub(super) fn state(self) -> MessageState {
        match self {
            Self::Finished(state) => state,
            Self::Dead(..) => MessageState::Dead,
        }
    }
}

/// Moves a message from the hot table to the table of its final state.
pub(super) async fn move_out(
    driver: &impl Driver,
    message: MessageId,
    final_state: FinalState<'_>,
    now: i64,
) -> StorageResult<()> {
    let id = message.as_uuid();
    match final_state {
        FinalState::Finished(state) => {
            let place = id_of_finished(message, now);
            let strayed_at = strayed(place, now);
            let row = values![id, now, state.code(), place, strayed_at];
            driver.run(COPY_TO_HISTORY, &row).await?;
        }
        FinalState::Dead(reason, error) => {
            let row = values![id, now, reason.code(), error.map(without_nul)];
            driver.run(COPY_TO_DEAD, &row).await?;
        }
    }
    driver.run(REMOVE, &values![id]).await?;
    Ok(())
}

/// Inserts a record that no table contains. An alive one becomes pending, because no process here runs it.
/// `is_free`: its deduplication key is released already.
pub(crate) fn insert_record(
    transaction: &Connection,
    record: &MessageRecord,
    is_free: bool,
    now: Timestamp,
) -> StorageResult<()> {
    let message = &*record.message;
    let extra = extra_of(record)?;
    let id = message.id.as_uuid();
    let error = record.error.as_deref().map(without_nul);
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
    let body = &message.body.bytes[..];
    let batch = message.batch().map(BatchId::as_uuid);
    let progress = record.progress.as_ref().map(progress_to_json).transpose()?;
    let checkpoint = record.checkpoint.as_ref().map(progress_to_json).transpose()?;
    let common = params![
        id.as_bytes(),
        message.queue.as_str(),
        message.topic.as_str(),
        message.priority.level(),
        micros_up(record.due_at),
        micros_up(message.due_at),
        micros(message.created_at),
        message.source.code(),
        message.key.as_ref().map(Key::as_str),
        message.dedupe.as_ref().map(Key::as_str),
        message.exclusive,
        job,
        count_to_column(record.attempt),
        count_to_column(record.crashes),
        count_to_column(record.snoozes),
        batch.as_ref().map(Uuid::as_bytes),
        progress,
        checkpoint,
        extra,
        body,
        error
    ];
    let ended_at = micros(record.ended_at.unwrap_or(now));
    let place = id_of_finished(message.id, ended_at);
    let (place, strayed_at) = (place.as_bytes(), strayed(place, ended_at));
    let (reason, state) = (record.dead.map(DeadReason::code), record.state.code());
    let ((lane, lane_max), freed) = (limit_of(message), is_free.then_some(1));
    let (sql, ending): (_, &[&dyn ToSql]) = match record.state {
        MessageState::Pending | MessageState::Running => (PENDING, &[&lane, &lane_max, &freed]),
        MessageState::Dead => (DEAD, &[&ended_at, &reason]),
        MessageState::Done | MessageState::Cancelled => {
            (FINISHED, &[&ended_at, &state, &place, &strayed_at])
        }
    };
    let values: Vec<&dyn ToSql> = common.iter().chain(ending).copied().collect();
    transaction.prepare_cached(sql)?.execute(&values[..])?;
    Ok(())
}
