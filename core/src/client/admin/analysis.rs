//! Questions of operators: why a message does not run, what happened to each occurrence of a job, what runs next,
//! what an outage would do, and which failures dead letters have in common. They only read.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Admin;
use crate::analysis::{
    DeadGroups, KnownProcess, Ledger, LedgerEntry, LedgerRange, OtherProcesses, OutagePreview,
    ScheduledTime, StoredFacts, UpcomingOccurrence, UpcomingRuns, Walk, Why, WhyFacts, dead_groups,
    just_before, outage_preview, read_history, upcoming, upcoming_runs, walk, walk_some,
};
use crate::error::{Error, Result};
use crate::inspect::{ExecutionFilter, PageRequest, PageResult};
use crate::model::{Execution, MessageId, MessageRecord, Queue};
use crate::policy::PREVIEW_MAX;
use crate::schedule::Schedule;
use crate::status::Status;

/// Most runs of [`Admin::upcoming_runs`].
const RUNS_MAX: usize = 10_000;

impl Admin {
    /// Explains the state of a message: why it does not run, or how it ended. Returns `None` when it does not
    /// exist. Of other processes only their running messages are known; see [`Admin::why_with`].
    pub async fn why(&self, id: MessageId) -> Result<Option<Why>> {
        let Some(record) = self.message(id).await? else { return Ok(None) };
        let filter = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
        let last = self.executions(filter, PageRequest::first(1)).await?.rows.pop();
        self.why_with(&record, last.as_ref(), &OtherProcesses::default()).await.map(Some)
    }

    /// Explains the state of a message with its last attempt, given what the caller knows about other processes.
    pub async fn why_with(
        &self,
        record: &MessageRecord,
        last: Option<&Execution>,
        others: &OtherProcesses,
    ) -> Result<Why> {
        let process = &*self.process;
        let queue = &record.message.queue;
        let stored = StoredFacts::read(&*self.inspect, record, process.env.id).await?;
        let mut subscriptions = process.controls.all().into_iter();
        let subscription = subscriptions
            .find(|status| *queue == Queue::of_group(&status.name.topic, &status.name.group));
        let facts = WhyFacts {
            now: process.now(),
            record,
            job: stored.job.as_ref(),
            running: stored.running,
            batch_alive: stored.batch_alive,
            paused: others.queue_pause.as_ref(),
            paused_here: process.queues.is_paused(queue),
            others: &others.processes,
            this: &self.this_process(),
            circuit: subscription.map(|status| status.circuit),
            last,
        };
        Ok(facts.why())
    }

    /// Returns the queues that this process works on and the topics that it handles.
    pub fn this_process(&self) -> KnownProcess {
        let process = &*self.process;
        let served = process.queues.all().into_iter().filter(|status| status.concurrency > 0);
        let topics = process.runner.registry.topics().filter(|_| process.env.options.handling);
        let mut topics: Vec<_> = topics.cloned().collect();
        topics.sort();
        KnownProcess { queues: served.map(|status| status.queue).collect(), topics: Some(topics) }
    }

    /// Returns the next occurrences of a job, 1 to 1000, also those that will be skipped; [`Admin::upcoming`] returns
    /// only the times of the others.
    pub async fn upcoming_occurrences(
        &self,
        job: impl AsRef<str>,
        count: usize,
    ) -> Result<Vec<UpcomingOccurrence>> {
        let count = checked("count", count, PREVIEW_MAX)?;
        let (record, now) = (self.status_of(job).await?.record, self.process.now());
        self.walk(move |walk| upcoming(walk, &record, count, now)).await
    }

    /// Returns the next runs of all jobs at or after `from` and before `to`, up to `limit`, at most 10000.
    pub async fn upcoming_runs(
        &self,
        (from, to): (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<UpcomingRuns> {
        let status = self.status().await;
        if let Some(error) = &status.storage_error {
            return Err(Error::unavailable(format!(
                "the storage does not respond, so jobs are unknown: {error}"
            )));
        }
        self.upcoming_runs_of(Arc::new(status), (from, to), limit).await
    }

    /// Returns the next runs like [`Admin::upcoming_runs`], of the jobs of a status that was read before.
    pub async fn upcoming_runs_of(
        &self,
        status: Arc<Status>,
        (from, to): (Timestamp, Timestamp),
        limit: usize,
    ) -> Result<UpcomingRuns> {
        let limit = limit.min(RUNS_MAX);
        let range = (from.max(self.process.now()), to);
        let (clock, permits) = (self.process.env.clock.clone(), self.process.walks.clone());
        let (runs, is_short) = walk_some(clock, permits, move |walk| {
            let records: Vec<_> = status.jobs.iter().map(|job| &*job.record).collect();
            upcoming_runs(walk, &records, range, limit)
        })
        .await?;
        Ok(UpcomingRuns { more: runs.more || is_short, ..runs })
    }

    /// Returns the times of a schedule at or after an instant, 1 to 1000, also of one that no job has.
    pub async fn schedule_times(
        &self,
        schedule: Schedule,
        from: Timestamp,
        count: usize,
    ) -> Result<Vec<ScheduledTime>> {
        let count = checked("count", count, PREVIEW_MAX)?;
        self.walk(move |walk| {
            let times = walk.after(&schedule, just_before(from)).take(count);
            times.map(|at| ScheduledTime::new(&schedule, at)).collect()
        })
        .await
    }

    /// Returns the occurrences of a job, oldest first, each with the decision about it and the reason. They are
    /// computed from the history, the stored messages and the schedule.
    pub async fn ledger(
        &self,
        job: impl AsRef<str>,
        range: LedgerRange,
    ) -> Result<PageResult<LedgerEntry, Timestamp>> {
        let limit = checked("limit", range.limit, PREVIEW_MAX)?;
        let record = Arc::new(*self.status_of(job).await?.record);
        let now = self.process.now();
        let shared = record.clone();
        let (from, to) = self.walk(move |walk| range.bounds(walk, &shared, now)).await??;
        let history = read_history(&*self.inspect, &record.job.name, from).await?;
        self.walk(move |walk| Ledger::new(walk, &record, &history, now).list(from, to, limit)).await
    }

    /// Predicts what would happen to the occurrences of a job if no scheduler ran for a while from now on, at most
    /// 366 days. Changes nothing.
    pub async fn outage_preview(
        &self,
        job: impl AsRef<str>,
        down: Duration,
    ) -> Result<OutagePreview> {
        let record = self.status_of(job).await?.record;
        let (threshold, now) = (self.misfire_threshold(), self.process.now());
        // The policy bounds the number of steps.
        self.walk(move |_| outage_preview(&record, down, threshold, now)).await?
    }

    /// Groups the newest 10000 dead letters by topic, job and error, whatever the variable parts of the error.
    pub async fn dead_groups(&self) -> Result<DeadGroups> {
        dead_groups(&*self.inspect, self.process.now()).await
    }

    /// Runs a computation over schedules; fails when it takes too many steps or too long.
    pub(super) async fn walk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Walk) -> T + Send + 'static,
    ) -> Result<T> {
        walk(self.process.env.clock.clone(), self.process.walks.clone(), work).await
    }
}

/// Returns a number of rows; fails when it is out of range.
fn checked(name: &str, count: usize, most: usize) -> Result<usize> {
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    Err(Error::invalid(format!("invalid {name}: {count} is not between 1 and {most}")))
}
