//! Settings: the effective configuration, without secrets.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::problem::{ApiResult, Problem};

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get))
}

/// Returns the effective configuration with secrets redacted; without a configuration only the redaction rules.
#[utoipa::path(get, path = "/settings", tag = "settings",
    responses((status = 200, body = Object), (status = 403, body = Problem)))]
async fn get(State(app): State<App>, caller: Caller) -> ApiResult<Json<Value>> {
    caller.must_be(Role::Admin)?;
    let hidden = app.redaction();
    let rules = || json!({ "redact": { "names": hidden.rules(), "topics": hidden.topics() } });
    Ok(Json(app.node().settings.clone().unwrap_or_else(rules)))
}
