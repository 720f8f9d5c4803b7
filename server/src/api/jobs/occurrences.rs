//! Occurrences of a job with the decision about each.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::model::JobRecord;
use serde::Deserialize;
use utoipa::IntoParams;

use super::history::read_history;
use super::ledger::{Ledger, OccurrenceView};
use super::lookup::find;
use super::upcoming::{checked_count, occurrences_from};
use crate::api::clock_change::just_after;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::Listing;
use crate::problem::{Answer, Problem};
use crate::walk::{Walk, walk};

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
) -> Answer<Json<Listing<OccurrenceView>>> {
    caller.must_be(Role::Viewer)?;
    let limit = checked_count("limit", query.limit, LIMIT_DEFAULT)?;
    let status = find(&app, &name).await?;
    let now = app.clock.now();
    let record = Arc::new(*status.record);
    let shared = record.clone();
    let (from, to) = walk(&app, move |walk| query.range(walk, &shared, limit, now)).await??;
    let history = read_history(&app, &status.name, from).await?;
    let listed =
        walk(&app, move |walk| Ledger::new(walk, &record, &history, now).list(from, to, limit));
    let (items, next) = listed.await?;
    Ok(Json(Listing { items, next: next.map(|next| next.to_string()) }))
}

impl OccurrencesQuery {
    fn range(
        &self,
        walk: &Walk,
        record: &JobRecord,
        limit: usize,
        now: Timestamp,
    ) -> Answer<(Timestamp, Timestamp)> {
        let schedule = &record.job.schedule;
        let upcoming = (limit / 4).max(1);
        let to = self.to.unwrap_or_else(|| {
            occurrences_from(walk, record, now).take(upcoming).last().map_or(now, |(last, _)| last)
        });
        let default_from = || {
            let end = to.min(now);
            walk.before(schedule, end).take(limit - limit / 4).last().unwrap_or(end)
        };
        let from = self.from.unwrap_or_else(default_from);
        let after = self.after.map(just_after);
        if from > to {
            let problem = format!("{from} is later than `to` ({to}); swap them, or leave one out");
            return Err(
                Problem::refused(format!("the range is empty: {problem}")).field("from", problem)
            );
        }
        Ok((after.map_or(from, |after| after.max(from)), to))
    }
}
