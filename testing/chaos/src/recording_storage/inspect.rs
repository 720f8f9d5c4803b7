//! Reads of the recording storage: forwarded without recording.

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

use super::RecordingStorage;

#[async_trait]
impl Inspect for RecordingStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.inspect.messages(filter, page).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.inspect.message(id).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.inspect.executions(filter, page).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.inspect.jobs(filter).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        self.inspect.job(name).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.inspect.counts(now).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.inspect.batch(batch).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.inspect.throughput(since, bucket).await
    }
}
