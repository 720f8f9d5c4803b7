//! A message: a unit of work that becomes due. What was sent stays as it is; where it stands is the record
//! around it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    BatchId, Body, DeadReason, ExecutionId, Headers, Key, Lease, LeaseRef, Limit, MessageId,
    Occurrence, Phase, Priority, Queue, State, Terms, Ties, Topic, Unique,
};

/// What was sent. Immutable, but for the queue and the priority, which an operator may change while it waits:
/// retries, snoozes and redrives move the record, never this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its identity, on every transport and in every storage.
    pub id: MessageId,
    /// The name that finds its handler.
    pub topic: Topic,
    /// The line it waits in.
    pub queue: Queue,
    /// How urgent it is among those due.
    pub priority: Priority,
    /// When it was first meant to be due.
    pub due_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// Why it exists.
    pub source: Source,
    /// What it is about.
    pub key: Option<Key>,
    /// While a message with the same value lives, a second one is a duplicate.
    pub dedupe: Option<Key>,
    /// Whether it waits while another message of its job is running.
    #[serde(default)]
    pub exclusive: bool,
    /// The content.
    pub body: Body,
    /// Small facts that travel along.
    pub headers: Headers,
    /// Which story it belongs to.
    pub trail: Trail,
    /// The instant of a schedule it stands for, if it stands for one.
    pub occurrence: Option<Occurrence>,
    /// What it says itself about its attempts; the rest is as its handler says.
    pub terms: Option<Arc<Terms>>,
    /// What ties it to other messages; most have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ties: Option<Arc<Ties>>,
}

/// Where a message waits and how urgent it is, as an operator wants it; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Another line.
    pub queue: Option<Queue>,
    /// More or less urgent.
    pub priority: Option<Priority>,
}

impl Assignment {
    /// Whether it asks for anything.
    pub fn is_empty(&self) -> bool {
        let Self { queue, priority } = self;
        queue.is_none() && priority.is_none()
    }
}

impl Message {
    /// The limit it shares with others.
    pub fn limit(&self) -> Option<&Limit> {
        self.ties.as_ref()?.limit.as_ref()
    }

    /// The batch it belongs to.
    pub fn batch(&self) -> Option<BatchId> {
        self.ties.as_ref()?.batch
    }

    /// The batch whose end it waits for.
    pub fn waits_for(&self) -> Option<BatchId> {
        self.ties.as_ref()?.waits_for
    }

    /// How long its deduplication key keeps others out.
    pub fn unique(&self) -> Unique {
        self.ties.as_ref().map(|ties| ties.unique).unwrap_or_default()
    }

    /// How far ahead it was planned; never negative.
    pub fn original_delay(&self) -> Duration {
        Duration::try_from(self.due_at.duration_since(self.created_at)).unwrap_or(Duration::ZERO)
    }

    /// The story it belongs to: its own correlation, else the attempt's identity for a run of a job, else
    /// its own identity.
    pub fn story(&self, execution: ExecutionId) -> Arc<str> {
        match (&self.trail.correlation, self.source) {
            (Some(correlation), _) => correlation.clone(),
            (None, Source::Published | Source::Redriven) => Arc::from(self.id.to_string()),
            (None, _) => Arc::from(execution.to_string()),
        }
    }

    /// Whether a message may come back to a storage that has finished with it: one bound for a relay
    /// travelled and is to be held again, a redriven one was sent again by an operator.
    pub fn may_return(&self) -> bool {
        self.queue.is_relay() || self.source == Source::Redriven
    }

    /// Whether another message is the same sending; a redrive changes the source only.
    pub fn is_same_sending(&self, other: &Self) -> bool {
        *self == Self { source: self.source, ..other.clone() }
    }
}

/// Which story a message belongs to: the same correlation for all of it, the cause for each step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trail {
    /// Shared by everything that grew out of one beginning.
    pub correlation: Option<Arc<str>>,
    /// The attempt that published this message.
    pub causation: Option<ExecutionId>,
    /// The place among what that attempt published, from 1.
    pub sequence: u32,
}

/// Why a message exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An occurrence of a schedule.
    Scheduled,
    /// Somebody triggered a job by hand.
    Manual,
    /// A one-time job.
    Deferred,
    /// An application published it.
    Published,
    /// An operator sent a finished message again.
    Redriven,
}

impl Source {
    /// The source in one lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Manual => "manual",
            Self::Deferred => "deferred",
            Self::Published => "published",
            Self::Redriven => "redriven",
        }
    }
}

/// A message with where it stands: what a storage remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// What was sent.
    pub message: Arc<Message>,
    /// The stored state.
    pub state: State,
    /// When it is due now; moves with retries and snoozes.
    pub due_at: Timestamp,
    /// Attempts spent, the running one included.
    pub attempt: u32,
    /// Processes lost while handling it.
    pub crashes: u32,
    /// Snoozes so far.
    pub snoozes: u32,
    /// The right of a process to it, while running.
    pub lease: Option<Lease>,
    /// Whether an operator asked to cancel it while it runs.
    pub cancel_requested: bool,
    /// The last failure, for people.
    pub error: Option<Arc<str>>,
    /// Why it is dead, when it is.
    pub dead: Option<DeadReason>,
    /// When it reached a final state.
    pub ended_at: Option<Timestamp>,
    /// How far its handler said it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Where its handler wants to go on after a failure or a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Body>,
}

/// How far a handler is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// In hundredths, when it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// When it said so.
    pub at: Timestamp,
}

impl MessageRecord {
    /// Whether it keeps an occurrence of its job from running beside it: it is running, due and waiting,
    /// or waiting after an attempt, a snooze or a crash. One that is planned for later does not.
    pub fn is_in_the_way(&self, now: Timestamp) -> bool {
        match self.state {
            State::Running => true,
            State::Pending => {
                let has_begun = self.attempt > 0 || self.snoozes > 0 || self.crashes > 0;
                has_begun || self.due_at <= now
            }
            State::Done | State::Dead | State::Cancelled => false,
        }
    }

    /// A message that has just been enqueued.
    pub fn new(message: Arc<Message>) -> Self {
        Self {
            state: State::Pending,
            due_at: message.due_at,
            message,
            attempt: 0,
            crashes: 0,
            snoozes: 0,
            lease: None,
            cancel_requested: false,
            error: None,
            dead: None,
            ended_at: None,
            progress: None,
            checkpoint: None,
        }
    }

    /// The record in a storage it was moved to. Whoever ran it there does not run it here: it is pending
    /// again, the attempt given back; one that was to be cancelled is.
    pub fn moved(self, now: Timestamp) -> Self {
        if self.state != State::Running {
            return Self { lease: None, cancel_requested: false, ..self };
        }
        let cancelled = self.cancel_requested;
        Self {
            state: if cancelled { State::Cancelled } else { State::Pending },
            ended_at: cancelled.then_some(now),
            attempt: self.attempt.saturating_sub(1),
            lease: None,
            cancel_requested: false,
            ..self
        }
    }

    /// What people see at an instant.
    pub fn phase(&self, now: Timestamp) -> Phase {
        match self.state {
            State::Pending if self.attempt > 0 => Phase::Retrying,
            State::Pending if self.due_at > now => Phase::Scheduled,
            State::Pending => Phase::Ready,
            State::Running if self.lease.is_some_and(|lease| lease.is_expired(now)) => Phase::Stale,
            State::Running => Phase::Running,
            State::Done => Phase::Done,
            State::Dead => Phase::Dead,
            State::Cancelled => Phase::Cancelled,
        }
    }

    /// What a settlement must show to be accepted now.
    pub fn lease_ref(&self) -> Option<LeaseRef> {
        self.lease.map(|lease| LeaseRef { message: self.message.id, token: lease.token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProcessId;
    use uuid::Uuid;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn record() -> MessageRecord {
        MessageRecord::new(Arc::new(Message {
            id: MessageId::from_uuid(Uuid::nil()),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::default(),
            priority: Priority::NORMAL,
            due_at: at(100),
            created_at: at(40),
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: Body::empty(),
            headers: Headers::new(),
            trail: Trail::default(),
            occurrence: None,
            terms: None,
            ties: None,
        }))
    }

    #[test]
    fn phases_are_computed_from_state_due_time_attempt_lease_and_now() {
        let mut record = record();
        assert_eq!(record.phase(at(99)), Phase::Scheduled);
        assert_eq!(record.phase(at(100)), Phase::Ready);
        record.attempt = 1;
        assert_eq!(record.phase(at(99)), Phase::Retrying);
        record.state = State::Running;
        record.lease =
            Some(Lease { owner: ProcessId::from_uuid(Uuid::nil()), token: 1, until: at(200) });
        assert_eq!(record.phase(at(200)), Phase::Running);
        assert_eq!(record.phase(at(201)), Phase::Stale);
        record.state = State::Dead;
        assert_eq!(record.phase(at(201)), Phase::Dead);
    }

    #[test]
    fn a_moved_record_runs_nowhere_and_keeps_its_counts() {
        let lease = Lease { owner: ProcessId::from_uuid(Uuid::nil()), token: 1, until: at(200) };
        let running = MessageRecord {
            state: State::Running,
            attempt: 3,
            crashes: 2,
            lease: Some(lease),
            ..record()
        };
        let moved = running.clone().moved(at(9));
        assert_eq!((moved.state, moved.attempt, moved.crashes), (State::Pending, 2, 2));
        assert_eq!(moved.lease, None);
        let moved = MessageRecord { cancel_requested: true, ..running }.moved(at(9));
        assert_eq!((moved.state, moved.ended_at), (State::Cancelled, Some(at(9))));
    }

    // spec: T-37
    #[test]
    fn the_original_delay_is_due_minus_created_and_never_negative() {
        let mut message = (*record().message).clone();
        assert_eq!(message.original_delay(), Duration::from_secs(60));
        message.due_at = at(10);
        assert_eq!(message.original_delay(), Duration::ZERO);
    }
}
