//! Faulty storage: the view of one process on the shared memory storage, behind a network that is slow and loses
//! calls and responses. A call takes effect in one step; in the same step the ledger gets the call and its result.

mod inspect;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::policy::RateGrant;
use punctual::backend::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, WakeSource, Wakeup,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    JobCommand, JobName, JobRecord, LeaseRef, MessageId, MessageRecord, ProcessId, Topic,
};
use punctual::{Error, Inspect, MemoryStorage, Result, Storage};

use super::faults::Fault;
use super::ledger::{FiringAttempt, Ledger};
use super::machine::Machine;
use super::shared::Shared;

/// Largest number of calls at one instant.
const CALLS_MAX: u64 = 20_000;

/// Storage behind the network of one process.
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

    /// Simulates faults before the effect of a call; fails when the call is refused.
    async fn before_call(&self, call: &'static str) -> Result<()> {
        self.machine.wait_until_running().await;
        self.shared.record_activity();
        if self.shared.count_call() > CALLS_MAX {
            self.shared.ledger().record_violation(
                "no process spins",
                format!("{} calls {call} in a loop", self.machine.name),
            );
            std::future::pending::<()>().await;
        }
        self.delay_call(call).await;
        if self.shared.in_outage() || self.shared.occurs(Fault::CallRefused) {
            self.shared.note(|| format!("{} {call} refused", self.machine.name));
            return Err(Error::unavailable("the simulated storage refused the call").during(call));
        }
        if self.shared.occurs(Fault::CrashBefore) {
            self.crash(call, "before").await;
        }
        Ok(())
    }

    /// Simulates faults after the effect of a call; fails when the response is lost.
    async fn after_call(&self, call: &'static str) -> Result<()> {
        if self.shared.occurs(Fault::CrashAfter) {
            self.crash(call, "after").await;
        }
        self.delay_call(call).await;
        self.machine.wait_until_running().await;
        if self.shared.occurs(Fault::ResponseLost) {
            self.shared.note(|| format!("{} {call} response lost", self.machine.name));
            return Err(
                Error::unavailable("the response of the simulated storage was lost").during(call)
            );
        }
        Ok(())
    }

    async fn crash(&self, call: &'static str, when: &'static str) {
        self.shared.note(|| format!("{} crashes {when} {call}", self.machine.name));
        self.machine.crash();
        std::future::pending::<()>().await;
    }

    /// Yields to other tasks, and delays some calls.
    async fn delay_call(&self, call: &'static str) {
        if self.shared.occurs(Fault::Interleaved) {
            for _ in 0..self.shared.draw(|random| random.between(1, 4)) {
                self.shared.record_activity();
                tokio::task::yield_now().await;
            }
        }
        if self.shared.occurs(Fault::CallDelayed) {
            let duration = self.shared.draw(|random| match random.below(10) {
                0 => random.seconds(61, 400),
                1..=4 => random.seconds(1, 60),
                _ => random.millis(1, 2_000),
            });
            self.shared.note(|| format!("{} {call} delayed by {duration:?}", self.machine.name));
            self.machine.work_for(duration).await;
        }
    }

    /// Updates the ledger in the same step, and compares the changed records.
    async fn update_ledger(
        &self,
        changed: &[MessageId],
        update: impl FnOnce(&mut Ledger),
    ) -> Result<()> {
        let mut records = Vec::with_capacity(changed.len());
        for id in changed {
            records.push(self.inner.message(*id).await?);
        }
        let mut ledger = self.shared.ledger();
        update(&mut ledger);
        for (id, record) in changed.iter().zip(&records) {
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
        self.before_call("enqueue").await?;
        let ids: Vec<_> = entries.iter().map(|entry| entry.message.id).collect();
        let answers = self.inner.enqueue(entries.clone(), now).await?;
        self.shared.note(|| format!("{} enqueue {ids:?} {answers:?}", self.machine.name));
        self.update_ledger(&ids, |ledger| ledger.enqueued(&entries, &answers)).await?;
        self.after_call("enqueue").await?;
        Ok(answers)
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.before_call("claim").await?;
        let claimed = self.inner.claim(claim.clone(), now).await?;
        let ids: Vec<_> = claimed.iter().map(|one| one.message.id).collect();
        if !ids.is_empty() {
            self.shared
                .note(|| format!("{} claim {} at {now} {ids:?}", self.machine.name, claim.queue));
        }
        self.update_ledger(&ids, |ledger| {
            ledger.claimed(&self.machine, &claim, now, &claimed);
        })
        .await?;
        self.after_call("claim").await?;
        Ok(claimed)
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.before_call("extend").await?;
        let answers = self.inner.extend(leases, until, now).await?;
        let ids: Vec<_> = leases.iter().map(|lease| lease.message).collect();
        if !ids.is_empty() {
            self.shared
                .note(|| format!("{} extend {leases:?} to {until} {answers:?}", self.machine.name));
        }
        self.update_ledger(&ids, |ledger| ledger.extended(leases, until, &answers)).await?;
        self.after_call("extend").await?;
        Ok(answers)
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        self.before_call("settle").await?;
        let answers = self.inner.settle(settlements.clone(), now).await?;
        let ids: Vec<_> = settlements.iter().map(|settlement| settlement.lease.message).collect();
        self.shared.note(|| {
            let of = |settlement: &Settlement| (settlement.lease, settlement.verdict.clone());
            let what: Vec<_> = settlements.iter().map(of).collect();
            format!("{} settle {what:?} {answers:?}", self.machine.name)
        });
        self.update_ledger(&ids, |ledger| ledger.settled(&settlements, now, &answers)).await?;
        self.after_call("settle").await?;
        Ok(answers)
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.before_call("record").await?;
        self.inner.record(records.clone(), now).await?;
        let ids: Vec<_> = records.iter().filter_map(|record| record.execution.message).collect();
        self.shared.note(|| format!("{} record {ids:?}", self.machine.name));
        self.update_ledger(&ids, |ledger| ledger.recorded(&records, now)).await?;
        self.after_call("record").await
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        self.before_call("command").await?;
        let answer = self.inner.command(command.clone(), now).await?;
        self.shared.note(|| format!("{} {command:?} {answer:?}", self.machine.name));
        let changed: Vec<_> = match &command {
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
        self.update_ledger(&changed, |ledger| ledger.commanded(&command, now, answer)).await?;
        self.after_call("command").await?;
        Ok(answer)
    }

    async fn declare(
        &self,
        record: JobRecord,
        expected: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        self.before_call("declare").await?;
        let answer = self.inner.declare(record.clone(), expected, now).await?;
        self.shared.note(|| {
            let (name, cursor, release) = (&record.job.name, record.cursor, record.release);
            format!(
                "{} declare {name} at {now} cursor {cursor:?} release {release} {answer:?}",
                self.machine.name
            )
        });
        self.shared.ledger().declared(&record, expected, now, answer);
        self.after_call("declare").await?;
        Ok(answer)
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        self.before_call("due_jobs").await?;
        let due = self.inner.due_jobs(limit, now).await?;
        if let Some(process) = self.process() {
            self.shared.ledger().due_jobs_read(process, &due, now);
        }
        self.after_call("due_jobs").await?;
        Ok(due)
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.before_call("fire").await?;
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
            self.update_ledger(&ids, |ledger| {
                for (firing, answer) in firings.iter().zip(&answers) {
                    ledger.fired(&FiringAttempt {
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
        self.after_call("fire").await?;
        Ok(answers)
    }

    async fn save_progress(
        &self,
        updates: Vec<ProgressUpdate>,
        now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        self.before_call("save_progress").await?;
        let answers = self.inner.save_progress(updates, now).await?;
        self.after_call("save_progress").await?;
        Ok(answers)
    }

    async fn acquire_rate(&self, request: RateRequest, now: Timestamp) -> Result<RateGrant> {
        self.before_call("acquire_rate").await?;
        let grant = self.inner.acquire_rate(request, now).await?;
        self.after_call("acquire_rate").await?;
        Ok(grant)
    }

    async fn register_group(&self, topic: &Topic, group: &str, now: Timestamp) -> Result<()> {
        self.before_call("register_group").await?;
        self.inner.register_group(topic, group, now).await?;
        self.after_call("register_group").await
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        self.before_call("next_expiry").await?;
        let expiry = self.inner.next_expiry().await?;
        self.after_call("next_expiry").await?;
        Ok(expiry)
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        self.before_call("groups").await?;
        let groups = self.inner.groups().await?;
        self.after_call("groups").await?;
        Ok(groups)
    }

    async fn remove_job(
        &self,
        job: &JobName,
        expected: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.before_call("remove_job").await?;
        let removed = self.inner.remove_job(job, expected, now).await?;
        self.after_call("remove_job").await?;
        Ok(removed)
    }

    async fn command_job(
        &self,
        job: &JobName,
        command: JobCommand,
        expected: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.before_call("command_job").await?;
        let answer = self.inner.command_job(job, command.clone(), expected, now).await?;
        self.shared.note(|| format!("{} {command:?} of {job} at {now}", self.machine.name));
        self.shared.ledger().job_commanded(job, &command, expected, &answer);
        self.after_call("command_job").await?;
        Ok(answer)
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        self.before_call("reclaim").await?;
        let claimed = self.inner.reclaim(reclaim.clone(), now).await?;
        let ids: Vec<_> = claimed.iter().map(|one| one.message.id).collect();
        if !ids.is_empty() {
            self.shared.note(|| format!("{} reclaim {ids:?}", self.machine.name));
        }
        self.update_ledger(&ids, |ledger| ledger.reclaimed(&reclaim, now, &claimed)).await?;
        self.after_call("reclaim").await?;
        Ok(claimed)
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.before_call("heartbeat").await?;
        self.inner.heartbeat(process, until, now).await?;
        self.shared.ledger().heartbeat(process, until, now);
        self.after_call("heartbeat").await
    }

    async fn prune(&self, prune: Prune, now: Timestamp) -> Result<PruneResult> {
        self.before_call("prune").await?;
        let pruned = self.inner.prune(prune, now).await?;
        self.shared.note(|| format!("{} prune {pruned:?}", self.machine.name));
        self.shared.ledger().pruned(prune, pruned);
        self.after_call("prune").await?;
        Ok(pruned)
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.inner.import_messages(records, now).await
    }

    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        self.before_call("next_due").await?;
        let next = self.inner.next_due(source).await?;
        self.after_call("next_due").await?;
        Ok(next)
    }

    fn wakeup(&self, source: &WakeSource) -> Wakeup {
        self.inner.wakeup(source)
    }

    async fn time(&self) -> Result<Timestamp> {
        let called_at = self.shared.now();
        let skew = self.machine.skew();
        self.before_call("time").await?;
        let time = self.inner.time().await?;
        self.after_call("time").await?;
        // The caller takes the result as the time at the end of the call, so the whole call time is possible error.
        let slow = self.shared.now().duration_since(called_at);
        let stepped = (self.machine.skew() - skew).abs();
        self.machine
            .add_clock_error(i64::try_from((slow + stepped).as_nanos()).unwrap_or(i64::MAX));
        Ok(time)
    }
}
