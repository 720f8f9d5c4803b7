//! The storage as one process sees it: the shared memory storage behind a network that is slow, loses
//! answers and dies with the process. A call takes effect in one step; in that step the ledger is
//! told what was asked and what was answered.

mod reading;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::jiff::Timestamp;
use punctual::model::{
    JobCommand, JobName, JobRecord, LeaseRef, MessageId, MessageRecord, ProcessId, Topic,
};
use punctual::policy::RateGrant;
use punctual::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, WakeSource, Wakeup,
};
use punctual::{Error, Inspect, MemoryStorage, Result, Storage};

use super::faults::Fault;
use super::ledger::{FiredJob, Ledger};
use super::machine::Machine;
use super::shared::Shared;

/// More calls than any instant needs.
const CALLS_MAX: u64 = 20_000;

/// The storage behind one process's network.
pub(crate) struct FaultyStorage {
    machine: Arc<Machine>,
    shared: Arc<Shared>,
    inner: Arc<MemoryStorage>,
    threshold_default: Duration,
}

impl FaultyStorage {
    pub(crate) fn new(machine: Arc<Machine>, threshold_default: Duration) -> Self {
        let shared = machine.shared.clone();
        Self { inner: shared.storage.clone(), shared, machine, threshold_default }
    }

    /// The way to the storage.
    async fn there(&self, call: &'static str) -> Result<()> {
        self.machine.pass().await;
        self.shared.stir();
        if self.shared.count_call() > CALLS_MAX {
            self.shared.ledger().broken(
                "nobody spins",
                format!("{} asks for {call} again and again", self.machine.name),
            );
            std::future::pending::<()>().await;
        }
        self.loiter(call).await;
        if self.shared.in_outage() || self.shared.strikes(Fault::CallRefused) {
            self.shared.note(|| format!("{} {call} refused", self.machine.name));
            return Err(
                Error::unavailable("the simulated storage did not take the call").during(call)
            );
        }
        if self.shared.strikes(Fault::CrashBefore) {
            self.crash(call, "before").await;
        }
        Ok(())
    }

    /// The way back.
    async fn back(&self, call: &'static str) -> Result<()> {
        if self.shared.strikes(Fault::CrashAfter) {
            self.crash(call, "after").await;
        }
        self.loiter(call).await;
        self.machine.pass().await;
        if self.shared.strikes(Fault::AnswerLost) {
            self.shared.note(|| format!("{} {call} answer lost", self.machine.name));
            return Err(Error::unavailable("the simulated storage's answer was lost").during(call));
        }
        Ok(())
    }

    async fn crash(&self, call: &'static str, when: &'static str) {
        self.shared.note(|| format!("{} dies {when} {call}", self.machine.name));
        self.machine.crash();
        std::future::pending::<()>().await;
    }

    /// Gives way to others, and sometimes takes its time.
    async fn loiter(&self, call: &'static str) {
        if self.shared.strikes(Fault::Interleaved) {
            for _ in 0..self.shared.draw(|random| random.between(1, 4)) {
                self.shared.stir();
                tokio::task::yield_now().await;
            }
        }
        if self.shared.strikes(Fault::CallDelayed) {
            let length = self.shared.draw(|random| match random.below(10) {
                0 => random.seconds(61, 400),
                1..=4 => random.seconds(1, 60),
                _ => random.millis(1, 2_000),
            });
            self.shared.note(|| format!("{} {call} delayed by {length:?}", self.machine.name));
            self.machine.work_for(length).await;
        }
    }

    /// Tells the ledger in the same step, and compares the records that were touched.
    async fn tell(&self, touched: &[MessageId], tell: impl FnOnce(&mut Ledger)) -> Result<()> {
        let mut records = Vec::with_capacity(touched.len());
        for id in touched {
            records.push(self.inner.message(*id).await?);
        }
        let mut ledger = self.shared.ledger();
        tell(&mut ledger);
        for (id, record) in touched.iter().zip(&records) {
            ledger.compare(*id, record.as_ref());
        }
        Ok(())
    }

    fn process(&self) -> Option<ProcessId> {
        self.machine.process.get().copied()
    }
}

#[async_trait]
impl Storage for FaultyStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.there("enqueue").await?;
        let ids: Vec<_> = entries.iter().map(|entry| entry.message.id).collect();
        let answers = self.inner.enqueue(entries.clone(), now).await?;
        self.shared.note(|| format!("{} enqueue {ids:?} {answers:?}", self.machine.name));
        self.tell(&ids, |ledger| ledger.enqueued(&entries, &answers)).await?;
        self.back("enqueue").await?;
        Ok(answers)
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.there("claim").await?;
        let claimed = self.inner.claim(claim.clone(), now).await?;
        let ids: Vec<_> = claimed.iter().map(|one| one.message.id).collect();
        if !ids.is_empty() {
            self.shared
                .note(|| format!("{} claim {} at {now} {ids:?}", self.machine.name, claim.queue));
        }
        self.tell(&ids, |ledger| {
            ledger.claimed(&self.machine, &claim, now, &claimed);
        })
        .await?;
        self.back("claim").await?;
        Ok(claimed)
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.there("extend").await?;
        let answers = self.inner.extend(leases, until, now).await?;
        let ids: Vec<_> = leases.iter().map(|lease| lease.message).collect();
        if !ids.is_empty() {
            self.shared
                .note(|| format!("{} extend {leases:?} to {until} {answers:?}", self.machine.name));
        }
        self.tell(&ids, |ledger| ledger.extended(leases, until, &answers)).await?;
        self.back("extend").await?;
        Ok(answers)
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        self.there("settle").await?;
        let answers = self.inner.settle(settlements.clone(), now).await?;
        let ids: Vec<_> = settlements.iter().map(|settlement| settlement.lease.message).collect();
        self.shared.note(|| {
            let of = |settlement: &Settlement| (settlement.lease, settlement.verdict.clone());
            let what: Vec<_> = settlements.iter().map(of).collect();
            format!("{} settle {what:?} {answers:?}", self.machine.name)
        });
        self.tell(&ids, |ledger| ledger.settled(&settlements, now, &answers)).await?;
        self.back("settle").await?;
        Ok(answers)
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.there("record").await?;
        self.inner.record(records.clone(), now).await?;
        let ids: Vec<_> = records.iter().filter_map(|record| record.execution.message).collect();
        self.shared.note(|| format!("{} record {ids:?}", self.machine.name));
        self.tell(&ids, |ledger| ledger.recorded(&records, now)).await?;
        self.back("record").await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        self.there("command").await?;
        let answer = self.inner.command(command.clone(), now).await?;
        self.shared.note(|| format!("{} {command:?} {answer:?}", self.machine.name));
        let touched: Vec<_> = match &command {
            Command::Cancel(id)
            | Command::Delete(id)
            | Command::Discard(id)
            | Command::Redrive { id, .. }
            | Command::Pause { id, .. }
            | Command::Resume { id, .. }
            | Command::Reschedule { id, .. }
            | Command::Reassign { id, .. } => vec![*id],
            Command::CancelKey { .. } => Vec::new(),
        };
        self.tell(&touched, |ledger| ledger.commanded(&command, now, answer)).await?;
        self.back("command").await?;
        Ok(answer)
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.there("declare").await?;
        let answer = self.inner.declare(record.clone(), seen, now).await?;
        self.shared.note(|| {
            let (name, cursor, release) = (&record.job.name, record.cursor, record.release);
            format!(
                "{} declare {name} at {now} cursor {cursor:?} release {release} {answer:?}",
                self.machine.name
            )
        });
        self.shared.ledger().declared(&record, seen, now, answer);
        self.back("declare").await?;
        Ok(answer)
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.there("due_jobs").await?;
        let due = self.inner.due_jobs(limit, now).await?;
        if let Some(process) = self.process() {
            self.shared.ledger().saw_due(process, &due, now);
        }
        self.back("due_jobs").await?;
        Ok(due)
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.there("fire").await?;
        let answers = self.inner.fire(firings.clone(), now).await?;
        let stored =
            firings.iter().zip(&answers).filter(|(_, answer)| **answer == FireResult::Fired);
        let ids: Vec<_> = stored
            .flat_map(|(firing, _)| firing.messages.iter().map(|message| message.id))
            .collect();
        for (firing, answer) in firings.iter().zip(&answers) {
            self.shared.note(|| {
                let (name, cursor) = (&firing.job, firing.after.cursor);
                let nominal = |message: &Arc<punctual::Message>| message.occurrence.as_ref().map(|one| one.nominal);
                let fired: Vec<_> = firing.messages.iter().map(|message| (message.id, nominal(message))).collect();
                let skipped = firing.skipped.len();
                format!("{} fire {name} at {now} {fired:?} skipped {skipped} cursor {cursor:?} {answer:?}", self.machine.name)
            });
        }
        if let Some(process) = self.process() {
            let threshold_default = self.threshold_default;
            self.tell(&ids, |ledger| {
                for (firing, answer) in firings.iter().zip(&answers) {
                    ledger.fired(&FiredJob {
                        process,
                        firing,
                        answer: *answer,
                        now,
                        threshold_default,
                    });
                }
            })
            .await?;
        }
        self.back("fire").await?;
        Ok(answers)
    }

    async fn save_progress(
        &self,
        keeps: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.there("keep").await?;
        let answers = self.inner.save_progress(keeps, now).await?;
        self.back("keep").await?;
        Ok(answers)
    }

    async fn acquire_rate(&self, permit: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.there("permit").await?;
        let permitted = self.inner.acquire_rate(permit, now).await?;
        self.back("permit").await?;
        Ok(permitted)
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.there("join").await?;
        self.inner.register_group(topic, group, now).await?;
        self.back("join").await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        self.there("next_expiry").await?;
        let expiry = self.inner.next_expiry().await?;
        self.back("next_expiry").await?;
        Ok(expiry)
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.there("groups").await?;
        let groups = self.inner.groups().await?;
        self.back("groups").await?;
        Ok(groups)
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.there("remove_job").await?;
        let removed = self.inner.remove_job(job, seen, now).await?;
        self.back("remove_job").await?;
        Ok(removed)
    }

    async fn command_job(
        &self,
        job: &JobName,
        steer: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.there("steer").await?;
        let answer = self.inner.command_job(job, steer.clone(), seen, now).await?;
        self.shared.note(|| format!("{} steer {job} {steer:?} at {now}", self.machine.name));
        self.shared.ledger().steered(job, &steer, seen, &answer);
        self.back("steer").await?;
        Ok(answer)
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.there("reclaim").await?;
        let claimed = self.inner.reclaim(reclaim.clone(), now).await?;
        let ids: Vec<_> = claimed.iter().map(|one| one.message.id).collect();
        if !ids.is_empty() {
            self.shared.note(|| format!("{} reclaim {ids:?}", self.machine.name));
        }
        self.tell(&ids, |ledger| ledger.reclaimed(&reclaim, now, &claimed)).await?;
        self.back("reclaim").await?;
        Ok(claimed)
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.there("beat").await?;
        self.inner.heartbeat(process, until, now).await?;
        self.shared.ledger().beaten(process, until, now);
        self.back("beat").await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        self.there("prune").await?;
        let pruned = self.inner.prune(prune, now).await?;
        self.shared.note(|| format!("{} prune {pruned:?}", self.machine.name));
        self.shared.ledger().pruned(prune, pruned);
        self.back("prune").await?;
        Ok(pruned)
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.inner.import_messages(records, now).await
    }

    async fn next_due(&self, line: &WakeSource) -> Result<Option<Timestamp>> {
        self.there("next_due").await?;
        let next = self.inner.next_due(line).await?;
        self.back("next_due").await?;
        Ok(next)
    }

    fn wakeup(&self, line: &WakeSource) -> Wakeup {
        self.inner.wakeup(line)
    }

    async fn time(&self) -> Result<Timestamp> {
        let asked_at = self.shared.now();
        let skew = self.machine.skew();
        self.there("time").await?;
        let told = self.inner.time().await?;
        self.back("time").await?;
        // The caller takes the answer to be from the end of the call, at worst all of it too late.
        let slow = self.shared.now().duration_since(asked_at);
        let stepped = (self.machine.skew() - skew).abs();
        self.machine.widen(i64::try_from((slow + stepped).as_nanos()).unwrap_or(i64::MAX));
        Ok(told)
    }
}
