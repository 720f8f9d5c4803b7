//! Redacted inspect: reads messages and executions without what handlers of hidden topics wrote, because it may quote
//! bodies. Every view, filter, group and alert reads through it, so that none can show or reveal such a text. Bodies
//! are complete: views redact them, and clones need them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use punctual::inspect::{
    Bucket, Counts, ExecutionFilter, JobFilter, MessageFilter, PageRequest, PageResult,
};
use punctual::model::{
    BatchId, Execution, ExecutionId, JobName, JobRecord, MessageId, MessageRecord, MessageState,
};
use punctual::{Inspect, Result};

use crate::redact::Redaction;

/// Reads through another reader and hides what the rules name.
pub(crate) struct RedactedInspect {
    stored: Arc<dyn Inspect>,
    redaction: Arc<Redaction>,
}

impl RedactedInspect {
    /// Returns a reader with these rules.
    pub(crate) fn new(stored: Arc<dyn Inspect>, redaction: Arc<Redaction>) -> Self {
        Self { stored, redaction }
    }
}

#[async_trait]
impl Inspect for RedactedInspect {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        let mut paged = self.stored.messages(filter, page).await?;
        for record in &mut paged.rows {
            self.redaction.hide_record(record);
        }
        Ok(paged)
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        let mut record = self.stored.message(id).await?;
        if let Some(record) = &mut record {
            self.redaction.hide_record(record);
        }
        Ok(record)
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        let mut paged = self.stored.executions(filter, page).await?;
        for execution in &mut paged.rows {
            self.redaction.hide_execution(execution);
        }
        Ok(paged)
    }

    async fn latest_runs(&self, jobs: &[JobName], each: usize) -> Result<Vec<Execution>> {
        let mut runs = self.stored.latest_runs(jobs, each).await?;
        for run in &mut runs {
            self.redaction.hide_execution(run);
        }
        Ok(runs)
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        self.stored.jobs(filter).await
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        self.stored.job(name).await
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        self.stored.counts(now).await
    }

    async fn estimate(&self, now: Timestamp) -> Result<Counts> {
        self.stored.estimate(now).await
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        self.stored.batch(batch).await
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.stored.throughput(since, bucket).await
    }
}
