//! Punctual's storage on PostgreSQL: many processes, one database, no extension.
//!
//! [`PostgresStorage`] keeps every promise of [`punctual::Storage`] and [`punctual::Inspect`], across the
//! end of every process and of the server. The README beside this crate says which tables it makes,
//! which rights it needs, and how it behaves behind a pooler.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod batches;
mod check;
mod claim;
mod columns;
mod commands;
mod commits;
mod copy;
mod days;
mod documents;
mod driver;
mod enqueue;
mod estimate;
mod failure;
mod fire;
mod groups;
mod held_keys;
mod in_turn;
mod inbox;
mod inner;
mod inspect;
mod jobs;
mod judge;
mod keep;
mod listen;
mod looked;
mod marks;
mod migrate;
mod news;
mod numbers;
mod options;
mod outbox;
mod pool;
mod rates;
mod record;
mod restore;
mod session;
mod settle;
mod settlements;
#[cfg(feature = "sqlx")]
mod sqlx_outbox;
mod statements;
mod ties;
mod tls;
mod topics;
mod transaction;
mod turns;
mod upkeep;
mod value;
mod within;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, Inspect, JobFilter, MessageFilter, Page, Paged,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    BatchId, Execution, ExecutionId, JobName, JobRecord, LeaseRef, MessageId, MessageRecord,
    ProcessId, State, Steer, Topic,
};
use punctual::policy::Permitted;
use punctual::storage::{
    BrokerRecord, Claim, Claimed, Command, Commanded, Declared, DueJob, Enqueued, Entry, Extended,
    Fired, Firing, Keep, Line, Permit, Prune, Pruned, Reclaim, Settled, Settlement, Steered,
    Storage, Wakeup,
};
use tokio::task::JoinHandle;

pub use tokio_postgres;

pub use self::check::{Check, LongTransaction};
pub use self::migrate::SCHEMA_VERSION;
pub use self::options::{PostgresBuilder, Prepared};
pub use self::outbox::PostgresOutbox;
#[cfg(feature = "sqlx")]
pub use self::sqlx_outbox::PostgresSqlxOutbox;
pub use self::transaction::PostgresTransaction;

use self::address::Address;
use self::inner::{Inner, attempt};
use self::ties::needs_care;
use self::writer::{ALONE_MIN, Writer};

/// Remembers messages and jobs in a PostgreSQL database.
pub struct PostgresStorage {
    inner: Arc<Inner>,
    writer: Arc<Writer>,
    listener: Address,
    listening: Mutex<Option<JoinHandle<()>>>,
}

impl PostgresStorage {
    /// Connects to a database, and makes or brings up to date what has to be there.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// What can be set.
    pub fn builder(url: impl Into<String>) -> PostgresBuilder {
        PostgresBuilder::new(url.into())
    }

    /// Closes the connections; calls from now on are answered as unavailable. Calls under way end first,
    /// within their bound. Dropping the storage does the same without waiting.
    pub async fn close(&self) {
        self.stop_listening();
        self.inner.pool.close().await;
    }

    fn stop_listening(&self) {
        if let Some(task) = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
        self.inner.hears.store(false, Ordering::Release);
    }

    fn from_inner(inner: Arc<Inner>, listener: Address) -> Self {
        Self { inner, writer: Arc::default(), listener, listening: Mutex::default() }
    }

    /// Begins to listen for other processes.
    fn listen(&self) {
        let task = listen::listen(Arc::downgrade(&self.inner), self.listener.clone());
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
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<Enqueued>> {
        // What needs care would make all others of its commit go the careful way.
        if (1..ALONE_MIN).contains(&entries.len()) && !entries.iter().any(needs_care) {
            return self.writer.enqueue(&self.inner, entries, now).await;
        }
        self.inner.enqueue(&entries, now).await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<Claimed>> {
        self.inner.claim(&claim, now).await
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        _now: Timestamp,
    ) -> Result<Vec<Extended>> {
        self.inner.extend(leases, until).await
    }

    async fn settle(&self, settlements: Vec<Settlement>, now: Timestamp) -> Result<Vec<Settled>> {
        self.inner.settle(&settlements, now).await
    }

    async fn keep(&self, keeps: Vec<Keep>, _now: Timestamp) -> Result<Vec<Extended>> {
        self.inner.keep(&keeps).await
    }

    async fn permit(&self, permit: Permit, now: Timestamp) -> Result<Permitted> {
        self.inner.permit(&permit, now).await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.inner.record(&records, now).await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<Commanded> {
        self.inner.command(&command, now).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<Declared> {
        self.inner.declare(&record, seen, now).await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.inner.due_jobs(limit, now).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<Fired>> {
        self.inner.fire(&firings, now).await
    }

    async fn steer(
        &self,
        job: &JobName,
        steer: Steer,
        seen: u64,
        now: Timestamp,
    ) -> Result<Steered> {
        self.inner.steer(job, &steer, seen, now).await
    }

    async fn remove_job(&self, job: &JobName, seen: u64, _now: Timestamp) -> Result<Steered> {
        self.inner.remove_job(job, seen).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<Claimed>> {
        self.inner.reclaim(&reclaim, now).await
    }

    async fn beat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.inner.beat(process, until, now).await
    }

    async fn join(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.inner.join(topic, group, now).await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.inner.groups().await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<Pruned> {
        self.inner.prune(prune, now).await
    }

    async fn restore(&self, records: Vec<MessageRecord>, now: Timestamp) -> Result<Vec<Enqueued>> {
        self.inner.restore(records, now).await
    }

    async fn next_due(&self, line: &Line) -> Result<Option<Timestamp>> {
        self.inner.next_due(line).await
    }

    fn wakeup(&self, line: &Line) -> Wakeup {
        self.inner.news.wakeup(line)
    }

    async fn time(&self) -> Result<Timestamp> {
        self.inner.time().await
    }

    async fn look(&self, lines: &[Line]) -> Result<Vec<Option<Timestamp>>> {
        self.inner.look(lines).await
    }

    fn hears_others(&self) -> bool {
        self.inner.hears.load(Ordering::Acquire)
    }
}

#[async_trait]
impl Inspect for PostgresStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Result<Paged<MessageRecord, MessageId>> {
        self.inner.messages(&filter, page).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.inner.message(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page<ExecutionId>,
    ) -> Result<Paged<Execution, ExecutionId>> {
        self.inner.executions(&filter, page).await
    }

    async fn latest_runs(&self, jobs: &[JobName], each: usize) -> Result<Vec<Execution>> {
        self.inner.latest_runs(jobs, each).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.inner.jobs(&filter).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        attempt!(self.inner, |held| self.inner.job_record(held, name))
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.inner.counts(now).await
    }

    async fn estimate(&self, now: Timestamp) -> Result<Counts> {
        self.inner.estimate(now).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<State, u64>> {
        self.inner.batch(batch).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.inner.throughput(since, bucket).await
    }
}
