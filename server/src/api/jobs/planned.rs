//! Planned one-time jobs: those of a name, or of a name and a key, listed, paused, resumed, triggered and cancelled.
//! Each is a message; running ones are left unchanged.

use axum::Json;
use axum::extract::State;
use punctual::client::{PauseRequest, PlannedChange, PlannedJobs};
use punctual::inspect::{PAGE_LIMIT_MAX, PageRequest};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::actions::reason;
use crate::api::messages::{MessageList, MessageQuery, list_page};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path, Query};
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};

/// Largest number of pages of planned jobs that a repeated request checks; one request changes fewer.
const PAGES_MAX: usize = 10;

/// Filter of planned one-time jobs.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct PlannedQuery {
    /// Only jobs with this key.
    key: Option<String>,
    /// Page size, 1 to 1000. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Cursor: `next` of the previous page.
    after: Option<String>,
}

/// Selects planned one-time jobs and gives the reason of the pause.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedPauseRequest {
    /// Only jobs with this key. Default: all jobs of the name.
    #[serde(default)]
    key: Option<String>,
    /// Reason, shown to other users.
    reason: String,
}

/// Selects planned one-time jobs.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PlannedRequest {
    /// Only jobs with this key. Default: all jobs of the name.
    key: Option<String>,
}

/// Selects the planned one-time jobs to cancel.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedCancelRequest {
    /// Key of the jobs.
    key: String,
}

/// Result of a change of planned one-time jobs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct PlannedChangeView {
    /// Ids of the changed messages.
    messages: Vec<String>,
    /// Number of changed messages that were paused before.
    were_paused: u64,
    /// Number of messages that needed no change or were running already.
    unchanged: u64,
    /// Whether more messages match than one request changes; repeat the request for the rest.
    more: bool,
}

/// Number of cancelled one-time jobs.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct PlannedCancelledView {
    /// Number of cancelled messages.
    cancelled: u64,
}

impl PlannedChangeView {
    fn new(change: PlannedChange) -> Self {
        let PlannedChange { changed, were_paused, unchanged, more } = change;
        let messages = changed.iter().map(ToString::to_string).collect();
        Self { messages, were_paused, unchanged, more }
    }
}

/// Lists the pending and running one-time jobs of a name, newest first. For all names use
/// `/messages?planned=true&state=pending,running`.
#[utoipa::path(get, operation_id = "list_planned_jobs", path = "/jobs/{name}/planned", tag = "jobs",
    params(("name" = String, Path), PlannedQuery),
    responses((status = 200, body = MessageList), (status = 422, body = Problem)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<PlannedQuery>,
) -> ApiResult<Json<MessageList>> {
    caller.must_be(Role::Viewer)?;
    let PlannedQuery { key, limit, after } = query;
    let state = vec!["pending".to_owned(), "running".to_owned()];
    let (job, planned) = (Some(name), Some(true));
    let query = MessageQuery { state, key, job, planned, limit, after, ..MessageQuery::default() };
    list_page(&app, query, |_| true).await.map(Json)
}

/// Pauses pending one-time jobs until they are resumed, also over restarts.
#[utoipa::path(post, operation_id = "pause_planned_jobs", path = "/jobs/{name}/planned/pause", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedPauseRequest,
    responses((status = 200, body = PlannedChangeView), (status = 404, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedPauseRequest>,
) -> ApiResult<Json<PlannedChangeView>> {
    caller.must_be(Role::Operator)?;
    let reason = reason(&request.reason)?;
    let change = Change::new("planned_jobs.pause", &name).because(reason.clone());
    let pause = PauseRequest { by: caller.name.clone(), reason, until: None };
    let planned = planned(&app, &name, request.key.as_deref());
    let action = planned.pause(pause);
    apply(&app, (&caller, &keyed), (&planned, action), change).await
}

/// Resumes paused one-time jobs: each runs at its own time, or now when that has passed.
#[utoipa::path(post, operation_id = "resume_planned_jobs", path = "/jobs/{name}/planned/resume", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedRequest,
    responses((status = 200, body = PlannedChangeView), (status = 404, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedRequest>,
) -> ApiResult<Json<PlannedChangeView>> {
    caller.must_be(Role::Operator)?;
    let change = Change::new("planned_jobs.resume", &name);
    let planned = planned(&app, &name, request.key.as_deref());
    apply(&app, (&caller, &keyed), (&planned, planned.resume()), change).await
}

/// Makes pending one-time jobs due now, including paused ones. Each still runs once.
#[utoipa::path(post, operation_id = "trigger_planned_jobs", path = "/jobs/{name}/planned/trigger", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedRequest,
    responses((status = 200, body = PlannedChangeView), (status = 404, body = Problem)))]
pub(super) async fn trigger(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedRequest>,
) -> ApiResult<Json<PlannedChangeView>> {
    caller.must_be(Role::Operator)?;
    let change = Change::new("planned_jobs.trigger", &name);
    let planned = planned(&app, &name, request.key.as_deref());
    apply(&app, (&caller, &keyed), (&planned, planned.trigger()), change).await
}

/// Cancels the pending one-time jobs with a key. Succeeds also when there are none.
#[utoipa::path(post, operation_id = "cancel_planned_jobs", path = "/jobs/{name}/planned/cancel", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedCancelRequest,
    responses((status = 200, body = PlannedCancelledView), (status = 422, body = Problem)))]
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedCancelRequest>,
) -> ApiResult<Json<PlannedCancelledView>> {
    caller.must_be(Role::Operator)?;
    let change = Change::new("planned_jobs.cancel", &name);
    let planned = planned(&app, &name, Some(&request.key));
    refuse_if_overtaken(&app, (&caller, &keyed), &planned, &change).await?;
    let cancelled = app.punctual.jobs().cancel(&name, &request.key).await?;
    let view = PlannedCancelledView { cancelled };
    app.audit().note(&caller, change.to(&view)).await?;
    Ok(Json(view))
}

/// Runs an action on planned one-time jobs unless it repeats an overtaken request, and records it in the audit trail.
async fn apply(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    (planned, action): (&PlannedJobs, impl Future<Output = punctual::Result<PlannedChange>>),
    change: Change,
) -> ApiResult<Json<PlannedChangeView>> {
    refuse_if_overtaken(app, (caller, keyed), planned, &change).await?;
    let view = PlannedChangeView::new(action.await?);
    app.audit().note(caller, change.to(&view)).await?;
    Ok(Json(view))
}

/// Returns the planned one-time jobs of a name, and of a key if one is given.
fn planned(app: &App, name: &str, key: Option<&str>) -> PlannedJobs {
    let planned = app.punctual.jobs().planned(name);
    match key {
        Some(key) => planned.key(key),
        None => planned,
    }
}

/// Fails for a repeated request that would change jobs that were planned or changed since its first run.
async fn refuse_if_overtaken(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    planned: &PlannedJobs,
    change: &Change,
) -> ApiResult<()> {
    if !keyed.is_repeat() {
        return Ok(());
    }
    let (mut page, mut messages) = (PageRequest::first(PAGE_LIMIT_MAX), Vec::new());
    for _ in 0..PAGES_MAX {
        let paged = planned.list(page).await?;
        for record in &paged.rows {
            keyed.refuse_if_changed("the set of planned jobs", record.message.created_at)?;
            messages.push(record.message.id.to_string());
        }
        match paged.next {
            Some(next) => page = PageRequest::after(next, PAGE_LIMIT_MAX),
            None => break,
        }
    }
    keyed.refuse_if_any_overtaken(app, caller, (change, &messages)).await
}
