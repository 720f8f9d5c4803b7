//! Rows of executions in the history.

use punctual::model::{Execution, JobName, Key, MessageId, ProcessId};
use punctual_columns::code::Code as _;
use punctual_columns::execution::ExecutionColumns;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use rusqlite::Row;

use super::column::{id_at, maybe_id_at, maybe_text_at, text_at};
use super::time_order::strayed;
use crate::driver::Driver;
use crate::error::StorageResult;
use crate::value::{Param, values};

/// Columns in the order they are read and written.
macro_rules! columns {
    () => {
        "id, message, topic, queue, key, job, nominal, source, attempt, attempts_max, process, due_at, \
         started_at, ended_at, ending, note, log"
    };
}

pub(crate) const EXECUTION_COLUMNS: &str = columns!();

/// Inserts an execution, unless it is stored already.
const APPEND: &str = concat!(
    "INSERT INTO punctual_history (",
    columns!(),
    ", strayed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) \
     ON CONFLICT DO NOTHING"
);

/// Inserts executions; one that is inserted again is stored once.
pub(crate) struct HistoryWriter<'a, D: Driver> {
    driver: &'a D,
    append: D::Statement,
}

impl<'a, D: Driver> HistoryWriter<'a, D> {
    pub(crate) fn new(driver: &'a D) -> StorageResult<Self> {
        Ok(Self { driver, append: driver.prepare(APPEND)? })
    }

    pub(crate) async fn append(&mut self, execution: &Execution) -> StorageResult<()> {
        let row = execution_values(execution, micros(execution.ended_at));
        self.driver.execute(&mut self.append, &row).await?;
        Ok(())
    }
}

/// Returns an execution as the parameters of [`APPEND`]; `last` is the last instant of its row.
pub(crate) fn execution_values(execution: &Execution, last: i64) -> [Param<'_>; 18] {
    let id = execution.id.as_uuid();
    values![
        id,
        execution.message.map(MessageId::as_uuid),
        execution.topic.as_str(),
        execution.queue.as_str(),
        execution.key.as_ref().map(Key::as_str),
        execution.job.as_ref().map(JobName::as_str),
        execution.nominal.map(micros),
        execution.source.code(),
        count_to_column(execution.attempt),
        execution.attempts_max.map(count_to_column),
        execution.process.map(ProcessId::as_uuid),
        micros_up(execution.due_at),
        micros(execution.started_at),
        micros(execution.ended_at),
        execution.ending.code(),
        execution.note.as_deref().map(without_nul),
        execution.log.as_deref().map(without_nul),
        strayed(id, last),
    ]
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
