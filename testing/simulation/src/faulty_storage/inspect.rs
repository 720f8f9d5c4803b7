//! Reads of the faulty storage, through the same network.

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
        self.before_call("messages").await?;
        let rows = self.inner.messages(filter, page).await?;
        self.after_call("messages").await?;
        Ok(rows)
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.before_call("message").await?;
        let row = self.inner.message(id).await?;
        self.after_call("message").await?;
        Ok(row)
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.before_call("executions").await?;
        let rows = self.inner.executions(filter, page).await?;
        self.after_call("executions").await?;
        Ok(rows)
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.before_call("jobs").await?;
        let rows = self.inner.jobs(filter).await?;
        self.after_call("jobs").await?;
        Ok(rows)
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        self.before_call("job").await?;
        let row = self.inner.job(name).await?;
        self.after_call("job").await?;
        Ok(row)
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.before_call("counts").await?;
        let counts = self.inner.counts(now).await?;
        self.after_call("counts").await?;
        Ok(counts)
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.before_call("batch").await?;
        let counts = self.inner.batch(batch).await?;
        self.after_call("batch").await?;
        Ok(counts)
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.before_call("throughput").await?;
        let buckets = self.inner.throughput(since, bucket).await?;
        self.after_call("throughput").await?;
        Ok(buckets)
    }
}
