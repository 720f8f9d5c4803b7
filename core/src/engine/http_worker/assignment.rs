//! Assignment: what an HTTP worker asks for, what it is given, and what it reports.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::handler::Outcome;
use crate::model::{Body, ExecutionId, LeaseRef, MessageId, ProcessId, Queue, Topic};
use crate::storage::{ClaimedMessage, TopicFilter};

/// The most messages in one claim, and leases in one extension.
pub const HTTP_WORKER_BATCH_MAX: usize = 1_000;
/// The most topics that an HTTP worker may name.
pub const HTTP_WORKER_TOPICS_MAX: usize = 100;
/// The longest lease of an HTTP worker.
pub const HTTP_WORKER_LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest wait for messages.
pub const HTTP_WORKER_WAIT_MAX: Duration = Duration::from_secs(5 * 60);

/// A claim of an HTTP worker.
#[derive(Clone, Debug)]
pub struct HttpWorkerClaim {
    /// The queue.
    pub queue: Queue,
    /// The topics the worker handles, at most [`HTTP_WORKER_TOPICS_MAX`]; `None` for every topic of the queue.
    /// Messages of Punctual's own topics are never assigned.
    pub topics: Option<Vec<Topic>>,
    /// Id of the worker, which must be new at every start of the worker.
    pub worker: ProcessId,
    /// The most messages it can start now, at most [`HTTP_WORKER_BATCH_MAX`].
    pub limit: usize,
    /// Duration of the lease, at most [`HTTP_WORKER_LEASE_MAX`].
    pub lease: Duration,
}

impl HttpWorkerClaim {
    /// Returns the filter of the topics that may be assigned.
    pub(crate) fn filter(&self) -> TopicFilter {
        match &self.topics {
            Some(topics) => {
                TopicFilter::only(topics.iter().filter(|topic| !topic.is_system()).cloned())
            }
            None => TopicFilter::NotSystem,
        }
    }
}

/// A message that an HTTP worker has claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedMessage {
    /// The ticket of the attempt, needed to settle it.
    pub ticket: AttemptTicket,
    /// The claimed message, with its decompressed body.
    pub claimed: ClaimedMessage,
    /// Start of the attempt, in milliseconds.
    pub started_at: Timestamp,
    /// Largest number of attempts; `None` without a limit.
    pub attempts_max: Option<u32>,
    /// Instant at which the attempt times out, whatever is reported after it.
    pub deadline: Option<Timestamp>,
}

/// Ticket of one attempt, which comes with the message and is needed to settle it. As text it is opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttemptTicket {
    /// The lease.
    pub lease: LeaseRef,
    /// The id of the attempt in history and events.
    pub execution: ExecutionId,
}

impl fmt::Display for AttemptTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.lease.message, self.lease.token, self.execution)
    }
}

impl FromStr for AttemptTicket {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let mut parts = text.splitn(3, '.');
            let message: MessageId = parts.next()?.parse().ok()?;
            let token = parts.next()?.parse().ok()?;
            let execution = parts.next()?.parse().ok()?;
            Some(Self { lease: LeaseRef { message, token }, execution })
        };
        parse().ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is not a ticket; give back the one that came with the message"
            ))
        })
    }
}

/// The end of an attempt of an HTTP worker.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpWorkerReport {
    /// The outcome, or the text of a failure.
    pub outcome: std::result::Result<Outcome, String>,
    /// A sentence for the history.
    pub note: Option<String>,
    /// Log lines; the newest 100 are stored, 1,000 characters of each.
    pub log: Vec<String>,
    /// Result of the message, for the messages that follow it.
    pub result: Option<Body>,
}

impl HttpWorkerReport {
    /// Creates a report of an outcome.
    pub fn new(outcome: Outcome) -> Self {
        Self { outcome: Ok(outcome), note: None, log: Vec::new(), result: None }
    }

    /// Creates a report of a failure.
    pub fn failed(error: impl Into<String>) -> Self {
        Self { outcome: Err(error.into()), note: None, log: Vec::new(), result: None }
    }
}
