//! Inspect contract: reads a storage for people: lists, counts, history. Separate from
//! [`Storage`](crate::Storage) because it changes at the dashboard's pace and may be served by a
//! replica. Pages are keyset pages; there are no offsets, and no call changes anything.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::Result;
use crate::model::{
    BatchId, Ending, Execution, ExecutionId, JobName, JobPhase, JobRecord, Key, MessageId,
    MessageRecord, MessageState, Queue, SkipReason, Topic,
};

/// How many rows a page has by default.
pub const PAGE_LIMIT_DEFAULT: usize = 20;
/// The most rows one page may have.
pub const PAGE_LIMIT_MAX: usize = 1_000;

/// Reads messages, executions and jobs for people.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// Returns messages that match, newest id first. Where no index serves the filter, a storage reads a bounded
    /// number of rows: a page may then be shorter than its limit, or empty, and its `next` continues.
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>>;

    /// Returns a message, also a finished one until it is pruned.
    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>>;

    /// Returns executions that match, newest id first. A page may be short as with messages.
    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>>;

    /// Returns the newest runs of each of some jobs, at most `each` of each: job after job as they are given, newest
    /// id first. Skipped occurrences are not runs.
    async fn latest_runs(&self, jobs: &[JobName], each: usize) -> Result<Vec<Execution>> {
        let mut runs = Vec::new();
        for job in jobs {
            let filter = ExecutionFilter { job: Some(job.clone()), ..ExecutionFilter::runs() };
            runs.extend(self.executions(filter, PageRequest::first(each)).await?.rows);
        }
        Ok(runs)
    }

    /// Returns jobs that match, by name.
    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>>;

    /// Returns a job.
    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>>;

    /// Returns the number of messages in each state of each queue, and the oldest due instant.
    async fn counts(&self, now: Timestamp) -> Result<Counts>;

    /// Returns approximate counts for frequently polled views: it never takes more than a moment, however many
    /// messages there are, and large numbers may be estimates.
    async fn estimate(&self, now: Timestamp) -> Result<Counts> {
        self.counts(now).await
    }

    /// Returns how many messages of a batch are in each state. Done ones count until they are pruned.
    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>>;

    /// Returns how many executions ended in each way, per bucket of a duration, since an instant.
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
    /// Creates a filter of what ran, without skipped occurrences.
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

/// Which part of a list: at most `limit` rows that come after a row.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<Id> {
    /// The last row of the page before; none for the first page.
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

/// Rows, and where the next page begins.
#[derive(Clone, Debug, PartialEq)]
pub struct PageResult<Row, Id> {
    /// The rows.
    pub rows: Vec<Row>,
    /// Give this to [`PageRequest::after`] for the next page; none when this was the last.
    pub next: Option<Id>,
}

/// Counts of messages by queue and state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Per queue and state.
    pub messages: BTreeMap<(Queue, MessageState), u64>,
    /// Messages whose lease has ended or whose owner's heartbeat has expired: those that
    /// [`Storage::reclaim`](crate::Storage::reclaim) takes over at this instant.
    pub stale: u64,
    /// The oldest due instant of a message that is not being handled.
    pub oldest_due: Option<Timestamp>,
    /// Whether large numbers among these are estimates.
    pub is_estimate: bool,
}

impl Counts {
    /// How many messages of all queues are in a state.
    pub fn total(&self, state: MessageState) -> u64 {
        self.messages.iter().filter(|((_, of), _)| *of == state).map(|(_, count)| count).sum()
    }
}

/// A time span and what ended in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Where it begins.
    pub start: Timestamp,
    /// How many executions ended in each way.
    pub endings: BTreeMap<Ending, u64>,
}
