//! Storage contract: stores messages and jobs, and decides every race by compare-and-set.
//!
//! A storage never computes a retry time, a misfire or a next state. It stores the decisions of the
//! pure policies and enforces the fence: only the current token of a lease settles, only the expected
//! version is replaced. It reads no clock: instants come as arguments, except in [`Storage::time`].
//!
//! Instants are stored with a precision of one microsecond or better. A finer due time is rounded up,
//! so that nothing is claimed early; every other instant may be truncated.

mod topics;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::error::{Error, Result};
pub use crate::model::END_OF_TIME;
use crate::model::{
    Assignment, Body, Execution, JobCommand, JobName, JobRecord, Key, Lease, LeaseRef, Message,
    MessageId, MessageRecord, MessageState, Pause, Priority, ProcessId, Progress, Queue, Rate,
    Topic,
};
use crate::policy::{AgainReason, RateGrant, Verdict};
pub use topics::{FILTER_TOPICS_MAX, NEXT_DUE_SCAN_MAX, TopicFilter};

/// Largest number of groups of a storage, of all topics together.
pub const GROUPS_MAX: usize = 10_000;

/// Stores messages and jobs.
///
/// - Every method is safe to call from many tasks and many processes concurrently.
/// - The caller bounds the size of batches.
/// - After an `Err` the caller cannot know whether the call took effect, so every call is safe to
///   repeat.
/// - A call that loses a race is not an error; it is reported in the result.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// Stores a batch of entries, all or none, in the given order; returns one result per entry.
    ///
    /// - An entry whose id exists returns [`EnqueueResult::Duplicate`] with that id, also when the
    ///   message has finished, so that a call whose response was lost can be repeated. There is one
    ///   exception: a finished message that differs is stored again when it enters the queue of a
    ///   relay, which it may pass more than once, or when an operator sent it again.
    /// - An entry whose deduplication key is alive returns [`EnqueueResult::Duplicate`] and is not
    ///   stored. With [`Entry::replace`] it replaces a pending message, but not a running one.
    ///   [`Unique`](crate::model::Unique) defines how long a key stays alive.
    /// - An entry that waits for a batch is due at the [`END_OF_TIME`] while a message of the batch is
    ///   alive or part of the same call. The step that ends the last message of the batch makes it due
    ///   at its planned time.
    /// - After `Ok` the batch is as durable as the storage is; see [`Storage::is_durable`].
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>>;

    /// Claims up to `limit` due messages of a queue for an owner; returns each with a lease.
    ///
    /// - Claims pending messages with `due_at <= now`, ordered by priority (high first), due time and
    ///   id. The priority [`Claim::first`] precedes all others, so that none starves.
    /// - Claims only messages whose topic [`Claim::topics`] admits. The others keep their position and
    ///   due time and do not block messages behind them. A storage may remember a long run of such
    ///   messages and skip it without a new scan, for at most two seconds.
    /// - Counts the attempt. The token of a lease is greater than all tokens before it.
    /// - Does not claim an exclusive message while another message of its job is running, nor a
    ///   scheduled message while its job is paused. Both keep their position.
    /// - Does not claim a message with a [`Limit`](crate::model::Limit) while as many messages of that
    ///   name are running as it allows, and none while [`Claim::running_max`] messages of the queue are
    ///   running; messages of all processes count. They keep their position.
    /// - Never returns a message to two owners.
    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>>;

    /// Renews leases until an instant; returns for each whether it is held, lost, or held with a
    /// request to cancel.
    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>>;

    /// Applies verdicts and appends their executions in one step, each only if its token is the
    /// current one.
    ///
    /// - A message that is done or cancelled leaves the hot table; its execution stays.
    /// - The verdict `Again` is not applied to a message that is to be cancelled. It returns
    ///   [`SettleResult::CancelRequested`], and the engine decides again.
    /// - The messages of [`Settlement::then`] are stored in the same step.
    /// - A settlement with an old token changes, appends and stores nothing.
    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>>;

    /// Saves the progress of handlers, and the checkpoints from which they resume after a failure or a
    /// crash, each only if its token is the current one. Returns results like [`Storage::extend`]
    /// without renewing the lease.
    async fn save_progress(
        &self,
        updates: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>>;

    /// Grants starts under a rate, as many as it allows now. [`crate::policy::grant_starts`] computes the
    /// number from the stored starts ([`crate::policy::RateStarts`]). A granted start is spent, also
    /// when it is not used.
    async fn acquire_rate(&self, request: RateRequest, now: Timestamp) -> Result<RateGrant>;

    /// Appends executions of messages that a broker delivered, and stores the dead letters among them.
    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()>;

    /// Applies an operator's command to messages; a refused command returns their current state.
    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult>;

    /// Creates or replaces a job's record if its version is the expected one; `None` expects that the
    /// job does not exist.
    ///
    /// Returns [`DeclareResult::Unchanged`] and writes nothing when the stored record differs at most
    /// in its version and times.
    async fn declare(
        &self,
        record: JobRecord,
        expected: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult>;

    /// Returns up to `limit` jobs that the scheduler has to process, oldest first, each with the number
    /// of its messages that are alive: running, due, or waiting for another attempt. A message that is
    /// planned for later or paused does not count; see [`MessageRecord::blocks_next_run`].
    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>>;

    /// Fires occurrences: inserts the messages of each firing, appends its skipped executions and moves
    /// the cursor of its job, in one step, if the version of the job is the expected one.
    ///
    /// - A firing is not applied while more than [`Firing::alive_max`] messages of its job are alive,
    ///   counted as by [`Storage::due_jobs`]; it returns [`FireResult::Overlapping`].
    /// - [`Firing::cancel_alive`] cancels the messages that this count includes, and no others.
    /// - Firings are independent: a refused one does not affect the others.
    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>>;

    /// Applies an operator's command to a job if its version is the expected one.
    async fn command_job(
        &self,
        job: &JobName,
        command: JobCommand,
        expected: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult>;

    /// Removes a job if its version is the expected one, with its history and all its messages that are
    /// not running. Running messages end as usual.
    async fn remove_job(
        &self,
        job: &JobName,
        expected: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult>;

    /// Takes over up to `limit` messages whose lease has expired or whose owner's heartbeat has expired,
    /// under a new lease and without counting an attempt. `now` is the storage's time.
    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>>;

    /// Returns the earliest instant at which the lease of a running message ends or the heartbeat of its
    /// owner expires. Strictly after it [`Storage::reclaim`] takes that message over, unless the lease
    /// or the heartbeat is renewed before. The instant is in the past when a message can be taken over
    /// now.
    async fn next_expiry(&self) -> Result<Option<Timestamp>>;

    /// Records a heartbeat that is valid until `until`; a value not after `now` deregisters the process.
    ///
    /// A heartbeat that arrives late never shortens a later one; only deregistration does.
    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()>;

    /// Registers a group as a receiver of a topic, for all processes. Does nothing for a registered
    /// group; fails with a conflict beyond [`GROUPS_MAX`] groups.
    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()>;

    /// Returns the registered groups, by topic and then by group.
    async fn groups(&self) -> Result<Vec<(Topic, String)>>;

    /// Deletes up to `limit` finished messages and up to `limit` executions that ended strictly before an
    /// instant; returns the numbers.
    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult>;

    /// Stores messages of another storage, all or none: messages that are alive become pending, with their
    /// due time and counts; finished ones keep their end.
    ///
    /// A message whose id exists, or whose deduplication key is alive, returns
    /// [`EnqueueResult::Duplicate`] and is not changed, so that an interrupted import can be repeated.
    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>>;

    /// Returns the earliest instant at which a source has work; it is in the past when work is due now.
    ///
    /// - Messages that cannot run because of another message of their job, a paused job or a limit do not
    ///   count; a notification follows when they can run.
    /// - With [`WakeSource::Topics`] only messages count that the filter admits. Behind
    ///   [`NEXT_DUE_SCAN_MAX`] other messages of one priority the instant may be too early.
    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>>;

    /// Subscribes to a source: the handle is notified when the source may be due earlier than
    /// [`Storage::next_due`] returned. Notifications of other processes may be lost; polling is the
    /// safety net.
    fn wakeup(&self, source: &WakeSource) -> Wakeup;

    /// Returns the storage's own time, which corrects the clock of the process and decides leases.
    async fn time(&self) -> Result<Timestamp>;

    /// Returns [`Storage::next_due`] of several sources, in one round trip where the storage can. An idle
    /// process polls with it.
    async fn next_due_all(&self, sources: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        let mut due = Vec::with_capacity(sources.len());
        for source in sources {
            due.push(self.next_due(source).await?);
        }
        Ok(due)
    }

    /// Returns whether [`Storage::wakeup`] currently notifies of the writes of other processes, too. While
    /// it does, the engine polls less often.
    fn notifies_across_processes(&self) -> bool {
        false
    }

    /// Returns whether stored data survives the end of the process.
    fn is_durable(&self) -> bool {
        true
    }
}

/// A message to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The message.
    pub message: Arc<Message>,
    /// Whether a pending message with the same deduplication key is replaced.
    pub replace: bool,
}

impl From<Message> for Entry {
    fn from(message: Message) -> Self {
        Self { message: Arc::new(message), replace: false }
    }
}

/// The result of storing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueResult {
    /// Stored.
    Stored,
    /// Stored in place of this pending message.
    Replaced(MessageId),
    /// Not stored: this message is alive under the same deduplication key, or has the same id.
    Duplicate(MessageId),
}

/// Creates the error for a group beyond [`GROUPS_MAX`].
pub fn too_many_groups(topic: &Topic, group: &str) -> Error {
    Error::conflict(format!(
        "the group {group:?} of {topic:?} cannot be registered: the storage has {GROUPS_MAX} groups, \
         which is the limit; use names that do not change from run to run"
    ))
}

/// A request for messages of a queue.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The queue.
    pub queue: Queue,
    /// The process that gets the leases.
    pub owner: ProcessId,
    /// The most messages it can start.
    pub limit: usize,
    /// The end of the leases.
    pub until: Timestamp,
    /// Largest number of messages of the queue that run in parallel on all processes; `None` without a limit.
    pub running_max: Option<usize>,
    /// The priority that precedes all others in this call.
    pub first: Option<Priority>,
    /// The topics that are claimed.
    pub topics: TopicFilter,
}

impl Claim {
    /// Creates a claim of every topic without a limit for the whole queue, in the usual order.
    pub fn new(queue: Queue, owner: ProcessId, limit: usize, until: Timestamp) -> Self {
        let (running_max, first, topics) = (None, None, TopicFilter::All);
        Self { queue, owner, limit, until, running_max, first, topics }
    }
}

/// A message that an owner has claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedMessage {
    /// The message.
    pub message: Arc<Message>,
    /// The lease of the owner.
    pub lease: Lease,
    /// When it was due.
    pub due_at: Timestamp,
    /// Number of the attempt, from 1. For a reclaimed message: of the attempt that was lost.
    pub attempt: u32,
    /// Number of processes that were lost while they ran it.
    pub crashes: u32,
    /// Number of snoozes so far.
    pub snoozes: u32,
    /// Whether it is to be cancelled.
    pub cancel_requested: bool,
    /// The checkpoint from which its handler resumes.
    pub checkpoint: Option<Body>,
}

impl ClaimedMessage {
    /// Returns the claim of a stored message.
    pub(crate) fn of_record(record: &MessageRecord, lease: Lease) -> Self {
        Self {
            message: record.message.clone(),
            lease,
            due_at: record.due_at,
            attempt: record.attempt,
            crashes: record.crashes,
            snoozes: record.snoozes,
            cancel_requested: record.cancel_requested,
            checkpoint: record.checkpoint.clone(),
        }
    }

    /// Returns the reference to its lease, as a settlement needs it.
    pub fn lease_ref(&self) -> LeaseRef {
        LeaseRef { message: self.message.id, token: self.lease.token }
    }

    /// Returns the settlement that releases it, due at an instant, without counting the attempt.
    pub(crate) fn release(&self, due_at: Timestamp) -> Settlement {
        let verdict = Verdict::Again {
            due_at,
            attempt: self.attempt.saturating_sub(1),
            crashes: self.crashes,
            snoozes: self.snoozes,
            error: None,
            why: AgainReason::Release,
        };
        Settlement::new(self.lease_ref(), verdict, None)
    }
}

/// The result of renewing a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendResult {
    /// Renewed.
    Held,
    /// Renewed, and the message is to be cancelled.
    CancelRequested,
    /// Not renewed: another owner may have the message.
    Lost,
}

/// The decision that ends a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The lease; it must be the current one.
    pub lease: LeaseRef,
    /// The decision.
    pub verdict: Verdict,
    /// The attempt that ended; `None` when it is not recorded.
    pub execution: Option<Arc<Execution>>,
    /// The messages that follow, stored in the same step.
    pub then: Vec<Arc<Message>>,
}

impl Settlement {
    /// Creates a settlement without messages that follow.
    pub fn new(lease: LeaseRef, verdict: Verdict, execution: Option<Arc<Execution>>) -> Self {
        Self { lease, verdict, execution, then: Vec::new() }
    }
}

/// Progress of a running message; a field that is `None` stays unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressUpdate {
    /// The lease; it must be the current one.
    pub lease: LeaseRef,
    /// The progress.
    pub progress: Option<Progress>,
    /// The checkpoint.
    pub checkpoint: Option<Body>,
}

/// A request for starts under a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRequest {
    /// The name that shares the rate.
    pub name: Key,
    /// The rate.
    pub rate: Rate,
    /// The most starts to grant.
    pub requested: u32,
}

/// The result of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleResult {
    /// Stored.
    Applied,
    /// Not stored: the message is to be cancelled; decide again.
    CancelRequested,
    /// Not stored: the lease is not the current one.
    Lost,
}

impl SettleResult {
    /// Returns an error unless the settlement was applied. For a settlement inside the handler's own
    /// transaction, which must not commit then.
    pub fn or_roll_back(self, message: MessageId) -> Result<()> {
        match self {
            Self::Applied => Ok(()),
            Self::CancelRequested => Err(Error::conflict(format!(
                "the message {message} is to be cancelled; roll the transaction back"
            ))),
            Self::Lost => Err(Error::conflict(format!(
                "the lease of the message {message} is no longer ours; roll the transaction back"
            ))),
        }
    }
}

/// The execution of a message that a broker delivered, and the message itself when it is dead.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerRecord {
    /// The attempt that ended.
    pub execution: Arc<Execution>,
    /// The dead letter to store.
    pub dead: Option<Box<MessageRecord>>,
}

/// An operator's command for messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Cancels a message: a pending one immediately, a running one by a request to its handler.
    Cancel(MessageId),
    /// Cancels every pending one-time job of a topic and a key, that is every pending message with an
    /// occurrence. Running jobs and published messages are not affected.
    CancelKey {
        /// The topic.
        topic: Topic,
        /// The key.
        key: Key,
    },
    /// Makes a finished message pending again.
    Redrive {
        /// The message.
        id: MessageId,
        /// When it is due.
        due_at: Timestamp,
    },
    /// Pauses a pending message until it is resumed; see [`DueTime::paused_by`](crate::model::DueTime).
    /// Returns `Applied(0)` when it is paused already.
    Pause {
        /// The message.
        id: MessageId,
        /// The operator and the reason.
        pause: Pause,
    },
    /// Resumes a paused message; see [`DueTime::resumed`](crate::model::DueTime). Returns `Applied(0)` when
    /// it is not paused and no instant is given.
    Resume {
        /// The message.
        id: MessageId,
        /// When it is due, paused or not; `None` means at its own time, or now if that has passed.
        due_at: Option<Timestamp>,
    },
    /// Makes a pending message due at another instant; a paused one stays paused until it is resumed.
    Reschedule {
        /// The message.
        id: MessageId,
        /// When it is due.
        due_at: Timestamp,
    },
    /// Changes the queue or the priority of a pending message.
    Reassign {
        /// The message.
        id: MessageId,
        /// The new queue and priority.
        to: Assignment,
    },
    /// Deletes a message that is not running, with its history.
    Delete(MessageId),
    /// Deletes a dead letter with its history. Refused in any other state, so that a message that was sent
    /// again in the meantime stays.
    Discard(MessageId),
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// Applied to this number of messages.
    Applied(u64),
    /// The handler was asked to stop; it may take a moment.
    Requested,
    /// Not applied: the current state does not allow it.
    Refused(MessageState),
    /// No such message.
    Unknown,
}

/// The result of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclareResult {
    /// The job is new.
    Created,
    /// The job was replaced.
    Changed,
    /// Nothing differed, nothing was written.
    Unchanged,
    /// Not written: its version is not the expected one; read it and decide again.
    Raced,
}

/// A job that the scheduler has to process.
#[derive(Clone, Debug, PartialEq)]
pub struct DueJob {
    /// The job.
    pub record: JobRecord,
    /// Number of its messages that are running, due, or waiting for another attempt.
    pub alive: u32,
}

/// The decision about due occurrences of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// The job.
    pub job: JobName,
    /// The expected version of the job, which the decision is based on.
    pub seen: u64,
    /// The occurrences that run.
    pub messages: Vec<Arc<Message>>,
    /// The occurrences that are skipped, each with its reason.
    pub skipped: Vec<Execution>,
    /// The most messages of the job that may be alive; `None` without a limit.
    pub alive_max: Option<u32>,
    /// Whether messages of the job that are alive are cancelled before the new ones are inserted.
    pub cancel_alive: bool,
    /// The record afterwards, with a new cursor, last nominal time, runs, anchor and retirement.
    pub after: Box<JobRecord>,
}

/// The result of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FireResult {
    /// Stored.
    Fired,
    /// Not stored: another process fired it before, or the job changed.
    AlreadyMoved,
    /// Not stored: this number of messages of the job is alive.
    Overlapping(u32),
}

/// The result of a change to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobCommandResult {
    /// Applied; the new record, or the removed one.
    Applied(Box<JobRecord>),
    /// Not applied: its version is not the expected one; read it and decide again.
    Raced,
    /// No such job.
    Unknown,
}

/// A request of the rescuer for messages whose owner is lost.
#[derive(Clone, Debug)]
pub struct Reclaim {
    /// The process that gets the leases.
    pub owner: ProcessId,
    /// The most messages to take over.
    pub limit: usize,
    /// The end of the new leases.
    pub until: Timestamp,
}

/// A request of the pruner to delete finished messages and executions.
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    /// Deletes only rows that ended strictly before this instant.
    pub before: Timestamp,
    /// The most rows of each kind.
    pub limit: usize,
    /// Whether dead letters are deleted, too; otherwise they stay until an operator deletes them.
    pub dead: bool,
}

/// Numbers of deleted rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// Number of finished messages.
    pub messages: u64,
    /// Number of executions.
    pub executions: u64,
}

/// A source of due work that a process can wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeSource {
    /// The messages of a queue.
    Queue(Queue),
    /// The messages of a queue that a claim with this filter may take. Notified whenever the queue is.
    Topics(Queue, TopicFilter),
    /// The jobs.
    Jobs,
    /// The leases: notified when a running message is to be cancelled. Never due.
    Leases,
}

impl WakeSource {
    /// Returns the queue whose messages these are.
    pub fn queue(&self) -> Option<&Queue> {
        match self {
            Self::Queue(queue) | Self::Topics(queue, _) => Some(queue),
            Self::Jobs | Self::Leases => None,
        }
    }

    /// Returns the source without its topic filter: the key under which a storage notifies, because a filter
    /// has no notifier of its own.
    pub fn without_filter(&self) -> Self {
        match self {
            Self::Topics(queue, _) => Self::Queue(queue.clone()),
            other => other.clone(),
        }
    }
}

/// A subscription to a notifier, notified when work may have become due earlier.
///
/// A notification is not lost while no task waits: the next [`Wakeup::notified`] returns immediately.
#[derive(Clone, Debug)]
pub struct Wakeup {
    shared: Arc<Notifications>,
    seen: u64,
}

/// The state that a notifier shares with its subscriptions. Notifications are counted, so that none is lost.
/// Waiting tasks are woken in the order in which they began to wait, which keeps runs on a runtime with one
/// thread reproducible.
#[derive(Debug, Default)]
struct Notifications {
    count: AtomicU64,
    waiting: Notify,
}

impl Wakeup {
    /// Creates a notifier and a subscription to it.
    pub fn new() -> (Notifier, Self) {
        let notifier = Notifier { shared: Arc::default() };
        let wakeup = notifier.wakeup();
        (notifier, wakeup)
    }

    /// Waits for the next notification; for ever when the notifier was dropped. Cancel-safe.
    pub async fn notified(&mut self) {
        loop {
            let mut waiting = std::pin::pin!(self.shared.waiting.notified());
            // Enabled before the count is read, so that a notification between the two is not lost.
            waiting.as_mut().enable();
            let count = self.shared.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return;
            }
            waiting.await;
        }
    }
}

/// The sending side of a [`Wakeup`].
#[derive(Clone, Debug)]
pub struct Notifier {
    shared: Arc<Notifications>,
}

impl Notifier {
    /// Notifies all subscriptions; several notifications before one is read count as one.
    pub fn notify(&self) {
        self.shared.count.fetch_add(1, Ordering::Release);
        self.shared.waiting.notify_waiters();
    }

    /// Creates another subscription, which receives notifications from now on.
    pub fn wakeup(&self) -> Wakeup {
        Wakeup { shared: self.shared.clone(), seen: self.shared.count.load(Ordering::Acquire) }
    }
}
