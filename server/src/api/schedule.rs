//! Schedule preview: description, next times and warnings of a schedule, without storing it.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::schedule::{Cron, Schedule, Zone, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::clock_change::TimeView;
use crate::api::jobs::checked_count;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Body;
use crate::problem::{ApiResult, Problem};
use crate::schedule_warnings::cron_warnings;

/// Default number of times listed.
const COUNT_DEFAULT: usize = 5;
/// Seed of `H` when no job name is given.
const SEED_DEFAULT: &str = "preview";

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(preview))
}

/// A schedule to preview, with exactly one of `cron`, `every` and `at`.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "cron": "30 2 * * *", "zone": "Europe/Warsaw", "count": 3 }))]
pub(super) struct SchedulePreviewRequest {
    /// Cron expression such as `0 2 * * *`.
    cron: Option<String>,
    /// Interval such as `5m`, counted from the Unix epoch.
    every: Option<String>,
    /// Time of a single run.
    at: Option<Timestamp>,
    /// IANA time zone of the cron expression. Default: UTC.
    zone: Option<String>,
    /// Name of the job, the seed of `H` in a cron expression.
    name: Option<String>,
    /// Number of times, 1 to 1000. Default: 5.
    #[schema(minimum = 1, maximum = 1000)]
    count: Option<usize>,
    /// Start of the times. Default: now.
    from: Option<Timestamp>,
}

/// Preview of a schedule.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct SchedulePreviewView {
    /// Description of the schedule.
    in_words: String,
    /// Canonical form, which is stored and compared.
    canonical: String,
    /// Next times.
    occurrences: Vec<TimeView>,
    /// Warnings about frequent mistakes.
    warnings: Vec<String>,
}

/// Previews a schedule without storing it.
#[utoipa::path(post, operation_id = "preview_schedule", path = "/schedule/preview", tag = "schedules", request_body = SchedulePreviewRequest,
    responses((status = 200, body = SchedulePreviewView),
        (status = 422, description = "Unprocessable Entity: the schedule is invalid; `errors` lists the fields.",
            body = Problem)))]
pub(super) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<SchedulePreviewRequest>,
) -> ApiResult<Json<SchedulePreviewView>> {
    caller.must_be(Role::Viewer)?;
    let count = checked_count("count", request.count, COUNT_DEFAULT)?;
    let schedule = request.schedule()?;
    let from = request.from.unwrap_or_else(|| app.clock.now());
    let times = app.admin().schedule_times(schedule.clone(), from, count).await?;
    let warnings = warnings(&schedule, times.is_empty(), from);
    Ok(Json(SchedulePreviewView {
        in_words: schedule.describe(),
        canonical: schedule.to_string(),
        occurrences: times.into_iter().map(TimeView::from).collect(),
        warnings,
    }))
}

impl SchedulePreviewRequest {
    fn schedule(&self) -> ApiResult<Schedule> {
        match (&self.cron, &self.every, self.at) {
            (Some(cron), None, None) => self.cron(cron),
            (None, Some(every), None) => {
                self.no_zone()?;
                let every = parse_duration(every).map_err(|error| invalid("every", &error))?;
                Schedule::every(every, Timestamp::UNIX_EPOCH)
                    .map_err(|error| invalid("every", &error))
            }
            (None, None, Some(at)) => {
                self.no_zone()?;
                Ok(Schedule::once(at))
            }
            (None, None, None) => Err(invalid("cron", &"give one of cron, every and at")),
            _ => Err(invalid("cron", &"there are several; give only one of cron, every and at")),
        }
    }

    /// Returns a cron schedule, or the errors of both the expression and the zone.
    fn cron(&self, text: &str) -> ApiResult<Schedule> {
        let seed = self.name.as_deref().unwrap_or(SEED_DEFAULT);
        let cron = Cron::parse_seeded(text, seed);
        let zone = self.zone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::named);
        match (cron, zone) {
            (Ok(cron), Ok(zone)) => Ok(Schedule::of_cron(cron, zone)),
            (Err(cron), Err(zone)) => Err(invalid("cron", &cron).field("zone", zone.to_string())),
            (Err(cron), Ok(_)) => Err(invalid("cron", &cron)),
            (Ok(_), Err(zone)) => Err(invalid("zone", &zone)),
        }
    }

    fn no_zone(&self) -> ApiResult<()> {
        match self.zone {
            Some(_) => {
                Err(invalid("zone", &"only a cron expression has a time zone; leave it out"))
            }
            None => Ok(()),
        }
    }
}

fn invalid(field: &str, problem: &dyn std::fmt::Display) -> Problem {
    Problem::refused(format!("{field}: {problem}")).field(field, problem.to_string())
}

/// Returns warnings about frequent mistakes in a schedule.
fn warnings(schedule: &Schedule, is_empty: bool, from: Timestamp) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(cron) = schedule.as_cron() {
        warnings.extend(cron_warnings(cron));
        if cron.happens() && schedule.zone().changes_clocks() {
            warnings.push(format!(
                "the clocks of {} change; it runs {}",
                schedule.zone(),
                cron.clock_change_note()
            ));
        }
    }
    if is_empty && schedule.as_cron().is_none_or(Cron::happens) {
        warnings.push(format!("there is no occurrence at or after {from}"));
    }
    warnings
}
