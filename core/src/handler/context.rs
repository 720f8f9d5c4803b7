//! What a handler may know and do besides its payload.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::{Cancellation, Cause, Said, SelfReport, Signal};
use crate::client::Publisher;
use crate::engine::{Slot, Slots};
use crate::error::{Error, Result};
use crate::event::Events;
use crate::model::{
    Body, Correlation, Ending, Execution, ExecutionId, Headers, JobName, Key, LeaseRef, Message,
    MessageId, MisfireFacts, Occurrence, ProcessId, Recording, Source, Topic,
};
use crate::policy::Verdict;
use crate::storage::Settlement;

/// What a handler may know and do. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    parts: Arc<ContextParts>,
}

/// What the engine knows when an attempt begins.
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
    pub(crate) said: Said,
    /// Where its slot comes from; none outside a queue.
    pub(crate) slots: Option<Arc<Slots>>,
}

impl Context {
    pub(crate) fn new(parts: ContextParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    pub(crate) fn parts(&self) -> &ContextParts {
        &self.parts
    }

    /// The message's identity; the same in every attempt.
    pub fn message_id(&self) -> MessageId {
        self.parts.message.id
    }

    /// This attempt's own identity.
    pub fn execution_id(&self) -> ExecutionId {
        self.parts.execution
    }

    /// The topic that led here.
    pub fn topic(&self) -> &Topic {
        &self.parts.message.topic
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.parts.attempt
    }

    /// How many attempts there may be; none without a limit.
    pub fn attempts_max(&self) -> Option<u32> {
        self.parts.attempts_max
    }

    /// How many processes were lost while they ran this message. An attempt that a shutdown gave back is not
    /// counted, nor is what a broker delivers again.
    pub fn crashes(&self) -> u32 {
        self.parts.crashes
    }

    /// Whether a failure of this attempt would be the last.
    pub fn is_last_attempt(&self) -> bool {
        self.parts.attempts_max.is_some_and(|limit| self.parts.attempt >= limit)
    }

    /// When this attempt began.
    pub fn started_at(&self) -> Timestamp {
        self.parts.started_at
    }

    /// The instant of the schedule, with what was missed before it; none for a plain message.
    pub fn occurrence(&self) -> Option<&Occurrence> {
        self.parts.message.occurrence.as_ref()
    }

    /// The job this run belongs to.
    pub fn job(&self) -> Option<&JobName> {
        self.occurrence().map(|occurrence| &occurrence.job)
    }

    /// The instant this run was planned for.
    pub fn nominal(&self) -> Option<Timestamp> {
        self.occurrence().map(|occurrence| occurrence.nominal)
    }

    /// What was missed, when this run makes up for something.
    pub fn misfire(&self) -> Option<&MisfireFacts> {
        self.occurrence().and_then(|occurrence| occurrence.misfire.as_ref())
    }

    /// What the message is about.
    pub fn key(&self) -> Option<&Key> {
        self.parts.message.key.as_ref()
    }

    /// Why the message exists.
    pub fn source(&self) -> Source {
        self.parts.message.source
    }

    /// The headers it came with.
    pub fn headers(&self) -> &Headers {
        &self.parts.message.headers
    }

    /// The story this message belongs to: its own correlation, else the attempt's identity for a
    /// scheduled run, else the message's identity.
    pub fn correlation(&self) -> Arc<str> {
        self.parts.message.story(self.parts.execution)
    }

    /// The attempt that published this message; none when no handler did. The same in every attempt.
    pub fn causation(&self) -> Option<ExecutionId> {
        self.parts.message.correlation.causation
    }

    /// Until when this process has the right to the message; moves ahead while the handler runs.
    pub fn lease_until(&self) -> Option<Timestamp> {
        *self.parts.lease_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn renewed(&self, until: Timestamp) {
        *self.parts.lease_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Why the handler is asked to stop, if it is.
    pub fn cancel_cause(&self) -> Option<Cause> {
        self.parts.cancellation.cause()
    }

    /// Waits until the handler is asked to stop. Cancel-safe; meant for `select!`.
    pub async fn cancelled(&self) -> Cause {
        self.parts.cancellation.cancelled().await
    }

    /// The same signal by itself.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation::new(self.clone())
    }

    /// A state that was given to the builder; for extractors, which say in
    /// [`FromContext::needs`](super::FromContext::needs) what they ask for. A handler takes
    /// [`State`](super::State) instead.
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Result<T> {
        self.parts.publisher.states().need()
    }

    /// One more slot of the queue, for a call that outlives its attempt.
    pub(super) fn more_slots(&self) -> Option<Slot> {
        self.parts.slots.as_ref().map(Slots::take)
    }

    /// A publisher whose messages carry this story on.
    pub fn publisher(&self) -> Publisher {
        self.parts.publisher.clone().within(self.clone())
    }

    /// What settles this attempt as done, for a storage that does so inside the handler's own
    /// transaction: with the commit the message is done, before it nothing has happened. Refused for a
    /// message that a broker delivered, because its receipt is not in the database.
    ///
    /// The handler then returns as usual. When the transaction was rolled back after all, what it
    /// returns counts as if this had not been asked for.
    pub fn settlement(&self) -> Result<Settlement> {
        let Some(lease) = self.parts.lease else {
            return Err(Error::unsupported(format!(
                "the message {} came from a broker and cannot be settled in a transaction; note it in an inbox instead",
                self.message_id()
            )));
        };
        let execution = self.execution(Ending::Succeeded, None, self.parts.publisher.now());
        let recorded = self.parts.recording == Recording::All;
        self.parts.settles.store(true, Ordering::Release);
        let then = self.follow(&Verdict::Done, &execution);
        let execution = recorded.then(|| Arc::new(execution));
        Ok(Settlement { then, ..Settlement::new(lease, Verdict::Done, execution) })
    }

    /// Whether the handler took over settling.
    pub(crate) fn settles(&self) -> bool {
        self.parts.settles.load(Ordering::Acquire)
    }

    /// The record of this attempt, ended now.
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
            log: self.parts.said.text(),
        }
    }

    /// What a handler that succeeded reported, for the history.
    fn success_note(&self, ending: Ending) -> Option<Arc<str>> {
        match self.reported()? {
            SelfReport::Success(text) if ending == Ending::Succeeded && !text.is_empty() => {
                Some(text)
            }
            _ => None,
        }
    }

    /// The trail for the next message this attempt publishes.
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
