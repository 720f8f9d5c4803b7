//! Backfill: runs or lists past occurrences of a job.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::client::{Backfill, BackfillOrder, BackfillSelection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lookup::find;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::problem::{ApiResult, Problem};

/// Range and options of a backfill.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BackfillRequest {
    /// Start of the range.
    from: Timestamp,
    /// End of the range, exclusive, not later than now.
    to: Timestamp,
    /// `missing` (the default) for occurrences that never ran, or `all`.
    #[serde(default)]
    which: BackfillWhich,
    /// Largest number of runs, 1 to 10000. Default: 100.
    #[serde(default)]
    max: Option<usize>,
    /// Whether the `oldest` (the default) or the `newest` occurrences run first; those beyond `max` do not run.
    #[serde(default)]
    order: BackfillFirst,
    /// Label of the backfill: under one label an occurrence runs at most once.
    #[serde(default)]
    label: String,
    /// With `true`, only lists the occurrences and changes nothing.
    #[serde(default)]
    dry_run: bool,
}

/// Selection of occurrences of a range.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BackfillWhich {
    /// Occurrences that never ran.
    #[default]
    Missing,
    /// All occurrences.
    All,
}

/// Order of a backfill.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BackfillFirst {
    /// Oldest first.
    #[default]
    #[serde(alias = "oldest_first")]
    Oldest,
    /// Newest first.
    #[serde(alias = "newest_first")]
    Newest,
}

/// Result of a backfill, or of its dry run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct BackfilledView {
    /// Nominal times of the selected occurrences, in the order they run.
    nominals: Vec<Timestamp>,
    /// Number of stored messages; 0 in a dry run.
    stored: usize,
    /// Ids of the stored messages.
    messages: Vec<String>,
    /// Number of occurrences that already had a message under this label.
    duplicates: u64,
    /// Number of occurrences that were left out because they have run.
    present: u64,
    /// Whether the range has more occurrences than `max`.
    more: bool,
}

/// Runs past occurrences with their nominal times and the current definition of the job. The schedule does not
/// change. A repeated backfill with the same label runs no occurrence twice.
#[utoipa::path(post, operation_id = "backfill_job", path = "/jobs/{name}/backfill", tag = "jobs", params(("name" = String, Path)),
    request_body = BackfillRequest,
    responses((status = 200, body = BackfilledView), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn backfill(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<BackfillRequest>,
) -> ApiResult<Json<BackfilledView>> {
    caller.must_be(if request.dry_run { Role::Viewer } else { Role::Operator })?;
    find(&app, &name).await?;
    let defaults = Backfill::default();
    let backfill = Backfill {
        dry_run: request.dry_run,
        max: request.max.unwrap_or(defaults.max),
        order: match request.order {
            BackfillFirst::Oldest => BackfillOrder::OldestFirst,
            BackfillFirst::Newest => BackfillOrder::NewestFirst,
        },
        which: match request.which {
            BackfillWhich::Missing => BackfillSelection::Missing,
            BackfillWhich::All => BackfillSelection::All,
        },
        label: request.label.clone(),
    };
    let done = app.admin().backfill(&name, request.from, request.to, &backfill).await?;
    let view = BackfilledView {
        stored: done.stored.len(),
        messages: done.stored.iter().map(ToString::to_string).collect(),
        nominals: done.nominals,
        duplicates: done.duplicates,
        present: done.present,
        more: done.more,
    };
    if !request.dry_run {
        let change = Change::new("job.backfill", &name).from(&request).to(&view.stored);
        app.audit().note(&caller, change).await?;
    }
    Ok(Json(view))
}
