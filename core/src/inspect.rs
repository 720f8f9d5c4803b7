//! Inspect contract: lists, counts and history for people. Separate from [`Storage`](crate::Storage)
//! because it changes at the dashboard's pace and may be served by a replica. Pages are keyset pages
//! without offsets, and no call changes anything.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::Result;
use crate::model::{
    BatchId, Ending, Execution, ExecutionId, JobName, JobPhase, JobRecord, Key, MessageId,
    MessageRecord, MessageState, Queue, SkipReason, Topic,
};

/// Default number of rows of a page.
const PAGE_LIMIT_DEFAULT: usize = 20;
/// Largest number of rows of a page.
pub const PAGE_LIMIT_MAX: usize = 1_000;

/// Reads messages, executions and jobs for people.
///
/// Every method is safe to call from many tasks concurrently. A replica may lag behind: the result is a
/// consistent state of the storage, but not necessarily the newest.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// Returns messages that match, newest id first.
    ///
    /// Where no index serves the filter, a storage reads a bounded number of rows: a page may then be
    /// shorter than its limit, or empty, and its `next` continues.
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>>;

    /// Returns a message; `None` when it does not exist. A finished message exists until it is pruned.
    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>>;

    /// Returns executions that match, newest id first. A page may be short, as with
    /// [`Inspect::messages`].
    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>>;

    /// Returns up to `each` runs of each job, in the order of `jobs` and newest id first. Skipped
    /// occurrences are not runs.
    async fn latest_runs(&self, jobs: &[JobName], each: usize) -> Result<Vec<Execution>> {
        let mut runs = Vec::new();
        for job in jobs {
            let filter = ExecutionFilter { job: Some(job.clone()), ..ExecutionFilter::runs() };
            runs.extend(self.executions(filter, PageRequest::first(each)).await?.rows);
        }
        Ok(runs)
    }

    /// Returns jobs that match, ordered by name.
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>>;

    /// Returns a job; `None` when it does not exist.
    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>>;

    /// Returns the number of messages in each state of each queue, and the oldest due instant.
    async fn counts(&self, now: Timestamp) -> Result<Counts>;

    /// Returns approximate counts for frequently polled views. The duration of the call does not depend
    /// on the number of messages; large numbers may be estimates.
    async fn estimate(&self, now: Timestamp) -> Result<Counts> {
        self.counts(now).await
    }

    /// Returns the number of messages of a batch in each state. Finished ones count until they are pruned.
    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>>;

    /// Returns the number of executions by ending, since an instant and in buckets of a duration.
    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>>;
}

/// Filter of messages; an empty filter matches all.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Only these states; empty means all.
    pub states: Vec<MessageState>,
    /// Only this queue.
    pub queue: Option<Queue>,
    /// Only this topic.
    pub topic: Option<Topic>,
    /// Only about this key.
    pub key: Option<Key>,
    /// Only of this job.
    pub job: Option<JobName>,
    /// Only of this batch.
    pub batch: Option<BatchId>,
    /// Only one-time jobs that were planned at run time, as [`MessageRecord::is_planned`] returns. Those that
    /// wait or run are found without reading other messages.
    pub planned: bool,
}

/// Filter of executions; an empty filter matches all.
#[derive(Clone, Debug, Default)]
pub struct ExecutionFilter {
    /// Only of this message.
    pub message: Option<MessageId>,
    /// Only of this job.
    pub job: Option<JobName>,
    /// Only of this topic.
    pub topic: Option<Topic>,
    /// Only these endings, by name; empty means all.
    pub endings: Vec<&'static str>,
}

impl ExecutionFilter {
    /// Creates a filter of runs, without skipped occurrences.
    pub fn runs() -> Self {
        let skipped = Ending::Skipped(SkipReason::Overlap).as_str();
        let endings = Ending::NAMES.into_iter().filter(|name| *name != skipped).collect();
        Self { endings, ..Self::default() }
    }
}

/// Filter of jobs; an empty filter matches all.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only of this application.
    pub app: Option<String>,
    /// Only in this phase.
    pub phase: Option<JobPhase>,
    /// Only with this tag.
    pub tag: Option<String>,
}

/// A request for up to `limit` rows of a list after a row.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<Id> {
    /// The last row of the page before; `None` for the first page.
    pub after: Option<Id>,
    /// The most rows; capped at [`PAGE_LIMIT_MAX`].
    pub limit: usize,
}

impl<Id> Default for PageRequest<Id> {
    /// Creates a request for the first page, with the default number of rows.
    fn default() -> Self {
        Self::first(PAGE_LIMIT_DEFAULT)
    }
}

impl<Id> PageRequest<Id> {
    /// Creates a request for the first page.
    pub fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// Creates a request for the page after a row.
    pub fn after(row: Id, limit: usize) -> Self {
        Self { after: Some(row), limit }
    }

    /// Returns the limit, at most [`PAGE_LIMIT_MAX`].
    pub fn bounded(&self) -> usize {
        self.limit.clamp(1, PAGE_LIMIT_MAX)
    }
}

/// A page of rows, and where the next page begins.
#[derive(Clone, Debug, PartialEq)]
pub struct PageResult<Row, Id> {
    /// The rows.
    pub rows: Vec<Row>,
    /// The argument of [`PageRequest::after`] for the next page; `None` on the last page.
    pub next: Option<Id>,
}

/// Counts of messages by queue and state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Number of messages by queue and state.
    pub messages: BTreeMap<(Queue, MessageState), u64>,
    /// Number of messages whose lease has ended or whose owner's heartbeat has expired: those that
    /// [`Storage::reclaim`](crate::Storage::reclaim) takes over at this instant.
    pub stale: u64,
    /// The earliest due instant of a message that is not being handled.
    pub oldest_due: Option<Timestamp>,
    /// Whether large numbers among these are estimates.
    pub is_estimate: bool,
}

impl Counts {
    /// Returns the number of messages of all queues in a state.
    pub fn total(&self, state: MessageState) -> u64 {
        self.messages.iter().filter(|((_, of), _)| *of == state).map(|(_, count)| count).sum()
    }
}

/// A time span and what ended in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Beginning of the span.
    pub start: Timestamp,
    /// Number of executions by ending.
    pub endings: BTreeMap<Ending, u64>,
}
