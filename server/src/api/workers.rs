//! Workers: list all live processes, servers and HTTP workers; quiet and wake one.

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
use crate::problem::{ApiResult, Problem};
use crate::process_registry::{self, ProcessEntry};

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(quiet)).routes(routes!(wake))
}

/// A server or HTTP worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[allow(clippy::struct_excessive_bools)] // two facts, each by itself
struct WorkerView {
    /// Process id, new at every start.
    process: String,
    /// Name of the process.
    name: String,
    /// Host it runs on, or the address it calls from.
    host: Option<String>,
    /// Operating system process id.
    pid: Option<u32>,
    /// Version of Punctual.
    version: Option<String>,
    /// Kind: `server` or `http`.
    kind: String,
    /// Roles of the process.
    roles: Vec<String>,
    /// Queues it works on.
    queues: Vec<WorkerQueueView>,
    /// Topics it handles; empty for every topic of its queues.
    topics: Vec<String>,
    /// Start of the process.
    started_at: Timestamp,
    /// Last heartbeat or call.
    seen_at: Timestamp,
    /// Memory in bytes.
    memory_bytes: Option<u64>,
    /// Number of running messages.
    running: u64,
    /// Whether it is stopping.
    stopping: bool,
    /// Whether it is quiet and claims nothing.
    quiet: bool,
}

/// A queue that a process works on.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct WorkerQueueView {
    /// Name of the queue.
    name: String,
    /// Concurrency of the process.
    concurrency: usize,
    /// Number of running messages.
    running: u64,
}

/// Lists the live processes by id.
#[utoipa::path(get, path = "/workers", tag = "workers",
    responses((status = 200, body = Listing<WorkerView>)))]
async fn list(State(app): State<App>, caller: Caller) -> ApiResult<Json<Listing<WorkerView>>> {
    caller.must_be(Role::Viewer)?;
    let all = process_registry::all(&app).await?;
    let running = running_by_process(&app).await?;
    let items = all.into_values().map(|(one, seen_at)| view(one, seen_at, &running)).collect();
    Ok(Json(Listing::whole(items)))
}

/// Counts the running messages by process and queue, among one page of them.
async fn running_by_process(app: &App) -> punctual::Result<BTreeMap<(String, String), u64>> {
    let filter = MessageFilter { states: vec![Stored::Running], ..MessageFilter::default() };
    let running = app.inspect.messages(filter, PageRequest::first(PAGE_LIMIT_MAX)).await?;
    let mut counts = BTreeMap::new();
    for record in running.rows {
        if let Some(lease) = record.lease {
            let place = (lease.owner.to_string(), record.message.queue.to_string());
            *counts.entry(place).or_default() += 1;
        }
    }
    Ok(counts)
}

fn view(
    one: ProcessEntry,
    seen_at: Timestamp,
    counts: &BTreeMap<(String, String), u64>,
) -> WorkerView {
    let is_http = one.kind == "http";
    let queues = one.queues.into_iter().map(|queue| {
        let place = (one.process.clone(), queue.name.clone());
        let found = counts.get(&place).copied().unwrap_or(0);
        let running = if is_http { found } else { queue.running };
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

/// Reason of the change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct QuietRequest {
    /// Reason, recorded in the audit trail.
    reason: Option<String>,
}

/// Makes a process quiet within seconds: it claims nothing more, and its running messages continue.
#[utoipa::path(post, path = "/workers/{process}/quiet", tag = "workers", params(("process" = String, Path)),
    request_body = QuietRequest, responses((status = 204), (status = 404, body = Problem)))]
async fn quiet(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(process): Path<String>,
    Body(request): Body<QuietRequest>,
) -> ApiResult<StatusCode> {
    change_quiet(&app, (&caller, &keyed), &process, (true, request)).await
}

/// Wakes a quiet process: it claims messages again.
#[utoipa::path(post, path = "/workers/{process}/wake", tag = "workers", params(("process" = String, Path)),
    request_body = QuietRequest, responses((status = 204), (status = 404, body = Problem)))]
async fn wake(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(process): Path<String>,
    Body(request): Body<QuietRequest>,
) -> ApiResult<StatusCode> {
    change_quiet(&app, (&caller, &keyed), &process, (false, request)).await
}

async fn change_quiet(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    process: &str,
    (quiet, request): (bool, QuietRequest),
) -> ApiResult<StatusCode> {
    caller.must_be(Role::Operator)?;
    if !process_registry::all(app).await?.contains_key(process) {
        return Err(Problem::not_found(format!(
            "there is no live process {process:?}; see /api/v1/workers"
        )));
    }
    let what = if quiet { "worker.quiet" } else { "worker.wake" };
    let change = Change { reason: request.reason, ..Change::new(what, process) };
    keyed.refuse_if_overtaken(app, caller, &change).await?;
    process_registry::set_quiet(app, process, quiet).await?;
    app.audit().note(caller, change).await?;
    Ok(StatusCode::NO_CONTENT)
}
