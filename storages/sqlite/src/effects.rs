//! Effects of a step besides its rows: the counts of messages, written before the commit, and the
//! notifications, sent after it. Collected inside a transaction.

use std::collections::{BTreeMap, HashMap, HashSet};

use punctual::model::{MessageState, Queue};
use punctual_columns::code::Code as _;
use rusqlite::Connection;

use crate::driver::Driver;
use crate::error::StorageResult;
use crate::operations::{end_batch, notify_job_queues, notify_limit_queues};
use crate::value::values;

/// Changes a count.
const COUNT: &str = "INSERT INTO punctual_count (queue, state, count) VALUES (?1, ?2, ?3) \
     ON CONFLICT (queue, state) DO UPDATE SET count = count + ?3";

/// Effects of a step, or of all steps of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) due: HashMap<Queue, i64>,
    pub(crate) taken: HashSet<Queue>,
    pub(crate) jobs_due: Option<i64>,
    pub(crate) jobs_moved: bool,
    pub(crate) leases: bool,
    /// Limits of which a message stopped running.
    limits: HashSet<String>,
    /// Jobs of which pending messages may run now.
    unblocked_jobs: HashSet<String>,
    /// Batches of which a message has left the hot table.
    batches: HashSet<[u8; 16]>,
    counts: HashMap<Queue, BTreeMap<MessageState, i64>>,
}

impl Effects {
    /// Records that a message of a queue is due at an instant.
    pub(crate) fn is_due(&mut self, queue: &Queue, at: i64) {
        match self.due.get_mut(queue) {
            Some(first) => *first = at.min(*first),
            None => {
                self.due.insert(queue.clone(), at);
            }
        }
    }

    /// Records that a message is no longer pending in a queue.
    pub(crate) fn was_taken(&mut self, queue: &Queue) {
        if !self.taken.contains(queue) {
            self.taken.insert(queue.clone());
        }
    }

    /// Records that messages of a queue changed their state; none is a state outside of the storage.
    pub(crate) fn moved(
        &mut self,
        queue: &Queue,
        count: usize,
        before: Option<MessageState>,
        after: Option<MessageState>,
    ) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let counts = match self.counts.get_mut(queue) {
            Some(counts) => counts,
            None => self.counts.entry(queue.clone()).or_default(),
        };
        if let Some(before) = before {
            *counts.entry(before).or_default() -= count;
        }
        if let Some(after) = after {
            *counts.entry(after).or_default() += count;
        }
    }

    /// Records that the due time of a job changed.
    pub(crate) fn job_moved(&mut self, before: Option<i64>, after: Option<i64>) {
        match (before, after) {
            (Some(before), Some(after)) if after >= before => self.jobs_moved |= after > before,
            (_, Some(after)) => {
                self.jobs_due = Some(self.jobs_due.map_or(after, |first| first.min(after)));
            }
            (before, None) => self.jobs_moved |= before.is_some(),
        }
    }

    /// Records that the owner of a running message has to check its leases.
    pub(crate) fn leases_changed(&mut self) {
        self.leases = true;
    }

    /// Records that a message with a limit stopped running.
    pub(crate) fn left_limit(&mut self, limit: Option<String>) {
        self.limits.extend(limit);
    }

    /// Records that pending messages of a job may run now.
    pub(crate) fn unblock_job(&mut self, job: Option<&str>) {
        if let Some(job) = job.filter(|job| !self.unblocked_jobs.contains(*job)) {
            self.unblocked_jobs.insert(job.to_owned());
        }
    }

    /// Records that a message of a batch is no longer alive.
    pub(crate) fn left_batch(&mut self, batch: Option<[u8; 16]>) {
        self.batches.extend(batch);
    }

    /// Adds the effects of another step.
    pub(crate) fn add(&mut self, other: Self) {
        for (queue, at) in &other.due {
            self.is_due(queue, *at);
        }
        self.taken.extend(other.taken);
        if let Some(at) = other.jobs_due {
            self.job_moved(None, Some(at));
        }
        self.jobs_moved |= other.jobs_moved;
        self.leases |= other.leases;
        self.limits.extend(other.limits);
        self.unblocked_jobs.extend(other.unblocked_jobs);
        self.batches.extend(other.batches);
        for (queue, counts) in other.counts {
            let sums = self.counts.entry(queue).or_default();
            for (state, count) in counts {
                *sums.entry(state).or_default() += count;
            }
        }
    }

    /// Makes messages due that waited for a batch, and writes the counts; the last step before a commit, so that
    /// each batch is handled once per transaction.
    pub(crate) async fn write(&mut self, driver: &impl Driver) -> StorageResult<()> {
        for batch in std::mem::take(&mut self.batches) {
            end_batch(driver, batch, self).await?;
        }
        let mut statement = driver.prepare(COUNT)?;
        for (queue, counts) in &self.counts {
            for (state, count) in counts.iter().filter(|(_, count)| **count != 0) {
                let row = values![queue.as_str(), state.code(), *count];
                driver.execute(&mut statement, &row).await?;
            }
        }
        Ok(())
    }

    /// Finds the queues in which messages waited for a limit or for a message of their job, to notify them; once
    /// per transaction.
    pub(crate) fn find_unblocked(&mut self, transaction: &Connection) -> StorageResult<()> {
        for limit in std::mem::take(&mut self.limits) {
            notify_limit_queues(transaction, &limit, self)?;
        }
        for job in std::mem::take(&mut self.unblocked_jobs) {
            notify_job_queues(transaction, &job, self)?;
        }
        Ok(())
    }
}
