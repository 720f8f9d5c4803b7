//! Upcoming occurrences of a job, with clock changes, skips and pauses.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::model::{JobRecord, Pause};
use punctual::policy::PREVIEW_MAX;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lookup::find;
use crate::api::clock_change::{TimeView, just_after, just_before};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::Listing;
use crate::problem::{Answer, Problem};
use crate::walk::{Walk, walk};

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
) -> Answer<Json<Listing<UpcomingView>>> {
    caller.must_be(Role::Viewer)?;
    let count = checked_count("count", query.count, COUNT_DEFAULT)?;
    let record = find(&app, &name).await?.record;
    let now = app.clock.now();
    let items = walk(&app, move |walk| {
        let view = |(at, why): (Timestamp, Option<String>)| UpcomingView {
            time: TimeView::new(&record.job.schedule, at),
            skipped: why.is_some(),
        };
        occurrences_from(walk, &record, now).take(count).map(view).collect()
    });
    Ok(Json(Listing::whole(items.await?)))
}

/// Returns a count or its default. Fails when it is out of range.
pub(crate) fn checked_count(field: &str, count: Option<usize>, default: usize) -> Answer<usize> {
    let count = count.unwrap_or(default);
    if (1..=PREVIEW_MAX).contains(&count) {
        return Ok(count);
    }
    let problem = format!("{count} is not between 1 and {PREVIEW_MAX}");
    Err(Problem::refused(format!("invalid {field}: {problem}")).field(field, problem))
}

/// Returns the upcoming occurrences, from the cursor on but not before `from`, each with the reason if it will not run.
/// Ends with the schedule, its remaining runs or the limit of the walk.
pub(super) fn occurrences_from<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    from: Timestamp,
) -> impl Iterator<Item = (Timestamp, Option<String>)> + use<'a> {
    let mut left = runs_left(record);
    times_from(walk, record, from).map(|at| (at, skip_reason(record, at))).take_while(
        move |(_, why)| {
            let has_runs = left > 0;
            if why.is_none() {
                left = left.saturating_sub(1);
            }
            has_runs
        },
    )
}

/// Returns the upcoming occurrences that will run, at or after `from` and before `to`. A pause is passed over in one
/// step.
pub(crate) fn runs_between<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    (from, to): (Timestamp, Timestamp),
) -> impl Iterator<Item = Timestamp> + use<'a> {
    let (resumes_at, to) = match &record.paused {
        None => (from, to),
        Some(Pause { until: Some(until), .. }) => (just_after(*until), to),
        // Nothing runs until the job is resumed.
        Some(Pause { until: None, .. }) => (from, from),
    };
    let left = usize::try_from(runs_left(record)).unwrap_or(usize::MAX);
    times_from(walk, record, from.max(resumes_at))
        .take_while(move |at| *at < to)
        .filter(|at| !record.overrides.skips.contains(at))
        .take(left)
}

/// Returns the times of the schedule from the cursor on but not before `from`.
fn times_from<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    from: Timestamp,
) -> impl Iterator<Item = Timestamp> + use<'a> {
    let cursor = record.cursor.filter(|_| record.retired.is_none());
    // The cursor may not be a time of the schedule, so it is added as the first one.
    let first = cursor.filter(|cursor| *cursor >= from);
    let after = cursor.map(|cursor| if cursor >= from { cursor } else { just_before(from) });
    let rest = after.into_iter().flat_map(|after| walk.after(&record.job.schedule, after));
    first.into_iter().chain(rest)
}

/// Returns the number of runs a job has left.
fn runs_left(record: &JobRecord) -> u64 {
    let most = record.job.schedule.runs_max();
    most.map_or(u64::MAX, |most| most.saturating_sub(record.runs))
}

/// Returns the reason why an upcoming occurrence will not run.
fn skip_reason(record: &JobRecord, at: Timestamp) -> Option<String> {
    if let Some(pause) = &record.paused
        && pause.until.is_none_or(|until| at <= until)
    {
        return Some(format!("paused by {}: {}", pause.by, pause.reason));
    }
    record.overrides.skips.contains(&at).then(|| "skipped by an operator".to_owned())
}
