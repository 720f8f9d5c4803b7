//! Settings: the configuration in force, without secrets.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::problem::{Answer, Problem};

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(one))
}

/// The configuration in force, with secrets hidden; only what is redacted when there is none.
#[utoipa::path(get, path = "/settings", tag = "settings",
    responses((status = 200, body = Object), (status = 403, body = Problem)))]
async fn one(State(app): State<App>, caller: Caller) -> Answer<Json<Value>> {
    caller.must_be(Role::Admin)?;
    let hidden = app.redaction();
    let rules = || json!({ "redact": { "names": hidden.rules(), "topics": hidden.topics() } });
    Ok(Json(app.node().settings.clone().unwrap_or_else(rules)))
}
