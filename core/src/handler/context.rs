//! What a handler may know and do besides its payload.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cancellation, Cause, Progress, Reported, Said, Signal};
use crate::client::Publisher;
use crate::engine::{Slot, Slots, follow};
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::inspect::{MessageFilter, PAGE_LIMIT_MAX, Page};
use crate::model::{
    BatchId, Body, Ending, Execution, ExecutionId, Headers, JobName, Key, LeaseRef, Message,
    MessageId, MisfireFacts, Occurrence, Parent, ProcessId, Recording, Source, State, Topic, Trail,
};
use crate::policy::Verdict;
use crate::storage::{Extended, Keep, Settlement};

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

    /// Says how far the handler is: a note, a percentage, or both. The last one is kept.
    ///
    /// ```
    /// # fn example(context: punctual::Context) {
    /// context.progress("reading");
    /// context.progress(40);
    /// context.progress((90, "writing"));
    /// # }
    /// ```
    pub fn progress(&self, progress: impl Into<Progress>) {
        let progress = progress.into();
        self.parts.said.progress(progress.clone());
        self.parts.publisher.process().progressed.ring();
        self.parts.events.emit(Event::AttemptProgressed {
            message: self.message_id(),
            execution: self.execution_id(),
            percent: progress.percent,
            note: progress.note,
        });
    }

    /// How far the handler said it is.
    pub fn progressed(&self) -> Option<Progress> {
        self.parts.said.progressed()
    }

    /// Reports success, with a message that goes into the history; it may be empty. The last report
    /// counts. An error that is returned afterwards is a failure all the same.
    pub fn report_success(&self, message: impl AsRef<str>) {
        self.parts.said.success(message.as_ref());
    }

    /// Reports a failure: the attempt fails with this text, also when the handler then says that it
    /// is done.
    pub fn report_failure(&self, error: impl AsRef<str>) {
        self.parts.said.failure(error.as_ref());
    }

    /// What was reported, when something was.
    pub fn reported(&self) -> Option<Reported> {
        self.parts.said.reported()
    }

    /// Writes a line for people. The newest 100 lines of an attempt are kept, 1,000 characters of
    /// each.
    pub fn log(&self, line: impl AsRef<str>) {
        self.parts.said.log(line.as_ref());
    }

    /// The lines written so far, oldest first. Whoever stores an execution takes them from here.
    pub fn logged(&self) -> Vec<Arc<str>> {
        self.parts.said.logged()
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

    /// What the messages that follow this one get to see of it; the last value counts.
    pub fn returns<T: Serialize + ?Sized>(&self, result: &T) -> Result<()> {
        let result = Body::json(result)?;
        result.check(self.parts.publisher.payload_max())?;
        *self.parts.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    }

    /// Whether it must not run beside another run of its job.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.parts.message.exclusive
    }

    /// How far the handler is, if that was not written down yet.
    pub(crate) fn unwritten_progress(&self, now: Timestamp) -> Option<crate::model::Progress> {
        let Progress { percent, note } = self.parts.said.take_unwritten()?;
        let note = Some(note).filter(|note| !note.is_empty());
        Some(crate::model::Progress { percent, note, at: now })
    }

    /// What this message follows: the message before, how it ended, and what it returned.
    pub fn parent(&self) -> Option<&Parent> {
        self.parts.message.ties.as_ref()?.parent.as_ref()
    }

    /// What the handler before returned; nothing when it returned nothing, or there was none.
    pub fn parent_result<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.parent().and_then(|parent| parent.result.as_ref()).map(Body::read).transpose()
    }

    /// The batch this message belongs to.
    pub fn batch(&self) -> Option<BatchId> {
        self.parts.message.batch()
    }

    /// The batch this message waited for.
    pub fn waited_for(&self) -> Option<BatchId> {
        self.parts.message.waits_for()
    }

    /// How many messages of the batch this one waited for ended in each state; empty when it waited
    /// for none. Finished ones count until they are pruned.
    pub async fn batch_counts(&self) -> Result<BTreeMap<State, u64>> {
        match self.waited_for() {
            Some(batch) => self.parts.publisher.process().inspect.batch(batch).await,
            None => Ok(BTreeMap::new()),
        }
    }

    /// How many other messages of the same job are running now, on all nodes; of the same topic for a
    /// message of no job. For a handler that would rather skip than run beside another.
    pub async fn others_running(&self) -> Result<usize> {
        let mut filter = MessageFilter { states: vec![State::Running], ..MessageFilter::default() };
        match self.job() {
            Some(job) => filter.job = Some(job.clone()),
            None => filter.topic = Some(self.topic().clone()),
        }
        let inspect = &self.parts.publisher.process().inspect;
        let running = inspect.messages(filter, Page::first(PAGE_LIMIT_MAX)).await?;
        Ok(running.rows.iter().filter(|row| row.message.id != self.message_id()).count())
    }

    /// Keeps where to go on: after a failure or a crash the next attempt finds it in
    /// [`Context::resumed`]. Refused for a message that a broker delivered, and when the message is no
    /// longer ours.
    pub async fn checkpoint<T: Serialize + ?Sized>(&self, place: &T) -> Result<()> {
        let checkpoint = Body::json(place)?;
        checkpoint.check(self.parts.publisher.payload_max())?;
        let Some(lease) = self.parts.lease else {
            return Err(Error::unsupported(format!(
                "the message {} came from a broker, which keeps no checkpoints; store the place yourself",
                self.message_id()
            )));
        };
        let keep = Keep { lease, progress: None, checkpoint: Some(checkpoint) };
        let process = self.parts.publisher.process();
        let answers = process.storage.keep(vec![keep], process.now()).await?;
        match answers.first() {
            Some(Extended::Held | Extended::CancelRequested) => Ok(()),
            Some(Extended::Lost) | None => Err(Error::conflict(format!(
                "the lease of the message {} is no longer ours; nothing was kept, stop here",
                self.message_id()
            ))),
        }
    }

    /// Where an attempt before this one wanted to go on; nothing on the first.
    pub fn resumed<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.parts.checkpoint.as_ref().map(Body::read).transpose()
    }

    /// What follows this message, when this attempt ended it like this.
    pub(crate) fn follow(&self, verdict: &Verdict, execution: &Execution) -> Vec<Arc<Message>> {
        if self.parts.message.ties.is_none() {
            return Vec::new();
        }
        let result = self.parts.result.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let process = self.parts.publisher.process();
        follow(process, &self.parts.message, verdict, execution, result)
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
            Reported::Success(text) if ending == Ending::Succeeded && !text.is_empty() => {
                Some(text)
            }
            _ => None,
        }
    }

    /// The trail for the next message this attempt publishes.
    pub(crate) fn next_trail(&self) -> Trail {
        Trail {
            correlation: Some(self.correlation()),
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
