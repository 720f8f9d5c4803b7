//! The contract of a storage: remember messages and jobs, and decide every race by compare-and-set.
//!
//! A storage never computes a retry time, a misfire or a next state. It stores what the pure
//! policies decided and enforces the fence: only the current token of a lease settles, only the
//! version that was seen is replaced. It reads no clock; `now` is an argument everywhere except in
//! [`Storage::time`], whose whole purpose it is.
//!
//! Instants are kept to the microsecond at least: a due time that is finer may be rounded up, so that
//! nothing is ever claimed early, and every other instant may be cut down.

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
use crate::policy::{RateGrant, Verdict};
pub use topics::{FILTER_TOPICS_MAX, LOOK_MAX, TopicFilter};

/// The most groups a storage remembers, of all topics together.
pub const GROUPS_MAX: usize = 10_000;

/// Remembers messages and jobs.
///
/// Every method is safe to call from many tasks and many processes at once. Batches are bounded by
/// the caller. An `Err` means that the caller cannot know whether the call took effect; every call
/// is therefore safe to repeat.
#[async_trait]
pub trait Storage: Send + Sync + 'static {
    /// Stores a batch, all or nothing, in the order given.
    ///
    /// - An entry whose id is known is answered as a duplicate of itself, so that a call whose answer
    ///   was lost can be repeated, also when its message is done by then. Only what may come back is
    ///   stored anew when the one with its id is finished and differs: to a relay's line, from which
    ///   it had left, and what an operator sent again.
    /// - An entry whose deduplication key is already alive is answered as a duplicate and not
    ///   stored; with [`Entry::replace`] a pending one is replaced instead, a running one is not. How
    ///   long a key keeps others out is said by [`Unique`](crate::model::Unique).
    /// - An entry that waits for a batch of which a message is alive, or comes in the same call, is due
    ///   at the [`END_OF_TIME`]. The step by which the last message of the batch is no longer alive
    ///   makes it due at its planned time.
    /// - After `Ok` the batch survives whatever the storage promises to survive.
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>>;

    /// Hands at most `limit` due messages of a queue to an owner, each under a lease.
    ///
    /// - Only pending messages with `due_at <= now`, ordered by priority (high first), due time, id.
    ///   With [`Claim::first`] that priority goes before all others, so that none starves.
    /// - Only messages whose topic [`Claim::topics`] admits. The others keep their place and their due
    ///   time, and those behind them are handed out; however many they are, they delay nothing but the
    ///   search: a storage may put off looking again at a long row of them, for two seconds at most.
    /// - Counts the attempt. Every lease has a token greater than all before.
    /// - An exclusive message is not handed out while another message of its job is running, and a
    ///   scheduled one not while its job is paused; both keep their place.
    /// - A message with a [`Limit`](crate::model::Limit) is not handed out while as many of that name are
    ///   running as it allows, and nothing while as many of the queue are as [`Claim::running_max`]
    ///   allows, whoever runs them. They keep their place.
    /// - No message is ever given to two owners.
    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>>;

    /// Renews leases until an instant; answers held or lost, and whether a cancel was asked for.
    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>>;

    /// Applies finished decisions and appends their executions in one step, each only if its token
    /// is still the current one.
    ///
    /// - A message that is done or cancelled leaves the hot table; its execution stays.
    /// - `Again` for a message whose cancel was asked for is not applied but answered
    ///   [`SettleResult::CancelRequested`], so that the engine decides again.
    /// - The messages that follow ([`Settlement::then`]) are stored in the same step.
    /// - A settlement with an old token changes nothing, appends nothing and stores nothing.
    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>>;

    /// Keeps what handlers say while they work: how far they are, and where to go on after a failure
    /// or a crash. Only under the current token; answers like [`Storage::extend`], without renewing.
    async fn save_progress(
        &self,
        keeps: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>>;

    /// Lets so many start under a rate as it allows now; see [`crate::policy::permit`], which says how
    /// many, given the starts that the storage remembers ([`crate::policy::RateStarts`]). Starts that were
    /// permitted are spent, whatever becomes of them.
    async fn acquire_rate(&self, permit: RateRequest, now: Timestamp) -> Result<RateGrant>;

    /// Appends executions of messages that a broker delivered; with a dead letter, keeps the message.
    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()>;

    /// Does what an operator asks of messages; answers applied, or refused with the present state.
    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult>;

    /// Creates or replaces a job's record if its version is still the one seen (none: not there).
    ///
    /// Answers unchanged, without a write, when the stored record is equal apart from its version
    /// and times.
    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult>;

    /// At most `limit` jobs the scheduler has to look at, oldest first, each with how many of its
    /// messages are alive: running, due and waiting, or waiting after an attempt. A message that is
    /// planned for later, or paused, is not; see [`MessageRecord::is_in_the_way`].
    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>>;

    /// Fires occurrences: for each firing whose version is still the one seen, inserts its messages,
    /// appends its skipped executions and moves the cursor, in one step.
    ///
    /// - A firing whose job has more than `alive_max` messages alive, counted as by
    ///   [`Storage::due_jobs`], is not applied but answered [`FireResult::Overlapping`].
    /// - [`Firing::cancel_alive`] stops the same messages that are counted, and none planned for later.
    /// - Each firing stands for itself; one that is refused does not touch the others.
    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>>;

    /// Changes a job for an operator if its version is still the one seen.
    async fn command_job(
        &self,
        job: &JobName,
        steer: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult>;

    /// Removes a job if its version is still the one seen, with its history and all its messages that
    /// are not running; those end as usual.
    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult>;

    /// Takes over at most `limit` messages whose lease has expired, or whose owner's last beat has
    /// run out, under a fresh lease and without counting an attempt. `now` is the storage's time.
    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>>;

    /// Returns the earliest instant at which the lease of a running message ends or the heartbeat of its
    /// owner expires: strictly after it [`Storage::reclaim`] takes that message over, unless the lease is
    /// renewed or the owner beats before. In the past when a message can be taken over now.
    async fn next_expiry(&self) -> Result<Option<Timestamp>>;

    /// Says that a process is alive until an instant. One that is not after `now` says goodbye.
    ///
    /// A beat that arrives late never takes back what a later one said; only a goodbye does.
    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()>;

    /// Notes that a group receives a topic, from now on and for all processes; one that is known is no
    /// error. Refused as a conflict beyond [`GROUPS_MAX`].
    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()>;

    /// Which groups receive which topics, by topic and then by group.
    async fn groups(&self) -> Result<Vec<(Topic, String)>>;

    /// Deletes at most `limit` finished messages and executions that ended strictly before an
    /// instant, and answers how many of each went.
    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult>;

    /// Stores messages as they stood in another storage: alive ones pending, with their due time and
    /// counts, finished ones as they ended.
    ///
    /// All or nothing. One whose id is known here, or whose deduplication key is alive here, is
    /// answered as a duplicate and left alone, so that a move that broke off can be repeated.
    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>>;

    /// The earliest instant at which a line has something to do; in the past when it has it now.
    /// Messages that wait for their turn do not count; a ring says when it comes. With
    /// [`WakeSource::Topics`] only messages count that its filter admits; behind [`LOOK_MAX`] others of a
    /// priority the instant may be earlier than the truth.
    async fn next_due(&self, line: &WakeSource) -> Result<Option<Timestamp>>;

    /// A handle that rings when a line may have become due earlier than [`Storage::next_due`] said.
    /// Rings may be missed across processes; polling is the safety net.
    fn wakeup(&self, line: &WakeSource) -> Wakeup;

    /// The storage's own time, used to correct ours and to judge leases.
    async fn time(&self) -> Result<Timestamp>;

    /// [`Storage::next_due`] of several lines, in one step where it can: what an idle process asks.
    async fn next_due_all(&self, lines: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        let mut due = Vec::with_capacity(lines.len());
        for line in lines {
            due.push(self.next_due(line).await?);
        }
        Ok(due)
    }

    /// Whether [`Storage::wakeup`] rings for what other processes store, too, at this moment. While it
    /// does, the engine looks less often.
    fn notifies_across_processes(&self) -> bool {
        false
    }

    /// Whether what it has accepted survives the end of the process.
    fn is_durable(&self) -> bool {
        true
    }
}

/// A message on its way into the storage.
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

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueResult {
    /// Stored.
    Stored,
    /// Stored in place of a pending one.
    Replaced(MessageId),
    /// Not stored: this one is alive under the same deduplication key, or has the same id.
    Duplicate(MessageId),
}

/// What a storage says that remembers as many groups as it may.
pub fn too_many_groups(topic: &Topic, group: &str) -> Error {
    Error::conflict(format!(
        "the group {group:?} of {topic:?} is one too many: {GROUPS_MAX} are remembered; \
         use names that do not change from run to run"
    ))
}

/// What an owner asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The line.
    pub queue: Queue,
    /// Who asks.
    pub owner: ProcessId,
    /// The most messages it can start.
    pub limit: usize,
    /// The end of the leases.
    pub until: Timestamp,
    /// How many messages of the queue may run at once, whoever runs them; none without a limit.
    pub running_max: Option<usize>,
    /// The priority that goes before all others this time.
    pub first: Option<Priority>,
    /// Which topics are taken.
    pub topics: TopicFilter,
}

impl Claim {
    /// A claim of every topic without a limit for the whole queue, in the usual order.
    pub fn new(queue: Queue, owner: ProcessId, limit: usize, until: Timestamp) -> Self {
        let (running_max, first, topics) = (None, None, TopicFilter::All);
        Self { queue, owner, limit, until, running_max, first, topics }
    }
}

/// A message in the hands of an owner.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedMessage {
    /// What was sent.
    pub message: Arc<Message>,
    /// The right to it.
    pub lease: Lease,
    /// When it was due.
    pub due_at: Timestamp,
    /// Which attempt this is, from 1. For a reclaimed message: the attempt that was lost.
    pub attempt: u32,
    /// Processes lost before.
    pub crashes: u32,
    /// Snoozes before.
    pub snoozes: u32,
    /// Whether a cancel was asked for.
    pub cancel_requested: bool,
    /// Where its handler wanted to go on.
    pub checkpoint: Option<Body>,
}

impl ClaimedMessage {
    /// What a settlement must show.
    pub fn lease_ref(&self) -> LeaseRef {
        LeaseRef { message: self.message.id, token: self.lease.token }
    }
}

/// What became of a lease that was to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendResult {
    /// Renewed.
    Held,
    /// Renewed, and an operator asks to cancel.
    CancelRequested,
    /// Gone: somebody else may have the message.
    Lost,
}

/// A finished decision about a claimed message.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The lease that gives the right.
    pub lease: LeaseRef,
    /// What happens next.
    pub verdict: Verdict,
    /// The attempt that ended, when it is to be kept.
    pub execution: Option<Arc<Execution>>,
    /// What follows, stored with it.
    pub then: Vec<Arc<Message>>,
}

impl Settlement {
    /// A settlement after which nothing follows.
    pub fn new(lease: LeaseRef, verdict: Verdict, execution: Option<Arc<Execution>>) -> Self {
        Self { lease, verdict, execution, then: Vec::new() }
    }
}

/// What a handler says while it works; what is none stays as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressUpdate {
    /// The lease that gives the right.
    pub lease: LeaseRef,
    /// How far it is.
    pub progress: Option<Progress>,
    /// Where to go on.
    pub checkpoint: Option<Body>,
}

/// Who wants to start under a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRequest {
    /// The name that shares the rate.
    pub name: Key,
    /// The rate.
    pub rate: Rate,
    /// How many want to start.
    pub wanted: u32,
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleResult {
    /// Stored.
    Applied,
    /// Not stored: a cancel was asked for meanwhile; decide again.
    CancelRequested,
    /// Not stored: the lease is no longer the current one.
    Lost,
}

impl SettleResult {
    /// What a settlement inside the handler's own transaction comes to: when it was not stored, the
    /// transaction must not commit, so anything but applied is an error.
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

/// The execution of a message that came from a broker, and the message itself when it is dead.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerRecord {
    /// The attempt that ended.
    pub execution: Arc<Execution>,
    /// The dead letter to keep.
    pub dead: Option<Box<MessageRecord>>,
}

/// What an operator wants of messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Stop it: pending at once, running by asking its handler.
    Cancel(MessageId),
    /// Stop every pending one-time job of a topic that is about a key, that is every pending message with an
    /// occurrence. Running ones, and messages that were published, are left alone.
    CancelKey {
        /// The topic.
        topic: Topic,
        /// The key.
        key: Key,
    },
    /// Send a finished message again.
    Redrive {
        /// The message.
        id: MessageId,
        /// When it is due.
        due_at: Timestamp,
    },
    /// Hold a pending message back until it is resumed; see [`DueTime::paused_by`](crate::model::DueTime).
    /// Applied to none when it is paused already.
    Pause {
        /// The message.
        id: MessageId,
        /// Who asks, and why.
        pause: Pause,
    },
    /// Take the pause of a pending message away; see [`DueTime::resumed`](crate::model::DueTime). Applied to
    /// none when it is not paused and no instant is given.
    Resume {
        /// The message.
        id: MessageId,
        /// When it is due, paused or not; none means at its own time, or now if that has passed.
        due_at: Option<Timestamp>,
    },
    /// Make a pending message due at another instant; a paused one when it is resumed.
    Reschedule {
        /// The message.
        id: MessageId,
        /// When it is due.
        due_at: Timestamp,
    },
    /// Put a pending message into another queue, or make it more or less urgent.
    Reassign {
        /// The message.
        id: MessageId,
        /// Where it waits from now on, and how urgent it is.
        to: Assignment,
    },
    /// Remove a message that is not running, without a trace.
    Delete(MessageId),
    /// The same for a dead letter; refused in any other state, so that one which was sent again in the
    /// meantime stays.
    Discard(MessageId),
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// Done, to so many messages.
    Applied(u64),
    /// The handler was asked; it may take a moment.
    Requested,
    /// The present state does not allow it.
    Refused(MessageState),
    /// No such message.
    Unknown,
}

/// What became of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclareResult {
    /// The job is new.
    Created,
    /// The job was replaced.
    Changed,
    /// Nothing differed, nothing was written.
    Unchanged,
    /// Somebody else changed it since it was seen; read and decide again.
    Raced,
}

/// A job to look at.
#[derive(Clone, Debug, PartialEq)]
pub struct DueJob {
    /// The job.
    pub record: JobRecord,
    /// How many of its messages are running, due and waiting, or waiting after an attempt.
    pub alive: u32,
}

/// Occurrences that were decided about, and where the cursor goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// The job.
    pub job: JobName,
    /// The version the decision is based on.
    pub seen: u64,
    /// The occurrences that run.
    pub messages: Vec<Arc<Message>>,
    /// The occurrences that do not, each with its reason.
    pub skipped: Vec<Execution>,
    /// Refuse when more of the job's messages are alive than this; none never refuses.
    pub alive_max: Option<u32>,
    /// Cancel what is alive of the job before inserting.
    pub cancel_alive: bool,
    /// The record after it: cursor, last nominal time, runs, anchor, retirement.
    pub after: Box<JobRecord>,
}

/// What became of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FireResult {
    /// Stored.
    Fired,
    /// Not stored: another node was first, or the job changed.
    AlreadyMoved,
    /// Not stored: so many messages of the job are alive.
    Overlapping(u32),
}

/// What became of a change to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobCommandResult {
    /// Stored; this is the record now.
    Applied(Box<JobRecord>),
    /// Somebody else changed it since it was seen; read and decide again.
    Raced,
    /// No such job.
    Unknown,
}

/// What the rescuer asks for.
#[derive(Clone, Debug)]
pub struct Reclaim {
    /// Who asks.
    pub owner: ProcessId,
    /// The most messages it takes over.
    pub limit: usize,
    /// The end of the fresh leases.
    pub until: Timestamp,
}

/// What the pruner may delete.
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    /// Only what ended strictly before.
    pub before: Timestamp,
    /// The most rows of each kind.
    pub limit: usize,
    /// Whether dead letters go as well; otherwise they are kept for people.
    pub dead: bool,
}

/// How much was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// Finished messages.
    pub messages: u64,
    /// Executions.
    pub executions: u64,
}

/// Something that can have work due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeSource {
    /// The messages of a queue.
    Queue(Queue),
    /// The messages of a queue that a claim with this filter may take. It rings whenever the queue does.
    Topics(Queue, TopicFilter),
    /// The jobs.
    Jobs,
    /// The leases: rings when somebody asks for a running message to be cancelled. Never due.
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

    /// Returns the line whose bell rings for this one: a filter has no bell of its own.
    pub fn bell(&self) -> Self {
        match self {
            Self::Topics(queue, _) => Self::Queue(queue.clone()),
            other => other.clone(),
        }
    }
}

/// Rings when something may have become due earlier.
///
/// A ring that came while nobody waited is not lost: the next [`Wakeup::notified`] returns at once.
#[derive(Clone, Debug)]
pub struct Wakeup {
    rings: Arc<Rings>,
    heard: u64,
}

/// Counted, so that none is lost, and told in the order in which they began to wait: whoever owns
/// the runtime's one thread sees the same story every time.
#[derive(Debug, Default)]
struct Rings {
    count: AtomicU64,
    waiting: Notify,
}

impl Wakeup {
    /// A bell and the handle that hears it.
    pub fn new() -> (Notifier, Self) {
        let bell = Notifier { rings: Arc::default() };
        let wakeup = bell.wakeup();
        (bell, wakeup)
    }

    /// Waits for the next ring; for ever when the bell is gone. Cancel-safe.
    pub async fn notified(&mut self) {
        loop {
            let mut waiting = std::pin::pin!(self.rings.waiting.notified());
            // In line before the look, so that a ring between the two is heard.
            waiting.as_mut().enable();
            let count = self.rings.count.load(Ordering::Acquire);
            if count != self.heard {
                self.heard = count;
                return;
            }
            waiting.await;
        }
    }
}

/// The other end of a [`Wakeup`].
#[derive(Clone, Debug)]
pub struct Notifier {
    rings: Arc<Rings>,
}

impl Notifier {
    /// Wakes whoever waits; many rings at once are one.
    pub fn notify(&self) {
        self.rings.count.fetch_add(1, Ordering::Release);
        self.rings.waiting.notify_waiters();
    }

    /// Another handle that hears this bell, from now on.
    pub fn wakeup(&self) -> Wakeup {
        Wakeup { rings: self.rings.clone(), heard: self.rings.count.load(Ordering::Acquire) }
    }
}
