//! What a storage remembers of a job's occurrences since an instant: executions, skips and messages, read
//! page by page within a bound.

use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::subtract;
use punctual::inspect::{ExecutionFilter, MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::{Ending, Execution, JobName, MessageRecord, SkipReason};

use crate::app::App;
use crate::problem::{Answer, Problem};

/// How many pages of each kind are read.
const PAGES_MAX: usize = 20;
/// How far the clocks of processes may be apart.
const SKEW_MAX: Duration = Duration::from_secs(60);
/// How long before its time an occurrence may have been skipped, to be found among the skips.
const SKIPPED_AHEAD_MAX: Duration = Duration::from_hours(32 * 24);

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// Attempts and skips, newest first.
    pub(super) executions: Vec<Execution>,
    /// Messages, newest first.
    pub(super) messages: Vec<MessageRecord>,
}

/// What is remembered of a job's occurrences from an instant on.
pub(super) async fn traces(app: &App, job: &JobName, from: Timestamp) -> Answer<Traces> {
    let skipped = Ending::Skipped(SkipReason::Overlap).as_str();
    let ran = Ending::NAMES.into_iter().filter(|name| *name != skipped).collect();
    // A run begins after its time, and a message is made after it; a skip may be long before.
    let since = subtract(from, SKEW_MAX);
    let mut executions = executions(app, job, ran, since).await?;
    let since_skips = subtract(from, SKIPPED_AHEAD_MAX);
    executions.extend(self::executions(app, job, vec![skipped], since_skips).await?);
    let messages = messages(app, job, since).await?;
    Ok(Traces { executions, messages })
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
        "more than {} records since {since} would have to be read; begin later",
        PAGES_MAX * PAGE_LIMIT_MAX
    );
    Problem::refused(format!("the job {job:?} is too busy for this range: {problem}"))
        .field("from", problem)
}
