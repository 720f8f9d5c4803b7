//! Trying a schedule before anything is stored: in words, its next times, and what people often overlook.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::schedule::{Cron, Schedule, Zone, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::clock_change::{TimeView, just_before};
use crate::api::jobs::bounded;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::Body;
use crate::problem::{Answer, Problem};
use crate::schedule_warnings::cron_warnings;
use crate::walk::walk;

/// How many times are listed when nobody says.
const COUNT_DEFAULT: usize = 5;
/// What `H` draws from when no name is given.
const SEED_DEFAULT: &str = "preview";

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(preview))
}

/// A schedule to try: one of `cron`, `every` and `at`.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "cron": "30 2 * * *", "zone": "Europe/Warsaw", "count": 3 }))]
pub(super) struct SchedulePreviewRequest {
    /// A cron text such as `0 2 * * *`.
    cron: Option<String>,
    /// Every so often, such as `5m`, counted from the epoch.
    every: Option<String>,
    /// Once, at an instant.
    at: Option<Timestamp>,
    /// The IANA zone the cron text is read in; UTC when not given.
    zone: Option<String>,
    /// The name of the job, which `H` in a cron text draws from.
    name: Option<String>,
    /// How many times are listed, 1 to 1000; 5 when not given.
    #[schema(minimum = 1, maximum = 1000)]
    count: Option<usize>,
    /// From this instant on; now when not given.
    from: Option<Timestamp>,
}

/// What a schedule means.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct SchedulePreviewView {
    /// In words.
    in_words: String,
    /// In the one spelling that is stored and compared.
    canonical: String,
    /// Its next times.
    occurrences: Vec<TimeView>,
    /// What people often overlook.
    warnings: Vec<String>,
}

/// Tries a schedule. Nothing is stored.
#[utoipa::path(post, operation_id = "preview_schedule", path = "/schedule/preview", tag = "schedules", request_body = SchedulePreviewRequest,
    responses((status = 200, body = SchedulePreviewView),
        (status = 422, description = "It is no schedule; the field and the place are named.", body = Problem)))]
pub(super) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<SchedulePreviewRequest>,
) -> Answer<Json<SchedulePreviewView>> {
    caller.must_be(Role::Viewer)?;
    let count = bounded("count", request.count, COUNT_DEFAULT)?;
    let schedule = request.schedule()?;
    let from = request.from.unwrap_or_else(|| app.clock.now());
    let preview = walk(&app, move |walk| {
        let times = walk.after(&schedule, just_before(from)).take(count);
        let occurrences: Vec<TimeView> = times.map(|at| TimeView::new(&schedule, at)).collect();
        SchedulePreviewView {
            in_words: schedule.describe(),
            canonical: schedule.to_string(),
            warnings: warnings(&schedule, &occurrences, from),
            occurrences,
        }
    });
    Ok(Json(preview.await?))
}

impl SchedulePreviewRequest {
    fn schedule(&self) -> Answer<Schedule> {
        match (&self.cron, &self.every, self.at) {
            (Some(cron), None, None) => self.cron(cron),
            (None, Some(every), None) => {
                self.no_zone()?;
                let every = parse_duration(every).map_err(|error| wrong("every", &error))?;
                Schedule::every(every, Timestamp::UNIX_EPOCH)
                    .map_err(|error| wrong("every", &error))
            }
            (None, None, Some(at)) => {
                self.no_zone()?;
                Ok(Schedule::once(at))
            }
            (None, None, None) => Err(wrong("cron", &"say one of cron, every and at")),
            _ => Err(wrong("cron", &"there are several; say only one of cron, every and at")),
        }
    }

    /// Both what is wrong with the text and with the zone.
    fn cron(&self, text: &str) -> Answer<Schedule> {
        let seed = self.name.as_deref().unwrap_or(SEED_DEFAULT);
        let cron = Cron::parse_seeded(text, seed);
        let zone = self.zone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::named);
        match (cron, zone) {
            (Ok(cron), Ok(zone)) => Ok(Schedule::of_cron(cron, zone)),
            (Err(cron), Err(zone)) => Err(wrong("cron", &cron).field("zone", zone.to_string())),
            (Err(cron), Ok(_)) => Err(wrong("cron", &cron)),
            (Ok(_), Err(zone)) => Err(wrong("zone", &zone)),
        }
    }

    fn no_zone(&self) -> Answer<()> {
        match self.zone {
            Some(_) => Err(wrong("zone", &"only a cron text is read in a zone; leave it out")),
            None => Ok(()),
        }
    }
}

fn wrong(field: &str, problem: &dyn std::fmt::Display) -> Problem {
    Problem::refused(format!("{field}: {problem}")).field(field, problem.to_string())
}

/// What people often overlook about a schedule.
fn warnings(schedule: &Schedule, occurrences: &[TimeView], from: Timestamp) -> Vec<String> {
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
    if occurrences.is_empty() && schedule.as_cron().is_none_or(Cron::happens) {
        warnings.push(format!("there is no occurrence from {from} on"));
    }
    warnings
}
