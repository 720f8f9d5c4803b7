//! Inspection API by delegation to the queries of [`Inner`](crate::inner::Inner).

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, Inspect, JobFilter, MessageFilter, PageRequest, PageResult,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    BatchId, Execution, ExecutionId, JobName, JobRecord, MessageId, MessageRecord, MessageState,
};

use crate::inner::attempt;
use crate::storage::PostgresStorage;

#[async_trait]
impl Inspect for PostgresStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.inner.messages(&filter, page).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.inner.message(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.inner.executions(&filter, page).await
    }

    async fn latest_runs(&self, jobs: &[JobName], each: usize) -> Result<Vec<Execution>> {
        self.inner.latest_runs(jobs, each).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.inner.jobs(&filter).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        attempt!(self.inner, |session| self.inner.job_record(session, name))
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.inner.counts(now).await
    }

    async fn estimate(&self, now: Timestamp) -> Result<Counts> {
        self.inner.estimate(now).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.inner.batch(batch).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.inner.throughput(since, bucket).await
    }
}
