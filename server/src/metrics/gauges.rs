//! Gauges: the present state of storage and process, read from the storage at most once a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use jiff::Timestamp;
use punctual::Result;
use punctual::backend::storage::WakeSource;
use punctual::clock::between;
use punctual::health::Condition;
use punctual::measure::JOBS_MAX;
use punctual::model::{Ending, Queue};
use punctual::status::JobStatus;

use super::text::{Text, labels};
use crate::alerts::{Alerts, FailingJob};
use crate::app::App;
use crate::statuses::statuses;
use crate::{health, live, process_registry};

/// Largest number of queues with gauges; the rest are omitted.
const QUEUES_MAX: usize = 500;

/// Writes every gauge.
pub(super) async fn write(app: &App, text: &mut Text) -> Result<()> {
    of_process(app, text);
    of_connections(app, text);
    of_logins(app, text);
    let node = health::node_health(app).await?;
    let health = &node.health;
    text.begin(
        "punctual_health",
        "gauge",
        "Health of this process: 0 healthy, 1 degraded, 2 unhealthy.",
    );
    let condition = match health.condition {
        Condition::Healthy => 0,
        Condition::Degraded => 1,
        Condition::Unhealthy => 2,
    };
    text.line("punctual_health", "", condition);
    text.begin("punctual_jobs_late", "gauge", "Jobs whose next occurrence is overdue.");
    text.line("punctual_jobs_late", "", health.late_schedules);
    let stale = "Messages whose lease has expired or whose process has ended.";
    text.begin("punctual_messages_stale", "gauge", stale);
    text.line("punctual_messages_stale", "", health.stale);
    // Without the storage only the health is reported.
    if health.storage_latency.is_none() {
        return Ok(());
    }
    of_queues(app, text).await?;
    of_jobs(app, &node.alerts, text).await
}

/// Input of the gauges of a job.
struct JobFacts<'a> {
    status: &'a JobStatus,
    /// Number of consecutive failed runs, if known.
    failures: Option<u64>,
    /// The last success, if known.
    succeeded_at: Option<Timestamp>,
}

/// A gauge of jobs: its name, its help text, and its value, if a job has one.
type JobGauge = (&'static str, &'static str, fn(&JobFacts<'_>) -> Option<i64>);

const JOB_GAUGES: [JobGauge; 4] = [
    (
        "punctual_job_last_end_timestamp_seconds",
        "When the last attempt of a job ended, since the epoch.",
        |job| job.status.last.as_ref().map(|last| last.ended_at.as_second()),
    ),
    (
        "punctual_job_last_success_timestamp_seconds",
        "When a job last succeeded, since the epoch; absent when it never did or when unknown.",
        |job| job.succeeded_at.map(Timestamp::as_second),
    ),
    (
        "punctual_job_consecutive_failures",
        "Number of consecutive failed runs of a job, at most 30; absent when unknown.",
        |job| job.failures.map(u64::cast_signed),
    ),
    (
        "punctual_job_next_run_timestamp_seconds",
        "When a job runs next, since the epoch; absent without a next run.",
        |job| job.status.next_at.map(Timestamp::as_second),
    ),
];

async fn of_jobs(app: &App, alerts: &Alerts, text: &mut Text) -> Result<()> {
    let status = statuses(app).await?;
    let failing: BTreeMap<&str, &FailingJob> =
        alerts.failing.iter().map(|job| (job.name.as_str(), job)).collect();
    let active: Vec<&JobStatus> = status.jobs.iter().filter(|job| job.retired.is_none()).collect();
    let name = "punctual_jobs_omitted";
    let meaning = "Jobs without gauges of their own, because there are more than 500 jobs.";
    text.begin(name, "gauge", meaning);
    text.line(name, "", active.len().saturating_sub(JOBS_MAX));
    let jobs: Vec<JobFacts<'_>> = active
        .into_iter()
        .take(JOBS_MAX)
        .map(|status| JobFacts {
            status,
            failures: failures(status, alerts, &failing),
            succeeded_at: succeeded_at(status, alerts),
        })
        .collect();
    for (name, meaning, value) in JOB_GAUGES {
        text.begin(name, "gauge", meaning);
        for job in &jobs {
            if let Some(value) = value(job) {
                text.line(name, &labels(&[("job_name", job.status.name.as_str())]), value);
            }
        }
    }
    Ok(())
}

/// Returns the number of consecutive failed runs of a job; none when the job was not checked.
fn failures(
    job: &JobStatus,
    alerts: &Alerts,
    failing: &BTreeMap<&str, &FailingJob>,
) -> Option<u64> {
    let failures = failing.get(job.name.as_str()).map(|job| job.failures);
    // When not all jobs were checked, a job that is not listed as failing may fail nevertheless.
    let is_known = !alerts.more_failing || succeeded(job).is_some();
    failures.or_else(|| is_known.then_some(0))
}

/// Returns the last success of a job: its last run if that succeeded, otherwise the one found with the alerts.
fn succeeded_at(job: &JobStatus, alerts: &Alerts) -> Option<Timestamp> {
    succeeded(job).or_else(|| alerts.successes.get(job.name.as_str()).copied())
}

/// Returns when the last run of a job ended, if it succeeded.
fn succeeded(job: &JobStatus) -> Option<Timestamp> {
    let last = job.last.as_ref().filter(|last| last.ending == Ending::Succeeded);
    last.map(|last| last.ended_at)
}

async fn of_queues(app: &App, text: &mut Text) -> Result<()> {
    let counts = live::counts(app).await?;
    text.begin("punctual_messages", "gauge", "Messages in each state of each queue.");
    let queues: BTreeSet<&Queue> =
        counts.messages.keys().map(|(queue, _)| queue).take(QUEUES_MAX * 5).collect();
    let queues: Vec<&Queue> = queues.into_iter().take(QUEUES_MAX).collect();
    for ((queue, state), count) in &counts.messages {
        if queues.binary_search(&queue).is_ok() {
            let labels = labels(&[("queue", queue.as_str()), ("state", state.as_str())]);
            text.line("punctual_messages", &labels, *count);
        }
    }
    let sources: Vec<WakeSource> =
        queues.iter().map(|queue| WakeSource::Queue((*queue).clone())).collect();
    let (dues, now) = (app.storage.next_due_all(&sources).await?, app.clock.now());
    let meaning = "Age of the oldest due message of a queue.";
    text.begin("punctual_queue_oldest_age_seconds", "gauge", meaning);
    for (queue, due) in queues.iter().zip(dues) {
        let age = due.map_or(0.0, |due| between(due, now).as_secs_f64());
        let labels = labels(&[("queue", queue.as_str())]);
        text.line("punctual_queue_oldest_age_seconds", &labels, age);
    }
    Ok(())
}

fn of_connections(app: &App, text: &mut Text) {
    let counters = &app.node().connections;
    text.begin("punctual_http_connections", "gauge", "Open connections to the HTTP API.");
    text.line("punctual_http_connections", "", counters.open.load(Relaxed));
    let name = "punctual_http_connections_refused_total";
    text.begin(name, "counter", "Connections refused, by limit.");
    for (reason, count) in
        [("limit", &counters.refused_by_limit), ("address", &counters.refused_by_address)]
    {
        text.line(name, &labels(&[("reason", reason)]), count.load(Relaxed));
    }
    let name = "punctual_http_requests_refused_total";
    let meaning = "Requests refused because too many of their caller were in flight.";
    text.begin(name, "counter", meaning);
    text.line(name, "", app.requests().refused());
    let name = "punctual_http_connections_closed_total";
    text.begin(name, "counter", "Connections closed by the server, by reason.");
    for (reason, count) in [
        ("header_timeout", &counters.header_timeouts),
        ("idle_timeout", &counters.idle_timeouts),
        ("write_timeout", &counters.write_timeouts),
        ("made_room", &counters.evicted),
    ] {
        text.line(name, &labels(&[("reason", reason)]), count.load(Relaxed));
    }
}

/// Writes counters that the server counts itself.
fn of_logins(app: &App, text: &mut Text) {
    let counts = &app.auth().counts;
    text.begin(
        "punctual_logins_total",
        "counter",
        "Logins by password or identity provider, by result.",
    );
    for (result, count) in counts.logins() {
        text.line("punctual_logins_total", &labels(&[("result", result)]), count);
    }
    text.begin(
        "punctual_tokens_refused_total",
        "counter",
        "Calls with a token that is unknown, revoked or expired.",
    );
    text.line("punctual_tokens_refused_total", "", counts.tokens_refused());
}

fn of_process(app: &App, text: &mut Text) {
    let ours = process_registry::this_process(app);
    text.begin("punctual_info", "gauge", "Always 1; the labels name the version.");
    let version = ours.version.as_deref().unwrap_or_default();
    text.line("punctual_info", &labels(&[("version", version)]), 1);
    text.begin("punctual_running", "gauge", "Messages that this process is handling.");
    text.line("punctual_running", "", ours.running);
    text.begin("process_start_time_seconds", "gauge", "Start of this process, since the epoch.");
    text.line("process_start_time_seconds", "", app.node().started_at.as_second());
    if let Some(bytes) = ours.memory_bytes {
        let meaning = "Resident memory of this process.";
        text.begin("process_resident_memory_bytes", "gauge", meaning);
        text.line("process_resident_memory_bytes", "", bytes);
    }
}
