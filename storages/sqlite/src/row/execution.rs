//! An execution's row.

use punctual::model::{Execution, JobName, Key, MessageId, ProcessId};
use punctual::uuid::Uuid;
use punctual_rows::code::Code as _;
use punctual_rows::execution::Ended;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use rusqlite::{CachedStatement, Connection, Row, params};

use super::column::{id_at, maybe_id_at, maybe_text_at, text_at};
use crate::fault::Tried;

/// The columns in the order they are read and written.
pub(crate) const EXECUTION_COLUMNS: &str = "id, message, topic, queue, key, job, nominal, source, \
     attempt, attempts_max, process, due_at, started_at, ended_at, ending, note";

pub(crate) const INSERT: &str = "INSERT INTO punctual_execution (id, message, topic, queue, key, job, nominal, \
     source, attempt, attempts_max, process, due_at, started_at, ended_at, ending, note) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
     ON CONFLICT DO NOTHING";

/// Appends executions; one that is appended again is there once.
pub(crate) struct Appending<'a> {
    insert: CachedStatement<'a>,
}

impl<'a> Appending<'a> {
    pub(crate) fn new(transaction: &'a Connection) -> Tried<Self> {
        Ok(Self { insert: transaction.prepare_cached(INSERT)? })
    }

    pub(crate) fn append(&mut self, execution: &Execution) -> Tried<()> {
        let message = execution.message.map(MessageId::as_uuid);
        let process = execution.process.map(ProcessId::as_uuid);
        self.insert.execute(params![
            execution.id.as_uuid().as_bytes(),
            message.as_ref().map(Uuid::as_bytes),
            execution.topic.as_str(),
            execution.queue.as_str(),
            execution.key.as_ref().map(Key::as_str),
            execution.job.as_ref().map(JobName::as_str),
            execution.nominal.map(micros),
            execution.source.code(),
            column(execution.attempt),
            execution.attempts_max.map(column),
            process.as_ref().map(Uuid::as_bytes),
            micros_up(execution.due_at),
            micros(execution.started_at),
            micros(execution.ended_at),
            execution.ending.code(),
            execution.note.as_deref().map(without_nul),
        ])?;
        Ok(())
    }
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
    };
    Ok(ended.execution()?)
}
