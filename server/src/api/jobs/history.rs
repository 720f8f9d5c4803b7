//! History of a job: its executions, skips and messages since a time, read page by page up to a limit.

use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::subtract;
use punctual::inspect::{ExecutionFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{Ending, Execution, JobName, MessageRecord, SkipReason};

use crate::app::App;
use crate::problem::{Answer, Problem};

/// Largest number of pages read of each kind.
const PAGES_MAX: usize = 20;
/// Largest difference between the clocks of processes.
const SKEW_MAX: Duration = Duration::from_secs(60);
/// Longest time before its nominal time at which an occurrence may have been skipped and is still found.
const SKIPPED_AHEAD_MAX: Duration = Duration::from_hours(32 * 24);

/// Stored records of a job.
#[derive(Debug, Default)]
pub(super) struct JobHistory {
    /// Attempts and skips, newest first.
    pub(super) executions: Vec<Execution>,
    /// Messages, newest first.
    pub(super) messages: Vec<MessageRecord>,
}

/// Reads the records of a job's occurrences since a time. Fails when there are too many.
pub(super) async fn read_history(app: &App, job: &JobName, from: Timestamp) -> Answer<JobHistory> {
    let skipped = Ending::Skipped(SkipReason::Overlap).as_str();
    let ran = Ending::NAMES.into_iter().filter(|name| *name != skipped).collect();
    // A run starts and its message is created after the nominal time; a skip may be long before.
    let since = subtract(from, SKEW_MAX);
    let mut executions = executions(app, job, ran, since).await?;
    let since_skips = subtract(from, SKIPPED_AHEAD_MAX);
    executions.extend(self::executions(app, job, vec![skipped], since_skips).await?);
    let messages = messages(app, job, since).await?;
    Ok(JobHistory { executions, messages })
}

async fn executions(
    app: &App,
    job: &JobName,
    endings: Vec<&'static str>,
    since: Timestamp,
) -> Answer<Vec<Execution>> {
    let filter = ExecutionFilter { job: Some(job.clone()), endings, ..ExecutionFilter::default() };
    let (mut found, mut page) = (Vec::new(), PageRequest::first(PAGE_LIMIT_MAX));
    for _ in 0..PAGES_MAX {
        let paged = app.inspect.executions(filter.clone(), page).await?;
        let older = paged.rows.last().is_some_and(|last| last.ended_at < since);
        found.extend(paged.rows);
        match paged.next {
            Some(next) if !older => page = PageRequest::after(next, PAGE_LIMIT_MAX),
            _ => return Ok(found),
        }
    }
    Err(too_many(job, since))
}

async fn messages(app: &App, job: &JobName, since: Timestamp) -> Answer<Vec<MessageRecord>> {
    let filter = MessageFilter { job: Some(job.clone()), ..MessageFilter::default() };
    let (mut found, mut page) = (Vec::new(), PageRequest::first(PAGE_LIMIT_MAX));
    for _ in 0..PAGES_MAX {
        let paged = app.inspect.messages(filter.clone(), page).await?;
        let older = paged.rows.last().is_some_and(|last| last.message.created_at < since);
        found.extend(paged.rows);
        match paged.next {
            Some(next) if !older => page = PageRequest::after(next, PAGE_LIMIT_MAX),
            _ => return Ok(found),
        }
    }
    Err(too_many(job, since))
}

fn too_many(job: &JobName, since: Timestamp) -> Problem {
    let problem = format!(
        "more than {} records since {since} would have to be read; give a later time",
        PAGES_MAX * PAGE_LIMIT_MAX
    );
    Problem::refused(format!("the job {job:?} has too many records for this range: {problem}"))
        .field("from", problem)
}
