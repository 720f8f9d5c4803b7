//! Executions as columns.

use std::sync::Arc;

use punctual::model::{
    Ending, Execution, ExecutionId, JobName, Key, MessageId, ProcessId, Queue, Source, Topic,
};
use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind, Result};

use crate::code::Code;
use crate::instant::instant;
use crate::message::count_from_column;

/// Columns of an execution, as read from a row.
pub struct ExecutionColumns<'a> {
    /// Id of the execution.
    pub id: Uuid,
    /// Id of the attempted message.
    pub message: Option<Uuid>,
    /// Topic of the message.
    pub topic: &'a str,
    /// Queue of the message.
    pub queue: &'a str,
    /// Key of the message.
    pub key: Option<&'a str>,
    /// Name of the job, for an occurrence of a schedule.
    pub job: Option<&'a str>,
    /// Nominal instant of the occurrence, in microseconds.
    pub nominal: Option<i64>,
    /// Code of the message's source.
    pub source: i16,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Limit of attempts; none when unlimited.
    pub attempts_max: Option<i32>,
    /// Process that ran the attempt.
    pub process: Option<Uuid>,
    /// Due time of the message, in microseconds.
    pub due_at: i64,
    /// Start of the attempt, in microseconds.
    pub started_at: i64,
    /// End of the attempt, in microseconds.
    pub ended_at: i64,
    /// Code of the ending.
    pub ending: i16,
    /// Error or note of the attempt.
    pub note: Option<&'a str>,
    /// Log lines of the handler.
    pub log: Option<&'a str>,
}

impl ExecutionColumns<'_> {
    /// Decodes the execution.
    pub fn execution(self) -> Result<Execution> {
        let id = ExecutionId::from_uuid(self.id);
        let damaged = |error: Error| {
            Error::new(ErrorKind::Corrupt, format!("the stored execution {id} is damaged: {error}"))
        };
        Ok(Execution {
            id,
            message: self.message.map(MessageId::from_uuid),
            topic: Topic::stored(self.topic).map_err(damaged)?,
            queue: Queue::from(self.queue.to_owned()),
            key: self.key.map(Key::stored),
            job: self.job.map(JobName::new).transpose().map_err(damaged)?,
            nominal: self.nominal.map(instant).transpose()?,
            source: Source::from_code(self.source)?,
            attempt: count_from_column(self.attempt),
            attempts_max: self.attempts_max.map(count_from_column),
            process: self.process.map(ProcessId::from_uuid),
            due_at: instant(self.due_at)?,
            started_at: instant(self.started_at)?,
            ended_at: instant(self.ended_at)?,
            ending: Ending::from_code(self.ending)?,
            note: self.note.map(Arc::from),
            log: self.log.map(Arc::from),
        })
    }
}
