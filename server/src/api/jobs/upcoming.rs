//! When a job will run next, with what clock changes, skips and a pause do to it.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::model::{JobRecord, Pause};
use punctual::policy::PREVIEW_MAX;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::finding::find;
use crate::api::clock_change::{TimeView, just_after, just_before};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::Listing;
use crate::problem::{Answer, Problem};
use crate::walk::{Walk, walk};

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
    let now = app.clock.now();
    let items = walk(&app, move |walk| {
        let view = |(at, why): (Timestamp, Option<String>)| UpcomingView {
            time: TimeView::new(&record.job.schedule, at),
            skipped: why.is_some(),
        };
        future(walk, &record, now).take(count).map(view).collect()
    });
    Ok(Json(Listing::whole(items.await?)))
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

/// The occurrences still to come, from the cursor on but not before an instant, each with why it will not
/// run, when it will not. Ends where the schedule, its runs or the walk do.
pub(super) fn future<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    from: Timestamp,
) -> impl Iterator<Item = (Timestamp, Option<String>)> + use<'a> {
    let mut left = runs_left(record);
    planned(walk, record, from).map(|at| (at, unwanted(record, at))).take_while(move |(_, why)| {
        let goes_on = left > 0;
        if why.is_none() {
            left = left.saturating_sub(1);
        }
        goes_on
    })
}

/// The occurrences still to come that will run, as things are, from an instant on and before another one.
/// What a pause covers is passed over in one step.
pub(crate) fn future_runs<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    (from, to): (Timestamp, Timestamp),
) -> impl Iterator<Item = Timestamp> + use<'a> {
    let (resumes_at, to) = match &record.paused {
        None => (from, to),
        Some(Pause { until: Some(until), .. }) => (just_after(*until), to),
        // Nothing runs until somebody resumes it.
        Some(Pause { until: None, .. }) => (from, from),
    };
    let left = usize::try_from(runs_left(record)).unwrap_or(usize::MAX);
    planned(walk, record, from.max(resumes_at))
        .take_while(move |at| *at < to)
        .filter(|at| !record.overrides.skips.contains(at))
        .take(left)
}

/// The occurrences from the cursor on but not before an instant.
fn planned<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    from: Timestamp,
) -> impl Iterator<Item = Timestamp> + use<'a> {
    let cursor = record.cursor.filter(|_| record.retired.is_none());
    // The cursor may be off the schedule, so it is the first by itself.
    let first = cursor.filter(|cursor| *cursor >= from);
    let after = cursor.map(|cursor| if cursor >= from { cursor } else { just_before(from) });
    let rest = after.into_iter().flat_map(|after| walk.after(&record.job.schedule, after));
    first.into_iter().chain(rest)
}

/// How many runs a job has left.
fn runs_left(record: &JobRecord) -> u64 {
    let most = record.job.schedule.runs_max();
    most.map_or(u64::MAX, |most| most.saturating_sub(record.runs))
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
