//! Storage: its kind, condition and counts.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual::Clock;
use punctual::clock::{add, between, within};
use punctual::model::MessageState as Stored;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::executions::milliseconds;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Query;
use crate::live::counts_now;
use crate::problem::ApiResult;

/// Timeout of a check of the storage.
const TIMEOUT: Duration = Duration::from_secs(25);

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get))
}

/// Condition of the storage.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct StorageView {
    /// Kind of the storage, such as `sqlite`.
    kind: String,
    /// Checked properties, as pairs of name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    facts: Vec<(String, String)>,
    /// Problems that were found; empty without problems.
    findings: Vec<String>,
    /// Number of messages in each state.
    counts: BTreeMap<&'static str, u64>,
}

/// Extent of the check.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StorageQuery {
    /// Whether to check all stored data, which takes as long as reading it. Needs the role operator.
    #[serde(default)]
    whole: bool,
}

/// Checks the storage.
#[utoipa::path(
    get, path = "/storage", tag = "storage", params(StorageQuery),
    responses((status = 200, body = StorageView))
)]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<StorageQuery>,
) -> ApiResult<Json<StorageView>> {
    caller.must_be(if query.whole { Role::Operator } else { Role::Viewer })?;
    let clock: &dyn Clock = &*app.clock;
    let durable = app.storage.is_durable();
    let mut kind = if durable { "storage" } else { "memory" }.to_owned();
    let mut facts = vec![("durable".to_owned(), if durable { "yes" } else { "no" }.to_owned())];
    let mut findings = Vec::new();
    let (local, remote) = (clock.now(), app.storage.time().await?);
    let skew = milliseconds(between(local, remote).max(between(remote, local)));
    facts.push(("clock difference".to_owned(), format!("{skew} ms")));
    if let Some((named, opened)) = app.opened() {
        named.clone_into(&mut kind);
        let check =
            async { if query.whole { opened.check().await } else { opened.quick_check().await } };
        match within(clock, add(clock.now(), TIMEOUT), check).await {
            Some(Ok(check)) => {
                facts.extend(check.facts.into_iter().map(|(name, value)| (name.to_owned(), value)));
                findings.extend(check.findings);
            }
            Some(Err(error)) => findings.push(format!("the check failed: {error}")),
            None => findings.push(format!("the check took more than {} s", TIMEOUT.as_secs())),
        }
    }
    let counted = counts_now(&app).await?;
    let counts =
        Stored::ALL.map(|state| (state.as_str(), counted.total(state))).into_iter().collect();
    if counted.stale > 0 {
        let stale = counted.stale;
        let messages = if stale == 1 { "message has" } else { "messages have" };
        findings.push(format!("{stale} {messages} an expired lease or a process that is gone"));
    }
    Ok(Json(StorageView { kind, facts, findings, counts }))
}
