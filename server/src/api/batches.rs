//! Batches: groups of messages, their counts by state, and cancelling them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use punctual::client::BULK_MAX;
use punctual::inspect::MessageFilter;
use punctual::model::{BatchId, MessageId, MessageState as Stored};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::messages::{BulkCommand, BulkResult, MessageSelection, SCANNED_MAX, run_bulk, search};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::PageQuery;
use crate::problem::{ApiResult, Problem};

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get)).routes(routes!(cancel))
}

/// A batch: messages that were published together.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BatchView {
    /// Id of the batch.
    id: String,
    /// Number of messages; done ones are counted until they are pruned.
    total: u64,
    /// Number of pending messages.
    pending: u64,
    /// Number of messages in flight.
    running: u64,
    /// Number of messages that succeeded.
    done: u64,
    /// Number of dead letters.
    dead: u64,
    /// Number of cancelled messages.
    cancelled: u64,
    /// Creation time of its oldest message.
    created_at: Timestamp,
}

/// A page of batches.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BatchList {
    /// The batches, newest first.
    items: Vec<BatchView>,
    /// Cursor of the next page, passed as `after`; null on the last page.
    next: Option<String>,
    /// Whether there are older messages than the ones that were read.
    more: bool,
}

async fn view(app: &App, id: BatchId, created_at: Timestamp) -> punctual::Result<BatchView> {
    let counts = app.inspect.batch(id).await?;
    let of = |state: Stored| counts.get(&state).copied().unwrap_or(0);
    Ok(BatchView {
        id: id.to_string(),
        total: counts.values().sum(),
        pending: of(Stored::Pending),
        running: of(Stored::Running),
        done: of(Stored::Done),
        dead: of(Stored::Dead),
        cancelled: of(Stored::Cancelled),
        created_at,
    })
}

/// Lists the batches of the newest 10000 messages, newest first.
#[utoipa::path(get, path = "/batches", tag = "batches", params(PageQuery),
    responses((status = 200, body = BatchList), (status = 422, body = Problem)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<BatchList>> {
    caller.must_be(Role::Viewer)?;
    let page = page.page::<BatchId>()?;
    let found = search(&app, &MessageSelection::default(), None, SCANNED_MAX, |record| {
        record.message.batch().is_some()
    })
    .await?;
    let mut known: BTreeMap<BatchId, Timestamp> = BTreeMap::new();
    for record in &found.rows {
        if let Some(batch) = record.message.batch() {
            let created_at = record.message.created_at;
            let first = known.entry(batch).or_insert(created_at);
            *first = created_at.min(*first);
        }
    }
    let older = known.iter().rev().filter(|(id, _)| page.after.is_none_or(|after| **id < after));
    let rows: Vec<(BatchId, Timestamp)> =
        older.map(|(id, at)| (*id, *at)).take(page.limit + 1).collect();
    let shown = &rows[..rows.len().min(page.limit)];
    let next = (rows.len() > page.limit).then(|| shown.last()).flatten();
    let next = next.map(|(id, _)| id.to_string());
    let items = try_join_all(shown.iter().map(|(id, at)| view(&app, *id, *at))).await?;
    Ok(Json(BatchList { items, next, more: found.next.is_some() }))
}

/// Parses the id of a batch and returns it with its creation time. Fails when no message of it is stored.
async fn find(app: &App, text: &str) -> ApiResult<(BatchId, Timestamp)> {
    let id: BatchId =
        text.parse().map_err(|error: punctual::Error| Problem::malformed(error.to_string()))?;
    let found = search(app, &members(id, &[]), None, 1, |_| true).await?;
    match found.rows.first() {
        Some(record) => Ok((id, record.message.created_at)),
        None => Err(Problem::not_found(format!(
            "there is no message of the batch {id}; they may have been pruned"
        ))),
    }
}

/// Selects the messages of a batch in these states, or in every state when there are none.
fn members(id: BatchId, states: &[Stored]) -> MessageSelection {
    let filter =
        MessageFilter { batch: Some(id), states: states.to_vec(), ..MessageFilter::default() };
    MessageSelection::from(filter)
}

/// Returns a batch.
#[utoipa::path(get, path = "/batches/{id}", tag = "batches", params(("id" = String, Path)),
    responses((status = 200, body = BatchView), (status = 404, body = Problem)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<BatchView>> {
    caller.must_be(Role::Viewer)?;
    let (id, created_at) = find(&app, &id).await?;
    Ok(Json(view(&app, id, created_at).await?))
}

/// Cancels the unfinished messages of a batch, at most 10000 per request.
#[utoipa::path(post, path = "/batches/{id}/cancel", tag = "batches", params(("id" = String, Path)),
    responses((status = 200, body = BulkResult), (status = 404, body = Problem)))]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<BulkResult>> {
    caller.must_be(Role::Operator)?;
    let (id, _) = find(&app, &id).await?;
    let unfinished = members(id, &[Stored::Pending, Stored::Running]);
    let found = search(&app, &unfinished, None, BULK_MAX, |_| true).await?;
    let ids: Vec<MessageId> = found.rows.iter().map(|record| record.message.id).collect();
    let done = run_bulk(&app, &BulkCommand::Cancel, &ids).await?;
    let result = BulkResult { more: found.next.is_some(), ..done };
    app.audit().note(&caller, Change::new("batch.cancel", id).to(&result)).await?;
    Ok(Json(result))
}
