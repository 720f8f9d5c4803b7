//! Health routes: health, liveness and readiness, for orchestrators and operators. Reading changes nothing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use punctual::health::{Condition, Health};
use serde_json::json;

use crate::routes::RouteState;

/// Returns the health of the process, with the stable keys of [`Health`].
pub(crate) async fn health(State(shared): State<RouteState>) -> (StatusCode, Json<Health>) {
    let health = shared.punctual.admin().health().await;
    (status_code(health.condition != Condition::Unhealthy), Json(health))
}

/// Returns 200 while the process responds. The storage is not checked: its failure is no reason for a restart.
pub(crate) async fn live() -> impl IntoResponse {
    Json(json!({ "live": true }))
}

/// Returns whether the process accepts work.
pub(crate) async fn ready(State(shared): State<RouteState>) -> impl IntoResponse {
    let Health { condition, reasons, .. } = shared.punctual.admin().health().await;
    let ready = condition != Condition::Unhealthy;
    (status_code(ready), Json(json!({ "ready": ready, "reasons": reasons })))
}

fn status_code(is_ok: bool) -> StatusCode {
    if is_ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
