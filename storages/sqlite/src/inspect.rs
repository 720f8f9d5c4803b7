//! Reading for people goes to the threads that read; a list that takes several statements sees one
//! moment.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, Inspect, JobFilter, MessageFilter, Page, Paged,
};
use punctual::jiff::Timestamp;
use punctual::model::{
    BatchId, Execution, ExecutionId, JobName, JobRecord, MessageId, MessageRecord, State,
};

use crate::sqlite_storage::SqliteStorage;
use crate::{jobs, reading};

#[async_trait]
impl Inspect for SqliteStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: Page<MessageId>,
    ) -> Result<Paged<MessageRecord, MessageId>> {
        self.readers.read_together(move |tx| reading::messages(tx, &filter, page)).await
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        self.readers.read(move |connection| reading::message(connection, id)).await
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: Page<ExecutionId>,
    ) -> Result<Paged<Execution, ExecutionId>> {
        self.readers.read(move |connection| reading::executions(connection, &filter, page)).await
    }

    async fn latest_runs(&self, jobs: &[JobName], each: usize) -> Result<Vec<Execution>> {
        let jobs = jobs.to_vec();
        self.readers.read(move |connection| reading::latest_runs(connection, &jobs, each)).await
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.readers.read(move |connection| reading::jobs(connection, &filter)).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        let name = name.clone();
        self.readers.read(move |connection| jobs::job(connection, &name)).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.readers.read_together(move |tx| reading::counts(tx, now)).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<State, u64>> {
        self.readers.read(move |connection| reading::batch(connection, batch)).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.readers.read(move |connection| reading::throughput(connection, since, bucket)).await
    }
}
