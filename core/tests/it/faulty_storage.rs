//! Faulty storage: fails the chosen calls and counts all of them. It stores everything in a memory storage, which
//! a test can inspect directly.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::policy::RateGrant;
use punctual::backend::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, WakeSource, Wakeup,
};
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    BatchId, Execution, ExecutionId, JobCommand, JobName, JobRecord, LeaseRef, MessageId,
    MessageRecord, MessageState, ProcessId, Topic,
};
use punctual::{Error, Inspect, ManualClock, MemoryStorage, Result, Storage};

/// A memory storage whose calls can be made to fail or hang.
pub(crate) struct FaultyStorage {
    inner: Arc<MemoryStorage>,
    failing: Mutex<BTreeSet<&'static str>>,
    hangs_settle: AtomicBool,
    hangs_next_due: AtomicBool,
    time_takes: Mutex<VecDeque<(Arc<ManualClock>, Duration)>>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
    is_silent: AtomicBool,
}

/// Every call, for a storage that is unreachable.
pub(crate) const ALL_CALLS: [&str; 18] = [
    "enqueue",
    "claim",
    "extend",
    "settle",
    "record",
    "command",
    "declare",
    "due_jobs",
    "fire",
    "command_job",
    "reclaim",
    "heartbeat",
    "prune",
    "next_due",
    "next_due_all",
    "time",
    "jobs",
    "job",
];

impl FaultyStorage {
    pub(crate) fn over(inner: &Arc<MemoryStorage>) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            failing: Mutex::default(),
            hangs_settle: AtomicBool::new(false),
            hangs_next_due: AtomicBool::new(false),
            time_takes: Mutex::default(),
            calls: Mutex::default(),
            is_silent: AtomicBool::new(false),
        })
    }

    /// Wraps a storage and suppresses its notifications, as when another process stored something.
    pub(crate) fn without_notifications(inner: &Arc<MemoryStorage>) -> Arc<Self> {
        let storage = Self::over(inner);
        storage.is_silent.store(true, Ordering::Relaxed);
        storage
    }

    /// Returns the number of all calls.
    pub(crate) fn total_calls(&self) -> u64 {
        self.calls.lock().unwrap().values().sum()
    }

    /// Makes these calls fail from now on.
    pub(crate) fn fail(&self, calls: &[&'static str]) {
        self.failing.lock().unwrap().extend(calls);
    }

    /// Makes `settle` hang from now on.
    pub(crate) fn hang_settlements(&self) {
        self.hangs_settle.store(true, Ordering::Relaxed);
    }

    /// Makes `next_due_all` hang from now on.
    pub(crate) fn hang_next_due(&self) {
        self.hangs_next_due.store(true, Ordering::Relaxed);
    }

    /// Makes the next call of `time` take this long on a clock, after the time was read.
    pub(crate) fn slow_time(&self, clock: &Arc<ManualClock>, duration: Duration) {
        self.time_takes.lock().unwrap().push_back((clock.clone(), duration));
    }

    /// Makes every call work again.
    pub(crate) fn heal(&self) {
        self.hangs_settle.store(false, Ordering::Relaxed);
        self.hangs_next_due.store(false, Ordering::Relaxed);
        self.failing.lock().unwrap().clear();
    }

    /// Returns the number of calls of a method, failed ones included.
    pub(crate) fn calls(&self, call: &str) -> u64 {
        self.calls.lock().unwrap().get(call).copied().unwrap_or(0)
    }

    fn count_call(&self, call: &'static str) -> Result<&MemoryStorage> {
        *self.calls.lock().unwrap().entry(call).or_default() += 1;
        if self.failing.lock().unwrap().contains(call) {
            return Err(Error::unavailable("the storage is out of reach").during(call));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl Storage for FaultyStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.count_call("enqueue")?.enqueue(entries, now).await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.count_call("claim")?.claim(claim, now).await
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.count_call("extend")?.extend(leases, until, now).await
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        let inner = self.count_call("settle")?;
        if self.hangs_settle.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        inner.settle(settlements, now).await
    }

    async fn save_progress(
        &self,
        updates: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.count_call("save_progress")?.save_progress(updates, now).await
    }

    async fn acquire_rate(&self, request: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.count_call("acquire_rate")?.acquire_rate(request, now).await
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.count_call("register_group")?.register_group(topic, group, now).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        self.count_call("next_expiry")?.next_expiry().await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.count_call("groups")?.groups().await
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.count_call("remove_job")?.remove_job(job, seen, now).await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.count_call("record")?.record(records, now).await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        self.count_call("command")?.command(command, now).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.count_call("declare")?.declare(record, seen, now).await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.count_call("due_jobs")?.due_jobs(limit, now).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.count_call("fire")?.fire(firings, now).await
    }

    async fn command_job(
        &self,
        job: &JobName,
        job_command: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.count_call("command_job")?.command_job(job, job_command, seen, now).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.count_call("reclaim")?.reclaim(reclaim, now).await
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.count_call("heartbeat")?.heartbeat(process, until, now).await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        self.count_call("prune")?.prune(prune, now).await
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.count_call("import_messages")?.import_messages(records, now).await
    }

    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        self.count_call("next_due")?.next_due(source).await
    }

    async fn next_due_all(&self, sources: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        let inner = self.count_call("next_due_all")?;
        if self.hangs_next_due.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        inner.next_due_all(sources).await
    }

    fn notifies_across_processes(&self) -> bool {
        !self.is_silent.load(Ordering::Relaxed)
    }

    fn wakeup(&self, source: &WakeSource) -> Wakeup {
        if self.is_silent.load(Ordering::Relaxed) {
            Wakeup::new().1
        } else {
            self.inner.wakeup(source)
        }
    }

    async fn time(&self) -> Result<Timestamp> {
        let time = self.count_call("time")?.time().await;
        let takes = self.time_takes.lock().unwrap().pop_front();
        if let Some((clock, duration)) = takes {
            clock.advance(duration);
        }
        time
    }
}

#[async_trait]
impl Inspect for FaultyStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.count_call("messages")?.messages(filter, page).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.count_call("message")?.message(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.count_call("executions")?.executions(filter, page).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.count_call("batch")?.batch(batch).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.count_call("jobs")?.jobs(filter).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        self.count_call("job")?.job(name).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.count_call("counts")?.counts(now).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.count_call("throughput")?.throughput(since, bucket).await
    }
}
