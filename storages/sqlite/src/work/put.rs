//! A whole row into the table its state belongs to: from a record, or from the hot table as it was read.

use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, Key, MessageRecord, State};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::{column, extra};
use punctual_rows::without_nul;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, Statement, ToSql, params};

use crate::fault::Tried;

/// The columns that all three tables have, in the order they are written.
macro_rules! common {
    () => {
        "id, queue, topic, priority, due_at, planned_at, created_at, source, key, dedupe, exclusive, \
         job, attempt, crashes, snoozes, error, extra, body"
    };
}

/// The same for who copies a row from one table into another.
#[cfg(feature = "sqlx")]
pub(crate) const COMMON_COLUMNS: &str = common!();

macro_rules! insert {
    ($table:literal, $ending:literal, $values:literal) => {
        concat!(
            "INSERT INTO ",
            $table,
            " (",
            common!(),
            $ending,
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18",
            $values,
            ")"
        )
    };
}

const PENDING: &str = insert!("punctual_message", "", "");
pub(super) const DEAD: &str = insert!("punctual_dead", ", ended_at, reason", ", ?19, ?20");
pub(super) const FINISHED: &str = insert!("punctual_finished", ", ended_at, state", ", ?19, ?20");

/// Takes a running message out of the hot table, if its token is the current one.
pub(super) const TAKE_FENCED: &str = concat!(
    "DELETE FROM punctual_message WHERE id = ?1 AND token = ?2 AND state = 1 RETURNING ",
    common!()
);
/// Takes a pending message out of the hot table.
pub(super) const TAKE: &str =
    concat!("DELETE FROM punctual_message WHERE id = ?1 AND state = 0 RETURNING ", common!());

const COMMON: usize = 18;
pub(super) const QUEUE: usize = 1;
pub(super) const JOB: usize = 11;
const ERROR: usize = 15;

/// Writes a row that was taken out of the hot table into another one, through no copy of ours.
pub(super) fn put_row(
    insert: &mut Statement<'_>,
    row: &Row<'_>,
    (ended_at, code): (i64, i16),
    error: Option<&str>,
) -> Tried<()> {
    for column in 0..COMMON {
        let value = match (column, error) {
            (ERROR, Some(error)) => ValueRef::Text(error.as_bytes()),
            _ => row.get_ref(column)?,
        };
        insert.raw_bind_parameter(column + 1, ToSqlOutput::Borrowed(value))?;
    }
    insert.raw_bind_parameter(COMMON + 1, ended_at)?;
    insert.raw_bind_parameter(COMMON + 2, code)?;
    insert.raw_execute()?;
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
        error,
        extra,
        body
    ];
    let ended_at = micros(record.ended_at.unwrap_or(now));
    let (sql, ending) = match record.state {
        State::Pending | State::Running => (PENDING, None),
        State::Dead => (DEAD, Some(record.dead.map(DeadReason::code))),
        State::Done | State::Cancelled => (FINISHED, Some(Some(record.state.code()))),
    };
    let mut values: Vec<&dyn ToSql> = common.to_vec();
    if let Some(code) = &ending {
        values.extend([&ended_at as &dyn ToSql, code]);
    }
    transaction.prepare_cached(sql)?.execute(&values[..])?;
    Ok(())
}
