//! One-time jobs that were planned at run time: those of a name, or of a name and a key, listed and steered. Each is
//! a message; those that run are left alone.

use axum::Json;
use axum::extract::State;
use punctual::client::{PauseRequest, PlannedChange, PlannedJobs};
use punctual::inspect::{PAGE_LIMIT_MAX, PageRequest};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::acting::reason;
use crate::api::messages::{MessageList, MessageQuery, listed};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path, Query};
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};

/// The most pages of what is planned that a repeat looks at; one request changes fewer.
const PAGES_MAX: usize = 10;

/// Which planned one-time jobs are listed.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct PlannedQuery {
    /// Only those about this key.
    key: Option<String>,
    /// At most so many rows: 1 to 1000, 50 when not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Which planned one-time jobs, and why they are paused.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedPauseRequest {
    /// Only those about this key; all of the name when not given.
    #[serde(default)]
    key: Option<String>,
    /// Why, for the next person who looks.
    reason: String,
}

/// Which planned one-time jobs.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PlannedRequest {
    /// Only those about this key; all of the name when not given.
    key: Option<String>,
}

/// Which planned one-time jobs are cancelled.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedCancelRequest {
    /// The key they are about.
    key: String,
}

/// What a change of planned one-time jobs came to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct PlannedChangeView {
    /// The messages that were changed.
    messages: Vec<String>,
    /// How many of them were paused before.
    were_paused: u64,
    /// How many needed no change, or were running by then.
    unchanged: u64,
    /// Whether more match than one request changes; repeat it for the rest.
    more: bool,
}

/// How many planned one-time jobs were cancelled.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct PlannedCancelledView {
    /// How many.
    cancelled: u64,
}

impl PlannedChangeView {
    fn new(change: PlannedChange) -> Self {
        let PlannedChange { changed, were_paused, unchanged, more } = change;
        let messages = changed.iter().map(ToString::to_string).collect();
        Self { messages, were_paused, unchanged, more }
    }
}

/// The one-time jobs of a name that were planned at run time and wait or run, newest first. Those of every name
/// are at `/messages?planned=true&state=pending,running`.
#[utoipa::path(get, operation_id = "list_planned_jobs", path = "/jobs/{name}/planned", tag = "jobs",
    params(("name" = String, Path), PlannedQuery),
    responses((status = 200, body = MessageList), (status = 422, body = Problem)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<PlannedQuery>,
) -> Answer<Json<MessageList>> {
    caller.must_be(Role::Viewer)?;
    let PlannedQuery { key, limit, after } = query;
    let state = vec!["pending".to_owned(), "running".to_owned()];
    let (job, planned) = (Some(name), Some(true));
    let query = MessageQuery { state, key, job, planned, limit, after, ..MessageQuery::default() };
    listed(&app, query, |_| true).await.map(Json)
}

/// Holds planned one-time jobs that wait back until they are resumed, also over restarts.
#[utoipa::path(post, operation_id = "pause_planned_jobs", path = "/jobs/{name}/planned/pause", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedPauseRequest,
    responses((status = 200, body = PlannedChangeView), (status = 404, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedPauseRequest>,
) -> Answer<Json<PlannedChangeView>> {
    caller.must_be(Role::Operator)?;
    let reason = reason(&request.reason)?;
    let change = Change::new("planned_jobs.pause", &name).because(reason.clone());
    let planned = planned(&app, &name, request.key.as_deref());
    keyed_to(&app, (&caller, &keyed), &planned, &change).await?;
    let pause = PauseRequest { by: caller.name.clone(), reason, until: None };
    let view = PlannedChangeView::new(planned.pause(pause).await?);
    app.audit().note(&caller, change.to(&view)).await?;
    Ok(Json(view))
}

/// Lets paused planned one-time jobs run at their own time, or now if it has passed.
#[utoipa::path(post, operation_id = "resume_planned_jobs", path = "/jobs/{name}/planned/resume", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedRequest,
    responses((status = 200, body = PlannedChangeView), (status = 404, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedRequest>,
) -> Answer<Json<PlannedChangeView>> {
    caller.must_be(Role::Operator)?;
    let change = Change::new("planned_jobs.resume", &name);
    let planned = planned(&app, &name, request.key.as_deref());
    keyed_to(&app, (&caller, &keyed), &planned, &change).await?;
    let view = PlannedChangeView::new(planned.resume().await?);
    app.audit().note(&caller, change.to(&view)).await?;
    Ok(Json(view))
}

/// Makes planned one-time jobs that wait due now, also paused ones, which the answer counts. Each runs once, as
/// planned, only earlier.
#[utoipa::path(post, operation_id = "trigger_planned_jobs", path = "/jobs/{name}/planned/trigger", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedRequest,
    responses((status = 200, body = PlannedChangeView), (status = 404, body = Problem)))]
pub(super) async fn trigger(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedRequest>,
) -> Answer<Json<PlannedChangeView>> {
    caller.must_be(Role::Operator)?;
    let change = Change::new("planned_jobs.trigger", &name);
    let planned = planned(&app, &name, request.key.as_deref());
    keyed_to(&app, (&caller, &keyed), &planned, &change).await?;
    let view = PlannedChangeView::new(planned.trigger().await?);
    app.audit().note(&caller, change.to(&view)).await?;
    Ok(Json(view))
}

/// Cancels planned one-time jobs about a key that wait. None at all is no mistake.
#[utoipa::path(post, operation_id = "cancel_planned_jobs", path = "/jobs/{name}/planned/cancel", tag = "jobs",
    params(("name" = String, Path)), request_body = PlannedCancelRequest,
    responses((status = 200, body = PlannedCancelledView), (status = 422, body = Problem)))]
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<PlannedCancelRequest>,
) -> Answer<Json<PlannedCancelledView>> {
    caller.must_be(Role::Operator)?;
    let change = Change::new("planned_jobs.cancel", &name);
    let planned = planned(&app, &name, Some(&request.key));
    keyed_to(&app, (&caller, &keyed), &planned, &change).await?;
    let cancelled = app.punctual.jobs().cancel(&name, &request.key).await?;
    let view = PlannedCancelledView { cancelled };
    app.audit().note(&caller, change.to(&view)).await?;
    Ok(Json(view))
}

/// Returns the planned one-time jobs of a name and maybe a key.
fn planned(app: &App, name: &str, key: Option<&str>) -> PlannedJobs {
    let planned = app.punctual.jobs().planned(name);
    match key {
        Some(key) => planned.key(key),
        None => planned,
    }
}

/// Refuses a repeat that would change what was planned after the request was first seen, or what somebody has
/// changed since: all of the name, or one of them as a message.
async fn keyed_to(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    planned: &PlannedJobs,
    change: &Change,
) -> Answer<()> {
    if !keyed.is_repeat() {
        return Ok(());
    }
    let (mut page, mut messages) = (PageRequest::first(PAGE_LIMIT_MAX), Vec::new());
    for _ in 0..PAGES_MAX {
        let paged = planned.list(page).await?;
        for record in &paged.rows {
            keyed.refuse_if_changed("what is planned", record.message.created_at)?;
            messages.push(record.message.id.to_string());
        }
        match paged.next {
            Some(next) => page = PageRequest::after(next, PAGE_LIMIT_MAX),
            None => break,
        }
    }
    keyed.refuse_if_any_overtaken(app, caller, (change, &messages)).await
}
