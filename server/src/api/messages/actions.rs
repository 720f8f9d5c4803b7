//! Message actions: cancel, redrive, reschedule, reassign, delete one message.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::backend::storage::CommandResult;
use punctual::clock::add;
use punctual::model::{Assignment, MessageId, MessageState as Stored, Priority, Queue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::publish::duration;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::{Keyed, remember_removed};
use crate::problem::{ApiResult, Problem};

/// Result of an action on a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageActionResult {
    /// Id of the message.
    id: String,
    /// `applied`, or `requested` when a running handler was asked to stop.
    result: &'static str,
}

/// Reason of an action.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MessageActionRequest {
    /// Reason, recorded in the audit trail.
    reason: Option<String>,
}

/// New due time of a message; exactly one of `due_at` and `delay`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "delay": "5m", "reason": "the mail server is down" }))]
pub(crate) struct RescheduleRequest {
    /// Due time.
    due_at: Option<Timestamp>,
    /// Delay from now, such as `5m`.
    delay: Option<String>,
    /// Reason, recorded in the audit trail.
    reason: Option<String>,
}

/// New queue and priority of a message; omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "queue": "bulk", "priority": 2, "reason": "the report can wait" }))]
pub(crate) struct ReassignRequest {
    /// New queue.
    queue: Option<String>,
    /// New priority, 0 (lowest) to 9 (highest).
    priority: Option<u8>,
    /// Reason, recorded in the audit trail.
    reason: Option<String>,
}

/// Returns the due time of a request. Fails unless exactly one of the two is given.
pub(super) fn due_at(
    at: Option<Timestamp>,
    delay: Option<&str>,
    now: Timestamp,
) -> ApiResult<Timestamp> {
    match (at, delay) {
        (Some(at), None) => Ok(at),
        (None, Some(delay)) => Ok(add(now, duration("delay", delay)?)),
        _ => Err(Problem::refused("give exactly one of `due_at` and `delay`")
            .field("due_at", "give exactly one of due_at and delay")),
    }
}

/// Returns the assignment of a request. Fails when it is empty or invalid.
pub(super) fn assignment(queue: Option<&str>, priority: Option<u8>) -> ApiResult<Assignment> {
    let wrong = |field: &str, error: &punctual::Error| {
        Problem::refused(format!("`{field}`: {error}")).field(field, error.to_string())
    };
    let queue = queue.map(Queue::new).transpose().map_err(|error| wrong("queue", &error))?;
    let priority =
        priority.map(Priority::new).transpose().map_err(|error| wrong("priority", &error))?;
    let to = Assignment { queue, priority };
    if to.is_empty() {
        return Err(Problem::refused("there is nothing to change: give `queue` or `priority`")
            .field("queue", "give queue, priority or both"));
    }
    Ok(to)
}

/// Returns an assignment for the audit trail.
pub(super) fn assignment_json(to: &Assignment) -> Value {
    let mut value = json!({});
    if let Some(queue) = &to.queue {
        value["queue"] = queue.as_str().into();
    }
    if let Some(priority) = to.priority {
        value["priority"] = priority.level().into();
    }
    value
}

/// Parses the id of a message.
pub(super) fn message_id(text: &str) -> ApiResult<MessageId> {
    text.parse().map_err(|error: punctual::Error| Problem::malformed(error.to_string()))
}

/// Returns the problem for an unknown message.
pub(super) fn unknown(id: MessageId) -> Problem {
    Problem::not_found(format!("there is no message {id}; it may have been pruned or deleted"))
}

/// Returns the result of a command and records it in the audit trail. Fails when it was not applied.
async fn action_response(
    app: &App,
    caller: &Caller,
    id: MessageId,
    result: CommandResult,
    change: Change,
) -> ApiResult<Json<MessageActionResult>> {
    let result = match result {
        CommandResult::Applied(_) => "applied",
        CommandResult::Requested => "requested",
        CommandResult::Unknown => return Err(unknown(id)),
        CommandResult::Refused(state) => {
            return Err(Problem::conflict(format!(
                "the message {id} is {}, which does not allow {}",
                state.as_str(),
                change.what
            )));
        }
    };
    app.node().dead_groups.forget();
    app.audit().note(caller, change).await?;
    Ok(Json(MessageActionResult { id: id.to_string(), result }))
}

fn change(what: &'static str, id: MessageId, reason: Option<String>) -> Change {
    Change { reason, ..Change::new(what, id) }
}

/// Cancels a message. A pending message is cancelled immediately; the handler of a running one is asked to stop.
#[utoipa::path(post, path = "/messages/{id}/cancel", tag = "messages", params(("id" = String, Path)),
    request_body = MessageActionRequest,
    responses((status = 200, body = MessageActionResult), (status = 409, body = Problem)))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<MessageActionRequest>,
) -> ApiResult<Json<MessageActionResult>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let result = app.admin().cancel(id).await?;
    let result = keyed.commanded(result, Some(Stored::Cancelled));
    action_response(&app, &caller, id, result, change("message.cancel", id, request.reason)).await
}

/// Redrives a finished message: it is due now, with its attempts reset.
#[utoipa::path(post, path = "/messages/{id}/redrive", tag = "messages", params(("id" = String, Path)),
    request_body = MessageActionRequest,
    responses((status = 200, body = MessageActionResult), (status = 409, body = Problem)))]
pub(crate) async fn redrive(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<MessageActionRequest>,
) -> ApiResult<Json<MessageActionResult>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let admin = app.admin();
    let known = if keyed.is_repeat() { admin.message(id).await? } else { None };
    let result = match known {
        Some(record) if keyed.was_redriven(&record) => CommandResult::Applied(1),
        _ => admin.redrive(id).await?,
    };
    action_response(&app, &caller, id, result, change("message.redrive", id, request.reason)).await
}

/// Changes the due time of a pending message.
#[utoipa::path(post, path = "/messages/{id}/reschedule", tag = "messages", params(("id" = String, Path)),
    request_body = RescheduleRequest,
    responses((status = 200, body = MessageActionResult), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<RescheduleRequest>,
) -> ApiResult<Json<MessageActionResult>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let due_at = due_at(request.due_at, request.delay.as_deref(), keyed.first_at(&app))?;
    let change = change("message.reschedule", id, request.reason).to(&due_at);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let result = app.admin().reschedule(id, due_at).await?;
    action_response(&app, &caller, id, result, change).await
}

/// Changes the queue or priority of a pending message.
#[utoipa::path(post, path = "/messages/{id}/reassign", tag = "messages", params(("id" = String, Path)),
    request_body = ReassignRequest,
    responses((status = 200, body = MessageActionResult), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn reassign(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<ReassignRequest>,
) -> ApiResult<Json<MessageActionResult>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let to = assignment(request.queue.as_deref(), request.priority)?;
    let admin = app.admin();
    let before = admin.message(id).await?.map(|record| Assignment {
        queue: to.queue.is_some().then(|| record.message.queue.clone()),
        priority: to.priority.is_some().then_some(record.message.priority),
    });
    let change = change("message.reassign", id, request.reason).to(&assignment_json(&to));
    let change = before.iter().fold(change, |change, before| change.from(&assignment_json(before)));
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let result = admin.reassign(id, to).await?;
    action_response(&app, &caller, id, result, change).await
}

/// Deletes a message that is not running, without keeping any record of it.
#[utoipa::path(delete, path = "/messages/{id}", tag = "messages", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    remove(&app, (&caller, &keyed), &id, None).await.map(|_| StatusCode::NO_CONTENT)
}

/// Deletes a message, for clients that cannot send DELETE.
#[utoipa::path(post, path = "/messages/{id}/delete", tag = "messages", params(("id" = String, Path)),
    request_body = MessageActionRequest,
    responses((status = 200, body = MessageActionResult), (status = 409, body = Problem)))]
pub(crate) async fn delete_by_post(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<MessageActionRequest>,
) -> ApiResult<Json<MessageActionResult>> {
    remove(&app, (&caller, &keyed), &id, request.reason).await
}

async fn remove(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    id: &str,
    reason: Option<String>,
) -> ApiResult<Json<MessageActionResult>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(id)?;
    remember_removed(app, &[id]).await?;
    let result = keyed.commanded(app.admin().delete(id).await?, None);
    action_response(app, caller, id, result, change("message.delete", id, reason)).await
}
