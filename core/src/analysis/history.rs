//! History of a job: its executions, skips and messages since a time, read page by page up to a limit.

use std::time::Duration;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::inspect::{ExecutionFilter, Inspect, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use crate::model::time::subtract;
use crate::model::{Ending, Execution, JobName, MessageRecord, SkipReason};

/// Largest number of pages read of each kind.
const PAGES_MAX: usize = 20;
/// Largest difference between the clocks of processes.
const SKEW_MAX: Duration = Duration::from_secs(60);
/// Longest time before its nominal time at which an occurrence may have been skipped and is still found.
const SKIPPED_AHEAD_MAX: Duration = Duration::from_hours(32 * 24);

/// Stored records of a job.
#[derive(Debug, Default)]
pub(crate) struct JobHistory {
    /// Attempts and skips, newest first.
    pub(crate) executions: Vec<Execution>,
    /// Messages, newest first.
    pub(crate) messages: Vec<MessageRecord>,
}

/// Reads the records of a job's occurrences since a time. Fails when there are too many.
pub(crate) async fn read_history(
    inspect: &dyn Inspect,
    job: &JobName,
    from: Timestamp,
) -> Result<JobHistory> {
    let skipped = Ending::Skipped(SkipReason::Overlap).as_str();
    let ran = Ending::NAMES.into_iter().filter(|name| *name != skipped).collect();
    // A run starts and its message is created after the nominal time; a skip may be long before.
    let since = subtract(from, SKEW_MAX);
    let mut executions = executions(inspect, job, ran, since).await?;
    let since_skips = subtract(from, SKIPPED_AHEAD_MAX);
    executions.extend(self::executions(inspect, job, vec![skipped], since_skips).await?);
    let messages = messages(inspect, job, since).await?;
    Ok(JobHistory { executions, messages })
}

async fn executions(
    inspect: &dyn Inspect,
    job: &JobName,
    endings: Vec<&'static str>,
    since: Timestamp,
) -> Result<Vec<Execution>> {
    let filter = ExecutionFilter { job: Some(job.clone()), endings, ..ExecutionFilter::default() };
    let (mut found, mut page) = (Vec::new(), PageRequest::first(PAGE_LIMIT_MAX));
    for _ in 0..PAGES_MAX {
        let paged = inspect.executions(filter.clone(), page).await?;
        let older = paged.rows.last().is_some_and(|last| last.ended_at < since);
        found.extend(paged.rows);
        match paged.next {
            Some(next) if !older => page = PageRequest::after(next, PAGE_LIMIT_MAX),
            _ => return Ok(found),
        }
    }
    Err(too_many(job, since))
}

async fn messages(
    inspect: &dyn Inspect,
    job: &JobName,
    since: Timestamp,
) -> Result<Vec<MessageRecord>> {
    let filter = MessageFilter { job: Some(job.clone()), ..MessageFilter::default() };
    let (mut found, mut page) = (Vec::new(), PageRequest::first(PAGE_LIMIT_MAX));
    for _ in 0..PAGES_MAX {
        let paged = inspect.messages(filter.clone(), page).await?;
        let older = paged.rows.last().is_some_and(|last| last.message.created_at < since);
        found.extend(paged.rows);
        match paged.next {
            Some(next) if !older => page = PageRequest::after(next, PAGE_LIMIT_MAX),
            _ => return Ok(found),
        }
    }
    Err(too_many(job, since))
}

fn too_many(job: &JobName, since: Timestamp) -> Error {
    Error::invalid(format!(
        "the job {job:?} has too many records for this range: more than {} records since {since} would have to be read; give a later time",
        PAGES_MAX * PAGE_LIMIT_MAX
    ))
}
