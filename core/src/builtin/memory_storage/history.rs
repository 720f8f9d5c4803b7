//! Executions: by id for people, by their end for pruning and throughput. Bounded; the one that
//! ended first falls out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::clock;
use crate::error::{Error, Result};
use crate::inspect::{Bucket, ExecutionFilter, Page, Paged};
use crate::model::{Execution, ExecutionId, MessageId};

/// The executions that are kept.
pub(super) struct History {
    executions: BTreeMap<ExecutionId, Execution>,
    by_end: BTreeSet<(Timestamp, ExecutionId)>,
    length_max: usize,
}

impl History {
    pub(super) fn new(length_max: usize) -> Self {
        Self {
            executions: BTreeMap::new(),
            by_end: BTreeSet::new(),
            length_max,
        }
    }

    pub(super) fn set_length_max(&mut self, length_max: usize) {
        self.length_max = length_max;
        self.trim();
    }

    /// Appends an execution, once: an id that is known stays as it was written.
    pub(super) fn append(&mut self, execution: Execution) {
        let place = (execution.ended_at, execution.id);
        if self.executions.contains_key(&execution.id) {
            return;
        }
        self.executions.insert(execution.id, execution);
        self.by_end.insert(place);
        self.trim();
    }

    /// Deletes at most `limit` that ended strictly before an instant; answers how many went.
    pub(super) fn prune(&mut self, before: Timestamp, limit: usize) -> u64 {
        let mut count = 0;
        while count < limit && self.by_end.first().is_some_and(|(end, _)| *end < before) {
            self.pop_oldest();
            count += 1;
        }
        count as u64
    }

    /// Forgets every attempt of a message.
    pub(super) fn forget(&mut self, message: MessageId) {
        let by_end = &mut self.by_end;
        self.executions.retain(|id, execution| {
            let keep = execution.message != Some(message);
            if !keep {
                by_end.remove(&(execution.ended_at, *id));
            }
            keep
        });
    }

    pub(super) fn page(
        &self,
        filter: &ExecutionFilter,
        page: Page<ExecutionId>,
    ) -> Paged<Execution, ExecutionId> {
        let limit = page.bounded();
        let end = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut found = self
            .executions
            .range((Bound::Unbounded, end))
            .rev()
            .map(|(_, execution)| execution)
            .filter(|execution| matches(filter, execution));
        let rows: Vec<Execution> = found.by_ref().take(limit).cloned().collect();
        let more = found.next().is_some();
        Paged {
            next: rows.last().filter(|_| more).map(|row| row.id),
            rows,
        }
    }

    /// The executions since an instant in buckets that start there; empty buckets are left out.
    pub(super) fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        if bucket.is_zero() {
            return Err(Error::invalid(
                "a bucket of no length holds nothing; give it at least a nanosecond",
            ));
        }
        let mut buckets: Vec<Bucket> = Vec::new();
        for (ended_at, id) in self
            .by_end
            .range((since, ExecutionId::from_uuid(Uuid::nil()))..)
        {
            let Some(execution) = self.executions.get(id) else {
                continue;
            };
            let start = start_of_bucket(since, bucket, *ended_at);
            if buckets.last().is_none_or(|last| last.start != start) {
                buckets.push(Bucket {
                    start,
                    endings: BTreeMap::new(),
                });
            }
            if let Some(last) = buckets.last_mut() {
                *last.endings.entry(execution.ending).or_default() += 1;
            }
        }
        Ok(buckets)
    }

    fn trim(&mut self) {
        while self.by_end.len() > self.length_max {
            self.pop_oldest();
        }
    }

    fn pop_oldest(&mut self) {
        if let Some((_, id)) = self.by_end.pop_first() {
            self.executions.remove(&id);
        }
    }
}

fn start_of_bucket(since: Timestamp, bucket: Duration, instant: Timestamp) -> Timestamp {
    let passed = clock::between(since, instant).as_nanos();
    let into = passed % bucket.as_nanos();
    let into = SignedDuration::from_nanos_i128(i128::try_from(into).unwrap_or(0));
    instant.checked_sub(into).unwrap_or(since)
}

fn matches(filter: &ExecutionFilter, execution: &Execution) -> bool {
    let ExecutionFilter {
        message,
        job,
        topic,
        endings,
    } = filter;
    message.is_none_or(|message| execution.message == Some(message))
        && job
            .as_ref()
            .is_none_or(|job| execution.job.as_ref() == Some(job))
        && topic.as_ref().is_none_or(|topic| execution.topic == *topic)
        && (endings.is_empty() || endings.contains(&execution.ending.as_str()))
}
