//! Inspection API: runs the queries on the reader threads; a list that needs several statements reads in one
//! transaction.

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

use crate::operations::jobs;
use crate::storage::SqliteStorage;
use crate::{counts, queries};

#[async_trait]
impl Inspect for SqliteStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        self.readers.read_together(move |tx| queries::messages(tx, &filter, page)).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.readers.read(move |connection| queries::message(connection, id)).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        self.readers.read(move |connection| queries::executions(connection, &filter, page)).await
    }

    async fn latest_runs(&self, jobs: &[JobName], each: usize) -> Result<Vec<Execution>> {
        let jobs = jobs.to_vec();
        self.readers.read(move |connection| queries::latest_runs(connection, &jobs, each)).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.readers.read(move |connection| queries::jobs(connection, &filter)).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        let name = name.clone();
        self.readers.read(move |connection| jobs::job(connection, &name)).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.readers.read_together(move |tx| counts::counts(tx, now)).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.readers.read(move |connection| counts::batch(connection, batch)).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.readers.read(move |connection| counts::throughput(connection, since, bucket)).await
    }
}
