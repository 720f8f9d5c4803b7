//! Whether the process does its work, for orchestrators and for people. Asking changes nothing.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use punctual::health::{Condition, Health};
use serde_json::json;

use crate::routes::Shared;

/// How the process is, with the stable keys of [`Health`].
pub(crate) async fn health(State(shared): State<Shared>) -> (StatusCode, Json<Health>) {
    let health = shared.punctual.admin().health().await;
    (code(health.condition != Condition::Unhealthy), Json(health))
}

/// Whether anybody is there. A storage that is away is no reason to restart a process, so nobody is asked.
pub(crate) async fn live() -> impl IntoResponse {
    Json(json!({ "live": true }))
}

/// Whether it makes sense to send work here.
pub(crate) async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    let Health { condition, reasons, .. } = shared.punctual.admin().health().await;
    let ready = condition != Condition::Unhealthy;
    (code(ready), Json(json!({ "ready": ready, "reasons": reasons })))
}

fn code(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
