//! A storage whose claims take effect before their answer arrives, as over a network: each first
//! answers "not yet" once, with the messages already leased.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::jiff::Timestamp;
use punctual::model::{JobName, JobRecord, LeaseRef, MessageRecord, ProcessId, Steer, Topic};
use punctual::policy::Permitted;
use punctual::storage::{
    BrokerRecord, Claim, Claimed, Command, Commanded, Declared, DueJob, Enqueued, Entry, Extended,
    Fired, Firing, Keep, Line, Permit, Prune, Pruned, Reclaim, Settled, Settlement, Steered,
    Wakeup,
};
use punctual::{MemoryStorage, Result, Storage};

pub(super) struct Late(pub(super) Arc<MemoryStorage>);

#[async_trait]
impl Storage for Late {
    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<Claimed>> {
        let claimed = self.0.claim(claim, now).await;
        tokio::task::yield_now().await;
        claimed
    }

    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<Enqueued>> {
        self.0.enqueue(entries, now).await
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Extended>> {
        self.0.extend(leases, until, now).await
    }

    async fn settle(&self, settlements: Vec<Settlement>, now: Timestamp) -> Result<Vec<Settled>> {
        self.0.settle(settlements, now).await
    }

    async fn keep(&self, keeps: Vec<Keep>, now: Timestamp) -> Result<Vec<Extended>> {
        self.0.keep(keeps, now).await
    }

    async fn permit(&self, permit: Permit, now: Timestamp) -> Result<Permitted> {
        self.0.permit(permit, now).await
    }

    async fn join(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.0.join(topic, group, now).await
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.0.groups().await
    }

    async fn remove_job(&self, job: &JobName, seen: u64, now: Timestamp) -> Result<Steered> {
        self.0.remove_job(job, seen, now).await
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.0.record(records, now).await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<Commanded> {
        self.0.command(command, now).await
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<Declared> {
        self.0.declare(record, seen, now).await
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.0.due_jobs(limit, now).await
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<Fired>> {
        self.0.fire(firings, now).await
    }

    async fn steer(
        &self,
        job: &JobName,
        steer: Steer,
        seen: u64,
        now: Timestamp,
    ) -> Result<Steered> {
        self.0.steer(job, steer, seen, now).await
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<Claimed>> {
        self.0.reclaim(reclaim, now).await
    }

    async fn beat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.0.beat(process, until, now).await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<Pruned> {
        self.0.prune(prune, now).await
    }

    async fn restore(&self, records: Vec<MessageRecord>, now: Timestamp) -> Result<Vec<Enqueued>> {
        self.0.restore(records, now).await
    }

    async fn next_due(&self, line: &Line) -> Result<Option<Timestamp>> {
        self.0.next_due(line).await
    }

    fn wakeup(&self, line: &Line) -> Wakeup {
        self.0.wakeup(line)
    }

    async fn time(&self) -> Result<Timestamp> {
        self.0.time().await
    }
}
