//! History: executions in the order they ended. Limited; the one that ended first is removed. People read them
//! by id, which is nearly the same order but not quite, so a page scans all of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ended_rows::{EndedRow, EndedRows, TimeKey};
use crate::clock;
use crate::error::{Error, Result};
use crate::inspect::{Bucket, ExecutionFilter, PageRequest, PageResult};
use crate::model::{Execution, ExecutionId, JobName, MessageId};

/// Stored executions.
pub(super) struct History {
    executions: EndedRows<Arc<Execution>>,
    removed: Vec<Arc<Execution>>,
    executions_max: usize,
}

impl EndedRow for Arc<Execution> {
    fn key(&self) -> TimeKey {
        (self.ended_at, self.id.as_uuid().as_u128())
    }
}

impl History {
    pub(super) fn new(executions_max: usize) -> Self {
        Self { executions: EndedRows::new(), removed: Vec::new(), executions_max }
    }

    pub(super) fn set_executions_max(&mut self, executions_max: usize) {
        self.executions_max = executions_max;
        self.trim();
    }

    /// Appends an execution; appending it again changes nothing.
    pub(super) fn append(&mut self, execution: Arc<Execution>) {
        self.executions.insert(execution);
        self.trim();
    }

    /// Deletes at most `limit` executions that ended strictly before an instant, and returns their number.
    pub(super) fn prune(&mut self, before: Timestamp, limit: usize) -> u64 {
        let count = self.executions.before(before).take(limit).count();
        for _ in 0..count {
            self.executions.pop_first();
        }
        count as u64
    }

    /// Deletes every execution of a message.
    pub(super) fn forget(&mut self, message: MessageId) {
        self.executions.retain(|execution| execution.message != Some(message));
    }

    /// Deletes every execution of a job.
    pub(super) fn forget_job(&mut self, job: &JobName) {
        self.executions.retain(|execution| execution.job.as_ref() != Some(job));
    }

    /// Returns a page of executions, newest id first. The scan holds only as many as the page has.
    pub(super) fn page(
        &self,
        filter: &ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> PageResult<Execution, ExecutionId> {
        let limit = page.bounded();
        let mut newest = BinaryHeap::with_capacity(limit + 2);
        let walk = self.executions.iter().enumerate().rev();
        for (index, execution) in walk.filter(|(_, execution)| matches(filter, execution)) {
            if page.after.is_none_or(|after| execution.id < after) {
                newest.push(Reverse((execution.id, index)));
                if newest.len() > limit + 1 {
                    newest.pop();
                }
            }
        }
        let mut found = newest.into_sorted_vec();
        let more = found.len() > limit;
        found.truncate(limit);
        let rows: Vec<Execution> = found
            .into_iter()
            .filter_map(|Reverse((_, index))| {
                self.executions.get(index).map(|execution| (**execution).clone())
            })
            .collect();
        PageResult { next: rows.last().filter(|_| more).map(|row| row.id), rows }
    }

    /// Returns the number of executions since an instant, in buckets that start there; empty buckets are left
    /// out.
    pub(super) fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        if bucket.is_zero() {
            return Err(Error::invalid("the bucket duration is zero; use at least 1 ns"));
        }
        let mut buckets: Vec<Bucket> = Vec::new();
        for execution in self.executions.since(since) {
            let start = start_of_bucket(since, bucket, execution.ended_at);
            if buckets.last().is_none_or(|last| last.start != start) {
                buckets.push(Bucket { start, endings: BTreeMap::new() });
            }
            if let Some(last) = buckets.last_mut() {
                *last.endings.entry(execution.ending).or_default() += 1;
            }
        }
        Ok(buckets)
    }

    fn trim(&mut self) {
        while self.executions.len() > self.executions_max {
            self.removed.extend(self.executions.pop_first());
        }
    }

    /// Takes the executions that the limit has removed since the last call.
    pub(super) fn take_removed(&mut self) -> Vec<Arc<Execution>> {
        std::mem::take(&mut self.removed)
    }
}

fn start_of_bucket(since: Timestamp, bucket: Duration, instant: Timestamp) -> Timestamp {
    let passed = clock::between(since, instant).as_nanos();
    let into = passed % bucket.as_nanos();
    let into = SignedDuration::from_nanos_i128(i128::try_from(into).unwrap_or(0));
    instant.checked_sub(into).unwrap_or(since)
}

fn matches(filter: &ExecutionFilter, execution: &Execution) -> bool {
    let ExecutionFilter { message, job, topic, endings } = filter;
    message.is_none_or(|message| execution.message == Some(message))
        && job.as_ref().is_none_or(|job| execution.job.as_ref() == Some(job))
        && topic.as_ref().is_none_or(|topic| execution.topic == *topic)
        && (endings.is_empty() || endings.contains(&execution.ending.as_str()))
}
