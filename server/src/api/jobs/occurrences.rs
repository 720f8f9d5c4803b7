//! Occurrences of a job with the decision about each.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::ErrorKind;
use punctual::analysis::{LedgerDecision, LedgerEntry, LedgerRange};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lookup::of_job;
use super::upcoming::checked_count;
use crate::api::executions::milliseconds;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::Listing;
use crate::problem::{ApiResult, Problem};

/// Default number of occurrences listed.
const LIMIT_DEFAULT: usize = 100;

/// Range of occurrences.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OccurrencesQuery {
    /// Start of the range. By default three quarters of the limit are in the past.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// End of the range, inclusive. By default a quarter of the limit is in the future.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
    /// Page size, 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Cursor: `next` of the previous page.
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Timestamp>,
}

/// Decision about an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OccurrenceDecision {
    /// It ran and succeeded.
    Ran,
    /// It ran and failed.
    Failed,
    /// It was or will be skipped.
    Skipped,
    /// It is running.
    Running,
    /// It is due and waits for a worker, a retry or the scheduler.
    Waiting,
    /// It is upcoming.
    Planned,
    /// It was due and no record of it exists.
    Missed,
}

/// A time of a schedule with the decision about it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OccurrenceView {
    /// Nominal time on the schedule.
    nominal: Timestamp,
    /// Decision.
    decision: OccurrenceDecision,
    /// Reason of the decision, if any.
    reason: Option<String>,
    /// Id of its message, or of the run that covers it.
    message: Option<String>,
    /// Id of its last execution.
    execution: Option<String>,
    /// Delay of its start in milliseconds, so far when it has not started.
    late_ms: Option<u64>,
    /// Number of attempts.
    attempts: u32,
}

impl From<LedgerDecision> for OccurrenceDecision {
    fn from(decision: LedgerDecision) -> Self {
        match decision {
            LedgerDecision::Ran => Self::Ran,
            LedgerDecision::Failed => Self::Failed,
            LedgerDecision::Skipped => Self::Skipped,
            LedgerDecision::Running => Self::Running,
            LedgerDecision::Waiting => Self::Waiting,
            LedgerDecision::Planned => Self::Planned,
            LedgerDecision::Missed => Self::Missed,
        }
    }
}

impl From<LedgerEntry> for OccurrenceView {
    fn from(entry: LedgerEntry) -> Self {
        Self {
            nominal: entry.nominal,
            decision: entry.decision.into(),
            reason: entry.reason,
            message: entry.message.map(|id| id.to_string()),
            execution: entry.execution.map(|id| id.to_string()),
            late_ms: entry.late.map(milliseconds),
            attempts: entry.attempts,
        }
    }
}

/// Lists the occurrences of a job, oldest first, each with the decision about it and the reason. They are computed
/// from the history, the stored messages and the schedule.
#[utoipa::path(get, operation_id = "list_occurrences", path = "/jobs/{name}/occurrences", tag = "jobs",
    params(("name" = String, Path), OccurrencesQuery),
    responses((status = 200, body = Listing<OccurrenceView>), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn occurrences(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<OccurrencesQuery>,
) -> ApiResult<Json<Listing<OccurrenceView>>> {
    caller.must_be(Role::Viewer)?;
    let limit = checked_count("limit", query.limit, LIMIT_DEFAULT)?;
    let range = LedgerRange { from: query.from, to: query.to, after: query.after, limit };
    // The call of a job of this name fails as invalid only because of the range.
    let ledger = async {
        match app.admin().ledger(&name, range).await {
            Err(error) if error.kind() == ErrorKind::Invalid => Ok(Err(refused_range(&error))),
            ledger => ledger.map(Ok),
        }
    };
    let ledger = of_job(&app, &name, ledger).await??;
    let items = ledger.rows.into_iter().map(OccurrenceView::from).collect();
    Ok(Json(Listing { items, next: ledger.next.map(|next| next.to_string()) }))
}

/// Returns the problem of a range, which its start is to blame for.
fn refused_range(error: &punctual::Error) -> Problem {
    let text = error.to_string();
    let problem = text.rsplit_once(": ").map_or(text.as_str(), |(_, problem)| problem);
    Problem::refused(&text).field("from", problem)
}
