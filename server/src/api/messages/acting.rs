//! Acting on one message: cancel, redrive, reschedule, reassign, delete.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::add;
use punctual::model::{Assignment, MessageId, MessageState as Stored, Priority, Queue};
use punctual::storage::CommandResult;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::sending::length;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::{Keyed, remember_removed};
use crate::problem::{Answer, Problem};

/// What an action came to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Acted {
    /// The message.
    id: String,
    /// `applied`, or `requested` when its handler was asked and may take a moment.
    result: &'static str,
}

/// Nothing but a reason.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ActRequest {
    /// Why, for the audit trail.
    reason: Option<String>,
}

/// When a message is due instead.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "delay": "5m", "reason": "the mail server is down" }))]
pub(crate) struct RescheduleRequest {
    /// At this instant.
    due_at: Option<Timestamp>,
    /// So long from now, such as `5m`.
    delay: Option<String>,
    /// Why, for the audit trail.
    reason: Option<String>,
}

/// Where a message waits instead, and how urgent it is; what is not given stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "queue": "bulk", "priority": 2, "reason": "the report can wait" }))]
pub(crate) struct ReassignRequest {
    /// In this queue.
    queue: Option<String>,
    /// From 0 (last) to 9 (first).
    priority: Option<u8>,
    /// Why, for the audit trail.
    reason: Option<String>,
}

/// When something is due that is asked for at an instant or so long from now.
pub(super) fn due_at(
    at: Option<Timestamp>,
    delay: Option<&str>,
    now: Timestamp,
) -> Answer<Timestamp> {
    match (at, delay) {
        (Some(at), None) => Ok(at),
        (None, Some(delay)) => Ok(add(now, length("delay", delay)?)),
        _ => Err(Problem::refused("give either `due_at` or `delay`")
            .field("due_at", "give this or delay, not both")),
    }
}

/// Where something is to wait, and how urgent it is to be.
pub(super) fn assignment(queue: Option<&str>, priority: Option<u8>) -> Answer<Assignment> {
    let wrong = |field: &str, error: &punctual::Error| {
        Problem::refused(format!("`{field}`: {error}")).field(field, error.to_string())
    };
    let queue = queue.map(Queue::new).transpose().map_err(|error| wrong("queue", &error))?;
    let priority =
        priority.map(Priority::new).transpose().map_err(|error| wrong("priority", &error))?;
    let to = Assignment { queue, priority };
    if to.is_empty() {
        return Err(Problem::refused("nothing says what to change: give `queue` or `priority`")
            .field("queue", "give this, or priority, or both"));
    }
    Ok(to)
}

/// What the trail says of an assignment.
pub(super) fn noted(to: &Assignment) -> Value {
    let mut noted = json!({});
    if let Some(queue) = &to.queue {
        noted["queue"] = queue.as_str().into();
    }
    if let Some(priority) = to.priority {
        noted["priority"] = priority.level().into();
    }
    noted
}

/// Reads the id of a message.
pub(super) fn message_id(text: &str) -> Answer<MessageId> {
    text.parse().map_err(|error: punctual::Error| Problem::malformed(error.to_string()))
}

/// There is no such message.
pub(super) fn unknown(id: MessageId) -> Problem {
    Problem::not_found(format!("there is no message {id}; it may have been pruned or deleted"))
}

/// What a command came to, noted when it did something.
async fn acted(
    app: &App,
    caller: &Caller,
    id: MessageId,
    answer: CommandResult,
    change: Change,
) -> Answer<Json<Acted>> {
    let result = match answer {
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
    Ok(Json(Acted { id: id.to_string(), result }))
}

fn change(what: &'static str, id: MessageId, reason: Option<String>) -> Change {
    Change { reason, ..Change::new(what, id) }
}

/// Stops a message: a pending one at once, a running one by asking its handler.
#[utoipa::path(post, path = "/messages/{id}/cancel", tag = "messages", params(("id" = String, Path)),
    request_body = ActRequest, responses((status = 200, body = Acted), (status = 409, body = Problem)))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<ActRequest>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let answer = app.punctual.admin().cancel(id).await?;
    let answer = keyed.commanded(answer, Some(Stored::Cancelled));
    acted(&app, &caller, id, answer, change("message.cancel", id, request.reason)).await
}

/// Sends a finished message again, at once; its attempts start anew.
#[utoipa::path(post, path = "/messages/{id}/redrive", tag = "messages", params(("id" = String, Path)),
    request_body = ActRequest, responses((status = 200, body = Acted), (status = 409, body = Problem)))]
pub(crate) async fn redrive(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<ActRequest>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let admin = app.punctual.admin();
    let known = if keyed.is_repeat() { admin.message(id).await? } else { None };
    let answer = match known {
        Some(record) if keyed.was_redriven(&record) => CommandResult::Applied(1),
        _ => admin.redrive(id).await?,
    };
    acted(&app, &caller, id, answer, change("message.redrive", id, request.reason)).await
}

/// Makes a pending message due at another instant.
#[utoipa::path(post, path = "/messages/{id}/reschedule", tag = "messages", params(("id" = String, Path)),
    request_body = RescheduleRequest,
    responses((status = 200, body = Acted), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<RescheduleRequest>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let due_at = due_at(request.due_at, request.delay.as_deref(), keyed.first_at(&app))?;
    let change = change("message.reschedule", id, request.reason).to(&due_at);
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let answer = app.punctual.admin().reschedule(id, due_at).await?;
    acted(&app, &caller, id, answer, change).await
}

/// Puts a pending message into another queue, or makes it more or less urgent.
#[utoipa::path(post, path = "/messages/{id}/reassign", tag = "messages", params(("id" = String, Path)),
    request_body = ReassignRequest,
    responses((status = 200, body = Acted), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn reassign(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<ReassignRequest>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let to = assignment(request.queue.as_deref(), request.priority)?;
    let admin = app.punctual.admin();
    let before = admin.message(id).await?.map(|record| Assignment {
        queue: to.queue.is_some().then(|| record.message.queue.clone()),
        priority: to.priority.is_some().then_some(record.message.priority),
    });
    let change = change("message.reassign", id, request.reason).to(&noted(&to));
    let change = before.iter().fold(change, |change, before| change.from(&noted(before)));
    keyed.refuse_if_overtaken(&app, &caller, &change).await?;
    let answer = admin.reassign(id, to).await?;
    acted(&app, &caller, id, answer, change).await
}

/// Removes a message that is not running, without a trace.
#[utoipa::path(delete, path = "/messages/{id}", tag = "messages", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    remove(&app, (&caller, &keyed), &id, None).await.map(|_| StatusCode::NO_CONTENT)
}

/// The same, for callers that cannot send DELETE.
#[utoipa::path(post, path = "/messages/{id}/delete", tag = "messages", params(("id" = String, Path)),
    request_body = ActRequest, responses((status = 200, body = Acted), (status = 409, body = Problem)))]
pub(crate) async fn delete_by_post(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<ActRequest>,
) -> Answer<Json<Acted>> {
    remove(&app, (&caller, &keyed), &id, request.reason).await
}

async fn remove(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    id: &str,
    reason: Option<String>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(id)?;
    remember_removed(app, &[id]).await?;
    let answer = keyed.commanded(app.punctual.admin().delete(id).await?, None);
    acted(app, caller, id, answer, change("message.delete", id, reason)).await
}
