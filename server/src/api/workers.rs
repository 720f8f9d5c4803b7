//! Workers: every process that lives, here and elsewhere, and telling one to be quiet.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::inspect::{MessageFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::MessageState as Stored;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::page::Listing;
use crate::problem::{Answer, Problem};
use crate::register::{self, Registered};

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(quiet)).routes(routes!(wake))
}

/// A process that works.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[allow(clippy::struct_excessive_bools)] // two facts, each by itself
struct WorkerView {
    /// Its identity, new at every start.
    process: String,
    /// What people call it.
    name: String,
    /// The machine it runs on, or the address it calls from.
    host: Option<String>,
    /// Its number on that machine.
    pid: Option<u32>,
    /// The version it runs.
    version: Option<String>,
    /// `server` or `http`.
    kind: String,
    /// What it does.
    roles: Vec<String>,
    /// What it works on.
    queues: Vec<WorkerQueueView>,
    /// The topics it can handle; empty when it takes whatever is in its queues.
    topics: Vec<String>,
    /// Since when.
    started_at: Timestamp,
    /// When it was last heard of.
    seen_at: Timestamp,
    /// How much memory it holds.
    memory_bytes: Option<u64>,
    /// How many messages it handles now.
    running: u64,
    /// Whether it is about to end.
    stopping: bool,
    /// Whether it was told to claim nothing.
    quiet: bool,
}

/// A queue that a process works on.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct WorkerQueueView {
    /// Its name.
    name: String,
    /// How many of its messages at once.
    concurrency: usize,
    /// How many now.
    running: u64,
}

/// Every process that was heard of lately, by identity.
#[utoipa::path(get, path = "/workers", tag = "workers",
    responses((status = 200, body = Listing<WorkerView>)))]
async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<Listing<WorkerView>>> {
    caller.must_be(Role::Viewer)?;
    let all = register::all(&app).await?;
    let held = held(&app).await?;
    let items = all.into_values().map(|(one, seen_at)| view(one, seen_at, &held)).collect();
    Ok(Json(Listing::whole(items)))
}

/// How many messages of each queue each process holds, as far as one page shows it.
async fn held(app: &App) -> punctual::Result<BTreeMap<(String, String), u64>> {
    let filter = MessageFilter { states: vec![Stored::Running], ..MessageFilter::default() };
    let running = app.inspect.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?;
    let mut held = BTreeMap::new();
    for record in running.rows {
        if let Some(lease) = record.lease {
            let place = (lease.owner.to_string(), record.message.queue.to_string());
            *held.entry(place).or_default() += 1;
        }
    }
    Ok(held)
}

fn view(one: Registered, seen_at: Timestamp, held: &BTreeMap<(String, String), u64>) -> WorkerView {
    let elsewhere = one.kind == "http";
    let queues = one.queues.into_iter().map(|queue| {
        let place = (one.process.clone(), queue.name.clone());
        let found = held.get(&place).copied().unwrap_or(0);
        let running = if elsewhere { found } else { queue.running };
        WorkerQueueView { name: queue.name, concurrency: queue.concurrency, running }
    });
    let queues: Vec<WorkerQueueView> = queues.collect();
    WorkerView {
        running: queues.iter().map(|queue| queue.running).sum(),
        process: one.process,
        name: one.name,
        host: one.host,
        pid: one.pid,
        version: one.version,
        kind: one.kind,
        roles: one.roles,
        queues,
        topics: one.topics.unwrap_or_default(),
        started_at: one.started_at,
        seen_at,
        memory_bytes: one.memory_bytes,
        stopping: one.stopping,
        quiet: one.quiet,
    }
}

/// Why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct QuietRequest {
    /// Why, for the audit trail.
    reason: Option<String>,
}

/// Tells a process to claim nothing more; what it handles goes on. It hears of it within seconds.
#[utoipa::path(post, path = "/workers/{process}/quiet", tag = "workers", params(("process" = String, Path)),
    request_body = QuietRequest, responses((status = 204), (status = 404, body = Problem)))]
async fn quiet(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(process): Path<String>,
    Body(request): Body<QuietRequest>,
) -> Answer<StatusCode> {
    tell(&app, (&caller, &keyed), &process, (true, request)).await
}

/// Lets a quiet process claim again.
#[utoipa::path(post, path = "/workers/{process}/wake", tag = "workers", params(("process" = String, Path)),
    request_body = QuietRequest, responses((status = 204), (status = 404, body = Problem)))]
async fn wake(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(process): Path<String>,
    Body(request): Body<QuietRequest>,
) -> Answer<StatusCode> {
    tell(&app, (&caller, &keyed), &process, (false, request)).await
}

async fn tell(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    process: &str,
    (quiet, request): (bool, QuietRequest),
) -> Answer<StatusCode> {
    caller.must_be(Role::Operator)?;
    if !register::all(app).await?.contains_key(process) {
        return Err(Problem::not_found(format!(
            "no process {process:?} was heard of lately; see /api/v1/workers"
        )));
    }
    let what = if quiet { "worker.quiet" } else { "worker.wake" };
    let change = Change { reason: request.reason, ..Change::new(what, process) };
    keyed.refuse_if_overtaken(app, caller, &change).await?;
    register::set_quiet(app, process, quiet).await?;
    app.audit().note(caller, change).await?;
    Ok(StatusCode::NO_CONTENT)
}
