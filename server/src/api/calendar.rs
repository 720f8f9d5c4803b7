//! Calendar: past and upcoming runs of all jobs in a time range, minutes with many runs, and clock changes of the
//! jobs' time zones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::analysis::{UpcomingRun, clock_changes};
use punctual::clock::{add, between, subtract};
use punctual::inspect::{ExecutionFilter, PAGE_LIMIT_MAX, PageRequest};
use punctual::model::Ending;
use punctual::schedule::Zone;
use punctual::status::Status;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Query;
use crate::problem::{ApiResult, Problem};
use crate::statuses::statuses;

/// Default and largest number of runs listed.
const LIMIT_DEFAULT: usize = 1_000;
const LIMIT_MAX: usize = 10_000;
/// Default range before and after now.
const REACH_DEFAULT: Duration = Duration::from_hours(24);
/// Longest range.
const RANGE_MAX: Duration = Duration::from_hours(366 * 24);
/// Largest number of history pages read.
const PAGES_MAX: usize = 20;
/// Smallest number of runs that makes a minute busy, and the largest number of busy minutes listed.
const BUSY_MIN: usize = 5;
const BUSY_MINUTES_MAX: usize = 1_000;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(calendar))
}

/// Range of the calendar.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CalendarQuery {
    /// Start of the range. Default: a day before now.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// End of the range, exclusive, at most 366 days after `from`. Default: a day after now or `from`, whichever is
    /// later.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
    /// Largest number of runs, 1 to 10000. Default: 1000.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
}

/// Runs of all jobs in a time range.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct CalendarView {
    /// Runs, oldest first. When the range has past and future, the newest past runs and the next upcoming runs share
    /// the limit.
    items: Vec<CalendarRunView>,
    /// Minutes in which at least five of these runs start, oldest first.
    minutes: Vec<CalendarMinuteView>,
    /// Clock changes of the jobs' time zones.
    transitions: Vec<ClockChangeView>,
    /// Whether the range has more runs than are listed.
    more: bool,
}

/// A run of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
struct CalendarRunView {
    /// Nominal time of the run, or its start time when it has none.
    at: Timestamp,
    /// Name of the job.
    job: String,
    /// `past` or `future`.
    kind: &'static str,
    /// How the run ended; null for an upcoming run.
    ending: Option<&'static str>,
}

/// A minute in which many runs start.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct CalendarMinuteView {
    /// Start of the minute.
    at: Timestamp,
    /// Number of runs that start in it.
    count: usize,
}

/// A clock change of a time zone.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ClockChangeView {
    /// IANA name of the time zone.
    zone: String,
    /// Time of the change.
    at: Timestamp,
    /// Description of the change.
    note: String,
}

/// Lists past and upcoming runs of all jobs.
#[utoipa::path(get, operation_id = "get_calendar", path = "/calendar", tag = "schedules", params(CalendarQuery),
    responses((status = 200, body = CalendarView), (status = 422, body = Problem)))]
pub(super) async fn calendar(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<CalendarQuery>,
) -> ApiResult<Json<CalendarView>> {
    caller.must_be(Role::Viewer)?;
    let now = app.clock.now();
    let (from, to, limit) = query.range(now)?;
    let status = statuses(&app).await?;
    let past_limit = if to > now && from < now { limit - limit / 2 } else { limit };
    let (mut items, mut more) = if from < now {
        past(&app, (from, to.min(now)), past_limit).await?
    } else {
        (Vec::new(), false)
    };
    let transitions = transitions(&status, from, to);
    if to > now {
        let left = limit - items.len().min(limit);
        let upcoming = app.admin().upcoming_runs_of(status, (from, to), left).await?;
        items.extend(upcoming.runs.into_iter().map(CalendarRunView::from));
        more |= upcoming.more;
    }
    items.sort();
    let minutes = busy_minutes(&items);
    Ok(Json(CalendarView { items, minutes, transitions, more }))
}

impl From<UpcomingRun> for CalendarRunView {
    fn from(run: UpcomingRun) -> Self {
        Self { at: run.at, job: run.job.to_string(), kind: "future", ending: None }
    }
}

impl CalendarQuery {
    fn range(&self, now: Timestamp) -> ApiResult<(Timestamp, Timestamp, usize)> {
        let from =
            self.from.unwrap_or_else(|| subtract(self.to.unwrap_or(now).min(now), REACH_DEFAULT));
        let to = self.to.unwrap_or_else(|| add(from.max(now), REACH_DEFAULT));
        let refuse = |field: &str, problem: String| {
            Err(Problem::refused(format!("{field}: {problem}")).field(field, problem))
        };
        if from >= to {
            return refuse(
                "to",
                format!("{to} is not later than `from` ({from}); give a later time"),
            );
        }
        if between(from, to) > RANGE_MAX {
            return refuse(
                "to",
                format!("{to} is more than 366 days later than {from}; give a shorter range"),
            );
        }
        match self.limit.unwrap_or(LIMIT_DEFAULT) {
            limit @ 1..=LIMIT_MAX => Ok((from, to, limit)),
            limit => refuse("limit", format!("{limit} is not between 1 and {LIMIT_MAX}")),
        }
    }
}

/// Returns the newest runs of a range and whether there are more. All attempts of a run count as one.
async fn past(
    app: &App,
    (from, to): (Timestamp, Timestamp),
    limit: usize,
) -> ApiResult<(Vec<CalendarRunView>, bool)> {
    let mut runs: BTreeMap<(Timestamp, String), (&'static str, Timestamp)> = BTreeMap::new();
    let mut page = PageRequest::first(PAGE_LIMIT_MAX);
    let mut more = true;
    for _ in 0..PAGES_MAX {
        let paged = app.inspect.executions(ExecutionFilter::default(), page).await?;
        let older = paged.rows.last().is_some_and(|last| last.ended_at < from);
        for execution in paged.rows {
            // Filtered here: a storage reads a page of all endings faster than one of some.
            if matches!(execution.ending, Ending::Skipped(_)) {
                continue;
            }
            let at = execution.nominal.unwrap_or(execution.started_at);
            let Some(job) = execution.job.filter(|_| from <= at && at < to) else { continue };
            let run = (execution.ending.as_str(), execution.ended_at);
            let known = runs.entry((at, job.to_string())).or_insert(run);
            if known.1 < run.1 {
                *known = run;
            }
        }
        match paged.next {
            Some(next) if !older && runs.len() <= limit => {
                page = PageRequest::after(next, PAGE_LIMIT_MAX);
            }
            next => {
                more = next.is_some() && !older;
                break;
            }
        }
    }
    more |= runs.len() > limit;
    let view =
        |((at, job), (ending, _))| CalendarRunView { at, job, kind: "past", ending: Some(ending) };
    Ok((runs.into_iter().rev().take(limit).map(view).collect(), more))
}

/// Returns the minutes in which many runs start.
fn busy_minutes(items: &[CalendarRunView]) -> Vec<CalendarMinuteView> {
    let mut minutes: BTreeMap<i64, usize> = BTreeMap::new();
    for item in items {
        *minutes.entry(item.at.as_second().div_euclid(60)).or_default() += 1;
    }
    let busy = minutes.into_iter().filter(|(_, count)| *count >= BUSY_MIN).take(BUSY_MINUTES_MAX);
    let view = |(minute, count): (i64, usize)| {
        Some(CalendarMinuteView { at: Timestamp::from_second(minute * 60).ok()?, count })
    };
    busy.filter_map(view).collect()
}

fn transitions(status: &Status, from: Timestamp, to: Timestamp) -> Vec<ClockChangeView> {
    let records = status.jobs.iter().map(|job| &job.record);
    let zones: BTreeSet<String> = records
        .filter(|record| record.retired.is_none() && record.job.schedule.as_cron().is_some())
        .map(|record| record.job.schedule.zone().name().to_owned())
        .collect();
    let mut found = Vec::new();
    for zone in zones.iter().filter_map(|name| Zone::named(name).ok()) {
        let views = clock_changes(&zone, from, to).into_iter().map(|change| ClockChangeView {
            zone: zone.name().to_owned(),
            at: change.at,
            note: change.describe(),
        });
        found.extend(views);
    }
    found.sort_by_key(|change| change.at);
    found
}
