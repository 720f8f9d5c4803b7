//! Overview: the most important state in one response, computed once for all viewers.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{JobPhase, MessageState as Stored};
use punctual::status::{JobStatus, Status};
use punctual::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::executions::milliseconds;
use super::health::HealthView;
use super::messages::view::MessageView;
use super::{dead_letters, queues};
use crate::alerts::FailingJob;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::live::{self, Rates};
use crate::problem::ApiResult;
use crate::statuses::statuses;
use crate::targets::TEST_TOPIC;
use crate::{health, process_registry};

/// How long a response is cached.
const CACHE_TTL: Duration = Duration::from_secs(2);
/// Longest wait of a due message before its queue is a problem.
const WAIT_MAX_MS: u64 = 60_000;
/// Delay from which a job is late.
const LATE_AFTER: Duration = Duration::from_secs(60);
/// Largest number of rows of each list.
const ROWS_MAX: usize = 10;
/// Largest number of groups of dead letters.
const GROUPS_MAX: usize = 5;
/// Largest number of chart marks.
const MARKS_MAX: usize = 50;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get))
}

/// Overview of jobs, messages, queues and workers.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OverviewView {
    /// Time of the overview.
    at: Timestamp,
    /// Health of this node, as in `/api/v1/health`, as old as the rest.
    health: HealthView,
    /// Jobs whose last run failed, most failures first.
    failing: Vec<FailingJob>,
    /// Number of messages in each state.
    counts: BTreeMap<&'static str, u64>,
    /// Whether large counts are estimates.
    counts_estimate: bool,
    /// Message rates.
    rates: Rates,
    /// Wait of the oldest due message in milliseconds.
    oldest_due_ms: u64,
    /// Jobs that are late.
    late: Vec<LateView>,
    /// Queues that are paused or whose messages wait for long. `served` is whether a process works on the queue.
    #[schema(value_type = Vec<Object>)]
    problem_queues: Vec<Value>,
    /// Dead letters.
    dead: DeadView,
    /// Some of the running messages.
    running: Vec<MessageView>,
    /// Next runs.
    next: Vec<NextView>,
    /// Number of processes.
    workers: usize,
    /// Whether this process handles the topic `punctual-test`, whose messages always succeed.
    handles_test: bool,
    /// Deployments and pauses to mark in charts, oldest first.
    marks: Vec<MarkView>,
}

/// A job that is late.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct LateView {
    /// Name of the job.
    name: String,
    /// Description of its schedule.
    in_words: String,
    /// When it was due.
    next_at: Option<Timestamp>,
    /// Delay in milliseconds.
    late_ms: u64,
    /// Why it cannot run on this server, if so.
    broken: Option<String>,
}

/// Dead letters by group.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct DeadView {
    /// Number of dead letters.
    count: u64,
    /// Largest groups with the same failure.
    #[schema(value_type = Vec<Object>)]
    groups: Vec<Value>,
}

/// An upcoming run.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct NextView {
    /// Name of the job.
    job: String,
    /// Time of the run.
    at: Timestamp,
}

/// A mark in charts.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct MarkView {
    /// Time of the mark.
    at: Timestamp,
    /// `deploy` or `pause`.
    kind: &'static str,
    /// Label of the mark.
    text: String,
}

/// Returns the overview. It is at most two seconds old where that is cheap; `at` is its time. While the storage is
/// unavailable the response is 503; `/api/v1/health` works then as well.
#[utoipa::path(get, path = "/overview", tag = "metrics", responses((status = 200, body = OverviewView)))]
async fn get(State(app): State<App>, caller: Caller) -> ApiResult<Json<Value>> {
    caller.must_be(Role::Viewer)?;
    let find = async { value(&build(&app).await?) };
    Ok(Json(app.node().overview.get(&*app.clock, CACHE_TTL, find).await?))
}

async fn build(app: &App) -> Result<OverviewView> {
    let now = app.clock.now();
    let counts = live::counts(app).await?;
    let groups = dead_letters::grouped(app).await?;
    let groups: Vec<_> = groups.items.iter().take(GROUPS_MAX).collect();
    let (queues, groups) = (value(&queues::views(app).await?)?, value(&groups)?);
    let status = statuses(app).await?;
    let filter = MessageFilter { states: vec![Stored::Running], ..MessageFilter::default() };
    let running = app.inspect.messages(filter, PageRequest::first(ROWS_MAX)).await?.rows;
    let processes = process_registry::all(app).await?;
    let node = health::node_health(app).await?;
    let mut marks = pauses(&status, &queues);
    marks.extend(processes.values().filter(|(one, _)| one.kind == "server").map(|(one, _)| {
        let version = one.version.as_deref().unwrap_or_default();
        MarkView {
            at: one.started_at,
            kind: "deploy",
            text: format!("{} started {version}", one.name),
        }
    }));
    marks.sort_by_key(|mark| mark.at);
    let surplus = marks.len().saturating_sub(MARKS_MAX);
    Ok(OverviewView {
        at: now,
        failing: node.alerts.failing.iter().take(ROWS_MAX).cloned().collect(),
        health: HealthView::new(&node),
        rates: app.node().live.rates(now),
        oldest_due_ms: counts.oldest_due.map_or(0, |due| milliseconds(between(due, now))),
        late: late(&status, now),
        problem_queues: problem_queues(queues, &processes),
        dead: DeadView { count: counts.total(Stored::Dead), groups: items(groups) },
        running: running.iter().map(|record| MessageView::of(app, record, now)).collect(),
        next: next(&status, now),
        workers: processes.len(),
        handles_test: app.punctual.handled_topics().iter().any(|one| one.as_str() == TEST_TOPIC),
        marks: marks.split_off(surplus),
        counts: live::by_state(&counts),
        counts_estimate: counts.is_estimate,
    })
}

fn is_active(job: &JobStatus) -> bool {
    job.phase == JobPhase::Active
}

fn late(status: &Status, now: Timestamp) -> Vec<LateView> {
    let overdue =
        |job: &&JobStatus| job.next_at.is_some_and(|next_at| add(next_at, LATE_AFTER) < now);
    let late = status.jobs.iter().filter(|job| is_active(job)).filter(overdue);
    let late = late.map(|job| LateView {
        name: job.name.to_string(),
        in_words: job.in_words.clone(),
        next_at: job.next_at,
        late_ms: job.next_at.map_or(0, |next_at| milliseconds(between(next_at, now))),
        broken: job.broken.clone(),
    });
    late.take(ROWS_MAX).collect()
}

fn next(status: &Status, now: Timestamp) -> Vec<NextView> {
    let active = status.jobs.iter().filter(|job| is_active(job));
    let upcoming = active.filter_map(|job| Some((job.next_at.filter(|at| *at >= now)?, &job.name)));
    let mut upcoming: Vec<_> = upcoming.collect();
    upcoming.sort();
    let rows = upcoming.into_iter().take(ROWS_MAX);
    rows.map(|(at, job)| NextView { job: job.to_string(), at }).collect()
}

fn pauses(status: &Status, queues: &Value) -> Vec<MarkView> {
    let jobs = status.jobs.iter().filter_map(|job| {
        let paused = job.paused.as_ref()?;
        let text = format!("{} paused the job {}", paused.by, job.name);
        Some(MarkView { at: paused.at, kind: "pause", text })
    });
    let queues = queues.as_array().into_iter().flatten().filter_map(|queue| {
        let at = queue["paused"]["at"].as_str()?.parse().ok()?;
        let by = queue["paused"]["by"].as_str().unwrap_or_default();
        let text = format!("{by} paused the queue {}", queue["name"].as_str().unwrap_or_default());
        Some(MarkView { at, kind: "pause", text })
    });
    jobs.chain(queues).collect()
}

/// Returns the queues with a problem, each with whether a process works on it.
fn problem_queues(
    queues: Value,
    processes: &BTreeMap<String, (process_registry::ProcessEntry, Timestamp)>,
) -> Vec<Value> {
    let works_on = |name: &Value| {
        let mut queues = processes.values().flat_map(|(process, _)| &process.queues);
        queues.any(|queue| queue.concurrency > 0 && name == queue.name.as_str())
    };
    let mut found: Vec<Value> =
        items(queues).into_iter().filter(is_problem).take(ROWS_MAX).collect();
    for queue in &mut found {
        queue["served"] = works_on(&queue["name"]).into();
    }
    found
}

fn is_problem(queue: &Value) -> bool {
    !queue["paused"].is_null() || queue["oldest_age_ms"].as_u64().unwrap_or(0) > WAIT_MAX_MS
}

fn items(list: Value) -> Vec<Value> {
    match list {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn value(view: &impl Serialize) -> Result<Value> {
    serde_json::to_value(view)
        .map_err(|error| Error::internal("an overview cannot be written").caused_by(error))
}
