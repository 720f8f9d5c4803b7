//! Failing jobs: jobs whose last finished run failed, how often in a row, since when and why; also when each job last
//! succeeded. A run that will be retried is not finished. Bounded in jobs and in runs of each.

use std::collections::BTreeMap;

use jiff::Timestamp;
use punctual::Result;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Ending, Execution, JobName, JobPhase, MessageId, MessageState};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Alert, AlertKind};
use crate::app::App;
use crate::statuses::statuses;

/// Largest number of jobs whose attempts are read.
const JOBS_MAX: usize = 200;
/// How many attempts of each job are read.
const ATTEMPTS_MAX: usize = 30;
/// How many jobs are read in one call.
const JOBS_PER_CALL: usize = 100;
/// Largest number of jobs whose last success is searched beyond those attempts.
const SUCCESSES_MAX: usize = 50;
/// Largest number of characters of an error in a sentence.
const ERROR_LEN_MAX: usize = 200;

/// A job that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FailingJob {
    /// The job.
    pub(crate) name: String,
    /// Number of consecutive failed runs.
    pub(crate) failures: u64,
    /// Whether there may be more: older runs were not read.
    pub(crate) more: bool,
    /// The last failure.
    pub(crate) error: Option<String>,
    /// When the first of these runs failed.
    pub(crate) since: Timestamp,
    /// When the last one failed.
    pub(crate) last_at: Timestamp,
    /// The message of the last one.
    pub(crate) message: Option<String>,
    /// When it last succeeded; null when that is not known.
    pub(crate) succeeded_at: Option<Timestamp>,
}

impl FailingJob {
    /// Returns the alert about this job.
    pub(super) fn alert(&self) -> Alert {
        let runs = match (self.failures, self.more) {
            (1, false) => "the last run".to_owned(),
            (failures, false) => format!("the last {failures} runs"),
            (failures, true) => format!("the last {failures} runs or more"),
        };
        let error = self.error.as_deref().unwrap_or("unknown error");
        let error: String = error.chars().take(ERROR_LEN_MAX).collect();
        let text = format!("{runs} of the job {:?} failed: {}", self.name, error.trim());
        Alert::about(AlertKind::JobFailing, &self.name, text)
    }
}

/// Failing jobs, and the last success of each job.
#[derive(Debug, Default)]
pub(super) struct JobFailures {
    /// Failing jobs, most failures first.
    pub(super) failing: Vec<FailingJob>,
    /// Whether more jobs may fail: those beyond the bound were not checked.
    pub(super) more: bool,
    /// When each job last succeeded, as far as known.
    pub(super) successes: BTreeMap<String, Timestamp>,
}

/// Returns the failing jobs and the last success of every job.
pub(super) async fn find(app: &App) -> Result<JobFailures> {
    let status = statuses(app).await?;
    let jobs = status.jobs.iter().filter(|job| job.retired.is_none());
    let (succeeded, others): (Vec<_>, Vec<_>) = jobs
        .filter_map(|job| Some((job, job.last.as_ref()?)))
        .partition(|(_, last)| last.ending == Ending::Succeeded);
    let successes =
        succeeded.iter().map(|(job, last)| (job.name.to_string(), last.ended_at)).collect();
    // Paused and finished jobs are never alerts; only their last success is searched, as far as the bound allows.
    let (active, resting): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|(job, _)| job.phase == JobPhase::Active);
    let more = active.len() > JOBS_MAX;
    let mut found = JobFailures { failing: Vec::new(), more, successes };
    let others = active.iter().chain(&resting).take(JOBS_MAX);
    let others: BTreeMap<&JobName, JobPhase> =
        others.map(|(job, _)| (&job.name, job.phase)).collect();
    let names: Vec<JobName> = others.keys().map(|name| (*name).clone()).collect();
    let mut unknown = Vec::new();
    for some in names.chunks(JOBS_PER_CALL) {
        let mut attempts: BTreeMap<JobName, Vec<Execution>> = BTreeMap::new();
        for attempt in app.inspect.latest_runs(some, ATTEMPTS_MAX).await? {
            if let Some(job) = attempt.job.clone() {
                attempts.entry(job).or_default().push(attempt);
            }
        }
        for (name, attempts) in attempts {
            if others.get(&name) == Some(&JobPhase::Active) {
                let alive = alive(app, &attempts).await?;
                found.failing.extend(failing_job(&name, &attempts, alive));
            }
            let success = attempts.iter().find(|attempt| attempt.ending == Ending::Succeeded);
            if let Some(success) = success {
                found.successes.insert(name.to_string(), success.ended_at);
            } else if attempts.len() >= ATTEMPTS_MAX {
                unknown.push(name);
            }
        }
    }
    for name in unknown.into_iter().take(SUCCESSES_MAX) {
        let success = last_success(app, &name).await?;
        found.successes.extend(success.map(|at| (name.to_string(), at)));
    }
    for job in &mut found.failing {
        job.succeeded_at = found.successes.get(&job.name).copied();
    }
    found
        .failing
        .sort_by(|one, other| (other.failures, &one.name).cmp(&(one.failures, &other.name)));
    Ok(found)
}

/// Returns the message of the newest attempt while it is pending or running.
async fn alive(app: &App, attempts: &[Execution]) -> Result<Option<MessageId>> {
    let Some(newest) = attempts.first().and_then(|attempt| attempt.message) else {
        return Ok(None);
    };
    let record = app.inspect.message(newest).await?;
    let is_alive = record.is_some_and(|record| {
        matches!(record.state, MessageState::Pending | MessageState::Running)
    });
    Ok(is_alive.then_some(newest))
}

async fn last_success(app: &App, job: &JobName) -> Result<Option<Timestamp>> {
    let filter = ExecutionFilter {
        job: Some(job.clone()),
        endings: vec![Ending::Succeeded.as_str()],
        ..ExecutionFilter::default()
    };
    let page = app.inspect.executions(filter, PageRequest::first(1)).await?;
    Ok(page.rows.first().map(|run| run.ended_at))
}

/// Returns whether and how a job fails by its attempts, newest first; `alive` is a message that will be retried.
fn failing_job(
    name: &JobName,
    attempts: &[Execution],
    alive: Option<MessageId>,
) -> Option<FailingJob> {
    let mut over: Vec<&Execution> = Vec::new();
    for attempt in attempts.iter().filter(|attempt| alive.is_none() || attempt.message != alive) {
        // The newest attempt of a message is the end of its run.
        if over.iter().all(|newer| newer.message != attempt.message) {
            over.push(attempt);
        }
    }
    // A cancelled or released run is neither a success nor a failure.
    over.retain(|run| run.ending == Ending::Succeeded || run.ending.is_failure());
    let failed: Vec<&&Execution> = over.iter().take_while(|run| run.ending.is_failure()).collect();
    let (last, first) = (failed.first()?, failed.last()?);
    let success = over.get(failed.len());
    Some(FailingJob {
        name: name.to_string(),
        failures: failed.len() as u64,
        more: success.is_none() && attempts.len() >= ATTEMPTS_MAX,
        error: last.note.as_deref().map(ToOwned::to_owned),
        since: first.ended_at,
        last_at: last.ended_at,
        message: last.message.map(|message| message.to_string()),
        succeeded_at: success.map(|run| run.ended_at),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual::model::{ExecutionId, Queue, Source, Topic};
    use punctual::uuid::Uuid;

    use super::*;

    fn message(number: u128) -> MessageId {
        MessageId::from_uuid(Uuid::from_u128(number))
    }

    /// An attempt of a message, ended at a second.
    fn attempt(of: u128, second: i64, ending: Ending) -> Execution {
        let at = Timestamp::from_second(second).unwrap();
        Execution {
            id: ExecutionId::from_uuid(Uuid::from_u128(second.unsigned_abs().into())),
            message: Some(message(of)),
            topic: Topic::new("t").unwrap(),
            queue: Queue::default(),
            key: None,
            job: Some(job()),
            nominal: None,
            source: Source::Scheduled,
            attempt: 1,
            attempts_max: None,
            process: None,
            due_at: at,
            started_at: at,
            ended_at: at,
            ending,
            note: Some(Arc::from(format!("failed at {second}"))),
            log: None,
        }
    }

    fn job() -> JobName {
        JobName::new("nightly").unwrap()
    }

    #[test]
    fn consecutive_failed_runs_are_counted_by_message() {
        let attempts = [
            attempt(4, 40, Ending::Cancelled),
            attempt(3, 32, Ending::TimedOut),
            attempt(3, 31, Ending::Failed),
            attempt(2, 20, Ending::Failed),
            attempt(1, 10, Ending::Succeeded),
        ];
        let found = failing_job(&job(), &attempts, None).unwrap();
        assert_eq!((found.failures, found.more), (2, false));
        assert_eq!((found.since.as_second(), found.last_at.as_second()), (20, 32));
        assert_eq!(found.error.as_deref(), Some("failed at 32"));
        assert_eq!(found.succeeded_at.map(Timestamp::as_second), Some(10));
        let text = found.alert().text;
        assert_eq!(text, "the last 2 runs of the job \"nightly\" failed: failed at 32");
    }

    #[test]
    fn a_run_that_will_be_retried_is_not_finished() {
        let first = [attempt(1, 10, Ending::Failed)];
        assert_eq!(failing_job(&job(), &first, Some(message(1))), None);
        let after_a_success = [attempt(2, 20, Ending::Failed), attempt(1, 10, Ending::Succeeded)];
        assert_eq!(failing_job(&job(), &after_a_success, Some(message(2))), None);
        let after_a_failure = [attempt(2, 20, Ending::Failed), attempt(1, 10, Ending::Failed)];
        let found = failing_job(&job(), &after_a_failure, Some(message(2))).unwrap();
        assert_eq!((found.failures, found.last_at.as_second()), (1, 10));
        assert!(found.alert().text.starts_with("the last run of"), "{:?}", found.alert());
    }

    #[test]
    fn failures_beyond_the_bound_are_reported_as_or_more() {
        let attempts: Vec<Execution> = (1_u32..=30)
            .rev()
            .map(|number| attempt(u128::from(number), i64::from(number), Ending::Failed))
            .collect::<Vec<_>>();
        let found = failing_job(&job(), &attempts, None).unwrap();
        assert_eq!((found.failures, found.more), (30, true));
        assert!(found.alert().text.contains("30 runs or more"), "{:?}", found.alert());
    }
}
