//! Fixture of a case: an empty storage with a manual clock, more nodes on the same data, and short calls for
//! common steps.

mod concurrency;
mod test_data;
mod values;

use std::sync::Arc;

use punctual::backend::policy::Verdict;
use punctual::backend::storage::{
    Claim, ClaimedMessage, Command, CommandResult, EnqueueResult, Entry, Reclaim, SettleResult,
    Settlement,
};
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{
    Execution, Ids, JobName, JobRecord, Message, MessageId, MessageRecord, MessageState, ProcessId,
    Queue,
};
use punctual::{DocumentStore, Inbox, Inspect, ManualClock, Storage};

use super::backend::{Environment, Node, Traits};

pub(super) use self::concurrency::{at_once, cancel_after, together};
pub use self::values::at;
pub(super) use self::values::{
    again, dead, default_source, ids_of, is_notified, key, microsecond_after, microsecond_before,
    pending_notifications, queue, seconds,
};

/// One node on the data of a case. Clones are the same node.
#[derive(Clone)]
pub struct Fixture {
    /// The storage as this node has it.
    pub storage: Arc<dyn Storage>,
    /// The same, for reading.
    pub inspect: Arc<dyn Inspect>,
    /// The same, for deliveries.
    pub inbox: Arc<dyn Inbox>,
    /// The same, for documents.
    pub documents: Arc<dyn DocumentStore>,
    /// The clock the storage was created with; it stands still until a case sets it.
    pub clock: ManualClock,
    pub(super) traits: Traits,
    environment: Arc<dyn Environment>,
    pub(super) ids: Arc<Ids>,
}

impl Fixture {
    /// Opens the first node on an environment, for tests of a single back-end that use this fixture.
    pub async fn on(environment: impl Environment, clock: ManualClock) -> Self {
        let node = environment.open().await.expect("a node on a new environment");
        Self::new(node, Arc::new(environment), clock, Traits::default())
    }

    pub(super) fn new(
        node: Node,
        environment: Arc<dyn Environment>,
        clock: ManualClock,
        traits: Traits,
    ) -> Self {
        let ids = Arc::new(Ids::seeded(7));
        let Node { storage, inspect, inbox, documents } = node;
        Self { storage, inspect, inbox, documents, clock, traits, environment, ids }
    }

    /// Opens one more node on the same data, as another process would.
    pub async fn another_node(&self) -> Self {
        let Node { storage, inspect, inbox, documents } =
            self.environment.open().await.expect("one more node");
        Self { storage, inspect, inbox, documents, ..self.clone() }
    }

    /// Returns this node and others on the same data, `count` nodes in total.
    pub async fn nodes(&self, count: usize) -> Vec<Self> {
        let mut nodes = vec![self.clone()];
        while nodes.len() < count {
            nodes.push(self.another_node().await);
        }
        nodes
    }

    /// Closes all nodes and opens the same data again, as after a restart.
    pub async fn reopen(self) -> Self {
        let Self { storage, inspect, inbox, documents, clock, traits, environment, ids } = self;
        drop((storage, inspect, inbox, documents));
        environment.close().await.expect("every node is closed");
        let node = environment.open().await.expect("the data is opened again");
        let Node { storage, inspect, inbox, documents } = node;
        Self { storage, inspect, inbox, documents, clock, traits, environment, ids }
    }

    /// Enqueues one message; panics when it is not stored.
    pub async fn enqueue(&self, message: Message) -> MessageId {
        let id = message.id;
        assert_eq!(self.try_enqueue(message).await, EnqueueResult::Stored);
        id
    }

    /// Enqueues one message and returns the result.
    pub async fn try_enqueue(&self, message: Message) -> EnqueueResult {
        self.storage.enqueue(vec![Entry::from(message)], at(0)).await.unwrap()[0]
    }

    /// Enqueues one message that replaces a pending one with its deduplication key.
    pub async fn try_replace(&self, message: Message) -> EnqueueResult {
        let entry = Entry { message: Arc::new(message), replace: true };
        self.storage.enqueue(vec![entry], at(0)).await.unwrap()[0]
    }

    /// Enqueues `count` due messages in one batch.
    pub async fn enqueue_many(&self, count: usize) -> Vec<MessageId> {
        let messages: Vec<Message> = (0..count).map(|_| self.message()).collect();
        let ids = messages.iter().map(|message| message.id).collect();
        let entries = messages.into_iter().map(Entry::from).collect();
        self.storage.enqueue(entries, at(0)).await.unwrap();
        ids
    }

    /// Claims from the default queue under a lease of a minute.
    pub async fn claim(
        &self,
        owner: ProcessId,
        limit: usize,
        now: Timestamp,
    ) -> Vec<ClaimedMessage> {
        let until = now + SignedDuration::from_secs(60);
        let claim = Claim::new(Queue::default(), owner, limit, until);
        self.storage.claim(claim, now).await.unwrap()
    }

    /// Claims the only due message.
    pub async fn claim_one(&self, now: Timestamp) -> ClaimedMessage {
        let claimed = self.claim(self.process(), 10, now).await;
        assert_eq!(claimed.len(), 1);
        claimed.into_iter().next().unwrap()
    }

    /// Takes over expired leases for a new process, with leases of a minute.
    pub async fn reclaim(&self, limit: usize, now: Timestamp) -> Vec<ClaimedMessage> {
        let until = now + SignedDuration::from_secs(60);
        let reclaim = Reclaim { owner: self.process(), limit, until };
        self.storage.reclaim(reclaim, now).await.unwrap()
    }

    /// Settles with an execution that ended now.
    pub async fn settle(
        &self,
        claimed: &ClaimedMessage,
        verdict: Verdict,
        now: Timestamp,
    ) -> SettleResult {
        self.settle_with(claimed, verdict, self.execution(claimed, now)).await
    }

    /// Settles with an execution, at the instant it ended.
    pub async fn settle_with(
        &self,
        claimed: &ClaimedMessage,
        verdict: Verdict,
        execution: Execution,
    ) -> SettleResult {
        let (lease, now) = (claimed.lease_ref(), execution.ended_at);
        let settlement = Settlement::new(lease, verdict, Some(Arc::new(execution)));
        self.storage.settle(vec![settlement], now).await.unwrap()[0]
    }

    /// Enqueues a message and brings it to a final state.
    pub async fn finish(&self, message: Message, verdict: Verdict, now: Timestamp) -> MessageId {
        let id = self.enqueue(message).await;
        let claimed = self.claim(self.process(), 1, now).await;
        assert_eq!(ids_of(&claimed), [id]);
        assert_eq!(self.settle(&claimed[0], verdict, now).await, SettleResult::Applied);
        id
    }

    /// Runs an operator's command one second after the beginning.
    pub async fn command(&self, command: Command) -> CommandResult {
        self.storage.command(command, at(1)).await.unwrap()
    }

    /// Returns a message; panics when it is unknown.
    pub async fn record(&self, id: MessageId) -> MessageRecord {
        self.inspect.message(id).await.unwrap().expect("the message is known")
    }

    /// Returns the state of a message; `None` when it is unknown.
    pub async fn state(&self, id: MessageId) -> Option<MessageState> {
        self.inspect.message(id).await.unwrap().map(|record| record.state)
    }

    /// Returns the executions of a message, newest first.
    pub async fn history(&self, message: MessageId) -> Vec<Execution> {
        let filter = ExecutionFilter { message: Some(message), ..ExecutionFilter::default() };
        self.inspect.executions(filter, PageRequest::first(100)).await.unwrap().rows
    }

    /// Declares a new job and returns it as stored.
    pub async fn declare(&self, record: JobRecord) -> JobRecord {
        let name = record.job.name.clone();
        self.storage.declare(record, None, at(0)).await.unwrap();
        self.stored_job(&name).await
    }

    /// Returns a stored job; panics when it is unknown.
    pub async fn stored_job(&self, name: &JobName) -> JobRecord {
        self.inspect.job(name).await.unwrap().expect("the job is known")
    }
}
