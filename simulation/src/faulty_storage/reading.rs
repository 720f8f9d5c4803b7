//! Reading through the same network.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    BatchId, Execution, ExecutionId, JobName, JobRecord, MessageId, MessageRecord, MessageState,
};
use punctual::{Inspect, Result};

use super::FaultyStorage;

#[async_trait]
impl Inspect for FaultyStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.there("messages").await?;
        let rows = self.inner.messages(filter, page).await?;
        self.back("messages").await?;
        Ok(rows)
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.there("message").await?;
        let row = self.inner.message(id).await?;
        self.back("message").await?;
        Ok(row)
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.there("executions").await?;
        let rows = self.inner.executions(filter, page).await?;
        self.back("executions").await?;
        Ok(rows)
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.there("jobs").await?;
        let rows = self.inner.jobs(filter).await?;
        self.back("jobs").await?;
        Ok(rows)
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        self.there("job").await?;
        let row = self.inner.job(name).await?;
        self.back("job").await?;
        Ok(row)
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.there("counts").await?;
        let counts = self.inner.counts(now).await?;
        self.back("counts").await?;
        Ok(counts)
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.there("batch").await?;
        let counts = self.inner.batch(batch).await?;
        self.back("batch").await?;
        Ok(counts)
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.there("throughput").await?;
        let buckets = self.inner.throughput(since, bucket).await?;
        self.back("throughput").await?;
        Ok(buckets)
    }
}
