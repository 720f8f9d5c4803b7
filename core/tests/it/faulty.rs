//! A storage that fails when told to, call by call, and counts what it was asked. It keeps
//! everything in the memory storage underneath, so a test can look behind its back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    BatchId, Execution, ExecutionId, JobCommand, JobName, JobRecord, LeaseRef, MessageId,
    MessageRecord, MessageState, ProcessId, Topic,
};
use punctual::policy::RateGrant;
use punctual::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, WakeSource, Wakeup,
};
use punctual::{Error, Inspect, ManualClock, MemoryStorage, Result, Storage};

/// A memory storage behind a door that can be shut for some calls.
pub(crate) struct Faulty {
    inner: Arc<MemoryStorage>,
    shut: Mutex<BTreeSet<&'static str>>,
    settles_never: AtomicBool,
    looks_never: AtomicBool,
    time_takes: Mutex<VecDeque<(Arc<ManualClock>, Duration)>>,
    calls: Mutex<BTreeMap<&'static str, u64>>,
    deaf: AtomicBool,
}

/// Every call, for a storage that is out of reach as a whole.
pub(crate) const EVERYTHING: [&str; 18] = [
    "enqueue", "claim", "extend", "settle", "record", "command", "declare", "due_jobs", "fire",
    "steer", "reclaim", "beat", "prune", "next_due", "look", "time", "jobs", "job",
];

impl Faulty {
    pub(crate) fn over(inner: &Arc<MemoryStorage>) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            shut: Mutex::default(),
            settles_never: AtomicBool::new(false),
            looks_never: AtomicBool::new(false),
            time_takes: Mutex::default(),
            calls: Mutex::default(),
            deaf: AtomicBool::new(false),
        })
    }

    /// The same, but its bells never ring, as when another process stored something.
    pub(crate) fn deaf(inner: &Arc<MemoryStorage>) -> Arc<Self> {
        let storage = Self::over(inner);
        storage.deaf.store(true, Ordering::Relaxed);
        storage
    }

    /// How many calls were made in all.
    pub(crate) fn calls_in_all(&self) -> u64 {
        self.calls.lock().unwrap().values().sum()
    }

    /// These calls fail from now on.
    pub(crate) fn fail(&self, calls: &[&'static str]) {
        self.shut.lock().unwrap().extend(calls);
    }

    /// Never returns from `settle` from now on.
    pub(crate) fn hang_settlements(&self) {
        self.settles_never.store(true, Ordering::Relaxed);
    }

    /// Never returns from `look` from now on.
    pub(crate) fn hang_looks(&self) {
        self.looks_never.store(true, Ordering::Relaxed);
    }

    /// The next call of `time` takes so long by this clock, after the time was read.
    pub(crate) fn slow_time(&self, clock: &Arc<ManualClock>, length: Duration) {
        self.time_takes.lock().unwrap().push_back((clock.clone(), length));
    }

    /// Every call works again.
    pub(crate) fn heal(&self) {
        self.settles_never.store(false, Ordering::Relaxed);
        self.looks_never.store(false, Ordering::Relaxed);
        self.shut.lock().unwrap().clear();
    }

    /// How often a call was made, also when it failed.
    pub(crate) fn calls(&self, call: &str) -> u64 {
        self.calls.lock().unwrap().get(call).copied().unwrap_or(0)
    }

    fn enter(&self, call: &'static str) -> Result<&MemoryStorage> {
        *self.calls.lock().unwrap().entry(call).or_default() += 1;
        if self.shut.lock().unwrap().contains(call) {
            return Err(Error::unavailable("the storage is out of reach").during(call));
        }
        Ok(&self.inner)
    }
}

#[async_trait]
impl Storage for Faulty {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.enter("enqueue")?.enqueue(entries, now).await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.enter("claim")?.claim(claim, now).await
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.enter("extend")?.extend(leases, until, now).await
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        let inner = self.enter("settle")?;
        if self.settles_never.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        inner.settle(settlements, now).await
    }

    async fn save_progress(
        &self,
        keeps: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.enter("keep")?.save_progress(keeps, now).await
    }

    async fn acquire_rate(&self, permit: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.enter("permit")?.acquire_rate(permit, now).await
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.enter("join")?.register_group(topic, group, now).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        self.enter("next_expiry")?.next_expiry().await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.enter("groups")?.groups().await
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.enter("remove_job")?.remove_job(job, seen, now).await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.enter("record")?.record(records, now).await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        self.enter("command")?.command(command, now).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.enter("declare")?.declare(record, seen, now).await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.enter("due_jobs")?.due_jobs(limit, now).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.enter("fire")?.fire(firings, now).await
    }

    async fn command_job(
        &self,
        job: &JobName,
        steer: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.enter("steer")?.command_job(job, steer, seen, now).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.enter("reclaim")?.reclaim(reclaim, now).await
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.enter("beat")?.heartbeat(process, until, now).await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        self.enter("prune")?.prune(prune, now).await
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.enter("restore")?.import_messages(records, now).await
    }

    async fn next_due(&self, line: &WakeSource) -> Result<Option<Timestamp>> {
        self.enter("next_due")?.next_due(line).await
    }

    async fn next_due_all(&self, lines: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        let inner = self.enter("look")?;
        if self.looks_never.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        inner.next_due_all(lines).await
    }

    fn notifies_across_processes(&self) -> bool {
        !self.deaf.load(Ordering::Relaxed)
    }

    fn wakeup(&self, line: &WakeSource) -> Wakeup {
        if self.deaf.load(Ordering::Relaxed) { Wakeup::new().1 } else { self.inner.wakeup(line) }
    }

    async fn time(&self) -> Result<Timestamp> {
        let time = self.enter("time")?.time().await;
        let takes = self.time_takes.lock().unwrap().pop_front();
        if let Some((clock, length)) = takes {
            clock.advance(length);
        }
        time
    }
}

#[async_trait]
impl Inspect for Faulty {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.enter("messages")?.messages(filter, page).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.enter("message")?.message(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.enter("executions")?.executions(filter, page).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.enter("batch")?.batch(batch).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.enter("jobs")?.jobs(filter).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        self.enter("job")?.job(name).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.enter("counts")?.counts(now).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.enter("throughput")?.throughput(since, bucket).await
    }
}
