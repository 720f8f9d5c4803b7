//! Storage: the public type, and how each call of the contract runs: on one connection, in a transaction where it has
//! several statements that write, again after a conflict, and with its notifications after the commit. The statements
//! are in `operations/`.

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
    Wakeup, too_many_groups,
};
use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobRecord, LeaseRef, MessageRecord, ProcessId, Topic};
use tokio::task::JoinHandle;

use crate::address::Address;
use crate::builder::PostgresBuilder;
use crate::inner::{Inner, attempt, transact};
use crate::listener;
use crate::operations::maintenance;
use crate::operations::relations::needs_lookup;
use crate::pending_notifications::PendingNotifications;
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

    /// Sends the notifications of a call that has committed, and returns its result.
    async fn notified<T>(&self, ended: Result<(T, PendingNotifications)>) -> Result<T> {
        let (result, notifications) = ended?;
        self.inner.notify_committed(notifications).await;
        Ok(result)
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
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        // An entry that needs a lookup would send all others of its commit to the careful path.
        if entries.len() < OWN_COMMIT_MIN && !entries.iter().any(needs_lookup) {
            return self.writer.enqueue(&self.inner, entries, now).await;
        }
        self.inner.enqueue(&entries, now).await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        if claim.limit == 0 || claim.topics.is_none() {
            return Ok(Vec::new());
        }
        attempt!(self.inner, |session| self.inner.claim(session, &claim, now))
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        attempt!(self.inner, |session| self.inner.extend(session, leases, until))
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.settle(&settlements, now).await
    }

    async fn save_progress(
        &self,
        updates: Vec<ProgressUpdate>,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        if updates.is_empty() {
            return Ok(Vec::new());
        }
        attempt!(self.inner, |session| self.inner.save_progress(session, &updates))
    }

    async fn acquire_rate(&self, request: RateRequest, now: Timestamp) -> Result<RateGrant> {
        transact!(self.inner, |session| self.inner.acquire_rate(session, &request, now))
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        transact!(self.inner, |session| self.inner.record(session, &records, now))
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        let ended = transact!(self.inner, |session| self.inner.command(session, &command, now));
        self.notified(ended).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        let ended = attempt!(self.inner, |session| self.inner.declare(session, &record, seen, now));
        self.notified(ended).await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        attempt!(self.inner, |session| self.inner.due_jobs(session, limit, now))
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        if firings.is_empty() {
            return Ok(Vec::new());
        }
        let ended = transact!(self.inner, |session, tries| self.inner.fire(
            session,
            &firings,
            (now, tries)
        ));
        self.notified(ended).await
    }

    async fn command_job(
        &self,
        job: &JobName,
        command: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        let command = (&command, seen);
        let ended =
            attempt!(self.inner, |session| self.inner.command_job(session, job, command, now));
        self.notified(ended).await
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        _now: Timestamp,
    ) -> Result<JobCommandResult> {
        let ended = transact!(self.inner, |session| self.inner.remove_job(session, job, seen));
        self.notified(ended).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        if reclaim.limit == 0 {
            return Ok(Vec::new());
        }
        attempt!(self.inner, |session| self.inner.reclaim(session, &reclaim, now))
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        attempt!(self.inner, |session| self.inner.next_expiry(session))
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        attempt!(self.inner, |session| self.inner.heartbeat(session, process, until, now))
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        let name = (topic, group);
        let known = attempt!(self.inner, |session| self.inner.register_group(session, name, now))?;
        if known { Ok(()) } else { Err(too_many_groups(topic, group)) }
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        attempt!(self.inner, |session| self.inner.groups(session))
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        attempt!(self.inner, |session| self.inner.prune(session, prune, now))
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        let records: Vec<_> = records.into_iter().map(|record| record.moved(now)).collect();
        let ended =
            transact!(self.inner, |session| self.inner.import_messages(session, &records, now));
        self.notified(ended).await
    }

    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        self.inner.next_due(source).await
    }

    fn wakeup(&self, source: &WakeSource) -> Wakeup {
        self.inner.notifications.wakeup(source)
    }

    async fn time(&self) -> Result<Timestamp> {
        attempt!(self.inner, |session| maintenance::time(session))
    }

    async fn next_due_all(&self, sources: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.next_due_all(sources).await
    }

    fn notifies_across_processes(&self) -> bool {
        self.inner.is_listening.load(Ordering::Acquire)
    }
}
