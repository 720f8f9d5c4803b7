//! A whole row into the table its state belongs to: from a record, or out of the hot table.

use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, Key, MessageId, MessageRecord, State};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::{column, extra};
use punctual_rows::without_nul;
use rusqlite::{Connection, ToSql, params};

use crate::fault::Tried;
use crate::row::{id_of_finished, strayed};

/// The columns that all three tables have beside id and error, in the order they are written.
macro_rules! common {
    () => {
        "queue, topic, priority, due_at, planned_at, created_at, source, key, dedupe, exclusive, \
         job, attempt, crashes, snoozes, extra, body"
    };
}

macro_rules! insert {
    ($table:literal, $id:literal, $ending:literal, $values:literal) => {
        concat!(
            insert!($table, $id, $ending),
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18",
            $values,
            ")"
        )
    };
    ($table:literal, $id:literal, $ending:literal) => {
        concat!("INSERT INTO ", $table, " (", $id, ", ", common!(), ", error", $ending, ") ")
    };
}

const PENDING: &str = insert!("punctual_message", "id", "", "");
const DEAD: &str = insert!("punctual_dead", "id", ", ended_at, reason", ", ?19, ?20");
const FINISHED: &str = insert!(
    "punctual_history",
    "message",
    ", finished_at, state, id, strayed_at",
    ", ?19, ?20, ?21, ?22"
);

/// Copies a message out of the hot table to the dead letters.
pub(crate) const BURY: &str = concat!(
    insert!("punctual_dead", "id", ", ended_at, reason"),
    "SELECT id, ",
    common!(),
    ", coalesce(?4, error), ?2, ?3 FROM punctual_message WHERE id = ?1"
);
/// Copies a message out of the hot table to the history, into a row for itself.
pub(crate) const KEEP: &str = concat!(
    insert!("punctual_history", "message", ", finished_at, state, id, strayed_at"),
    "SELECT id, ",
    common!(),
    ", error, ?2, ?3, ?4, ?5 FROM punctual_message WHERE id = ?1"
);

/// Removes a message from the hot table.
pub(crate) const REMOVE: &str = "DELETE FROM punctual_message WHERE id = ?1";

/// How a message leaves the hot table.
#[derive(Clone, Copy)]
pub(super) enum Leaving<'a> {
    Finished(State),
    Dead(DeadReason, Option<&'a str>),
}

impl Leaving<'_> {
    pub(super) fn state(self) -> State {
        match self {
            Self::Finished(state) => state,
            Self::Dead(..) => State::Dead,
        }
    }
}

/// From the hot table into the one it belongs to.
pub(super) fn leave(
    transaction: &Connection,
    message: MessageId,
    leaving: Leaving<'_>,
    now: i64,
) -> Tried<()> {
    let id = message.as_uuid();
    match leaving {
        Leaving::Finished(state) => {
            let place = id_of_finished(message, now);
            let strayed_at = strayed(place, now);
            let row = params![id.as_bytes(), now, state.code(), place.as_bytes(), strayed_at];
            transaction.prepare_cached(KEEP)?.execute(row)?;
        }
        Leaving::Dead(reason, error) => {
            let row = params![id.as_bytes(), now, reason.code(), error.map(without_nul)];
            transaction.prepare_cached(BURY)?.execute(row)?;
        }
    }
    transaction.prepare_cached(REMOVE)?.execute([id.as_bytes()])?;
    Ok(())
}

/// Stores a record that no table has. One that is alive is pending: nobody here runs it.
pub(super) fn put(transaction: &Connection, record: &MessageRecord, now: Timestamp) -> Tried<()> {
    let message = &*record.message;
    let extra = extra(message)?;
    let id = message.id.as_uuid();
    let error = record.error.as_deref().map(without_nul);
    let job = message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str());
    let body = &message.body.bytes[..];
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
        column(record.attempt),
        column(record.crashes),
        column(record.snoozes),
        extra,
        body,
        error
    ];
    let ended_at = micros(record.ended_at.unwrap_or(now));
    let place = id_of_finished(message.id, ended_at);
    let (place, strayed_at) = (place.as_bytes(), strayed(place, ended_at));
    let (reason, state) = (record.dead.map(DeadReason::code), record.state.code());
    let (sql, ending): (_, &[&dyn ToSql]) = match record.state {
        State::Pending | State::Running => (PENDING, &[]),
        State::Dead => (DEAD, &[&ended_at, &reason]),
        State::Done | State::Cancelled => (FINISHED, &[&ended_at, &state, &place, &strayed_at]),
    };
    let values: Vec<&dyn ToSql> = common.iter().chain(ending).copied().collect();
    transaction.prepare_cached(sql)?.execute(&values[..])?;
    Ok(())
}
