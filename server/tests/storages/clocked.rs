//! Clocked storage: returns the time of the test's clock as its own, so that a process uses no other time.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::backend::policy::RateGrant;
use punctual::backend::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, WakeSource, Wakeup,
};
use punctual::jiff::Timestamp;
use punctual::model::{JobCommand, JobName, JobRecord, LeaseRef, MessageRecord, ProcessId, Topic};
use punctual::{ManualClock, Result, Storage};

/// Storage with the time of a clock.
pub(crate) struct ClockedStorage {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<ManualClock>,
}

#[async_trait]
impl Storage for ClockedStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.storage.enqueue(entries, now).await
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.storage.claim(claim, now).await
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.storage.extend(leases, until, now).await
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        self.storage.settle(settlements, now).await
    }

    async fn save_progress(
        &self,
        keeps: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.storage.save_progress(keeps, now).await
    }

    async fn acquire_rate(&self, permit: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.storage.acquire_rate(permit, now).await
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.storage.register_group(topic, group, now).await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        self.storage.next_expiry().await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.storage.groups().await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.storage.record(records, now).await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        self.storage.command(command, now).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.storage.declare(record, seen, now).await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.storage.due_jobs(limit, now).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.storage.fire(firings, now).await
    }

    async fn command_job(
        &self,
        job: &JobName,
        command: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.storage.command_job(job, command, seen, now).await
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.storage.remove_job(job, seen, now).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.storage.reclaim(reclaim, now).await
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.storage.heartbeat(process, until, now).await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        self.storage.prune(prune, now).await
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.storage.import_messages(records, now).await
    }

    async fn next_due(&self, line: &WakeSource) -> Result<Option<Timestamp>> {
        self.storage.next_due(line).await
    }

    fn wakeup(&self, line: &WakeSource) -> Wakeup {
        self.storage.wakeup(line)
    }

    async fn time(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }

    async fn next_due_all(&self, lines: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        self.storage.next_due_all(lines).await
    }

    fn notifies_across_processes(&self) -> bool {
        self.storage.notifies_across_processes()
    }

    fn is_durable(&self) -> bool {
        self.storage.is_durable()
    }
}
