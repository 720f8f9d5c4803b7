//! Acting on one message: cancel, redrive, reschedule, delete.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use punctual::clock::add;
use punctual::model::MessageId;
use punctual::storage::Commanded;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::sending::length;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
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
    answer: Commanded,
    change: Change,
) -> Answer<Json<Acted>> {
    let result = match answer {
        Commanded::Applied(_) => "applied",
        Commanded::Requested => "requested",
        Commanded::Unknown => return Err(unknown(id)),
        Commanded::Refused(state) => {
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
    Path(id): Path<String>,
    Body(request): Body<ActRequest>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let answer = app.punctual.admin().cancel(id).await?;
    acted(&app, &caller, id, answer, change("message.cancel", id, request.reason)).await
}

/// Sends a finished message again, at once; its attempts start anew.
#[utoipa::path(post, path = "/messages/{id}/redrive", tag = "messages", params(("id" = String, Path)),
    request_body = ActRequest, responses((status = 200, body = Acted), (status = 409, body = Problem)))]
pub(crate) async fn redrive(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<ActRequest>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let answer = app.punctual.admin().redrive(id).await?;
    acted(&app, &caller, id, answer, change("message.redrive", id, request.reason)).await
}

/// Makes a pending message due at another instant.
#[utoipa::path(post, path = "/messages/{id}/reschedule", tag = "messages", params(("id" = String, Path)),
    request_body = RescheduleRequest,
    responses((status = 200, body = Acted), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<RescheduleRequest>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(&id)?;
    let due_at = match (request.due_at, &request.delay) {
        (Some(due_at), None) => due_at,
        (None, Some(delay)) => add(app.clock.now(), length("delay", delay)?),
        _ => {
            return Err(Problem::refused("give either `due_at` or `delay`")
                .field("due_at", "give this or delay, not both"));
        }
    };
    let answer = app.punctual.admin().reschedule(id, due_at).await?;
    let change = change("message.reschedule", id, request.reason).to(&due_at);
    acted(&app, &caller, id, answer, change).await
}

/// Removes a message that is not running, without a trace.
#[utoipa::path(delete, path = "/messages/{id}", tag = "messages", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    remove(&app, &caller, &id, None).await.map(|_| StatusCode::NO_CONTENT)
}

/// The same, for callers that cannot send DELETE.
#[utoipa::path(post, path = "/messages/{id}/delete", tag = "messages", params(("id" = String, Path)),
    request_body = ActRequest, responses((status = 200, body = Acted), (status = 409, body = Problem)))]
pub(crate) async fn delete_by_post(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Body(request): Body<ActRequest>,
) -> Answer<Json<Acted>> {
    remove(&app, &caller, &id, request.reason).await
}

async fn remove(
    app: &App,
    caller: &Caller,
    id: &str,
    reason: Option<String>,
) -> Answer<Json<Acted>> {
    caller.must_be(Role::Operator)?;
    let id = message_id(id)?;
    let answer = app.punctual.admin().delete(id).await?;
    acted(app, caller, id, answer, change("message.delete", id, reason)).await
}
