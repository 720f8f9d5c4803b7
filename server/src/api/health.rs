//! How this node is, with everything a person should look at: for those who may view, while `/health` is for
//! load balancers.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::clock::{add, within};
use punctual::health::Condition;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::milliseconds;
use crate::alerts::{AlertView, FailingJob};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::health::{NodeHealth, components, looked};
use crate::problem::{Answer, Problem};

/// How long the storage may take before it is said that it does not answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// The most failing jobs that are listed.
const FAILING_MAX: usize = 100;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(one))
}

/// How a node is, and what a person should look at.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct HealthView {
    /// When this was found.
    at: Timestamp,
    /// `healthy`, `degraded` (it works, and a person should look) or `unhealthy` (it does not do its work).
    #[schema(value_type = String)]
    condition: Condition,
    /// What speaks against healthy, a sentence each.
    reasons: Vec<String>,
    /// The same by kind, the most urgent first, with what to do.
    alerts: Vec<AlertView>,
    /// The jobs whose last run failed, those first that failed most often: at most 100.
    failing_jobs: Vec<FailingJob>,
    /// How many jobs fail.
    failing_count: usize,
    /// Whether more jobs may fail: only the first 200 whose last run did not succeed are looked at.
    failing_more: bool,
    /// How long a light question to the storage took; null when it was not answered.
    storage_latency_ms: Option<u64>,
    /// How long ago the services last had a turn; null when they never had.
    last_tick_age_ms: Option<u64>,
    /// Messages whose lease has run out or whose process is gone.
    stale_count: u64,
    /// Jobs whose next occurrence is overdue.
    late_schedules: u64,
    /// Dead letters.
    dead_letters: u64,
    /// Messages that wait, due now or later.
    queue_depth: u64,
    /// The parts, each with its `condition`.
    #[schema(value_type = Object)]
    components: Value,
    /// The version of the server.
    version: &'static str,
}

impl HealthView {
    pub(super) fn new(node: &NodeHealth) -> Self {
        let health = &node.health;
        let failing = &node.alerts.failing;
        Self {
            at: node.at,
            condition: health.condition,
            reasons: health.reasons.clone(),
            alerts: node.views.clone(),
            failing_jobs: failing.iter().take(FAILING_MAX).cloned().collect(),
            failing_count: failing.len(),
            failing_more: node.alerts.more_failing,
            storage_latency_ms: health.storage_latency.map(milliseconds),
            last_tick_age_ms: health.last_tick_age.map(milliseconds),
            stale_count: health.stale,
            late_schedules: health.late_schedules,
            dead_letters: health.dead,
            queue_depth: health.queue_depth,
            components: components(node),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// How this node is, as it was found at most a second ago, with everything a person should look at. It is 200
/// also when the node is unhealthy, and answered within two seconds also when the storage does not answer: then it
/// says `unhealthy` and why, or it is 503 when it cannot be found out who asks.
#[utoipa::path(get, operation_id = "get_health", path = "/health", tag = "figures",
    responses((status = 200, body = HealthView), (status = 503, body = Problem)))]
async fn one(State(app): State<App>, caller: Caller) -> Answer<Json<HealthView>> {
    caller.must_be(Role::Viewer)?;
    let until = add(app.clock.now(), ANSWERED_WITHIN);
    let node = match within(&*app.clock, until, looked(&app)).await {
        Some(Ok(node)) => node,
        Some(Err(error)) => NodeHealth::unknown(&app, error.to_string()),
        None => {
            let seconds = ANSWERED_WITHIN.as_secs();
            let reason = format!("the storage does not answer: no answer within {seconds} s");
            NodeHealth::unknown(&app, reason)
        }
    };
    Ok(Json(HealthView::new(&node)))
}
