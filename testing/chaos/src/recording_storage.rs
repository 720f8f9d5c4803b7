//! Recording storage: forwards all calls to a storage, writes results to the ledger and visits crash points.

mod inspect;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use punctual::backend::policy::{RateGrant, Verdict};
use punctual::backend::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, WakeSource, Wakeup,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    JobCommand, JobName, JobRecord, LeaseRef, MessageId, MessageRecord, ProcessId, Topic,
};
use punctual::{Inspect, Result, Storage};

use crate::fuse::{CrashPoint, Fuse};
use crate::ledger::{Ledger, LedgerEvent};
use crate::open::StorageHandles;

/// Storage that records results in a ledger.
pub struct RecordingStorage {
    storage: Arc<dyn Storage>,
    inspect: Arc<dyn Inspect>,
    ledger: Arc<Ledger>,
    fuse: Fuse,
    /// Token of the last claim of each message, for the event of its handler.
    tokens: Mutex<HashMap<MessageId, u64>>,
}

impl RecordingStorage {
    /// Wraps a storage.
    pub fn new(opened: StorageHandles, ledger: Arc<Ledger>, fuse: Fuse) -> Self {
        Self {
            storage: opened.storage,
            inspect: opened.inspect,
            ledger,
            fuse,
            tokens: Mutex::default(),
        }
    }

    /// Returns the token of the last claim of a message in this process, or 0.
    pub fn token(&self, message: MessageId) -> u64 {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(&message).copied().unwrap_or_default()
    }

    fn remember_tokens(&self, claimed: &[ClaimedMessage]) {
        let pairs = claimed.iter().map(|one| (one.message.id, one.lease.token));
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).extend(pairs);
    }
}

#[async_trait]
impl Storage for RecordingStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.fuse.visit(CrashPoint::Publishing);
        let answers = self.storage.enqueue(entries, now).await?;
        self.fuse.visit(CrashPoint::Published);
        Ok(answers)
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        let claimed = self.storage.claim(claim, now).await?;
        let event = |one: &ClaimedMessage| LedgerEvent::Claimed(one.message.id, one.lease.token);
        if !claimed.is_empty() {
            self.remember_tokens(&claimed);
            self.ledger.write(claimed.iter().map(event));
            self.fuse.visit(CrashPoint::Claimed);
        }
        Ok(claimed)
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        let answers = self.storage.extend(leases, until, now).await?;
        let pairs = leases.iter().zip(&answers);
        let lost = pairs.filter(|(_, answer)| **answer == ExtendResult::Lost);
        self.ledger.write(lost.map(|(lease, _)| LedgerEvent::LeaseLost(lease.message)));
        Ok(answers)
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        let settled: Vec<(LeaseRef, bool)> =
            settlements.iter().map(|one| (one.lease, one.verdict == Verdict::Done)).collect();
        self.fuse.visit(CrashPoint::Settling);
        let answers = self.storage.settle(settlements, now).await?;
        self.fuse.visit(CrashPoint::Settled);
        let events = settled.iter().zip(&answers).filter_map(|((lease, done), answer)| {
            let LeaseRef { message, token } = *lease;
            match answer {
                SettleResult::Applied if *done => Some(LedgerEvent::Done(message, token)),
                SettleResult::Applied => Some(LedgerEvent::Again(message, token)),
                SettleResult::Lost => Some(LedgerEvent::LeaseLost(message)),
                SettleResult::CancelRequested => None,
            }
        });
        self.ledger.write(events);
        Ok(answers)
    }

    async fn save_progress(
        &self,
        updates: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.storage.save_progress(updates, now).await
    }

    async fn acquire_rate(&self, request: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.storage.acquire_rate(request, now).await
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
        expected: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.storage.declare(record, expected, now).await
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
        expected: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.storage.command_job(job, command, expected, now).await
    }

    async fn remove_job(
        &self,
        job: &JobName,
        expected: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.storage.remove_job(job, expected, now).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        let claimed = self.storage.reclaim(reclaim, now).await?;
        let event = |one: &ClaimedMessage| LedgerEvent::Reclaimed(one.message.id, one.lease.token);
        if !claimed.is_empty() {
            self.ledger.write(claimed.iter().map(event));
            self.fuse.visit(CrashPoint::Reclaimed);
        }
        Ok(claimed)
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

    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        self.storage.next_due(source).await
    }

    fn wakeup(&self, source: &WakeSource) -> Wakeup {
        self.storage.wakeup(source)
    }

    async fn time(&self) -> Result<Timestamp> {
        self.storage.time().await
    }

    async fn next_due_all(&self, sources: &[WakeSource]) -> Result<Vec<Option<Timestamp>>> {
        self.storage.next_due_all(sources).await
    }

    fn notifies_across_processes(&self) -> bool {
        self.storage.notifies_across_processes()
    }

    fn is_durable(&self) -> bool {
        self.storage.is_durable()
    }
}
