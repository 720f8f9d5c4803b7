//! Subscriptions of this process: list, pause, resume.

use axum::Json;
use axum::extract::State;
use punctual::schedule::stable_hash;
use punctual::subscription::{SubscriptionName, SubscriptionStatus};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::Path;
use crate::idempotency::Keyed;
use crate::page::Listing;
use crate::problem::{ApiResult, Problem};

/// A topic that this process receives for a group.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct SubscriptionView {
    /// Id of the subscription; the same in every process and after a restart.
    id: String,
    /// Name of the transport.
    transport: String,
    /// Topic.
    topic: String,
    /// Subscriber group.
    group: String,
    /// Whether it is paused.
    paused: bool,
    /// State of its circuit breaker: `closed`, `open` or `half open`.
    circuit: &'static str,
    /// Whether it is connected to its transport.
    connected: bool,
    /// Number of its messages running in this process.
    running: usize,
}

fn id(name: &SubscriptionName) -> String {
    let SubscriptionName { transport, topic, group } = name;
    let parts = [transport.as_str().as_bytes(), topic.as_str().as_bytes(), group.as_bytes()];
    format!("{:016x}", stable_hash(&parts))
}

impl SubscriptionView {
    fn new(status: &SubscriptionStatus) -> Self {
        let SubscriptionName { transport, topic, group } = &status.name;
        Self {
            id: id(&status.name),
            transport: transport.to_string(),
            topic: topic.to_string(),
            group: group.to_string(),
            paused: status.paused,
            circuit: status.circuit.as_str(),
            connected: status.connected,
            running: status.running,
        }
    }
}

fn find(app: &App, wanted_id: &str) -> ApiResult<SubscriptionStatus> {
    let known = app.punctual.subscriptions().list();
    known.into_iter().find(|status| id(&status.name) == wanted_id).ok_or_else(|| {
        Problem::not_found(format!(
            "this process has no subscription {wanted_id:?}; GET /api/v1/subscriptions lists them"
        ))
    })
}

/// Lists the subscriptions of this process.
#[utoipa::path(get, path = "/subscriptions", tag = "topics",
    responses((status = 200, body = Listing<SubscriptionView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> ApiResult<Json<Listing<SubscriptionView>>> {
    caller.must_be(Role::Viewer)?;
    let known = app.punctual.subscriptions().list();
    Ok(Json(Listing::whole(known.iter().map(SubscriptionView::new).collect())))
}

/// Pauses a subscription of this process; messages in flight are finished.
#[utoipa::path(post, path = "/subscriptions/{id}/pause", tag = "topics", params(("id" = String, Path)),
    responses((status = 200, body = SubscriptionView), (status = 404, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
) -> ApiResult<Json<SubscriptionView>> {
    caller.must_be(Role::Operator)?;
    let name = find(&app, &id)?.name;
    let change = Change::new("subscription.pause", &name);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    app.punctual.subscriptions().pause(&name)?;
    app.audit().note(&caller, change).await?;
    Ok(Json(SubscriptionView::new(&find(&app, &id)?)))
}

/// Resumes a subscription of this process.
#[utoipa::path(post, path = "/subscriptions/{id}/resume", tag = "topics", params(("id" = String, Path)),
    responses((status = 200, body = SubscriptionView), (status = 404, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
) -> ApiResult<Json<SubscriptionView>> {
    caller.must_be(Role::Operator)?;
    let name = find(&app, &id)?.name;
    let change = Change::new("subscription.resume", &name);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    app.punctual.subscriptions().resume(&name)?;
    app.audit().note(&caller, change).await?;
    Ok(Json(SubscriptionView::new(&find(&app, &id)?)))
}
