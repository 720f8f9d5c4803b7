//! The storage: what kind it is, how it is, and how much it holds.

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
use crate::problem::Answer;

/// How long a look at the storage as a whole may take.
const TIMEOUT: Duration = Duration::from_secs(25);

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(one))
}

/// How the storage is.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct StorageView {
    /// What kind it is, such as `sqlite`.
    kind: String,
    /// What was looked at, and what it is like.
    #[schema(value_type = Vec<Vec<String>>)]
    facts: Vec<(String, String)>,
    /// What is wrong or odd; empty when all is well.
    findings: Vec<String>,
    /// How many messages there are in each state.
    counts: BTreeMap<&'static str, u64>,
}

/// How closely it is looked at.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct StorageQuery {
    /// Looks at all that is in it as well, which takes as long as reading it; operators may.
    #[serde(default)]
    whole: bool,
}

/// How the storage is.
#[utoipa::path(
    get, path = "/storage", tag = "storage", params(StorageQuery),
    responses((status = 200, body = StorageView))
)]
async fn one(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<StorageQuery>,
) -> Answer<Json<StorageView>> {
    caller.must_be(if query.whole { Role::Operator } else { Role::Viewer })?;
    let clock: &dyn Clock = &*app.clock;
    let durable = app.storage.is_durable();
    let mut kind = if durable { "storage" } else { "memory" }.to_owned();
    let mut facts = vec![("durable".to_owned(), if durable { "yes" } else { "no" }.to_owned())];
    let mut findings = Vec::new();
    let (ours, theirs) = (clock.now(), app.storage.time().await?);
    let apart = milliseconds(between(ours, theirs).max(between(theirs, ours)));
    facts.push(("clocks apart".to_owned(), format!("{apart} ms")));
    if let Some((named, opened)) = app.opened() {
        named.clone_into(&mut kind);
        let looked =
            async { if query.whole { opened.check().await } else { opened.glance().await } };
        match within(clock, add(clock.now(), TIMEOUT), looked).await {
            Some(Ok(check)) => {
                facts.extend(check.facts.into_iter().map(|(name, value)| (name.to_owned(), value)));
                findings.extend(check.findings);
            }
            Some(Err(error)) => findings.push(format!("it could not be looked at: {error}")),
            None => findings.push(format!("looking at it took more than {} s", TIMEOUT.as_secs())),
        }
    }
    let counted = counts_now(&app).await?;
    let counts =
        Stored::ALL.map(|state| (state.as_str(), counted.total(state))).into_iter().collect();
    if counted.stale > 0 {
        let stale = counted.stale;
        let messages = if stale == 1 { "message has" } else { "messages have" };
        findings.push(format!("{stale} {messages} a lease that ran out or a process that is gone"));
    }
    Ok(Json(StorageView { kind, facts, findings, counts }))
}
