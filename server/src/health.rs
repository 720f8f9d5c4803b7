//! How this node is, for load balancers, orchestrators and people. Anybody may ask: it says nothing of what
//! is in messages, changes nothing, and asks the storage at most once a second.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use punctual::Result;
use punctual::health::{Condition, Health};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::milliseconds;
use crate::app::App;
use crate::problem::Answer;

/// How long an answer holds.
const AGE: Duration = Duration::from_secs(1);

/// What this file answers.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/health", get(whole))
        .route("/health/live", get(|| async { Json(json!({ "alive": true })) }))
        .route("/health/ready", get(ready))
}

/// How this process is, as it was found at most a second ago.
pub(crate) async fn looked(app: &App) -> Result<Health> {
    if app.punctual.is_stopping() {
        // At once, not when what was found before is a second old.
        return Ok(app.punctual.admin().health().await);
    }
    let find = async {
        let (admin, counts) =
            (app.punctual.admin(), app.node().live.costly_counts(app.clock.now()));
        Ok(match counts {
            Some(counts) => admin.health_with(&counts).await,
            None => admin.health().await,
        })
    };
    app.node().health.get(&*app.clock, AGE, find).await
}

/// One part of a node.
#[derive(Serialize)]
struct Component {
    condition: Condition,
    #[serde(flatten)]
    data: Value,
}

/// Everything: 503 when it does not do its work.
async fn whole(State(app): State<App>) -> Answer<(StatusCode, Json<Value>)> {
    let health = looked(&app).await?;
    let mut answer = serde_json::to_value(&health).unwrap_or_default();
    answer["components"] = components(&health);
    answer["version"] = env!("CARGO_PKG_VERSION").into();
    Ok((status(health.condition), Json(answer)))
}

/// Whether it can take requests: its loops run and its storage answers.
async fn ready(State(app): State<App>) -> Answer<(StatusCode, Json<Value>)> {
    let health = looked(&app).await?;
    let ready = health.condition < Condition::Unhealthy;
    Ok((status(health.condition), Json(json!({ "ready": ready, "reasons": health.reasons }))))
}

fn status(condition: Condition) -> StatusCode {
    match condition {
        Condition::Healthy | Condition::Degraded => StatusCode::OK,
        Condition::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn components(health: &Health) -> Value {
    let latency_ms = health.storage_latency.map(milliseconds);
    let tick_age_ms = health.last_tick_age.map(milliseconds);
    let storage = when(latency_ms.is_none(), Condition::Unhealthy);
    // Whatever else is unhealthy are the loops: the storage and they are all there is.
    let stands_still = health.condition == Condition::Unhealthy && storage == Condition::Healthy;
    let scheduler = when(stands_still || tick_age_ms.is_none(), Condition::Unhealthy)
        .max(when(health.late_schedules > 0, Condition::Degraded));
    let component = |condition, data| Component { condition, data };
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
        "dead_letters": component(Condition::Healthy, json!({ "count": health.dead })),
    })
}

fn when(wrong: bool, condition: Condition) -> Condition {
    if wrong { condition } else { Condition::Healthy }
}
