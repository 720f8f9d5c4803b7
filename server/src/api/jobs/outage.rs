//! Outage preview: what the misfire policy of a job would do after an outage.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::ErrorKind;
use punctual::analysis::OutagePreview;
use punctual::policy::{PlannedOccurrence, Skip};
use punctual::schedule::parse_duration;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lookup::{find, of_job};
use crate::api::executions::milliseconds;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::problem::{ApiResult, Problem};

/// Duration of the outage.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OutageQuery {
    /// Duration such as `2h`, at most 366 days.
    down: String,
}

/// Effect of an outage on a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OutageView {
    /// Start of the outage: now.
    down_from: Timestamp,
    /// End of the outage.
    down_to: Timestamp,
    /// Number of missed occurrences.
    missed: u64,
    /// Whether there would be more; the count has a limit.
    missed_more: bool,
    /// Misfire threshold in milliseconds: an occurrence later than this is missed. Where the threshold differs, the one
    /// of the first occurrence.
    threshold_ms: u64,
    /// Origin of the threshold: `given`, `default` or `next_occurrence`.
    threshold_from: &'static str,
    /// Occurrences that would run after the outage, oldest first.
    runs: Vec<OutageRunView>,
    /// Occurrences that would be skipped.
    skipped: Vec<OutageSkipView>,
    /// First occurrence that would run on time.
    next_at: Option<Timestamp>,
    /// Summary in one sentence.
    in_words: String,
}

/// An occurrence that would run.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutageRunView {
    /// Nominal time of the occurrence.
    nominal: Timestamp,
    /// Whether the run covers missed occurrences; otherwise it is only late.
    makes_up: bool,
}

/// An occurrence that would be skipped, or a range of them.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutageSkipView {
    /// Nominal time of the occurrence, the newest one of a range.
    nominal: Timestamp,
    /// Reason of the skip.
    reason: &'static str,
    /// Number of occurrences in the range.
    count: u64,
}

/// Previews what happens to the occurrences of a job when no scheduler runs for a while from now on. Changes nothing.
#[utoipa::path(get, operation_id = "preview_misfire", path = "/jobs/{name}/misfire-preview", tag = "jobs",
    params(("name" = String, Path), OutageQuery),
    responses((status = 200, body = OutageView), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<OutageQuery>,
) -> ApiResult<Json<OutageView>> {
    caller.must_be(Role::Viewer)?;
    let refuse = |text: String| Problem::refused(format!("down: {text}")).field("down", text);
    let down = match parse_duration(&query.down) {
        Ok(down) => down,
        Err(error) => {
            find(&app, &name).await?;
            return Err(refuse(error.to_string()));
        }
    };
    // The call of a job of this name fails as invalid only because of the duration.
    let preview = async {
        match app.admin().outage_preview(&name, down).await {
            Err(error) if error.kind() == ErrorKind::Invalid => Ok(Err(refuse(error.to_string()))),
            preview => preview.map(Ok),
        }
    };
    let preview = of_job(&app, &name, preview).await??;
    Ok(Json(OutageView::from(preview)))
}

impl From<OutagePreview> for OutageView {
    fn from(OutagePreview { outage, in_words }: OutagePreview) -> Self {
        let run = |run: &PlannedOccurrence| OutageRunView {
            nominal: run.nominal,
            makes_up: run.misfire.is_some(),
        };
        let skip = |skip: &Skip| OutageSkipView {
            nominal: skip.nominal,
            reason: skip.reason.as_str(),
            count: skip.count,
        };
        Self {
            down_from: outage.from,
            down_to: outage.to,
            missed: outage.missed,
            missed_more: outage.missed_more,
            threshold_ms: milliseconds(outage.threshold.duration),
            threshold_from: outage.threshold.origin.as_str(),
            runs: outage.runs.iter().map(run).collect(),
            skipped: outage.skipped.iter().map(skip).collect(),
            next_at: outage.next,
            in_words,
        }
    }
}
