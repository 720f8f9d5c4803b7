//! Rows of executions in the history.

use punctual::model::{Execution, JobName, Key, MessageId, ProcessId};
use punctual::uuid::Uuid;
use punctual_columns::code::Code as _;
use punctual_columns::execution::ExecutionColumns;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use rusqlite::{CachedStatement, Connection, Row, Statement};

use super::column::{id_at, maybe_id_at, maybe_text_at, text_at};
use super::time_order::strayed;
use crate::error::StorageResult;

/// Columns in the order they are read and written.
macro_rules! columns {
    () => {
        "id, message, topic, queue, key, job, nominal, source, attempt, attempts_max, process, due_at, \
         started_at, ended_at, ending, note, log"
    };
}

pub(crate) const EXECUTION_COLUMNS: &str = columns!();

/// Inserts an execution, unless it is stored already.
pub(crate) const APPEND: &str = concat!(
    "INSERT INTO punctual_history (",
    columns!(),
    ", strayed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) \
     ON CONFLICT DO NOTHING"
);

/// Inserts executions; one that is inserted again is stored once.
pub(crate) struct HistoryWriter<'a> {
    append: CachedStatement<'a>,
}

impl<'a> HistoryWriter<'a> {
    pub(crate) fn new(transaction: &'a Connection) -> StorageResult<Self> {
        Ok(Self { append: transaction.prepare_cached(APPEND)? })
    }

    pub(crate) fn append(&mut self, execution: &Execution) -> StorageResult<()> {
        bind(&mut self.append, 1, execution, micros(execution.ended_at))?;
        self.append.raw_execute()?;
        Ok(())
    }
}

/// Binds an execution to parameters in the order of [`APPEND`]; `last` is the last instant of its row.
pub(crate) fn bind(
    statement: &mut Statement<'_>,
    first: usize,
    execution: &Execution,
    last: i64,
) -> rusqlite::Result<()> {
    let id = execution.id.as_uuid();
    let message = execution.message.map(MessageId::as_uuid);
    let process = execution.process.map(ProcessId::as_uuid);
    statement.raw_bind_parameter(first, id.as_bytes())?;
    statement.raw_bind_parameter(first + 1, message.as_ref().map(Uuid::as_bytes))?;
    statement.raw_bind_parameter(first + 2, execution.topic.as_str())?;
    statement.raw_bind_parameter(first + 3, execution.queue.as_str())?;
    statement.raw_bind_parameter(first + 4, execution.key.as_ref().map(Key::as_str))?;
    statement.raw_bind_parameter(first + 5, execution.job.as_ref().map(JobName::as_str))?;
    statement.raw_bind_parameter(first + 6, execution.nominal.map(micros))?;
    statement.raw_bind_parameter(first + 7, execution.source.code())?;
    statement.raw_bind_parameter(first + 8, count_to_column(execution.attempt))?;
    statement.raw_bind_parameter(first + 9, execution.attempts_max.map(count_to_column))?;
    statement.raw_bind_parameter(first + 10, process.as_ref().map(Uuid::as_bytes))?;
    statement.raw_bind_parameter(first + 11, micros_up(execution.due_at))?;
    statement.raw_bind_parameter(first + 12, micros(execution.started_at))?;
    statement.raw_bind_parameter(first + 13, micros(execution.ended_at))?;
    statement.raw_bind_parameter(first + 14, execution.ending.code())?;
    statement.raw_bind_parameter(first + 15, execution.note.as_deref().map(without_nul))?;
    statement.raw_bind_parameter(first + 16, execution.log.as_deref().map(without_nul))?;
    statement.raw_bind_parameter(first + 17, strayed(id, last))
}

/// Decodes the execution of a row.
pub(crate) fn execution_of(row: &Row<'_>) -> StorageResult<Execution> {
    let ended = ExecutionColumns {
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
