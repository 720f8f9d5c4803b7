//! Context of an attempt: what a handler can read and do besides its payload.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::{AttemptReports, CancelCause, Cancellation, SelfReport, Signal};
use crate::error::{Error, Result};
use crate::event::Events;
use crate::handler::{Slot, Slots};
use crate::model::{
    Body, Correlation, Ending, Execution, ExecutionId, Headers, JobName, Key, LeaseRef, Message,
    MessageId, MisfireFacts, Occurrence, ProcessId, Recording, Source, Topic,
};
use crate::policy::Verdict;
use crate::sending::Publisher;
use crate::storage::Settlement;

/// Context of an attempt, for its handler. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    parts: Arc<ContextParts>,
}

/// Facts and services that the engine provides for an attempt.
pub(crate) struct ContextParts {
    pub(crate) message: Arc<Message>,
    pub(crate) execution: ExecutionId,
    pub(crate) attempt: u32,
    pub(crate) attempts_max: Option<u32>,
    pub(crate) crashes: u32,
    pub(crate) started_at: Timestamp,
    pub(crate) due_at: Timestamp,
    pub(crate) process: ProcessId,
    /// The lease, when the message came from a storage.
    pub(crate) lease: Option<LeaseRef>,
    pub(crate) recording: Recording,
    /// Whether the handler took over settling; see [`Context::settlement`].
    pub(crate) settles: AtomicBool,
    pub(crate) lease_until: Mutex<Option<Timestamp>>,
    pub(crate) cancellation: Signal,
    pub(crate) publisher: Publisher,
    pub(crate) events: Arc<Events>,
    pub(crate) published: AtomicU32,
    pub(crate) checkpoint: Option<Body>,
    pub(crate) result: Mutex<Option<Body>>,
    pub(crate) reports: AttemptReports,
    /// The slots of its queue; `None` outside a queue.
    pub(crate) slots: Option<Arc<Slots>>,
}

impl Context {
    pub(crate) fn new(parts: ContextParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    pub(crate) fn parts(&self) -> &ContextParts {
        &self.parts
    }

    /// Returns the id of the message; the same in every attempt.
    pub fn message_id(&self) -> MessageId {
        self.parts.message.id
    }

    /// Returns the id of this attempt.
    pub fn execution_id(&self) -> ExecutionId {
        self.parts.execution
    }

    /// Returns the topic of the message.
    pub fn topic(&self) -> &Topic {
        &self.parts.message.topic
    }

    /// Returns the number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.parts.attempt
    }

    /// Returns the largest number of attempts; `None` without a limit.
    pub fn attempts_max(&self) -> Option<u32> {
        self.parts.attempts_max
    }

    /// Returns the number of processes that were lost while they ran this message. Attempts that a shutdown
    /// released and redeliveries of a broker do not count.
    pub fn crashes(&self) -> u32 {
        self.parts.crashes
    }

    /// Returns whether this is the last attempt.
    pub fn is_last_attempt(&self) -> bool {
        self.parts.attempts_max.is_some_and(|limit| self.parts.attempt >= limit)
    }

    /// Returns the start of this attempt.
    pub fn started_at(&self) -> Timestamp {
        self.parts.started_at
    }

    /// Returns the occurrence of the schedule; `None` for a message without a job.
    pub fn occurrence(&self) -> Option<&Occurrence> {
        self.parts.message.occurrence.as_ref()
    }

    /// Returns the job of this run.
    pub fn job(&self) -> Option<&JobName> {
        self.occurrence().map(|occurrence| &occurrence.job)
    }

    /// Returns the nominal time of this run.
    pub fn nominal(&self) -> Option<Timestamp> {
        self.occurrence().map(|occurrence| occurrence.nominal)
    }

    /// Returns the missed occurrences that this run replaces.
    pub fn misfire(&self) -> Option<&MisfireFacts> {
        self.occurrence().and_then(|occurrence| occurrence.misfire.as_ref())
    }

    /// Returns the key of the message.
    pub fn key(&self) -> Option<&Key> {
        self.parts.message.key.as_ref()
    }

    /// Returns the source of the message, such as a schedule or a publisher.
    pub fn source(&self) -> Source {
        self.parts.message.source
    }

    /// Returns the headers of the message.
    pub fn headers(&self) -> &Headers {
        &self.parts.message.headers
    }

    /// Returns the correlation id: that of the message, else the id of the attempt for a scheduled run, else
    /// the id of the message.
    pub fn correlation(&self) -> Arc<str> {
        self.parts.message.correlation_id(self.parts.execution)
    }

    /// Returns the attempt that published this message; `None` when no handler did. The same in every attempt.
    pub fn causation(&self) -> Option<ExecutionId> {
        self.parts.message.correlation.causation
    }

    /// Returns the end of the lease, which is extended while the handler runs.
    pub fn lease_until(&self) -> Option<Timestamp> {
        *self.parts.lease_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_lease_until(&self, until: Timestamp) {
        *self.parts.lease_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Returns why the handler is asked to stop; `None` while it is not.
    pub fn cancel_cause(&self) -> Option<CancelCause> {
        self.parts.cancellation.cause()
    }

    /// Waits until the handler is asked to stop. Cancel-safe; meant for `select!`.
    pub async fn cancelled(&self) -> CancelCause {
        self.parts.cancellation.cancelled().await
    }

    /// Returns the cancellation of this attempt by itself.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation::new(self.clone())
    }

    /// Returns a state of the builder; for extractors, which declare it in
    /// [`FromContext::needs`](super::FromContext::needs). A handler takes [`State`](super::State) instead.
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Result<T> {
        self.parts.publisher.states().require()
    }

    /// Takes one more slot of the queue, for a call that outlives its attempt.
    pub(super) fn take_slot(&self) -> Option<Slot> {
        self.parts.slots.as_ref().map(Slots::take)
    }

    /// Returns a publisher whose messages inherit the correlation.
    pub fn publisher(&self) -> Publisher {
        self.parts.publisher.clone().within(self.clone())
    }

    /// Returns the settlement of this attempt as done, which a storage applies in the handler's own transaction:
    /// the commit makes the message done. Fails for a message that a broker delivered, because its receipt is
    /// not in the database.
    ///
    /// The handler then returns as usual. After a rollback its result is settled as if this had not been called.
    pub fn settlement(&self) -> Result<Settlement> {
        let Some(lease) = self.parts.lease else {
            return Err(Error::unsupported(format!(
                "the message {} came from a broker and cannot be settled in a transaction; use an inbox instead",
                self.message_id()
            )));
        };
        let execution = self.execution(Ending::Succeeded, None, self.parts.publisher.now());
        let recorded = self.parts.recording == Recording::All;
        self.parts.settles.store(true, Ordering::Release);
        let then = self.follow_ups(&Verdict::Done, &execution);
        let execution = recorded.then(|| Arc::new(execution));
        Ok(Settlement { then, ..Settlement::new(lease, Verdict::Done, execution) })
    }

    /// Returns whether the handler took over settling.
    pub(crate) fn settles(&self) -> bool {
        self.parts.settles.load(Ordering::Acquire)
    }

    /// Returns the execution of this attempt, which ends now.
    pub(crate) fn execution(
        &self,
        ending: Ending,
        note: Option<Arc<str>>,
        now: Timestamp,
    ) -> Execution {
        let message = &self.parts.message;
        let note = note.or_else(|| self.success_note(ending));
        Execution {
            id: self.execution_id(),
            message: Some(message.id),
            topic: message.topic.clone(),
            queue: message.queue.clone(),
            key: message.key.clone(),
            job: self.job().cloned(),
            nominal: self.nominal(),
            source: message.source,
            attempt: self.attempt(),
            attempts_max: self.attempts_max(),
            process: Some(self.parts.process),
            due_at: self.parts.due_at,
            started_at: self.started_at(),
            ended_at: now,
            ending,
            note,
            log: self.parts.reports.text(),
        }
    }

    /// Returns the reported message of a successful attempt, for the history.
    fn success_note(&self, ending: Ending) -> Option<Arc<str>> {
        match self.reported()? {
            SelfReport::Success(text) if ending == Ending::Succeeded && !text.is_empty() => {
                Some(text)
            }
            _ => None,
        }
    }

    /// Returns the correlation of the next message that this attempt publishes.
    pub(crate) fn next_correlation(&self) -> Correlation {
        Correlation {
            id: Some(self.correlation()),
            causation: Some(self.execution_id()),
            sequence: self.parts.published.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("message", &self.message_id())
            .field("topic", self.topic())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
