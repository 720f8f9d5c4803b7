//! Dead letters: lists them, groups them by failure, and redrives or discards them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::analysis::{self, dead_fingerprint};
use punctual::model::{DeadReason, MessageId, MessageRecord, MessageState as Stored};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::messages::{
    BulkCommand, BulkResult, MessageList, MessageQuery, MessageSelection, bulk_limit, list_page,
    run_bulk, search,
};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Query};
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};

/// Largest number of ids in one request.
const IDS_MAX: usize = 10_000;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(groups))
        .routes(routes!(redrive))
        .routes(routes!(discard))
}

/// Filter of dead letters.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct DeadLetterQuery {
    /// Only dead letters of this group, by its `fingerprint`.
    group: Option<String>,
    /// Only dead letters of this topic.
    topic: Option<String>,
    /// Only dead letters of this queue.
    queue: Option<String>,
    /// Only runs of this job.
    job: Option<String>,
    /// Only dead letters whose id, topic, queue, keys, job, correlation or error contains this text.
    search: Option<String>,
    /// Page size, 1 to 1000. Default: 50.
    limit: Option<usize>,
    /// Cursor: `next` of the previous page.
    after: Option<String>,
}

/// Dead letters with the same topic, job and error.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct DeadGroup {
    /// Identifies the group in other calls.
    fingerprint: String,
    /// Topic of the messages.
    topic: String,
    /// Job of the messages; null when they are not runs of a job.
    job: Option<String>,
    /// Error of the newest dead letter.
    error: Option<String>,
    /// Why the newest one became a dead letter.
    reason: Option<&'static str>,
    /// Number of dead letters.
    count: u64,
    /// When the oldest one became a dead letter.
    first_at: Timestamp,
    /// When the newest one became a dead letter.
    last_at: Timestamp,
    /// Message id of the newest one.
    sample_id: String,
    /// Number of new dead letters in each of the last 24 hours, oldest hour first.
    per_hour: Vec<u64>,
}

/// Groups of dead letters, largest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct DeadGroups {
    /// The groups, largest first.
    pub(crate) items: Vec<DeadGroup>,
    /// Number of dead letters that were read.
    pub(crate) scanned: usize,
    /// Whether there are more dead letters than were read.
    pub(crate) more: bool,
}

impl From<analysis::DeadGroup> for DeadGroup {
    fn from(group: analysis::DeadGroup) -> Self {
        Self {
            fingerprint: group.fingerprint,
            topic: group.topic.to_string(),
            job: group.job.map(|job| job.to_string()),
            error: group.error,
            reason: group.reason.map(DeadReason::as_str),
            count: group.count,
            first_at: group.first_at,
            last_at: group.last_at,
            sample_id: group.sample.to_string(),
            per_hour: group.per_hour,
        }
    }
}

impl DeadGroups {
    /// Returns the number of new dead letters in the last hour.
    pub(crate) fn in_the_last_hour(&self) -> u64 {
        self.items.iter().filter_map(|group| group.per_hour.last()).sum()
    }
}

/// Lists dead letters, newest first.
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", params(DeadLetterQuery),
    responses((status = 200, body = MessageList), (status = 422, body = Problem)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<DeadLetterQuery>,
) -> ApiResult<Json<MessageList>> {
    caller.must_be(Role::Viewer)?;
    let DeadLetterQuery { group, topic, queue, job, search, limit, after } = query;
    let state = vec![Stored::Dead.as_str().to_owned()];
    let query =
        MessageQuery { state, queue, topic, job, search, limit, after, ..MessageQuery::default() };
    let matches = |record: &MessageRecord| {
        group.as_ref().is_none_or(|group| dead_fingerprint(record) == *group)
    };
    list_page(&app, query, matches).await.map(Json)
}

/// Groups the newest 10000 dead letters by failure.
#[utoipa::path(get, path = "/dead-letters/groups", tag = "dead letters",
    responses((status = 200, body = DeadGroups)))]
async fn groups(State(app): State<App>, caller: Caller) -> ApiResult<Json<DeadGroups>> {
    caller.must_be(Role::Viewer)?;
    Ok(Json((*grouped(&app).await?).clone()))
}

/// Returns the groups, largest first; with many dead letters from a cache that is some seconds old.
pub(crate) async fn grouped(app: &App) -> punctual::Result<Arc<DeadGroups>> {
    app.node().dead_groups.get(&*app.clock, Duration::ZERO, find_groups(app)).await
}

/// Refreshes the cached groups.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    app.node().dead_groups.renew(&*app.clock, find_groups(app)).await
}

async fn find_groups(app: &App) -> punctual::Result<Arc<DeadGroups>> {
    let found = app.admin().dead_groups().await?;
    let items = found.groups.into_iter().map(DeadGroup::from).collect();
    Ok(Arc::new(DeadGroups { items, scanned: found.scanned, more: found.more }))
}

/// Selects dead letters by exactly one of `fingerprint`, `filter` and `ids`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "filter": { "topic": "send-email" }, "dry_run": true }))]
struct DeadLetterRequest {
    /// All dead letters of this group.
    fingerprint: Option<String>,
    /// All dead letters that match; the same keys as the query parameters of `GET /messages`.
    filter: Option<MessageQuery>,
    /// Message ids, 1 to 10000.
    ids: Option<Vec<String>>,
    /// Largest number of messages, newest first, 1 to 10000. Default: 1000.
    limit: Option<usize>,
    /// With `true`, only counts the messages and changes nothing.
    #[serde(default)]
    dry_run: bool,
    /// Reason, recorded in the audit trail.
    note: Option<String>,
}

/// Redrives dead letters: each is due now, with its attempts reset.
#[utoipa::path(post, path = "/dead-letters/redrive", tag = "dead letters", request_body = DeadLetterRequest,
    responses((status = 200, body = BulkResult), (status = 422, body = Problem)))]
async fn redrive(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<DeadLetterRequest>,
) -> ApiResult<Json<BulkResult>> {
    run(&app, (&caller, &keyed), BulkCommand::Redrive, request).await
}

/// Deletes dead letters and their history.
#[utoipa::path(post, path = "/dead-letters/discard", tag = "dead letters", request_body = DeadLetterRequest,
    responses((status = 200, body = BulkResult), (status = 422, body = Problem)))]
async fn discard(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<DeadLetterRequest>,
) -> ApiResult<Json<BulkResult>> {
    run(&app, (&caller, &keyed), BulkCommand::Discard, request).await
}

async fn run(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    command: BulkCommand,
    request: DeadLetterRequest,
) -> ApiResult<Json<BulkResult>> {
    caller.must_be(Role::Operator)?;
    let (ids, more) = select(app, keyed, &request).await?;
    if request.dry_run {
        let count = ids.len() as u64;
        return Ok(Json(BulkResult { count, more, dry_run: true, ..BulkResult::default() }));
    }
    let result = BulkResult { more, ..run_bulk(app, &command, &ids).await? };
    let target = match &request.fingerprint {
        Some(group) => format!("the dead letters of {group}"),
        None => format!("{} dead letters", ids.len()),
    };
    let change =
        Change { reason: request.note, ..Change::new(command.audit_name(), target).to(&result) };
    app.audit().note(caller, change).await?;
    Ok(Json(result))
}

/// Returns the ids of the selected dead letters and whether there may be more.
async fn select(
    app: &App,
    keyed: &Keyed,
    request: &DeadLetterRequest,
) -> ApiResult<(Vec<MessageId>, bool)> {
    let limit = bulk_limit(request.limit)?;
    let dead = MessageSelection::of_states(&[Stored::Dead]);
    let found = match (&request.fingerprint, &request.filter, &request.ids) {
        (Some(group), None, None) => {
            let matches =
                |record: &MessageRecord| dead_fingerprint(record) == *group && keyed.covers(record);
            search(app, &dead, None, limit, matches).await?
        }
        (None, Some(filter), None) => {
            let selection = BulkCommand::Discard.with_states(filter.selection_in_body()?)?;
            search(app, &selection, None, limit, |record| keyed.covers(record)).await?
        }
        (None, None, Some(ids)) => return Ok((dead_among(app, keyed, ids).await?, false)),
        _ => {
            return Err(Problem::refused("give exactly one of `fingerprint`, `filter` and `ids`")
                .field("fingerprint", "give exactly one of fingerprint, filter and ids"));
        }
    };
    let ids = found.rows.iter().map(|record| record.message.id).collect();
    Ok((ids, found.next.is_some()))
}

/// Returns those of the messages that are dead letters; others are left unchanged.
async fn dead_among(app: &App, keyed: &Keyed, texts: &[String]) -> ApiResult<Vec<MessageId>> {
    if texts.is_empty() || texts.len() > IDS_MAX {
        return Err(Problem::refused(format!(
            "{} ids are not between 1 and {IDS_MAX}",
            texts.len()
        ))
        .field("ids", format!("must have 1 to {IDS_MAX}")));
    }
    let mut ids = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let id: MessageId = text.parse().map_err(|error: punctual::Error| {
            Problem::refused(error.to_string()).field(format!("ids[{index}]"), error.to_string())
        })?;
        let record = app.inspect.message(id).await?;
        if record.is_some_and(|record| record.state == Stored::Dead && keyed.covers(&record)) {
            ids.push(id);
        }
    }
    Ok(ids)
}
