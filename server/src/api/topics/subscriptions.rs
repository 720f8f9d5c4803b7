//! Subscriptions of this process: what it receives, and pausing it.

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
use crate::problem::{Answer, Problem};

/// A topic that this process receives for a group.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct SubscriptionView {
    /// Names it in other calls; the same in every process and after every start.
    id: String,
    /// The transport.
    transport: String,
    /// The topic.
    topic: String,
    /// The group.
    group: String,
    /// Whether somebody paused it.
    paused: bool,
    /// How its circuit stands: `closed`, `open` or `half open`.
    circuit: &'static str,
    /// Whether it is in touch with its transport.
    connected: bool,
    /// How many of its messages this process handles.
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

fn find(app: &App, wanted: &str) -> Answer<SubscriptionStatus> {
    let known = app.punctual.subscriptions().list();
    known.into_iter().find(|status| id(&status.name) == wanted).ok_or_else(|| {
        Problem::not_found(format!(
            "this process has no subscription {wanted:?}; the list shows what it has"
        ))
    })
}

/// Everything this process receives.
#[utoipa::path(get, path = "/subscriptions", tag = "topics",
    responses((status = 200, body = Listing<SubscriptionView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Answer<Json<Listing<SubscriptionView>>> {
    caller.must_be(Role::Viewer)?;
    let known = app.punctual.subscriptions().list();
    Ok(Json(Listing::whole(known.iter().map(SubscriptionView::new).collect())))
}

/// This process stops receiving; what is in hand is finished.
#[utoipa::path(post, path = "/subscriptions/{id}/pause", tag = "topics", params(("id" = String, Path)),
    responses((status = 200, body = SubscriptionView), (status = 404, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
) -> Answer<Json<SubscriptionView>> {
    caller.must_be(Role::Operator)?;
    let name = find(&app, &id)?.name;
    let change = Change::new("subscription.pause", &name);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    app.punctual.subscriptions().pause(&name)?;
    app.audit().note(&caller, change).await?;
    Ok(Json(SubscriptionView::new(&find(&app, &id)?)))
}

/// This process receives again.
#[utoipa::path(post, path = "/subscriptions/{id}/resume", tag = "topics", params(("id" = String, Path)),
    responses((status = 200, body = SubscriptionView), (status = 404, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
) -> Answer<Json<SubscriptionView>> {
    caller.must_be(Role::Operator)?;
    let name = find(&app, &id)?.name;
    let change = Change::new("subscription.resume", &name);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    app.punctual.subscriptions().resume(&name)?;
    app.audit().note(&caller, change).await?;
    Ok(Json(SubscriptionView::new(&find(&app, &id)?)))
}
