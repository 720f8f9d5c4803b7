//! Backfill over the API: occurrences of the past become messages, or are only listed.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::client::{Backfill, BackfillOrder, BackfillSelection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::finding::find;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::problem::{Answer, Problem};

/// Which occurrences of the past are run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BackfillRequest {
    /// From this instant on.
    from: Timestamp,
    /// Before this instant, which must not be later than now.
    to: Timestamp,
    /// Those that never ran (`missing`, the default), or `all` of them.
    #[serde(default)]
    which: BackfillWhich,
    /// The most runs, 1 to 10000; 100 when not given.
    #[serde(default)]
    max: Option<usize>,
    /// The `oldest` first (the default), or the `newest`; those beyond `max` are left.
    #[serde(default)]
    order: BackfillFirst,
    /// Tells two backfills of the same range apart: under the same label an occurrence runs once.
    #[serde(default)]
    label: String,
    /// Only says what would be done.
    #[serde(default)]
    dry_run: bool,
}

/// Which occurrences of a range.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BackfillWhich {
    /// Those that never ran.
    #[default]
    Missing,
    /// All of them.
    All,
}

/// Which occurrence comes first.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BackfillFirst {
    /// The oldest.
    #[default]
    #[serde(alias = "oldest_first")]
    Oldest,
    /// The newest.
    #[serde(alias = "newest_first")]
    Newest,
}

/// What a backfill came to, or would come to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct BackfilledView {
    /// The occurrences it is about, in the order they run.
    nominals: Vec<Timestamp>,
    /// How many messages were stored; 0 in a dry run.
    stored: usize,
    /// The messages that were stored.
    messages: Vec<String>,
    /// How many were not stored because they are there already.
    duplicates: u64,
    /// How many occurrences of the range were left out because they have run.
    present: u64,
    /// Whether the range holds more than were to be run.
    more: bool,
}

/// Runs occurrences of the past, each in its own name, as the job is defined now; the schedule is left
/// alone. Asked for again, nothing runs twice.
#[utoipa::path(post, operation_id = "backfill_job", path = "/jobs/{name}/backfill", tag = "jobs", params(("name" = String, Path)),
    request_body = BackfillRequest,
    responses((status = 200, body = BackfilledView), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn backfill(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<BackfillRequest>,
) -> Answer<Json<BackfilledView>> {
    caller.must_be(if request.dry_run { Role::Viewer } else { Role::Operator })?;
    find(&app, &name).await?;
    let usual = Backfill::default();
    let backfill = Backfill {
        dry_run: request.dry_run,
        max: request.max.unwrap_or(usual.max),
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
    let done = app.punctual.admin().backfill(&name, request.from, request.to, &backfill).await?;
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
