//! Rows of executions: as arrays for statements that take many rows at once, and decoded.

use std::borrow::Cow;

use punctual::model::{Execution, JobName, Key, MessageId, ProcessId};
use punctual_columns::code::Code as _;
use punctual_columns::execution::ExecutionColumns;
use punctual_columns::instant::micros;
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::StorageError;
use crate::value::{Micros, Param};

/// Executions, one array for each column.
#[derive(Default)]
pub(crate) struct ExecutionArrays<'a> {
    ids: Vec<Uuid>,
    messages: Vec<Option<Uuid>>,
    processes: Vec<Option<Uuid>>,
    due: Vec<Micros>,
    started: Vec<Micros>,
    ended: Vec<Micros>,
    nominal: Vec<Option<Micros>>,
    attempts: Vec<i32>,
    attempts_max: Vec<Option<i32>>,
    sources: Vec<i16>,
    endings: Vec<i16>,
    topics: Vec<&'a str>,
    queues: Vec<&'a str>,
    keys: Vec<Option<&'a str>>,
    jobs: Vec<Option<&'a str>>,
    notes: Vec<Option<Cow<'a, str>>>,
    logs: Vec<Option<Cow<'a, str>>>,
}

impl<'a> ExecutionArrays<'a> {
    pub(crate) fn push(&mut self, execution: &'a Execution) {
        self.ids.push(execution.id.as_uuid());
        self.messages.push(execution.message.map(MessageId::as_uuid));
        self.processes.push(execution.process.map(ProcessId::as_uuid));
        self.due.push(Micros(micros(execution.due_at)));
        self.started.push(Micros(micros(execution.started_at)));
        self.ended.push(Micros(micros(execution.ended_at)));
        self.nominal.push(execution.nominal.map(|at| Micros(micros(at))));
        self.attempts.push(count_to_column(execution.attempt));
        self.attempts_max.push(execution.attempts_max.map(count_to_column));
        self.sources.push(execution.source.code());
        self.endings.push(execution.ending.code());
        self.topics.push(execution.topic.as_str());
        self.queues.push(execution.queue.as_str());
        self.keys.push(execution.key.as_ref().map(Key::as_str));
        self.jobs.push(execution.job.as_ref().map(JobName::as_str));
        self.notes.push(execution.note.as_deref().map(without_nul));
        self.logs.push(execution.log.as_deref().map(without_nul));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the seventeen parameters, in the order of the statement.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        vec![
            (&self.ids, Type::UUID_ARRAY),
            (&self.messages, Type::UUID_ARRAY),
            (&self.processes, Type::UUID_ARRAY),
            (&self.due, Type::TIMESTAMPTZ_ARRAY),
            (&self.started, Type::TIMESTAMPTZ_ARRAY),
            (&self.ended, Type::TIMESTAMPTZ_ARRAY),
            (&self.nominal, Type::TIMESTAMPTZ_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
            (&self.attempts_max, Type::INT4_ARRAY),
            (&self.sources, Type::INT2_ARRAY),
            (&self.endings, Type::INT2_ARRAY),
            (&self.topics, Type::TEXT_ARRAY),
            (&self.queues, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.jobs, Type::TEXT_ARRAY),
            (&self.notes, Type::TEXT_ARRAY),
            (&self.logs, Type::TEXT_ARRAY),
        ]
    }
}

/// Decodes an execution; columns are found by name.
pub(crate) fn execution(row: &Row) -> Result<Execution, StorageError> {
    let at = |name: &str| row.try_get::<_, Micros>(name).map(|at| at.0);
    let ended = ExecutionColumns {
        id: row.try_get("id")?,
        message: row.try_get("message")?,
        topic: row.try_get("topic")?,
        queue: row.try_get("queue")?,
        key: row.try_get("key")?,
        job: row.try_get("job")?,
        nominal: row.try_get::<_, Option<Micros>>("nominal")?.map(|at| at.0),
        source: row.try_get("source")?,
        attempt: row.try_get("attempt")?,
        attempts_max: row.try_get("attempts_max")?,
        process: row.try_get("process")?,
        due_at: at("due_at")?,
        started_at: at("started_at")?,
        ended_at: at("ended_at")?,
        ending: row.try_get("ending")?,
        note: row.try_get("note")?,
        log: row.try_get("log")?,
    };
    Ok(ended.execution()?)
}
