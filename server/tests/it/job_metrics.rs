//! Job metrics: the last success, the next run, and the number of jobs without a gauge.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use punctual::measure::JOBS_MAX;
use punctual::{Context, HandlerError, Job, Outcome, Retry};
use serde_json::{Value, json};

use crate::running_server::{settle, start, until};
use crate::site::Site;

const FAIL: usize = 0;
const SUCCEED: usize = 1;
const CANCEL: usize = 2;

/// Starts a site with a job of every minute that is retried after 20 seconds and ends as the test sets it.
async fn site() -> (Site, Arc<AtomicUsize>) {
    let ending = Arc::new(AtomicUsize::new(FAIL));
    let reported = ending.clone();
    let run = move |_: Context| {
        let ending = reported.load(Ordering::Relaxed);
        async move {
            match ending {
                SUCCEED => Ok(Outcome::Done),
                CANCEL => Ok(Outcome::Cancel),
                _ => Err(HandlerError::new("the ledger is not in balance")),
            }
        }
    };
    let retry = Retry::intervals([Duration::from_secs(20)]);
    let job = Job::cron("ledger", "* * * * *").retry(retry);
    let site = Site::with(|builder| builder.job(job, run));
    start(&site).await;
    (site, ending)
}

/// Waits for a number of attempts of the job; returns the ending of the newest one and its time.
async fn attempts(site: &Site, count: usize) -> (String, i64) {
    let holds = |list: &Value| list["items"].as_array().is_some_and(|list| list.len() == count);
    let newest = until(site, "/api/v1/executions", holds).await["items"][0].clone();
    let ended_at: Timestamp = newest["ended_at"].as_str().unwrap().parse().unwrap();
    (newest["ending"].as_str().unwrap().to_owned(), ended_at.as_second())
}

/// Returns the value of a gauge of the job.
async fn gauge(site: &Site, name: &str) -> Option<i64> {
    let line = format!("punctual_job_{name}_timestamp_seconds{{job_name=\"ledger\"}} ");
    let text = site.get("/metrics").await.text;
    text.lines().find_map(|one| one.strip_prefix(&line)).map(|number| number.parse().unwrap())
}

/// Returns the last success now, and after the next check of the alerts.
async fn last_successes(site: &Site) -> [Option<i64>; 2] {
    let now = gauge(site, "last_success").await;
    site.clock.advance(Duration::from_secs(10));
    settle().await;
    [now, gauge(site, "last_success").await]
}

// An attempt that failed and waits for its retry, and a cancelled one, were reported as the last success.
#[tokio::test]
async fn only_a_run_that_succeeded_is_reported_as_the_last_success() {
    let (site, ending) = site().await;
    let (first, first_at) = attempts(&site, 1).await;
    assert_eq!(first, "failed");
    assert_eq!(last_successes(&site).await, [None; 2], "it waits for a retry");
    assert_eq!(gauge(&site, "last_end").await, Some(first_at));
    ending.store(SUCCEED, Ordering::Relaxed);
    let (second, succeeded_at) = attempts(&site, 2).await;
    assert_eq!(second, "succeeded");
    assert_eq!(last_successes(&site).await, [Some(succeeded_at); 2]);
    ending.store(FAIL, Ordering::Relaxed);
    assert_eq!(attempts(&site, 3).await.0, "failed");
    assert_eq!(last_successes(&site).await, [Some(succeeded_at); 2], "it waits for a retry");
    ending.store(CANCEL, Ordering::Relaxed);
    let (fourth, cancelled_at) = attempts(&site, 4).await;
    assert_eq!(fourth, "cancelled");
    assert_eq!(last_successes(&site).await, [Some(succeeded_at); 2]);
    assert_eq!(gauge(&site, "last_end").await, Some(cancelled_at));
}

// Finding P5 of the newcomer's review: no metric showed when a job runs next.
#[tokio::test]
async fn the_next_run_is_reported_unless_the_job_is_paused() {
    let (site, _) = site().await;
    let minute = |text: &str| Some(text.parse::<Timestamp>().unwrap().as_second());
    assert_eq!(gauge(&site, "next_run").await, minute("2026-03-01T12:01:00Z"));
    attempts(&site, 1).await;
    let now = site.clock.now();
    let next = gauge(&site, "next_run").await.unwrap();
    assert_eq!(next % 60, 0);
    assert!((1..=60).contains(&(next - now.as_second())), "{next} {now}");
    let reason = json!({ "reason": "maintenance" });
    assert_eq!(site.post("/api/v1/jobs/ledger/pause", &reason).await.status, 200);
    site.clock.advance(Duration::from_secs(10));
    settle().await;
    assert_eq!(gauge(&site, "next_run").await, None, "a paused job does not run");
}

/// The metrics have a limit of jobs, and the number of jobs above it.
#[tokio::test]
async fn jobs_beyond_the_limit_are_counted() {
    let declared = |count: usize| {
        Site::with(|builder| {
            (0..count).fold(builder, |builder, number| {
                builder.declare(Job::cron(format!("job-{number:03}"), "0 0 1 1 *").topic("t"))
            })
        })
    };
    for (count, omitted) in [(JOBS_MAX, 0), (JOBS_MAX + 3, 3)] {
        let site = declared(count);
        start(&site).await;
        let text = site.get("/metrics").await.text;
        let lines = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(lines("punctual_job_next_run_timestamp_seconds{"), JOBS_MAX);
        assert_eq!(lines("punctual_job_consecutive_failures{"), JOBS_MAX);
        assert!(text.contains(&format!("\npunctual_jobs_omitted {omitted}\n")), "{count} jobs");
    }
}
