//! Health endpoints of this node, for load balancers, orchestrators and operators. The condition is public; the
//! reasons, counts and version need an authenticated caller. Read-only; queries the storage at most once a second
//! until the process is asked to stop.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use punctual::Result;
use punctual::clock::{add, within};
use punctual::health::{Condition, Health, KnownFacts, Lifecycle};
use serde::Serialize;
use serde_json::{Value, json};

use crate::alerts::{self, AlertKind, AlertView, Alerts};
use crate::api::milliseconds;
use crate::app::App;
use crate::auth;
use crate::caller::{Caller, Role};
use crate::problem::ApiResult;
use crate::unhandled;

/// How long health is cached, however expensive: a lost storage must show soon.
const AGE: Duration = Duration::from_secs(1);
/// Timeout of the storage for alerts, and for the authentication of the caller.
const ALERTS_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the storage for the topics that other processes handle.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the health routes.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/health", get(whole))
        .route("/health/live", get(|| async { Json(json!({ "alive": true })) }))
        .route("/health/ready", get(ready))
}

/// Health of a node with its alerts.
#[derive(Clone, Debug)]
pub(crate) struct NodeHealth {
    /// When it was computed.
    pub(crate) at: Timestamp,
    /// Health of the process; at least degraded while there are alerts, which are added to its reasons.
    pub(crate) health: Health,
    /// Alerts about jobs, queues, webhooks and dead letters.
    pub(crate) alerts: Arc<Alerts>,
    /// One view per kind of alert, most urgent first.
    pub(crate) views: Vec<AlertView>,
}

impl NodeHealth {
    fn new(at: Timestamp, mut health: Health, alerts: Arc<Alerts>) -> Self {
        let mut views: Vec<AlertView> =
            health.reasons.iter().map(|reason| AlertView::of_server(reason)).collect();
        let found = alerts.views();
        if !found.is_empty() {
            health.condition = health.condition.max(Condition::Degraded);
            health.reasons.extend(found.iter().map(|view| view.text.clone()));
        }
        views.extend(found);
        Self { at, health, alerts, views }
    }

    /// Returns an unhealthy node whose health could not be computed.
    pub(crate) fn unknown(app: &App, reason: String) -> Self {
        let health = Health {
            condition: Condition::Unhealthy,
            reasons: vec![reason],
            lifecycle: Lifecycle::default(),
            stale: 0,
            storage_latency: None,
            last_tick_age: None,
            late_schedules: 0,
            dead: 0,
            queue_depth: 0,
        };
        Self::new(app.clock.now(), health, Arc::new(alerts::without_storage(app)))
    }
}

/// Returns the health of this process, at most a second old.
async fn of_process(app: &App) -> Result<Health> {
    if app.punctual.is_stopping() {
        // Not cached, so that stopping shows immediately.
        let known = KnownFacts { counts: None, handled: Some(Vec::new()) };
        return Ok(app.admin().health_with(&known).await);
    }
    let find = async {
        let counts = app.node().live.expensive_counts(app.clock.now());
        // An unreadable registry must not report topics of other processes as unhandled; an unreachable storage is
        // reported by itself.
        let until = add(app.clock.now(), REGISTRY_TIMEOUT);
        let handled = within(&*app.clock, until, unhandled::handled_topics(app)).await;
        let handled = handled.unwrap_or(Ok(Vec::new())).unwrap_or_default();
        let known = KnownFacts { counts, handled: Some(handled) };
        let health = app.admin().health_with(&known).await;
        if health.storage_latency.is_none() {
            // Cached lists must not be served as if they were current.
            app.node().forget_lists();
        }
        Ok(health)
    };
    app.node().health.get_fresh(&*app.clock, AGE, find).await
}

/// Returns the health of this node, at most a second old; alerts are up to a few seconds old.
pub(crate) async fn node_health(app: &App) -> Result<NodeHealth> {
    let mut health = of_process(app).await?;
    let at = app.clock.now();
    if health.storage_latency.is_none() {
        return Ok(NodeHealth::new(at, health, Arc::new(alerts::without_storage(app))));
    }
    let found = match within(&*app.clock, add(at, ALERTS_TIMEOUT), alerts::current(app)).await {
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err(format!("no response within {} s", ALERTS_TIMEOUT.as_secs())),
    };
    let found = found.unwrap_or_else(|error| {
        health.condition = health.condition.max(Condition::Degraded);
        health.reasons.push(format!("alerts about jobs and queues are unavailable: {error}"));
        Arc::new(alerts::without_storage(app))
    });
    Ok(NodeHealth::new(at, health, found))
}

/// Condition of a component of a node.
#[derive(Serialize)]
struct Component {
    condition: Condition,
    #[serde(flatten)]
    data: Value,
}

/// Serves the whole health; 503 when unhealthy.
async fn whole(State(app): State<App>, request: Request) -> ApiResult<(StatusCode, Json<Value>)> {
    let node = node_health(&app).await?;
    if !is_viewer(&app, request).await {
        let condition = node.health.condition;
        return Ok((status(condition), Json(json!({ "condition": condition }))));
    }
    let mut body = serde_json::to_value(&node.health).unwrap_or_default();
    body["components"] = components(&node);
    body["version"] = env!("CARGO_PKG_VERSION").into();
    Ok((status(node.health.condition), Json(body)))
}

/// Serves readiness: the loops run and the storage responds. Alerts do not count.
async fn ready(State(app): State<App>, request: Request) -> ApiResult<(StatusCode, Json<Value>)> {
    let health = of_process(&app).await?;
    let ready = health.condition < Condition::Unhealthy;
    if !is_viewer(&app, request).await {
        return Ok((status(health.condition), Json(json!({ "ready": ready }))));
    }
    Ok((status(health.condition), Json(json!({ "ready": ready, "reasons": health.reasons }))))
}

/// Returns whether the caller may see more than the condition. Invalid credentials, or a hanging storage, count as no
/// caller: a probe with an old token still gets the condition.
async fn is_viewer(app: &App, request: Request) -> bool {
    let until = add(app.clock.now(), ALERTS_TIMEOUT);
    let known = within(&*app.clock, until, auth::authenticated(app, request)).await;
    let caller = known
        .and_then(Result::ok)
        .and_then(|request| request.extensions().get::<Caller>().cloned());
    caller.is_some_and(|caller| caller.must_be(Role::Viewer).is_ok())
}

fn status(condition: Condition) -> StatusCode {
    match condition {
        Condition::Healthy | Condition::Degraded => StatusCode::OK,
        Condition::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Returns the components of a node, each with its condition.
pub(crate) fn components(node: &NodeHealth) -> Value {
    let NodeHealth { health, alerts, .. } = node;
    let latency_ms = health.storage_latency.map(milliseconds);
    let tick_age_ms = health.last_tick_age.map(milliseconds);
    let storage = when(latency_ms.is_none(), Condition::Unhealthy);
    // Only storage and loops can be unhealthy, so with a healthy storage it is the loops.
    let loops_stalled = health.condition == Condition::Unhealthy && storage == Condition::Healthy;
    let scheduler = when(loops_stalled || tick_age_ms.is_none(), Condition::Unhealthy)
        .max(when(health.late_schedules > 0, Condition::Degraded));
    let component = |condition, data| Component { condition, data };
    let counted = |kinds: &[AlertKind]| {
        let count: usize = kinds.iter().map(|kind| alerts.count(*kind)).sum();
        component(when(count > 0, Condition::Degraded), json!({ "count": count }))
    };
    let waiting = [AlertKind::QueueWithoutWorker, AlertKind::QueuePaused, AlertKind::QueueLate];
    let mut failing = counted(&[AlertKind::JobFailing]);
    failing.data["more"] = alerts.more_failing.into();
    let new_dead = alerts.count(AlertKind::DeadLetters) > 0;
    json!({
        "storage": component(storage, json!({ "latency_ms": latency_ms })),
        "scheduler": component(
            scheduler,
            json!({ "last_tick_age_ms": tick_age_ms, "late_schedules": health.late_schedules }),
        ),
        "stale_jobs": component(
            when(health.stale > 0, Condition::Degraded),
            json!({ "count": health.stale }),
        ),
        "queue_depth": component(Condition::Healthy, json!({ "count": health.queue_depth })),
        "dead_letters": component(
            when(new_dead, Condition::Degraded),
            json!({ "count": health.dead }),
        ),
        "failing_jobs": failing,
        "waiting_queues": counted(&waiting),
        "webhooks": counted(&[AlertKind::WebhookFailing]),
        "configuration": counted(&[AlertKind::ConfigurationRefused]),
    })
}

fn when(applies: bool, condition: Condition) -> Condition {
    if applies { condition } else { Condition::Healthy }
}
