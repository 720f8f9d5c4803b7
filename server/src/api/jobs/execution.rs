//! An execution as the API shows it.

use jiff::Timestamp;
use punctual::clock::between;
use punctual::model::{Ending, Execution};
use serde::Serialize;
use utoipa::ToSchema;

use super::view::milliseconds;
use crate::problem::{Answer, Problem};

/// One attempt that ended, or one occurrence that was not run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionView {
    /// Its id.
    id: String,
    /// The message that was attempted; null for a skipped occurrence.
    message: Option<String>,
    /// The topic.
    topic: String,
    /// The line the message waited in.
    queue: String,
    /// What the message was about.
    key: Option<String>,
    /// The job, when there is one.
    job: Option<String>,
    /// The instant of the schedule, when there is one.
    nominal: Option<Timestamp>,
    /// Why the message existed.
    source: &'static str,
    /// Which attempt this was, from 1; 0 for a skipped occurrence.
    attempt: u32,
    /// How many there may be; null without a limit.
    attempts_max: Option<u32>,
    /// The process that ran it.
    process: Option<String>,
    /// When the message was due.
    due_at: Timestamp,
    /// When the attempt began.
    started_at: Timestamp,
    /// When it ended.
    ended_at: Timestamp,
    /// How long it took.
    took_ms: u64,
    /// How long the message waited after it was due.
    waited_ms: u64,
    /// How it ended.
    ending: &'static str,
    /// Why it was skipped.
    reason: Option<&'static str>,
    /// The error or note.
    note: Option<String>,
    /// The lines its handler logged.
    log: Option<String>,
}

impl ExecutionView {
    /// An execution as a storage remembers it.
    pub(crate) fn new(execution: &Execution) -> Self {
        let waited = between(execution.due_at, execution.started_at);
        Self {
            id: execution.id.to_string(),
            message: execution.message.map(|id| id.to_string()),
            topic: execution.topic.to_string(),
            queue: execution.queue.to_string(),
            key: execution.key.as_ref().map(ToString::to_string),
            job: execution.job.as_ref().map(ToString::to_string),
            nominal: execution.nominal,
            source: execution.source.as_str(),
            attempt: execution.attempt,
            attempts_max: execution.attempts_max,
            process: execution.process.map(|id| id.to_string()),
            due_at: execution.due_at,
            started_at: execution.started_at,
            ended_at: execution.ended_at,
            took_ms: milliseconds(execution.took()),
            waited_ms: milliseconds(waited),
            ending: execution.ending.as_str(),
            reason: match execution.ending {
                Ending::Skipped(reason) => Some(reason.as_str()),
                _ => None,
            },
            note: execution.note.as_deref().map(str::to_owned),
            log: execution.log.as_deref().map(str::to_owned),
        }
    }
}

/// Endings by name, with commas between.
pub(crate) fn ending(text: &str) -> Answer<Vec<&'static str>> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(one).collect()
}

fn one(name: &str) -> Answer<&'static str> {
    Ending::NAMES.into_iter().find(|known| *known == name).ok_or_else(|| {
        let known = Ending::NAMES.join(", ");
        Problem::refused(format!("nothing ends as {name:?}; use some of {known}"))
            .field("ending", format!("use some of {known}"))
    })
}
