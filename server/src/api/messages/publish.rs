//! Publishing: one message, many messages, or a clone of a message.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::client::{Publish, PublishResult};
use punctual::model::{Body as Content, MessageId, MessageRecord};
use punctual::schedule::parse_duration;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::actions::{message_id, unknown};
use super::publish_request::PublishRequest;
use crate::app::App;
use crate::audit::Change;
use crate::auth::Scope;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};

/// Largest number of messages in one request.
const ITEMS_MAX: usize = 1_000;

/// Messages to publish together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishManyRequest {
    /// Messages, 1 to 1000.
    items: Vec<PublishRequest>,
}

/// A published message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PublishedView {
    /// Id of the message; for a duplicate, the id of the unfinished message with the same `dedupe` key.
    id: String,
    /// The same id when the message is a duplicate and was not stored; otherwise null.
    duplicate_of: Option<String>,
}

/// Published messages.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PublishedManyView {
    /// Results in the order of the request.
    items: Vec<PublishedView>,
}

impl From<PublishResult> for PublishedView {
    fn from(published: PublishResult) -> Self {
        let duplicate_of = published.duplicate_of.map(|id| id.to_string());
        Self { id: effective_id(published).to_string(), duplicate_of }
    }
}

/// Returns the id of the new message, or of the message that it duplicates.
fn effective_id(published: PublishResult) -> MessageId {
    published.duplicate_of.unwrap_or(published.id)
}

/// Returns 201 when a message was stored, and 200 when all were duplicates.
fn status(published: &[PublishResult]) -> StatusCode {
    let is_new = published.iter().any(|one| one.duplicate_of.is_none());
    if is_new { StatusCode::CREATED } else { StatusCode::OK }
}

/// Parses a duration such as `5m`.
pub(crate) fn duration(field: &str, text: &str) -> ApiResult<Duration> {
    parse_duration(text).map_err(|error| {
        Problem::refused(format!("`{field}`: {error}")).field(field, error.to_string())
    })
}

/// Publishes a message. While another message with the same `dedupe` key is unfinished, nothing is stored, and the
/// response is 200 with the id of that message.
#[utoipa::path(post, path = "/messages", tag = "messages", request_body = PublishRequest,
    responses((status = 201, body = PublishedView),
        (status = 200, description = "OK: the message is a duplicate of the unfinished message with this id.",
            body = PublishedView),
        (status = 422, body = Problem)))]
pub(crate) async fn publish(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<PublishRequest>,
) -> ApiResult<(StatusCode, Json<PublishedView>)> {
    caller.must_have(Scope::Publish)?;
    let topic = request.topic()?.to_owned();
    let published = match keyed.made(&app, 1).await?.first() {
        Some(Some(known)) => *known,
        _ => send_one(&app, &keyed, &request).await?,
    };
    app.audit().sent(&caller, effective_id(published), &topic).await;
    Ok((status(&[published]), Json(published.into())))
}

/// Publishes up to 1000 messages. Messages in the storage are stored in one transaction. The response is 200 when all
/// are duplicates.
#[utoipa::path(post, path = "/messages/batch", tag = "messages", request_body = PublishManyRequest,
    responses((status = 201, body = PublishedManyView),
        (status = 200, description = "OK: all messages are duplicates.", body = PublishedManyView),
        (status = 422, body = Problem)))]
pub(crate) async fn publish_many(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<PublishManyRequest>,
) -> ApiResult<(StatusCode, Json<PublishedManyView>)> {
    caller.must_have(Scope::Publish)?;
    let count = request.items.len();
    if count == 0 || count > ITEMS_MAX {
        return Err(Problem::refused(format!(
            "{count} messages are not between 1 and {ITEMS_MAX}"
        ))
        .field("items", format!("must have 1 to {ITEMS_MAX}")));
    }
    let published = send_all(&app, &keyed, &request.items).await?;
    // Confirmed first, because writing the audit trail may fail before the response.
    keyed.confirm(&published).await;
    let change = Change::new("messages.publish", format!("{count} messages"));
    app.audit().note(&caller, change).await?;
    let items = published.iter().copied().map(PublishedView::from).collect();
    Ok((status(&published), Json(PublishedManyView { items })))
}

/// Publishes a copy of a message, with the fields of the request replaced. The `dedupe` key and the relations to other
/// messages are not copied.
#[utoipa::path(post, path = "/messages/{id}/clone", tag = "messages", params(("id" = String, Path)),
    request_body = PublishRequest,
    responses((status = 201, body = PublishedView),
        (status = 200, description = "OK: the message is a duplicate of the unfinished message with this id.",
            body = PublishedView),
        (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn clone(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(edits): Body<PublishRequest>,
) -> ApiResult<(StatusCode, Json<PublishedView>)> {
    caller.must_have(Scope::Publish)?;
    let id = message_id(&id)?;
    let published = match keyed.made(&app, 1).await?.first() {
        Some(Some(known)) => *known,
        _ => send_copy(&app, (&caller, &keyed), id, edits).await?,
    };
    keyed.confirm(&[published]).await;
    let change = Change::new("message.clone", effective_id(published)).from(&id.to_string());
    app.audit().note(&caller, change).await?;
    Ok((status(&[published]), Json(published.into())))
}

/// Publishes a message with the id derived from the idempotency key.
async fn send_one(app: &App, keyed: &Keyed, request: &PublishRequest) -> ApiResult<PublishResult> {
    let published = keyed.identified(without_replace(keyed, request).publish(app)?, 0).await?;
    if request.replace && keyed.replaces(app, &published).await? {
        return Ok(keyed.identified(request.publish(app)?, 0).await?);
    }
    Ok(published)
}

/// Publishes the messages that no earlier run of the request has stored.
async fn send_all(
    app: &App,
    keyed: &Keyed,
    requests: &[PublishRequest],
) -> ApiResult<Vec<PublishResult>> {
    let stored = keyed.made(app, requests.len()).await?;
    let draft = |index: usize, request: &PublishRequest| {
        let draft = request.publish(app);
        let draft = draft.map_err(|problem| problem.within(&format!("items[{index}]")))?;
        ApiResult::Ok(keyed.identified(draft, index))
    };
    let missing = || requests.iter().enumerate().filter(|(index, _)| stored[*index].is_none());
    let drafts = missing().map(|(index, request)| draft(index, &without_replace(keyed, request)));
    let publisher = app.punctual.publisher();
    let mut new = publisher.publish_all(drafts.collect::<ApiResult<_>>()?).await?;
    for ((index, request), published) in missing().zip(&mut new) {
        if request.replace && keyed.replaces(app, published).await? {
            *published = draft(index, request)?.await?;
        }
    }
    let mut new = new.into_iter();
    Ok(stored.into_iter().filter_map(|known| known.or_else(|| new.next())).collect())
}

/// Returns the request without `replace` for a repeat, which must check first what it would replace.
fn without_replace<'a>(keyed: &Keyed, request: &'a PublishRequest) -> Cow<'a, PublishRequest> {
    if keyed.is_repeat() && request.replace {
        return Cow::Owned(PublishRequest { replace: false, ..request.clone() });
    }
    Cow::Borrowed(request)
}

/// Publishes a copy of a message with the id derived from the idempotency key.
async fn send_copy(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    id: MessageId,
    edits: PublishRequest,
) -> ApiResult<PublishResult> {
    let first = copy_of(app, caller, id, without_replace(keyed, &edits).into_owned()).await?;
    let published = keyed.identified(first, 0).await?;
    if edits.replace && keyed.replaces(app, &published).await? {
        let again = copy_of(app, caller, id, edits).await?;
        return Ok(keyed.identified(again, 0).await?);
    }
    Ok(published)
}

/// Returns a copy of a message, ready to publish.
async fn copy_of(
    app: &App,
    caller: &Caller,
    id: MessageId,
    edits: PublishRequest,
) -> ApiResult<Publish> {
    let record = app.admin().message(id).await?.ok_or_else(|| unknown(id))?;
    let copies_body = !edits.has_body();
    let (request, content) = merged(&record, edits)?;
    let message = &record.message;
    let hides = |topic: &str| app.redaction().hides_topic(topic);
    if copies_body && hides(message.topic.as_str()) && !hides(request.topic()?) {
        // Under another topic the body would not be redacted.
        caller.must_be(Role::Admin)?;
    }
    let correlation =
        message.correlation.id.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
    let mut publish = request.publish_with(app, content)?.correlation(correlation);
    if let (None, None, Some(handler_options)) =
        (&request.retry, &request.timeout, &message.handler_options)
    {
        publish = publish.handler_options((**handler_options).clone());
    }
    Ok(publish)
}

/// Returns the request that describes a message, with the given fields replaced, and its body.
fn merged(record: &MessageRecord, edits: PublishRequest) -> ApiResult<(PublishRequest, Content)> {
    let message = &record.message;
    let content = edits.content()?.unwrap_or_else(|| message.body.clone());
    let mut content_type = edits.content_type.clone();
    if edits.has_body() {
        content_type = None;
    } else if let Some(other) = content_type.take() {
        return Err(Problem::refused(format!("the content type {other:?} needs a body"))
            .field("content_type", "give json, text or base64 as well"));
    }
    let queue = message.queue.as_str();
    let group = queue.strip_prefix("~group/").and_then(|rest| rest.rsplit_once('/'));
    let headers = message.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers: BTreeMap<String, String> = headers.collect();
    let request = PublishRequest {
        topic: edits.topic.or_else(|| Some(message.topic.to_string())),
        body: None,
        json: None,
        text: None,
        base64: None,
        content_type,
        headers: edits.headers.or(Some(headers)),
        key: edits.key.or_else(|| message.key.as_ref().map(ToString::to_string)),
        queue: edits.queue.or_else(|| (!queue.starts_with('~')).then(|| queue.to_owned())),
        priority: edits.priority.or_else(|| Some(message.priority.level())),
        transport: edits.transport.or_else(|| message.transport().map(ToString::to_string)),
        group: edits.group.or_else(|| group.map(|(_, group)| group.to_owned())),
        ..edits
    };
    Ok((request, content))
}

/// Deserializes a present field, so that an explicit null is a value.
pub(super) fn null_as_value<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
