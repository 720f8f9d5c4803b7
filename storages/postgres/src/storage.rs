//! Storage: the public type, and the contract as a list: each method runs the operation of its name, on the state
//! that all calls and the background tasks share.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::policy::RateGrant;
use punctual::backend::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, Storage, WakeSource,
    Wakeup,
};
use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobRecord, LeaseRef, MessageRecord, ProcessId, Topic};
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::builder::PostgresBuilder;
use crate::inner::Inner;
use crate::listener;
use crate::operations::relations::needs_lookup;
use crate::writer::{OWN_COMMIT_MIN, Writer};

/// Storage of messages and jobs in a PostgreSQL database.
pub struct PostgresStorage {
    pub(crate) inner: Arc<Inner>,
    writer: Arc<Writer>,
    listener: Address,
    listening: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresStorage {
    /// Connects to a database, and creates or migrates the tables.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Returns a builder with the default options.
    pub fn builder(url: impl Into<String>) -> PostgresBuilder {
        PostgresBuilder::new(url.into())
    }

    /// Closes the connections; later calls fail as unavailable. Waits for running calls, up to their timeout.
    /// Dropping the storage does the same without waiting.
    pub async fn close(&self) {
        self.stop_listening();
        self.inner.pool.close().await;
    }

    fn stop_listening(&self) {
        if let Some(task) = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
        self.inner.is_listening.store(false, Ordering::Release);
    }

    pub(crate) fn from_inner(inner: Arc<Inner>, listener: Address) -> Self {
        Self { inner, writer: Arc::default(), listener, listening: Mutex::default() }
    }

    /// Starts the listener.
    pub(crate) fn listen(&self) {
        let task = listener::listen(Arc::downgrade(&self.inner), self.listener.clone());
        let task = tokio::spawn(task);
        *self.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }
}

impl Drop for PostgresStorage {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

impl fmt::Debug for PostgresStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStorage")
            .field("place", &self.inner.pool.address.place())
            .field("schema", &self.inner.schema.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Storage for PostgresStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        // An entry that needs a lookup would send all others of its commit to the careful path.
        if (1..OWN_COMMIT_MIN).contains(&entries.len()) && !entries.iter().any(needs_lookup) {
            return self.writer.enqueue(&self.inner, entries, now).await;
        }
        self.inner.enqueue(&entries, now).await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.inner.claim(&claim, now).await
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.inner.extend(leases, until).await
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        self.inner.settle(&settlements, now).await
    }

    async fn save_progress(
        &self,
        keeps: Vec<ProgressUpdate>,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.inner.save_progress(&keeps).await
    }

    async fn acquire_rate(&self, permit: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.inner.acquire_rate(&permit, now).await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.inner.record(&records, now).await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        self.inner.command(&command, now).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.inner.declare(&record, seen, now).await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.inner.due_jobs(limit, now).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.inner.fire(&firings, now).await
    }

    async fn command_job(
        &self,
        job: &JobName,
        steer: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.inner.command_job(job, &steer, seen, now).await
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        _now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.inner.remove_job(job, seen).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.inner.reclaim(&reclaim, now).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        self.inner.next_expiry().await
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.inner.heartbeat(process, until, now).await
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.inner.register_group(topic, group, now).await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.inner.groups().await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        self.inner.prune(prune, now).await
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.inner.import_messages(records, now).await
    }

    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        self.inner.next_due(source).await
    }

    fn wakeup(&self, source: &WakeSource) -> Wakeup {
        self.inner.notifications.wakeup(source)
    }

    async fn time(&self) -> Result<Timestamp> {
        self.inner.time().await
    }

    async fn next_due_all(&self, sources: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        self.inner.next_due_all(sources).await
    }

    fn notifies_across_processes(&self) -> bool {
        self.inner.is_listening.load(Ordering::Acquire)
    }
}
