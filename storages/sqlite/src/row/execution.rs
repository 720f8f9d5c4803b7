//! An execution's row in the history.

use punctual::model::{Execution, JobName, Key, MessageId, ProcessId};
use punctual::uuid::Uuid;
use punctual_rows::code::Code as _;
use punctual_rows::execution::Ended;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use rusqlite::{CachedStatement, Connection, Row, Statement};

use super::column::{id_at, maybe_id_at, maybe_text_at, text_at};
use super::place::strayed;
use crate::fault::Tried;

/// The columns in the order they are read and written.
macro_rules! columns {
    () => {
        "id, message, topic, queue, key, job, nominal, source, attempt, attempts_max, process, due_at, \
         started_at, ended_at, ending, note, log"
    };
}

pub(crate) const EXECUTION_COLUMNS: &str = columns!();

/// Appends an execution, unless it is there.
pub(crate) const APPEND: &str = concat!(
    "INSERT INTO punctual_history (",
    columns!(),
    ", strayed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) \
     ON CONFLICT DO NOTHING"
);

macro_rules! finish {
    ($more:literal, $condition:literal) => {
        concat!(
            "INSERT OR IGNORE INTO punctual_history (id, message, state, ending, ended_at, finished_at, strayed_at, ",
            "queue, topic, key, job, nominal, source, attempt, attempts_max, process, due_at, started_at, note, log, ",
            "priority, planned_at, created_at, dedupe, exclusive, crashes, snoozes, error",
            $more,
            ", extra, body) SELECT ?1, id, ?21, ?15, ?14, ?20, ?18, queue, topic, key, job, ?7, source, attempt, ?10, ",
            "?11, due_at, ?13, ?16, ?17, priority, planned_at, created_at, dedupe, exclusive, crashes, snoozes, error",
            $more,
            ", extra, body FROM punctual_message WHERE id = ?2 AND token = ?19 AND state = 1 AND topic = ?3 ",
            "AND queue = ?4 AND key IS ?5 AND job IS ?6 AND source = ?8 AND attempt = ?9 AND due_at = ?12",
            $condition
        )
    };
}

/// Appends the execution that finished its message, together with what is left of that. The first
/// parameters are those of [`APPEND`]. Touches no row when the lease is not the current one, and when the
/// execution does not say the same of the message as its row, or is there already: then each has to have
/// a row for itself. Neither does it when the message has a limit or a batch, so that those who wait for it
/// are thought of, nor when its handler has said something; see [`FINISH_ALL`].
///
/// The columns are in the order of the table, so that SQLite does not have to bring them into it.
pub(crate) const FINISH: &str =
    finish!("", " AND coalesce(lane, batch, progress, checkpoint) IS NULL");
/// The same for every message.
pub(crate) const FINISH_ALL: &str = finish!(", batch, progress, checkpoint", "");

/// Appends executions; one that is appended again is there once.
pub(crate) struct Appending<'a> {
    append: CachedStatement<'a>,
}

impl<'a> Appending<'a> {
    pub(crate) fn new(transaction: &'a Connection) -> Tried<Self> {
        Ok(Self { append: transaction.prepare_cached(APPEND)? })
    }

    pub(crate) fn append(&mut self, execution: &Execution) -> Tried<()> {
        bind(&mut self.append, execution, micros(execution.ended_at), None)?;
        self.append.raw_execute()?;
        Ok(())
    }
}

/// Binds what [`APPEND`] and [`FINISH`] share; `last` is the last instant of the row. What is the same as in
/// the execution that was bound before stays as it is: text and blobs are copied.
pub(crate) fn bind(
    statement: &mut Statement<'_>,
    execution: &Execution,
    last: i64,
    before: Option<&Execution>,
) -> rusqlite::Result<()> {
    let id = execution.id.as_uuid();
    let message = execution.message.map(MessageId::as_uuid);
    statement.raw_bind_parameter(1, id.as_bytes())?;
    statement.raw_bind_parameter(2, message.as_ref().map(Uuid::as_bytes))?;
    if before.is_none_or(|before| before.topic != execution.topic) {
        statement.raw_bind_parameter(3, execution.topic.as_str())?;
    }
    if before.is_none_or(|before| before.queue != execution.queue) {
        statement.raw_bind_parameter(4, execution.queue.as_str())?;
    }
    statement.raw_bind_parameter(5, execution.key.as_ref().map(Key::as_str))?;
    statement.raw_bind_parameter(6, execution.job.as_ref().map(JobName::as_str))?;
    statement.raw_bind_parameter(7, execution.nominal.map(micros))?;
    statement.raw_bind_parameter(8, execution.source.code())?;
    statement.raw_bind_parameter(9, column(execution.attempt))?;
    statement.raw_bind_parameter(10, execution.attempts_max.map(column))?;
    if before.is_none_or(|before| before.process != execution.process) {
        let process = execution.process.map(ProcessId::as_uuid);
        statement.raw_bind_parameter(11, process.as_ref().map(Uuid::as_bytes))?;
    }
    statement.raw_bind_parameter(12, micros_up(execution.due_at))?;
    statement.raw_bind_parameter(13, micros(execution.started_at))?;
    statement.raw_bind_parameter(14, micros(execution.ended_at))?;
    statement.raw_bind_parameter(15, execution.ending.code())?;
    statement.raw_bind_parameter(16, execution.note.as_deref().map(without_nul))?;
    statement.raw_bind_parameter(17, execution.log.as_deref().map(without_nul))?;
    statement.raw_bind_parameter(18, strayed(id, last))
}

/// The execution a row holds.
pub(crate) fn execution_of(row: &Row<'_>) -> Tried<Execution> {
    let ended = Ended {
        id: id_at(row, 0)?,
        message: maybe_id_at(row, 1)?,
        topic: text_at(row, 2)?,
        queue: text_at(row, 3)?,
        key: maybe_text_at(row, 4)?,
        job: maybe_text_at(row, 5)?,
        nominal: row.get(6)?,
        source: row.get(7)?,
        attempt: row.get(8)?,
        attempts_max: row.get(9)?,
        process: maybe_id_at(row, 10)?,
        due_at: row.get(11)?,
        started_at: row.get(12)?,
        ended_at: row.get(13)?,
        ending: row.get(14)?,
        note: maybe_text_at(row, 15)?,
        log: maybe_text_at(row, 16)?,
    };
    Ok(ended.execution()?)
}
