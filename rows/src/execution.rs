//! An execution as columns.

use std::sync::Arc;

use punctual::model::{
    Ending, Execution, ExecutionId, JobName, Key, MessageId, ProcessId, Queue, Source, Topic,
};
use punctual::uuid::Uuid;
use punctual::{Error, ErrorKind, Result};

use crate::code::Code;
use crate::instant::instant;
use crate::message::count;

/// The columns of an execution, as they were read.
pub struct Ended<'a> {
    /// The id.
    pub id: Uuid,
    /// The message that was attempted.
    pub message: Option<Uuid>,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue: &'a str,
    /// What the message was about.
    pub key: Option<&'a str>,
    /// The job.
    pub job: Option<&'a str>,
    /// The instant of the schedule.
    pub nominal: Option<i64>,
    /// The code of the message's source.
    pub source: i16,
    /// Which attempt this was.
    pub attempt: i32,
    /// How many there may be.
    pub attempts_max: Option<i32>,
    /// The process that ran it.
    pub process: Option<Uuid>,
    /// When the message was due.
    pub due_at: i64,
    /// When the attempt began.
    pub started_at: i64,
    /// When it ended.
    pub ended_at: i64,
    /// The code of how it ended.
    pub ending: i16,
    /// The error or note.
    pub note: Option<&'a str>,
    /// The lines its handler logged.
    pub log: Option<&'a str>,
}

impl Ended<'_> {
    /// The execution these columns hold.
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
            key: self.key.map(Key::written),
            job: self.job.map(JobName::new).transpose().map_err(damaged)?,
            nominal: self.nominal.map(instant).transpose()?,
            source: Source::from_code(self.source)?,
            attempt: count(self.attempt),
            attempts_max: self.attempts_max.map(count),
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
