//! The overview: everything a person wants to see first, in one answer that is put together once for all
//! who look.

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
use crate::problem::Answer;
use crate::statuses::statuses;
use crate::targets::TEST_TOPIC;
use crate::{health, register};

/// How long an answer holds.
const AGE: Duration = Duration::from_secs(2);
/// How long a due message may wait before its queue is a problem.
const WAIT_MAX_MS: u64 = 60_000;
/// How late a job may be before it is called late.
const LATE: Duration = Duration::from_secs(60);
/// The most rows of each list.
const ROWS_MAX: usize = 10;
/// The most groups of dead letters.
const GROUPS_MAX: usize = 5;
/// The most marks.
const MARKS_MAX: usize = 50;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(one))
}

/// How everything is.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OverviewView {
    /// When this was found.
    at: Timestamp,
    /// How this node is, and why; the same as `/api/v1/health`, as old as the rest.
    health: HealthView,
    /// The jobs whose last run failed, those first that failed most often.
    failing: Vec<FailingJob>,
    /// How many messages there are in each state.
    counts: BTreeMap<&'static str, u64>,
    /// Whether large numbers among these are estimates.
    counts_estimate: bool,
    /// How many come and go.
    rates: Rates,
    /// How long the oldest due message has waited.
    oldest_due_ms: u64,
    /// Jobs that should have run and did not.
    late: Vec<LateView>,
    /// Queues that are paused, or whose messages wait for long, with `served`: whether a process works on it.
    #[schema(value_type = Vec<Object>)]
    problem_queues: Vec<Value>,
    /// What was given up.
    dead: DeadView,
    /// Some of the messages that are handled now.
    running: Vec<MessageView>,
    /// The next runs.
    next: Vec<NextView>,
    /// How many processes there are.
    workers: usize,
    /// Whether this process handles the topic `punctual-test`, as every server does: its messages always succeed.
    handles_test: bool,
    /// What somebody did that charts should show, the oldest first.
    marks: Vec<MarkView>,
}

/// A job that is late.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct LateView {
    /// The job.
    name: String,
    /// Its schedule in words.
    in_words: String,
    /// When it should have run.
    next_at: Option<Timestamp>,
    /// How late it is.
    late_ms: u64,
    /// Why it cannot run here, when it cannot.
    broken: Option<String>,
}

/// What was given up.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct DeadView {
    /// How many.
    count: u64,
    /// The largest groups of the same failure.
    #[schema(value_type = Vec<Object>)]
    groups: Vec<Value>,
}

/// A run to come.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct NextView {
    /// The job.
    job: String,
    /// When.
    at: Timestamp,
}

/// Something that charts should show.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct MarkView {
    /// When.
    at: Timestamp,
    /// `deploy` or `pause`.
    kind: &'static str,
    /// What.
    text: String,
}

/// Everything a person wants to see first, at most two seconds old where that is cheap to find, and as old as
/// `at` says. 503 while the storage does not answer; `/api/v1/health` is answered then as well.
#[utoipa::path(get, path = "/overview", tag = "figures", responses((status = 200, body = OverviewView)))]
async fn one(State(app): State<App>, caller: Caller) -> Answer<Json<Value>> {
    caller.must_be(Role::Viewer)?;
    let find = async { value(&looked(&app).await?) };
    Ok(Json(app.node().overview.get(&*app.clock, AGE, find).await?))
}

async fn looked(app: &App) -> Result<OverviewView> {
    let now = app.clock.now();
    let counts = live::counts(app).await?;
    let groups = dead_letters::grouped(app).await?;
    let groups: Vec<_> = groups.items.iter().take(GROUPS_MAX).collect();
    let (queues, groups) = (value(&queues::views(app).await?)?, value(&groups)?);
    let status = statuses(app).await?;
    let filter = MessageFilter { states: vec![Stored::Running], ..MessageFilter::default() };
    let running = app.inspect.messages(filter, PageRequest::first(ROWS_MAX)).await?.rows;
    let processes = register::all(app).await?;
    let node = health::looked(app).await?;
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
    let overdue = |job: &&JobStatus| job.next_at.is_some_and(|next_at| add(next_at, LATE) < now);
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
    let to_come = active.filter_map(|job| Some((job.next_at.filter(|at| *at >= now)?, &job.name)));
    let mut to_come: Vec<_> = to_come.collect();
    to_come.sort();
    let rows = to_come.into_iter().take(ROWS_MAX);
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

/// The queues with a problem, each with whether a process works on it.
fn problem_queues(
    queues: Value,
    processes: &BTreeMap<String, (register::Registered, Timestamp)>,
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
