//! Every time of a job's schedule with what was decided about it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::model::JobRecord;
use serde::Deserialize;
use utoipa::IntoParams;

use super::finding::find;
use super::ledger::{Ledger, OccurrenceView};
use super::traces::traces;
use super::upcoming::{bounded, future};
use crate::api::clock_change::just_after;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::Listing;
use crate::problem::{Answer, Problem};
use crate::walk::{Walk, walk};

/// How many times are listed when nobody says.
const LIMIT_DEFAULT: usize = 100;

/// Which times.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OccurrencesQuery {
    /// From this instant on. When not given, three quarters of the limit lie in the past.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
    /// Up to this instant. When not given, a quarter of the limit lies in the future.
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Timestamp>,
    /// At most so many, 1 to 1000; 100 when not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(value_type = Option<String>, format = DateTime)]
    after: Option<Timestamp>,
}

/// Every time of a job's schedule, oldest first, with what was decided about it and why: from the history,
/// the messages there are, and the schedule.
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
    let limit = bounded("limit", query.limit, LIMIT_DEFAULT)?;
    let status = find(&app, &name).await?;
    let now = app.clock.now();
    let record = Arc::new(*status.record);
    let spanned = record.clone();
    let (from, to) = walk(&app, move |walk| query.span(walk, &spanned, limit, now)).await??;
    let traces = traces(&app, &status.name, from).await?;
    let listed =
        walk(&app, move |walk| Ledger::new(walk, &record, &traces, now).list(from, to, limit));
    let (items, next) = listed.await?;
    Ok(Json(Listing { items, next: next.map(|next| next.to_string()) }))
}

impl OccurrencesQuery {
    fn span(
        &self,
        walk: &Walk,
        record: &JobRecord,
        limit: usize,
        now: Timestamp,
    ) -> Answer<(Timestamp, Timestamp)> {
        let schedule = &record.job.schedule;
        let ahead = (limit / 4).max(1);
        let to = self.to.unwrap_or_else(|| {
            future(walk, record, now).take(ahead).last().map_or(now, |(last, _)| last)
        });
        let behind = || {
            let end = to.min(now);
            walk.before(schedule, end).take(limit - limit / 4).last().unwrap_or(end)
        };
        let from = self.from.unwrap_or_else(behind);
        let after = self.after.map(just_after);
        if from > to {
            let problem = format!("{from} is later than the end {to}; swap them, or leave one out");
            return Err(
                Problem::refused(format!("the range is empty: {problem}")).field("from", problem)
            );
        }
        Ok((after.map_or(from, |after| after.max(from)), to))
    }
}
