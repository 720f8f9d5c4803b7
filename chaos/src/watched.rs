//! A storage under observation: every answer that matters goes to the ledger, and the crash points of
//! the storage's calls are passed. It changes no call and no answer.

mod reading;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use punctual::jiff::Timestamp;
use punctual::model::{
    JobCommand, JobName, JobRecord, LeaseRef, MessageId, MessageRecord, ProcessId, Topic,
};
use punctual::policy::{RateGrant, Verdict};
use punctual::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, WakeSource, Wakeup,
};
use punctual::{Inspect, Result, Storage};

use crate::fuse::{Fuse, Point};
use crate::ledger::{Ledger, Line};
use crate::open::Opened;

/// A storage whose answers are written down.
pub struct Watched {
    storage: Arc<dyn Storage>,
    inspect: Arc<dyn Inspect>,
    ledger: Arc<Ledger>,
    fuse: Fuse,
    /// The token of the last claim of each message, for the handler's line.
    tokens: Mutex<HashMap<MessageId, u64>>,
}

impl Watched {
    /// Watches a storage.
    pub fn new(opened: Opened, ledger: Arc<Ledger>, fuse: Fuse) -> Self {
        Self {
            storage: opened.storage,
            inspect: opened.inspect,
            ledger,
            fuse,
            tokens: Mutex::default(),
        }
    }

    /// The token under which a message was claimed here last; 0 when it was not.
    pub fn token(&self, message: MessageId) -> u64 {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(&message).copied().unwrap_or_default()
    }

    fn keep_tokens(&self, claimed: &[ClaimedMessage]) {
        let pairs = claimed.iter().map(|one| (one.message.id, one.lease.token));
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).extend(pairs);
    }
}

#[async_trait]
impl Storage for Watched {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.fuse.visit(Point::Publishing);
        let answers = self.storage.enqueue(entries, now).await?;
        self.fuse.visit(Point::Published);
        Ok(answers)
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        let claimed = self.storage.claim(claim, now).await?;
        let line = |one: &ClaimedMessage| Line::Claimed(one.message.id, one.lease.token);
        if !claimed.is_empty() {
            self.keep_tokens(&claimed);
            self.ledger.write(claimed.iter().map(line));
            self.fuse.visit(Point::Claimed);
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
        self.ledger.write(lost.map(|(lease, _)| Line::LeaseLost(lease.message)));
        Ok(answers)
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        let settled: Vec<(LeaseRef, bool)> =
            settlements.iter().map(|one| (one.lease, one.verdict == Verdict::Done)).collect();
        self.fuse.visit(Point::Settling);
        let answers = self.storage.settle(settlements, now).await?;
        self.fuse.visit(Point::Settled);
        let lines = settled.iter().zip(&answers).filter_map(|((lease, done), answer)| {
            let LeaseRef { message, token } = *lease;
            match answer {
                SettleResult::Applied if *done => Some(Line::Done(message, token)),
                SettleResult::Applied => Some(Line::Again(message, token)),
                SettleResult::Lost => Some(Line::LeaseLost(message)),
                SettleResult::CancelRequested => None,
            }
        });
        self.ledger.write(lines);
        Ok(answers)
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
        steer: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.storage.command_job(job, steer, seen, now).await
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
        let claimed = self.storage.reclaim(reclaim, now).await?;
        let line = |one: &ClaimedMessage| Line::Reclaimed(one.message.id, one.lease.token);
        if !claimed.is_empty() {
            self.ledger.write(claimed.iter().map(line));
            self.fuse.visit(Point::Reclaimed);
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

    async fn next_due(&self, line: &WakeSource) -> Result<Option<Timestamp>> {
        self.storage.next_due(line).await
    }

    fn wakeup(&self, line: &WakeSource) -> Wakeup {
        self.storage.wakeup(line)
    }

    async fn time(&self) -> Result<Timestamp> {
        self.storage.time().await
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
