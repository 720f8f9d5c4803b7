//! Queue actions: pause, resume, concurrency and purge. They apply on every node.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::client::BULK_MAX;
use punctual::inspect::MessageFilter;
use punctual::model::{MessageId, MessageState as Stored, Pause, Queue};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::PauseView;
use crate::api::messages::{BulkCommand, BulkResult, MessageSelection, run_bulk, search};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};
use crate::queues::{QueueSettings, change_settings};

/// Largest number of characters of a reason.
const REASON_LEN_MAX: usize = 1_000;
/// Largest concurrency of a process.
const CONCURRENCY_MAX: usize = 10_000;

/// Reason and end of a pause.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueuePauseRequest {
    /// Reason, shown to other users.
    reason: String,
    /// When the pause ends; without it the queue must be resumed.
    until: Option<Timestamp>,
}

/// New concurrency of a queue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueConcurrencyRequest {
    /// Largest number of running messages in each process that works on the queue, 1 to 10000.
    max: usize,
}

/// Options of a purge.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueuePurgeRequest {
    /// With `true`, only counts the messages and deletes nothing.
    dry_run: bool,
    /// Reason, recorded in the audit trail.
    reason: Option<String>,
}

/// Settings of a queue.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct QueueSettingsView {
    /// Name of the queue.
    name: String,
    /// Current pause; null when the queue is not paused.
    paused: Option<PauseView>,
    /// Concurrency of each process; null without a setting.
    concurrency: Option<usize>,
}

impl QueueSettingsView {
    fn new(queue: &Queue, settings: &QueueSettings, now: Timestamp) -> Json<Self> {
        Json(Self {
            name: queue.to_string(),
            paused: settings.pause(now).map(PauseView::new),
            concurrency: settings.concurrency,
        })
    }
}

/// Parses the name of a queue; queues of transports are allowed.
fn parse_queue(name: &str) -> ApiResult<Queue> {
    match name.strip_prefix('~') {
        Some(rest) => Queue::new(rest).map(|_| Queue::from(name.to_owned())),
        None => Queue::new(name),
    }
    .map_err(|error| Problem::refused(error.to_string()))
}

/// Pauses a queue on every node: its messages are not claimed, and running ones continue.
#[utoipa::path(post, path = "/queues/{name}/pause", tag = "queues", params(("name" = String, Path)),
    request_body = QueuePauseRequest,
    responses((status = 200, body = QueueSettingsView), (status = 422, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<QueuePauseRequest>,
) -> ApiResult<Json<QueueSettingsView>> {
    caller.must_be(Role::Operator)?;
    let (queue, now) = (parse_queue(&name)?, app.clock.now());
    let reason = request.reason.trim();
    if reason.is_empty() || reason.chars().count() > REASON_LEN_MAX {
        return Err(Problem::refused(format!(
            "give a reason for the pause of the queue {name:?}, with 1 to {REASON_LEN_MAX} characters"
        ))
        .field("reason", "is empty or too long"));
    }
    if let Some(until) = request.until.filter(|until| *until <= now) {
        return Err(Problem::refused(format!(
            "the pause would end at {until}, which is in the past; it is {now}"
        ))
        .field("until", "is in the past"));
    }
    let (by, until) = (caller.name.clone(), request.until);
    let pause = Pause { by, reason: reason.to_owned(), at: now, until };
    let change = Change::new("queue.pause", &queue).because(reason);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let (before, after) =
        change_settings(&app, &queue, |settings| settings.paused = Some(pause.clone())).await?;
    app.audit().note(&caller, change.from(&before).to(&after)).await?;
    Ok(QueueSettingsView::new(&queue, &after, now))
}

/// Resumes a queue on every node.
#[utoipa::path(post, path = "/queues/{name}/resume", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, body = QueueSettingsView)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
) -> ApiResult<Json<QueueSettingsView>> {
    caller.must_be(Role::Operator)?;
    let queue = parse_queue(&name)?;
    let change = Change::new("queue.resume", &queue);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let (before, after) = change_settings(&app, &queue, |settings| settings.paused = None).await?;
    app.audit().note(&caller, change.from(&before).to(&after)).await?;
    Ok(QueueSettingsView::new(&queue, &after, app.clock.now()))
}

/// Sets the concurrency of each process that works on a queue.
#[utoipa::path(post, path = "/queues/{name}/concurrency", tag = "queues", params(("name" = String, Path)),
    request_body = QueueConcurrencyRequest,
    responses((status = 200, body = QueueSettingsView), (status = 422, body = Problem)))]
pub(super) async fn concurrency(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<QueueConcurrencyRequest>,
) -> ApiResult<Json<QueueSettingsView>> {
    caller.must_be(Role::Operator)?;
    let queue = parse_queue(&name)?;
    let max = request.max;
    if !(1..=CONCURRENCY_MAX).contains(&max) {
        return Err(Problem::refused(format!(
            "the concurrency {max} is not between 1 and {CONCURRENCY_MAX}; to stop the queue, pause it"
        ))
        .field("max", format!("must be between 1 and {CONCURRENCY_MAX}")));
    }
    let change = Change::new("queue.concurrency", &queue);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let (before, after) =
        change_settings(&app, &queue, |settings| settings.concurrency = Some(max)).await?;
    app.audit().note(&caller, change.from(&before).to(&after)).await?;
    Ok(QueueSettingsView::new(&queue, &after, app.clock.now()))
}

/// Deletes the pending messages of a queue, at most 10000 per request. Running messages continue.
#[utoipa::path(post, path = "/queues/{name}/purge", tag = "queues", params(("name" = String, Path)),
    request_body = QueuePurgeRequest, responses((status = 200, body = BulkResult), (status = 422, body = Problem)))]
pub(super) async fn purge(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<QueuePurgeRequest>,
) -> ApiResult<Json<BulkResult>> {
    caller.must_be(Role::Operator)?;
    let queue = parse_queue(&name)?;
    let filter = MessageFilter {
        states: vec![Stored::Pending],
        queue: Some(queue.clone()),
        ..MessageFilter::default()
    };
    let selection = MessageSelection::from(filter);
    let found = search(&app, &selection, None, BULK_MAX, |record| keyed.covers(record)).await?;
    let more = found.next.is_some();
    if request.dry_run {
        let count = found.rows.len() as u64;
        return Ok(Json(BulkResult { count, more, dry_run: true, ..BulkResult::default() }));
    }
    let ids: Vec<MessageId> = found.rows.iter().map(|record| record.message.id).collect();
    let result = BulkResult { more, ..run_bulk(&app, &BulkCommand::Delete, &ids).await? };
    let change = Change::new("queue.purge", &queue).to(&result);
    app.audit().note(&caller, Change { reason: request.reason, ..change }).await?;
    Ok(Json(result))
}
