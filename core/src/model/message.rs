//! Message: a unit of work that becomes due. The message as sent does not change; its state is in the record
//! around it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    BatchId, Body, DeadReason, DueTime, ExecutionId, HandlerOptions, Headers, Key, Lease, LeaseRef,
    Limit, MessageId, MessagePause, MessageState, Occurrence, Phase, Priority, Queue, Relations,
    Route, Topic, Unique, WhenInterrupted,
};

/// Message as sent. Immutable, except for the queue and the priority, which an operator may change while it is
/// pending: retries, snoozes and redrives change the record only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Id, the same on every transport and in every storage.
    pub id: MessageId,
    /// Topic, which selects its handler.
    pub topic: Topic,
    /// Queue from which it is claimed.
    pub queue: Queue,
    /// Priority among the messages that are due.
    pub priority: Priority,
    /// First due time.
    pub due_at: Timestamp,
    /// Creation time.
    pub created_at: Timestamp,
    /// Reason why it exists.
    pub source: Source,
    /// Key: its entity, such as a customer.
    pub key: Option<Key>,
    /// Deduplication key: while a message with the same one is alive, a second one is a duplicate.
    pub dedupe: Option<Key>,
    /// Whether it waits while another message of its job is running.
    #[serde(default)]
    pub exclusive: bool,
    /// Content.
    pub body: Body,
    /// Headers.
    pub headers: Headers,
    /// Correlation with other messages.
    #[serde(rename = "trail")]
    pub correlation: Correlation,
    /// Occurrence of a schedule that it is the run of, if any.
    pub occurrence: Option<Occurrence>,
    /// Options for its attempts; fields that are not set are left to the handler.
    #[serde(rename = "terms")]
    pub handler_options: Option<Arc<HandlerOptions>>,
    /// Relations to other messages; most have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "ties")]
    pub relations: Option<Arc<Relations>>,
    /// Route, while the storage holds it for a transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Arc<Route>>,
}

/// New queue and priority of a message, set by an operator; none leaves the present one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// New queue.
    pub queue: Option<Queue>,
    /// New priority.
    pub priority: Option<Priority>,
}

impl Assignment {
    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        let Self { queue, priority } = self;
        queue.is_none() && priority.is_none()
    }
}

impl Message {
    /// Returns the limit that it shares with others.
    pub fn limit(&self) -> Option<&Limit> {
        self.relations.as_ref()?.limit.as_ref()
    }

    /// Returns the batch it belongs to.
    pub fn batch(&self) -> Option<BatchId> {
        self.relations.as_ref()?.batch
    }

    /// Returns the batch whose end it waits for.
    pub fn waits_for(&self) -> Option<BatchId> {
        self.relations.as_ref()?.waits_for
    }

    /// Returns for how long its deduplication key is reserved.
    pub fn unique(&self) -> Unique {
        self.relations.as_ref().map(|relations| relations.unique).unwrap_or_default()
    }

    /// Returns the time between creation and first due time; never negative.
    pub fn original_delay(&self) -> Duration {
        Duration::try_from(self.due_at.duration_since(self.created_at)).unwrap_or(Duration::ZERO)
    }

    /// Returns its correlation id: its own, else the attempt's id for a run of a job, else the message's id.
    pub fn correlation_id(&self, execution: ExecutionId) -> Arc<str> {
        match (&self.correlation.id, self.source) {
            (Some(correlation), _) => correlation.clone(),
            (None, Source::Published | Source::Redriven) => Arc::from(self.id.to_string()),
            (None, _) => Arc::from(execution.to_string()),
        }
    }

    /// Returns whether a message may be enqueued again in a storage where it has ended: one that was relayed
    /// may return to be delayed, and an operator may redrive one.
    pub fn may_return(&self) -> bool {
        self.transport().is_some() || self.source == Source::Redriven
    }

    /// Returns whether another message has the same content; a redrive changes the source only. Instants are
    /// compared with the precision of a storage, one microsecond.
    pub fn is_same_sending(&self, other: &Self) -> bool {
        let is_same = |one: Timestamp, other| {
            one.duration_since(other).abs() < SignedDuration::from_micros(1)
        };
        let Self { source, due_at, created_at, .. } = *self;
        is_same(due_at, other.due_at)
            && is_same(created_at, other.created_at)
            && *self == Self { due_at, created_at, source, ..other.clone() }
    }
}

/// Correlation of a message: one id shared by related messages, and the attempt that caused this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correlation {
    /// Id shared by all messages that result from one first message.
    #[serde(rename = "correlation")]
    pub id: Option<Arc<str>>,
    /// Attempt that published this message.
    pub causation: Option<ExecutionId>,
    /// Position among the messages that this attempt published, from 1.
    pub sequence: u32,
}

/// Reason why a message exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An occurrence of a schedule.
    Scheduled,
    /// An operator triggered a job.
    Manual,
    /// A one-time job.
    Deferred,
    /// An application published it.
    Published,
    /// An operator redrove a finished message.
    Redriven,
}

impl Source {
    /// Returns the source as one lower-case word.
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

/// Stored record of a message: the message and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// Message as sent.
    pub message: Arc<Message>,
    /// State.
    pub state: MessageState,
    /// Present due time; changes with retries and snoozes. The end of time while it is paused.
    pub due_at: Timestamp,
    /// Pause, with the due time without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<MessagePause>,
    /// Number of attempts spent, the running one included.
    pub attempt: u32,
    /// Number of crashes while handling it.
    pub crashes: u32,
    /// Number of snoozes.
    pub snoozes: u32,
    /// Lease, while running.
    pub lease: Option<Lease>,
    /// Whether an operator requested to cancel it while it runs.
    pub cancel_requested: bool,
    /// Last failure, for people.
    pub error: Option<Arc<str>>,
    /// Reason, when it is dead.
    pub dead: Option<DeadReason>,
    /// When it reached a final state.
    pub ended_at: Option<Timestamp>,
    /// Progress that its handler reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Checkpoint from which its handler resumes after a failure or a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Body>,
}

/// Progress of a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Percentage, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// Note, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// When it was reported.
    pub at: Timestamp,
}

impl MessageRecord {
    /// Returns whether it blocks the next occurrence of its job under the overlap policy: it is running, due
    /// and waiting, or waiting after an attempt, a snooze or a crash. A message planned for later, or paused,
    /// does not.
    pub fn blocks_next_run(&self, now: Timestamp) -> bool {
        match self.state {
            MessageState::Running => true,
            MessageState::Pending if self.paused.is_some() => false,
            MessageState::Pending => {
                let has_begun = self.attempt > 0 || self.snoozes > 0 || self.crashes > 0;
                has_begun || self.due_at <= now
            }
            MessageState::Done | MessageState::Dead | MessageState::Cancelled => false,
        }
    }

    /// Returns the record of a message that is enqueued now.
    pub fn new(message: Arc<Message>) -> Self {
        Self {
            state: MessageState::Pending,
            due_at: message.due_at,
            paused: None,
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

    /// Returns the record in another storage that it is moved to, where it does not run: a running one is
    /// pending again with the attempt returned, is cancelled if that was requested, and is dead if its options
    /// do not allow another run after an interruption.
    pub fn moved(self, now: Timestamp) -> Self {
        if self.state != MessageState::Running {
            return Self { lease: None, cancel_requested: false, ..self };
        }
        let when_interrupted = self
            .message
            .handler_options
            .as_ref()
            .and_then(|handler_options| handler_options.when_interrupted);
        let is_lost =
            when_interrupted == Some(WhenInterrupted::Lost) && self.message.transport().is_none();
        let state = match (self.cancel_requested, is_lost) {
            (true, _) => MessageState::Cancelled,
            (false, true) => MessageState::Dead,
            (false, false) => MessageState::Pending,
        };
        if state == MessageState::Dead {
            let (dead, error) = (Some(DeadReason::Interrupted), Some(Arc::from(INTERRUPTED_ERROR)));
            return Self { state, dead, error, ended_at: Some(now), lease: None, ..self };
        }
        Self {
            state,
            ended_at: (state == MessageState::Cancelled).then_some(now),
            attempt: self.attempt.saturating_sub(1),
            lease: None,
            cancel_requested: false,
            ..self
        }
    }

    /// Returns when it is due, with the pause that holds it back.
    pub fn due_time(&self) -> DueTime {
        DueTime { due_at: self.due_at, paused: self.paused.clone() }
    }

    /// Returns when it is due, or would be without its pause.
    pub fn own_due_at(&self) -> Timestamp {
        self.paused.as_ref().map_or(self.due_at, |paused| paused.due_at)
    }

    /// Returns whether it is a one-time job that was planned at run time, also a redriven one.
    pub fn is_planned(&self) -> bool {
        self.message.occurrence.is_some()
            && MessageKind::of(&self.message) == MessageKind::OneTimeJob
    }

    /// Returns its phase at an instant.
    pub fn phase(&self, now: Timestamp) -> Phase {
        match self.state {
            MessageState::Pending if self.attempt > 0 => Phase::Retrying,
            MessageState::Pending if self.due_at > now => Phase::Scheduled,
            MessageState::Pending => Phase::Ready,
            MessageState::Running if self.lease.is_some_and(|lease| lease.is_expired(now)) => {
                Phase::Stale
            }
            MessageState::Running => Phase::Running,
            MessageState::Done => Phase::Done,
            MessageState::Dead => Phase::Dead,
            MessageState::Cancelled => Phase::Cancelled,
        }
    }

    /// Returns the reference that a settlement must pass now.
    pub fn lease_ref(&self) -> Option<LeaseRef> {
        self.lease.map(|lease| LeaseRef { message: self.message.id, token: lease.token })
    }
}

/// Error text of a message that is not run again after an interruption.
pub(crate) const INTERRUPTED_ERROR: &str =
    "interrupted: the process ended while it ran, and when_interrupted is lost";

/// Kind of a message, as far as defaults depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A message that was published.
    Published,
    /// A run of a recurring job.
    RecurringRun,
    /// A one-time job.
    OneTimeJob,
}

impl MessageKind {
    /// Returns the kind of a message; a redrive does not change it.
    pub fn of(message: &Message) -> Self {
        match (message.source, &message.occurrence) {
            (Source::Deferred, _) => Self::OneTimeJob,
            (Source::Redriven, Some(run)) if run.schedule.is_none() => Self::OneTimeJob,
            (_, Some(_)) => Self::RecurringRun,
            (_, None) => Self::Published,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{JobName, ProcessId};
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
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            route: None,
        }))
    }

    #[test]
    fn phases_are_computed_from_state_due_time_attempt_lease_and_now() {
        let mut record = record();
        assert_eq!(record.phase(at(99)), Phase::Scheduled);
        assert_eq!(record.phase(at(100)), Phase::Ready);
        record.attempt = 1;
        assert_eq!(record.phase(at(99)), Phase::Retrying);
        record.state = MessageState::Running;
        record.lease =
            Some(Lease { owner: ProcessId::from_uuid(Uuid::nil()), token: 1, until: at(200) });
        assert_eq!(record.phase(at(200)), Phase::Running);
        assert_eq!(record.phase(at(201)), Phase::Stale);
        record.state = MessageState::Dead;
        assert_eq!(record.phase(at(201)), Phase::Dead);
    }

    #[test]
    fn a_moved_record_is_not_running_and_keeps_its_counts() {
        let lease = Lease { owner: ProcessId::from_uuid(Uuid::nil()), token: 1, until: at(200) };
        let running = MessageRecord {
            state: MessageState::Running,
            attempt: 3,
            crashes: 2,
            lease: Some(lease),
            ..record()
        };
        let moved = running.clone().moved(at(9));
        assert_eq!((moved.state, moved.attempt, moved.crashes), (MessageState::Pending, 2, 2));
        assert_eq!(moved.lease, None);
        let moved = MessageRecord { cancel_requested: true, ..running }.moved(at(9));
        assert_eq!((moved.state, moved.ended_at), (MessageState::Cancelled, Some(at(9))));
    }

    // Finding P9 of the newcomer's review.
    #[test]
    fn a_moved_record_that_is_not_run_again_when_interrupted_is_dead() {
        let mut message = (*record().message).clone();
        message.handler_options =
            Some(Arc::new(HandlerOptions::new().when_interrupted(WhenInterrupted::Lost)));
        let waiting = MessageRecord::new(Arc::new(message));
        assert_eq!(waiting.clone().moved(at(9)).state, MessageState::Pending, "it has not begun");
        let running = MessageRecord { state: MessageState::Running, attempt: 1, ..waiting };
        let moved = running.clone().moved(at(9));
        assert_eq!((moved.state, moved.dead), (MessageState::Dead, Some(DeadReason::Interrupted)));
        assert_eq!((moved.ended_at, moved.lease), (Some(at(9)), None));
        let moved = MessageRecord { cancel_requested: true, ..running }.moved(at(9));
        assert_eq!(moved.state, MessageState::Cancelled);
    }

    // spec: T-75
    #[test]
    fn a_planned_one_time_job_stays_one_when_it_is_sent_again() {
        let of = |source, occurrence: Option<Option<&str>>| {
            let occurrence = occurrence.map(|schedule| Occurrence {
                job: JobName::new("mail").unwrap(),
                nominal: at(100),
                schedule: schedule.map(ToOwned::to_owned),
                misfire: None,
            });
            let message = Message { source, occurrence, ..(*record().message).clone() };
            MessageRecord::new(Arc::new(message)).is_planned()
        };
        let (planned, run) = (Some(None), Some(Some("0 2 * * *")));
        assert!(of(Source::Deferred, planned) && of(Source::Redriven, planned));
        assert!(!of(Source::Scheduled, run) && !of(Source::Manual, run));
        assert!(!of(Source::Redriven, run), "a run of a recurring job");
        assert!(!of(Source::Published, None) && !of(Source::Redriven, None), "a message");
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
