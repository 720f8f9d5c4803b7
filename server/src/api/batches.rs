//! Batches: messages that belong together, how far they are, and stopping all of them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use punctual::client::SWEEP_MAX;
use punctual::inspect::MessageFilter;
use punctual::model::{BatchId, MessageId, MessageState as Stored};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::messages::{Act, LOOKED_AT_MAX, Swept, Wanted, look, sweep};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::PageQuery;
use crate::problem::{Answer, Problem};

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one)).routes(routes!(cancel))
}

/// Messages that belong together.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BatchView {
    /// Its id.
    id: String,
    /// How many messages it has; done ones count until they are pruned.
    total: u64,
    /// How many wait.
    pending: u64,
    /// How many are being handled.
    running: u64,
    /// How many are done.
    done: u64,
    /// How many were given up.
    dead: u64,
    /// How many were stopped.
    cancelled: u64,
    /// When it was made.
    created_at: Timestamp,
}

/// Batches, and where the next page begins.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BatchList {
    /// The batches, newest first.
    items: Vec<BatchView>,
    /// Give this as `after` for the next page; null when this was the last.
    next: Option<String>,
    /// Whether there are older messages than those that were looked at.
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

/// Batches, newest first, of the newest 10000 messages.
#[utoipa::path(get, path = "/batches", tag = "batches", params(PageQuery),
    responses((status = 200, body = BatchList), (status = 422, body = Problem)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Answer<Json<BatchList>> {
    caller.must_be(Role::Viewer)?;
    let page = page.page::<BatchId>()?;
    let found = look(&app, &Wanted::default(), None, LOOKED_AT_MAX, |record| {
        record.message.batch().is_some()
    })
    .await?;
    let mut known: BTreeMap<BatchId, Timestamp> = BTreeMap::new();
    for record in &found.rows {
        if let Some(batch) = record.message.batch() {
            let made = record.message.created_at;
            let first = known.entry(batch).or_insert(made);
            *first = made.min(*first);
        }
    }
    let behind = known.iter().rev().filter(|(id, _)| page.after.is_none_or(|after| **id < after));
    let some: Vec<(BatchId, Timestamp)> =
        behind.map(|(id, at)| (*id, *at)).take(page.limit + 1).collect();
    let shown = &some[..some.len().min(page.limit)];
    let next = (some.len() > page.limit).then(|| shown.last()).flatten();
    let next = next.map(|(id, _)| id.to_string());
    let items = try_join_all(shown.iter().map(|(id, at)| view(&app, *id, *at))).await?;
    Ok(Json(BatchList { items, next, more: found.next.is_some() }))
}

/// Reads the id of a batch of which something is known; answers when it was made.
async fn known(app: &App, text: &str) -> Answer<(BatchId, Timestamp)> {
    let id: BatchId =
        text.parse().map_err(|error: punctual::Error| Problem::malformed(error.to_string()))?;
    let found = look(app, &members(id, &[]), None, 1, |_| true).await?;
    match found.rows.first() {
        Some(record) => Ok((id, record.message.created_at)),
        None => Err(Problem::not_found(format!(
            "there is no message of the batch {id}; they may have been pruned"
        ))),
    }
}

/// The messages of a batch, of some states or of all.
fn members(id: BatchId, states: &[Stored]) -> Wanted {
    let filter =
        MessageFilter { batch: Some(id), states: states.to_vec(), ..MessageFilter::default() };
    Wanted::from(filter)
}

/// One batch.
#[utoipa::path(get, path = "/batches/{id}", tag = "batches", params(("id" = String, Path)),
    responses((status = 200, body = BatchView), (status = 404, body = Problem)))]
async fn one(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<BatchView>> {
    caller.must_be(Role::Viewer)?;
    let (id, created_at) = known(&app, &id).await?;
    Ok(Json(view(&app, id, created_at).await?))
}

/// Stops what is not finished of a batch, at most 10000 messages at once.
#[utoipa::path(post, path = "/batches/{id}/cancel", tag = "batches", params(("id" = String, Path)),
    responses((status = 200, body = Swept), (status = 404, body = Problem)))]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<Swept>> {
    caller.must_be(Role::Operator)?;
    let (id, _) = known(&app, &id).await?;
    let alive = members(id, &[Stored::Pending, Stored::Running]);
    let found = look(&app, &alive, None, SWEEP_MAX, |_| true).await?;
    let ids: Vec<MessageId> = found.rows.iter().map(|record| record.message.id).collect();
    let swept = Swept { more: found.next.is_some(), ..sweep(&app, &Act::Cancel, &ids).await? };
    app.audit().note(&caller, Change::new("batch.cancel", id).to(&swept)).await?;
    Ok(Json(swept))
}
