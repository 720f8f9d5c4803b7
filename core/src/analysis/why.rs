//! Why: explains the state of a message in one word, one sentence and a few details. Pure; every word has a row
//! in the table of tests.

use jiff::Timestamp;
use serde::Serialize;

use super::why_facts::RunningCounts;
use crate::model::{
    Execution, JobRecord, Limit, Message, MessageRecord, MessageState, Pause, Queue, Source, Topic,
};
use crate::policy::Circuit;
use crate::schedule::format_duration;
use crate::storage::END_OF_TIME;

/// Explanation of the state of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// One of `running`, `waiting_until`, `ready`, `no_worker`, `no_handler`, `queue_paused`,
    /// `job_paused`, `limit_reached`, `waits_for_key`, `waits_for_batch`, `rate_limited`, `circuit_open`,
    /// `retrying`, `stale`, `done`, `dead`, `cancelled`.
    pub word: &'static str,
    /// The explanation in a sentence, with the fix if there is one.
    pub sentence: String,
    /// Further details.
    pub details: Vec<String>,
}

/// A process and the messages that it handles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownProcess {
    /// The queues it works on.
    pub queues: Vec<Queue>,
    /// The topics it handles; none for all.
    pub topics: Option<Vec<Topic>>,
}

/// Facts that a process does not know by itself, and the caller of
/// [`Admin::why_with`](crate::Admin::why_with) does.
#[derive(Clone, Debug, Default)]
pub struct OtherProcesses {
    /// Pause of the message's queue on all processes.
    pub queue_pause: Option<Pause>,
    /// Processes beside this one.
    pub processes: Vec<KnownProcess>,
}

/// Facts about a message, its queue, job, limits and processes.
#[derive(Clone, Debug)]
pub(crate) struct WhyFacts<'a> {
    pub(crate) now: Timestamp,
    pub(crate) record: &'a MessageRecord,
    /// The job, if the message is a run of one.
    pub(crate) job: Option<&'a JobRecord>,
    pub(crate) running: RunningCounts,
    /// Number of unfinished messages of the batch it waits for.
    pub(crate) batch_alive: u64,
    /// The pause of its queue on all processes.
    pub(crate) paused: Option<&'a Pause>,
    /// Whether this process has paused its queue.
    pub(crate) paused_here: bool,
    /// Known processes beside this one.
    pub(crate) others: &'a [KnownProcess],
    /// This process.
    pub(crate) this: &'a KnownProcess,
    /// The circuit breaker of its subscription.
    pub(crate) circuit: Option<Circuit>,
    /// Its last attempt.
    pub(crate) last: Option<&'a Execution>,
}

impl WhyFacts<'_> {
    /// Returns the explanation.
    pub(crate) fn why(&self) -> Why {
        let (word, sentence) = match self.record.state {
            MessageState::Pending => self.pending(),
            MessageState::Running => self.running(),
            MessageState::Done => ("done", format!("It was handled{}.", self.ended())),
            MessageState::Cancelled => {
                ("cancelled", format!("It was stopped on request{}.", self.ended()))
            }
            MessageState::Dead => self.dead(),
        };
        Why { word, sentence, details: self.details(word) }
    }

    fn ended(&self) -> String {
        self.record.ended_at.map(|at| format!(" at {at}")).unwrap_or_default()
    }

    fn dead(&self) -> (&'static str, String) {
        let reason = self.record.dead.map_or("given up", |reason| reason.as_str());
        let error = self.record.error.as_deref().unwrap_or("no error message");
        (
            "dead",
            format!(
                "It was given up{} ({reason}): {error}. Redrive it to try again.",
                self.ended()
            ),
        )
    }

    fn running(&self) -> (&'static str, String) {
        match self.record.lease {
            Some(lease) if lease.is_expired(self.now) => (
                "stale",
                format!(
                    "The lease of the process {} expired at {} and was not renewed; another process takes the message over.",
                    lease.owner, lease.until
                ),
            ),
            Some(lease) => (
                "running",
                format!(
                    "The process {} is handling it, attempt {}.",
                    lease.owner, self.record.attempt
                ),
            ),
            None => ("running", format!("It is being handled, attempt {}.", self.record.attempt)),
        }
    }

    fn pending(&self) -> (&'static str, String) {
        let record = self.record;
        if let Some(paused) = &record.paused {
            let own = paused.due_at;
            return (
                "job_paused",
                format!(
                    "This one-time job, due at {own}, is paused {}.",
                    pause_text(&paused.pause)
                ),
            );
        }
        if let Some(batch) = record.message.waits_for().filter(|_| record.due_at >= END_OF_TIME) {
            return (
                "waits_for_batch",
                format!(
                    "It waits for the batch {batch}, of which {} messages are unfinished.",
                    self.batch_alive
                ),
            );
        }
        if record.due_at > self.now { self.later() } else { self.due() }
    }

    /// Explains a message that is not due yet.
    fn later(&self) -> (&'static str, String) {
        let record = self.record;
        let due = record.due_at;
        if record.attempt > 0 {
            let error = record.error.as_deref().unwrap_or("no error message");
            return (
                "retrying",
                format!("Attempt {} failed ({error}); it is tried again at {due}.", record.attempt),
            );
        }
        let rate = self.limit().and_then(|limit| limit.rate);
        match rate {
            Some(rate) if due > record.message.due_at && record.snoozes == 0 => (
                "rate_limited",
                format!(
                    "The rate limit allows {} starts per {}; it starts at {due}.",
                    rate.count,
                    format_duration(rate.per)
                ),
            ),
            _ => ("waiting_until", format!("It is due at {due}.")),
        }
    }

    /// Explains a message that is due and unclaimed.
    fn due(&self) -> (&'static str, String) {
        let message = &self.record.message;
        let queue = message.queue.as_str();
        if let Some(pause) = self.paused {
            return (
                "queue_paused",
                format!("The queue {queue:?} is paused {}.", pause_text(pause)),
            );
        }
        let job_pause = self.job.and_then(|job| job.paused.as_ref());
        if let Some(pause) = job_pause.filter(|_| message.source == Source::Scheduled) {
            return ("job_paused", format!("Its job is paused {}.", pause_text(pause)));
        }
        if message.exclusive && self.running.job > 0 {
            return (
                "limit_reached",
                "Another run of its job is still running, and runs do not overlap.".to_owned(),
            );
        }
        if let Some(reached) = self.limit().and_then(|limit| self.reached(limit)) {
            return reached;
        }
        match self.circuit {
            Some(Circuit::Open { until, .. }) => {
                return (
                    "circuit_open",
                    format!("Its handler failed too often; the next attempt is at {until}."),
                );
            }
            Some(Circuit::HalfOpen { .. }) => {
                return (
                    "circuit_open",
                    "Its handler failed too often; one message is being tried first.".to_owned(),
                );
            }
            _ => {}
        }
        self.unhandled().unwrap_or_else(|| {
            let since = self.record.due_at;
            ("ready", format!("It has been due since {since}; the next free worker takes it."))
        })
    }

    /// Explains a message whose shared limit is used up.
    fn reached(&self, limit: &Limit) -> Option<(&'static str, String)> {
        let max = limit.running_max?;
        if self.running.limit < u64::from(max) {
            return None;
        }
        let message = &self.record.message;
        let about_key = message.key.as_ref().filter(|key| {
            let topic = message.topic.as_str();
            limit.name.as_str() == format!("{}:{topic}/{key}", topic.len())
        });
        Some(match about_key {
            Some(key) => (
                "waits_for_key",
                format!("Another message with the key {:?} is running.", key.as_str()),
            ),
            None => (
                "limit_reached",
                format!(
                    "{} messages of the limit {:?} are running, and it allows {max}.",
                    self.running.limit,
                    limit.name.as_str()
                ),
            ),
        })
    }

    /// Explains a message that no known process can handle. Internal queues have no workers.
    fn unhandled(&self) -> Option<(&'static str, String)> {
        let Message { queue, topic, .. } = &*self.record.message;
        if queue.is_reserved() {
            return None;
        }
        let this = (!self.paused_here).then_some(self.this);
        let mut serving = self
            .others
            .iter()
            .chain(this)
            .filter(|process| process.queues.contains(queue))
            .peekable();
        if serving.peek().is_none() {
            let (word, sentence) = if self.paused_here && self.this.queues.contains(queue) {
                (
                    "queue_paused",
                    format!(
                        "The queue {queue:?} is paused in this process, and no other known process works on it."
                    ),
                )
            } else {
                (
                    "no_worker",
                    format!("No known process works on the queue {queue:?}; start one that does."),
                )
            };
            return (self.running.elsewhere == 0).then_some((word, sentence));
        }
        let handled = serving
            .any(|process| process.topics.as_ref().is_none_or(|topics| topics.contains(topic)));
        (!handled).then(|| {
            (
                "no_handler",
                format!("No process that works on the queue {queue:?} has a handler for the topic {topic:?}."),
            )
        })
    }

    fn limit(&self) -> Option<&Limit> {
        self.record.message.limit()
    }

    fn details(&self, word: &str) -> Vec<String> {
        let record = self.record;
        let mut details = Vec::new();
        if record.cancel_requested && record.state == MessageState::Running {
            details.push("Its handler was asked to stop.".to_owned());
        }
        if let Some(progress) = &record.progress {
            let percent = progress.percent.map(|percent| format!("{percent} %"));
            let note = progress.note.as_deref().map(ToOwned::to_owned);
            let parts: Vec<String> = percent.into_iter().chain(note).collect();
            details.push(format!("Progress at {}: {}.", progress.at, parts.join(", ")));
        }
        if record.state == MessageState::Pending && record.attempt > 0 && word != "retrying" {
            let error = record.error.as_deref().unwrap_or("no error message");
            details.push(format!("Attempt {} failed: {error}.", record.attempt));
        }
        if record.snoozes > 0 {
            details.push(format!("Its handler snoozed it {} times.", record.snoozes));
        }
        if record.crashes > 0 {
            details.push(format!("{} processes crashed while handling it.", record.crashes));
        }
        if let Some(pause) =
            self.paused.filter(|_| word != "queue_paused" && record.state.is_alive())
        {
            details.push(format!("Its queue is paused {}.", pause_text(pause)));
        }
        if let Some(last) = self.last.filter(|_| record.state == MessageState::Pending) {
            details.push(format!(
                "Its last attempt ended as {} at {}.",
                last.ending.as_str(),
                last.ended_at
            ));
        }
        details
    }
}

/// Returns by whom something was paused, since when, until when and why.
fn pause_text(pause: &Pause) -> String {
    let until =
        pause.until.map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {at}"));
    format!("by {} since {} {until}: {}", pause.by, pause.at, pause.reason)
}

#[cfg(test)]
mod tests;
