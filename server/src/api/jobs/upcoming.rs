//! Upcoming occurrences of a job, with clock changes, skips and pauses.

use axum::Json;
use axum::extract::State;
use punctual::analysis::UpcomingOccurrence;
use punctual::policy::PREVIEW_MAX;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lookup::of_job;
use crate::api::clock_change::TimeView;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::Listing;
use crate::problem::{ApiResult, Problem};

/// Default number of occurrences listed.
const COUNT_DEFAULT: usize = 10;

/// Number of occurrences.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UpcomingQuery {
    /// Number of occurrences, 1 to 1000. Default: 10.
    #[param(minimum = 1, maximum = 1000)]
    count: Option<usize>,
}

/// An upcoming occurrence.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct UpcomingView {
    /// Time of the occurrence.
    #[serde(flatten)]
    time: TimeView,
    /// Whether it will not run because it is skipped or the job is paused.
    skipped: bool,
}

/// Lists the upcoming occurrences of a job.
#[utoipa::path(get, operation_id = "list_upcoming", path = "/jobs/{name}/upcoming", tag = "jobs",
    params(("name" = String, Path), UpcomingQuery),
    responses((status = 200, body = Listing<UpcomingView>), (status = 404, body = Problem)))]
pub(super) async fn upcoming(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<UpcomingQuery>,
) -> ApiResult<Json<Listing<UpcomingView>>> {
    caller.must_be(Role::Viewer)?;
    let count = checked_count("count", query.count, COUNT_DEFAULT)?;
    let upcoming = of_job(&app, &name, app.admin().upcoming_occurrences(&name, count)).await?;
    Ok(Json(Listing::whole(upcoming.into_iter().map(UpcomingView::from).collect())))
}

impl From<UpcomingOccurrence> for UpcomingView {
    fn from(occurrence: UpcomingOccurrence) -> Self {
        Self { time: occurrence.time.into(), skipped: occurrence.skipped.is_some() }
    }
}

/// Returns a count or its default. Fails when it is out of range.
pub(crate) fn checked_count(field: &str, count: Option<usize>, default: usize) -> ApiResult<usize> {
    let count = count.unwrap_or(default);
    if (1..=PREVIEW_MAX).contains(&count) {
        return Ok(count);
    }
    let problem = format!("{count} is not between 1 and {PREVIEW_MAX}");
    Err(Problem::refused(format!("invalid {field}: {problem}")).field(field, problem))
}
