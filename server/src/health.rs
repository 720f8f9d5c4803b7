//! How this node is, for load balancers, orchestrators and people. Anybody may ask for its condition; the reasons, the
//! counts and the version are for callers who are known. It changes nothing, and asks the storage at most once a second
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
use punctual::health::{Condition, Health, Known, Lifecycle};
use serde::Serialize;
use serde_json::{Value, json};

use crate::alerts::{self, AlertKind, AlertView, Alerts};
use crate::api::milliseconds;
use crate::app::App;
use crate::auth;
use crate::caller::{Caller, Role};
use crate::problem::Answer;
use crate::unhandled;

/// How long an answer holds, however costly it was: a storage that is gone must show soon.
const AGE: Duration = Duration::from_secs(1);
/// How long the storage may take to say what alerts and reasons need, and who asks.
const ALERTS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the storage may take to say which topics other processes handle.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(1);

/// What this file answers.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/health", get(whole))
        .route("/health/live", get(|| async { Json(json!({ "alive": true })) }))
        .route("/health/ready", get(ready))
}

/// How a node is, and what a person should look at.
#[derive(Clone, Debug)]
pub(crate) struct NodeHealth {
    /// When it was found.
    pub(crate) at: Timestamp,
    /// The health of the process; degraded at least while there are alerts, which are among its reasons.
    pub(crate) health: Health,
    /// What was found besides the process itself.
    pub(crate) alerts: Arc<Alerts>,
    /// All of it, a sentence for each kind, the most urgent first.
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

    /// A node that cannot say how it is.
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

/// How this process is by itself, as it was found at most a second ago.
async fn of_process(app: &App) -> Result<Health> {
    if app.punctual.is_stopping() {
        // At once, not when what was found before is a second old.
        let known = Known { counts: None, handled: Some(Vec::new()) };
        return Ok(app.punctual.admin().health_with(&known).await);
    }
    let find = async {
        let counts = app.node().live.costly_counts(app.clock.now());
        // A register that cannot be read is no reason to call what others handle unhandled; a storage that
        // does not answer is a reason of its own.
        let until = add(app.clock.now(), REGISTER_TIMEOUT);
        let handled = within(&*app.clock, until, unhandled::handled_topics(app)).await;
        let handled = handled.unwrap_or(Ok(Vec::new())).unwrap_or_default();
        let known = Known { counts, handled: Some(handled) };
        let health = app.punctual.admin().health_with(&known).await;
        if health.storage_latency.is_none() {
            // Lists that were costly to find are not given out as if they were current.
            app.node().forget_lists();
        }
        Ok(health)
    };
    app.node().health.get_fresh(&*app.clock, AGE, find).await
}

/// How this node is, as it was found at most a second ago; alerts are a few seconds old.
pub(crate) async fn looked(app: &App) -> Result<NodeHealth> {
    let mut health = of_process(app).await?;
    let at = app.clock.now();
    if health.storage_latency.is_none() {
        return Ok(NodeHealth::new(at, health, Arc::new(alerts::without_storage(app))));
    }
    let found = match within(&*app.clock, add(at, ALERTS_TIMEOUT), alerts::current(app)).await {
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err(format!("no answer within {} s", ALERTS_TIMEOUT.as_secs())),
    };
    let found = found.unwrap_or_else(|error| {
        health.condition = health.condition.max(Condition::Degraded);
        health.reasons.push(format!("it is not known whether jobs fail or queues wait: {error}"));
        Arc::new(alerts::without_storage(app))
    });
    Ok(NodeHealth::new(at, health, found))
}

/// One part of a node.
#[derive(Serialize)]
struct Component {
    condition: Condition,
    #[serde(flatten)]
    data: Value,
}

/// Everything: 503 when it does not do its work.
async fn whole(State(app): State<App>, request: Request) -> Answer<(StatusCode, Json<Value>)> {
    let node = looked(&app).await?;
    if !is_known(&app, request).await {
        let condition = node.health.condition;
        return Ok((status(condition), Json(json!({ "condition": condition }))));
    }
    let mut answer = serde_json::to_value(&node.health).unwrap_or_default();
    answer["components"] = components(&node);
    answer["version"] = env!("CARGO_PKG_VERSION").into();
    Ok((status(node.health.condition), Json(answer)))
}

/// Whether it can take requests: its loops run and its storage answers. Alerts are none of its business.
async fn ready(State(app): State<App>, request: Request) -> Answer<(StatusCode, Json<Value>)> {
    let health = of_process(&app).await?;
    let ready = health.condition < Condition::Unhealthy;
    if !is_known(&app, request).await {
        return Ok((status(health.condition), Json(json!({ "ready": ready }))));
    }
    Ok((status(health.condition), Json(json!({ "ready": ready, "reasons": health.reasons }))))
}

/// Returns whether the caller may see more than the condition. Credentials that are wrong, or that a hanging storage
/// does not find, are none: a probe with an old token still learns how the node is.
async fn is_known(app: &App, request: Request) -> bool {
    let until = add(app.clock.now(), ALERTS_TIMEOUT);
    let known = within(&*app.clock, until, auth::known(app, request)).await;
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

/// The parts of a node, each with its condition.
pub(crate) fn components(node: &NodeHealth) -> Value {
    let NodeHealth { health, alerts, .. } = node;
    let latency_ms = health.storage_latency.map(milliseconds);
    let tick_age_ms = health.last_tick_age.map(milliseconds);
    let storage = when(latency_ms.is_none(), Condition::Unhealthy);
    // Whatever else is unhealthy are the loops: the storage and they are all there is.
    let stands_still = health.condition == Condition::Unhealthy && storage == Condition::Healthy;
    let scheduler = when(stands_still || tick_age_ms.is_none(), Condition::Unhealthy)
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

fn when(wrong: bool, condition: Condition) -> Condition {
    if wrong { condition } else { Condition::Healthy }
}
