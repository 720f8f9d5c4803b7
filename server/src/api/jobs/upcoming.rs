//! When a job will run next, with what clock changes, skips and a pause do to it.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::model::JobRecord;
use punctual::policy::PREVIEW_MAX;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::finding::find;
use crate::api::clock_change::{TimeView, just_before};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::Listing;
use crate::problem::{Answer, Problem};

/// How many times are listed when nobody says.
const COUNT_DEFAULT: usize = 10;

/// How many times.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UpcomingQuery {
    /// 1 to 1000, 10 when not given.
    #[param(minimum = 1, maximum = 1000)]
    count: Option<usize>,
}

/// A time still to come.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct UpcomingView {
    /// When.
    #[serde(flatten)]
    time: TimeView,
    /// Whether it will not run, as things are: somebody skipped it, or the job is paused then.
    skipped: bool,
}

/// The next times of a job.
#[utoipa::path(get, operation_id = "list_upcoming", path = "/jobs/{name}/upcoming", tag = "jobs",
    params(("name" = String, Path), UpcomingQuery),
    responses((status = 200, body = Listing<UpcomingView>), (status = 404, body = Problem)))]
pub(super) async fn upcoming(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<UpcomingQuery>,
) -> Answer<Json<Listing<UpcomingView>>> {
    caller.must_be(Role::Viewer)?;
    let count = bounded("count", query.count, COUNT_DEFAULT)?;
    let record = find(&app, &name).await?.record;
    let view = |(at, why): (Timestamp, Option<String>)| UpcomingView {
        time: TimeView::new(&record.job.schedule, at),
        skipped: why.is_some(),
    };
    let items = future(&record, app.clock.now()).take(count).map(view).collect();
    Ok(Json(Listing::whole(items)))
}

/// A count within its bound.
pub(crate) fn bounded(field: &str, count: Option<usize>, usual: usize) -> Answer<usize> {
    let count = count.unwrap_or(usual);
    if (1..=PREVIEW_MAX).contains(&count) {
        return Ok(count);
    }
    let problem = format!("{count} is not between 1 and {PREVIEW_MAX}");
    Err(Problem::refused(format!("the {field} cannot be taken: {problem}")).field(field, problem))
}

/// The occurrences still to come, from the cursor on but not before now, each with why it will not run,
/// when it will not. Ends where the schedule or its runs do.
pub(crate) fn future(
    record: &JobRecord,
    now: Timestamp,
) -> impl Iterator<Item = (Timestamp, Option<String>)> + '_ {
    let schedule = &record.job.schedule;
    let first = record.cursor.filter(|_| record.retired.is_none()).and_then(|cursor| {
        if cursor >= now { Some(cursor) } else { schedule.next(just_before(now)) }
    });
    let mut left = schedule.runs_max().map_or(u64::MAX, |most| most.saturating_sub(record.runs));
    std::iter::successors(first, |at| schedule.next(*at))
        .map(|at| (at, unwanted(record, at)))
        .take_while(move |(_, why)| {
            let goes_on = left > 0;
            if why.is_none() {
                left = left.saturating_sub(1);
            }
            goes_on
        })
}

/// Why an occurrence still to come will not run, as things are.
fn unwanted(record: &JobRecord, at: Timestamp) -> Option<String> {
    if let Some(pause) = &record.paused
        && pause.until.is_none_or(|until| at <= until)
    {
        return Some(format!("paused by {}: {}", pause.by, pause.reason));
    }
    record.overrides.skips.contains(&at).then(|| "skipped by an operator".to_owned())
}
