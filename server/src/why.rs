//! Why a message is where it is, in one word, one sentence and a few details. Pure: facts go in, the answer
//! comes out, and every word has a row in the table of tests.

use jiff::Timestamp;
use punctual::model::{Execution, JobRecord, Limit, MessageRecord, MessageState, Pause, Source};
use punctual::policy::Circuit;
use punctual::schedule::format_duration;
use punctual::storage::END_OF_TIME;
use serde::Serialize;
use utoipa::ToSchema;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Why {
    /// One of `running`, `waiting_until`, `ready`, `no_worker`, `no_handler`, `queue_paused`,
    /// `job_paused`, `limit_reached`, `waits_for_key`, `waits_for_batch`, `rate_limited`, `circuit_open`,
    /// `retrying`, `stale`, `done`, `dead`, `cancelled`.
    pub(crate) word: &'static str,
    /// The same in a sentence, with the way out where there is one.
    pub(crate) sentence: String,
    /// What else is worth knowing.
    pub(crate) details: Vec<String>,
}

/// A process that reports what it works on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Worker {
    /// The queues it works on.
    pub(crate) queues: Vec<String>,
    /// The topics it handles; none when it takes whatever comes.
    pub(crate) topics: Option<Vec<String>>,
}

/// What is known of a message and what surrounds it.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) now: Timestamp,
    pub(crate) record: &'a MessageRecord,
    /// The job, when it is a run of one.
    pub(crate) job: Option<&'a JobRecord>,
    /// How many other messages of that job are running.
    pub(crate) job_running: u64,
    /// The pause of its queue.
    pub(crate) paused: Option<&'a Pause>,
    /// How many messages that share its limit are running.
    pub(crate) limit_running: u64,
    /// How many messages of its batch to wait for are not finished.
    pub(crate) batch_alive: u64,
    /// Processes that report what they work on.
    pub(crate) workers: &'a [Worker],
    /// Whether anything of the queue is running, by whomever.
    pub(crate) queue_running: bool,
    /// The circuit of the subscription its line belongs to.
    pub(crate) circuit: Option<Circuit>,
    /// Its last attempt.
    pub(crate) last: Option<&'a Execution>,
}

impl Facts<'_> {
    /// Puts the answer together.
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
        let error = self.record.error.as_deref().unwrap_or("nothing was said");
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
                    "The process {} had it until {} and has not said anything since; another process takes it over.",
                    lease.owner, lease.until
                ),
            ),
            Some(lease) => (
                "running",
                format!(
                    "The process {} works on it, attempt {}.",
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
                format!("This one-time job, due at {own}, is paused {}.", said(&paused.pause)),
            );
        }
        if let Some(batch) = record.message.waits_for().filter(|_| record.due_at >= END_OF_TIME) {
            return (
                "waits_for_batch",
                format!(
                    "It waits for the end of the batch {batch}, of which {} are left.",
                    self.batch_alive
                ),
            );
        }
        if record.due_at > self.now { self.later() } else { self.due() }
    }

    /// Not due yet.
    fn later(&self) -> (&'static str, String) {
        let record = self.record;
        let due = record.due_at;
        if record.attempt > 0 {
            let error = record.error.as_deref().unwrap_or("nothing was said");
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
                    "Only {} may start in {}; its turn comes at {due}.",
                    rate.count,
                    format_duration(rate.per)
                ),
            ),
            _ => ("waiting_until", format!("It is due at {due}.")),
        }
    }

    /// Due, and nobody has it.
    fn due(&self) -> (&'static str, String) {
        let message = &self.record.message;
        let queue = message.queue.as_str();
        if let Some(pause) = self.paused {
            return ("queue_paused", format!("The queue {queue:?} is paused {}.", said(pause)));
        }
        let job_pause = self.job.and_then(|job| job.paused.as_ref());
        if let Some(pause) = job_pause.filter(|_| message.source == Source::Scheduled) {
            return ("job_paused", format!("Its job is paused {}.", said(pause)));
        }
        if message.exclusive && self.job_running > 0 {
            return (
                "limit_reached",
                "Another run of its job is still running, and they run one at a time.".to_owned(),
            );
        }
        if let Some(reached) = self.limit().and_then(|limit| self.reached(limit)) {
            return reached;
        }
        match self.circuit {
            Some(Circuit::Open { until, .. }) => {
                return (
                    "circuit_open",
                    format!("Its handler failed too often; the next one is tried at {until}."),
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
            ("ready", format!("It is due since {since}; the next worker that is free takes it."))
        })
    }

    /// Whether a limit it shares is used up.
    fn reached(&self, limit: &Limit) -> Option<(&'static str, String)> {
        let most = limit.running_max?;
        if self.limit_running < u64::from(most) {
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
                format!("Another message about the key {:?} is running.", key.as_str()),
            ),
            None => (
                "limit_reached",
                format!(
                    "{} messages share the limit {:?}, which lets {most} run at once.",
                    self.limit_running,
                    limit.name.as_str()
                ),
            ),
        })
    }

    /// Whether nobody that is known could take it. Lines of transports are not worked on by name.
    fn unhandled(&self) -> Option<(&'static str, String)> {
        let message = &self.record.message;
        let (queue, topic) = (message.queue.as_str(), message.topic.as_str());
        if queue.starts_with('~') {
            return None;
        }
        let mut serving = self
            .workers
            .iter()
            .filter(|worker| worker.queues.iter().any(|one| one == queue))
            .peekable();
        if serving.peek().is_none() {
            return (!self.queue_running).then(|| {
                (
                    "no_worker",
                    format!("No process that is known works on the queue {queue:?}; start one that does."),
                )
            });
        }
        let handled = serving.any(|worker| {
            worker.topics.as_ref().is_none_or(|topics| topics.iter().any(|one| one == topic))
        });
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
            let said: Vec<String> = percent.into_iter().chain(note).collect();
            details.push(format!("Its handler said at {}: {}.", progress.at, said.join(", ")));
        }
        if record.state == MessageState::Pending && record.attempt > 0 && word != "retrying" {
            let error = record.error.as_deref().unwrap_or("nothing was said");
            details.push(format!("Attempt {} failed: {error}.", record.attempt));
        }
        if record.snoozes > 0 {
            details.push(format!("Its handler put it off {} times.", record.snoozes));
        }
        if record.crashes > 0 {
            details
                .push(format!("{} processes were lost while they worked on it.", record.crashes));
        }
        if let Some(pause) =
            self.paused.filter(|_| word != "queue_paused" && record.state.is_alive())
        {
            details.push(format!("Its queue is paused {}.", said(pause)));
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

/// Who paused something, why and until when.
fn said(pause: &Pause) -> String {
    let until = pause
        .until
        .map_or_else(|| "until somebody resumes it".to_owned(), |at| format!("until {at}"));
    format!("by {} since {} {until}: {}", pause.by, pause.at, pause.reason)
}

#[cfg(test)]
mod tests;
