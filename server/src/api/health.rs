//! Health of this node with its alerts, for viewers; `/health` is for load balancers.

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
use crate::health::{NodeHealth, components, node_health};
use crate::problem::{ApiResult, Problem};

/// Time after which the storage is reported as unavailable.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest number of failing jobs listed.
const FAILING_MAX: usize = 100;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get))
}

/// Health of a node, with its alerts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct HealthView {
    /// Time of the check.
    at: Timestamp,
    /// `healthy`, `degraded` (it works but needs attention) or `unhealthy` (it does not work).
    #[schema(value_type = String)]
    condition: Condition,
    /// Reasons why the node is not healthy, one sentence each.
    reasons: Vec<String>,
    /// Alerts, most urgent first, each with a remedy.
    alerts: Vec<AlertView>,
    /// Jobs whose last run failed, most failures first, at most 100.
    failing_jobs: Vec<FailingJob>,
    /// Number of failing jobs.
    failing_count: usize,
    /// Whether there may be more failing jobs: only the first 200 jobs whose last run did not succeed are checked.
    failing_more: bool,
    /// Duration of a small query to the storage in milliseconds; null when it got no response.
    storage_latency_ms: Option<u64>,
    /// Time since the last run of the background services in milliseconds; null when they never ran.
    last_tick_age_ms: Option<u64>,
    /// Number of messages whose lease has expired or whose process is gone.
    stale_count: u64,
    /// Number of jobs whose next occurrence is overdue.
    late_schedules: u64,
    /// Number of dead letters.
    dead_letters: u64,
    /// Number of pending messages, due now or later.
    queue_depth: u64,
    /// Components, each with its `condition`.
    #[schema(value_type = Object)]
    components: Value,
    /// Version of the server.
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

/// Returns the health of this node, at most a second old, with its alerts. The status is 200 also when the node is
/// unhealthy. The response takes at most two seconds: while the storage is unavailable it is `unhealthy` with the
/// reason, or 503 when the caller cannot be authenticated.
#[utoipa::path(get, operation_id = "get_health", path = "/health", tag = "metrics",
    responses((status = 200, body = HealthView), (status = 503, body = Problem)))]
async fn get(State(app): State<App>, caller: Caller) -> ApiResult<Json<HealthView>> {
    caller.must_be(Role::Viewer)?;
    let until = add(app.clock.now(), STORAGE_TIMEOUT);
    let node = match within(&*app.clock, until, node_health(&app)).await {
        Some(Ok(node)) => node,
        Some(Err(error)) => NodeHealth::unknown(&app, error.to_string()),
        None => {
            let seconds = STORAGE_TIMEOUT.as_secs();
            let reason = format!("the storage does not respond: no response within {seconds} s");
            NodeHealth::unknown(&app, reason)
        }
    };
    Ok(Json(HealthView::new(&node)))
}
