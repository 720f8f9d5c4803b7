//! Sending: one message, many, or one that was sent before.

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

use super::acting::{message_id, unknown};
use super::draft::PublishRequest;
use crate::app::App;
use crate::audit::Change;
use crate::auth::Scope;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};

/// The most messages of one request.
const ITEMS_MAX: usize = 1_000;

/// Messages that are sent together.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishManyRequest {
    /// The messages, at most 1000.
    items: Vec<PublishRequest>,
}

/// What became of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PublishedView {
    /// The id of the message; for a duplicate that of the living message with the same `dedupe`.
    id: String,
    /// The same id when this message was not stored because it is a duplicate; else null.
    duplicate_of: Option<String>,
}

/// What became of messages that were sent together.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PublishedManyView {
    /// In the order they were given.
    items: Vec<PublishedView>,
}

impl From<PublishResult> for PublishedView {
    fn from(published: PublishResult) -> Self {
        let duplicate_of = published.duplicate_of.map(|id| id.to_string());
        Self { id: living(published).to_string(), duplicate_of }
    }
}

/// Returns the message there is: the one that was sent, or the one that it is a duplicate of.
fn living(published: PublishResult) -> MessageId {
    published.duplicate_of.unwrap_or(published.id)
}

/// Returns 201 when a message was stored, and 200 when all were duplicates.
fn status(published: &[PublishResult]) -> StatusCode {
    let is_new = published.iter().any(|one| one.duplicate_of.is_none());
    if is_new { StatusCode::CREATED } else { StatusCode::OK }
}

/// Reads a length such as `5m`.
pub(super) fn length(field: &str, text: &str) -> Answer<Duration> {
    parse_duration(text).map_err(|error| {
        Problem::refused(format!("`{field}`: {error}")).field(field, error.to_string())
    })
}

/// Sends a message. While a message with the same `dedupe` lives it is a duplicate: nothing is stored, and the
/// answer is 200 with the id of the living one.
#[utoipa::path(post, path = "/messages", tag = "messages", request_body = PublishRequest,
    responses((status = 201, body = PublishedView),
        (status = 200, description = "A duplicate: the message with this id lives.", body = PublishedView),
        (status = 422, body = Problem)))]
pub(crate) async fn publish(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<PublishRequest>,
) -> Answer<(StatusCode, Json<PublishedView>)> {
    caller.must_have(Scope::Publish)?;
    let topic = request.topic()?.to_owned();
    let published = match keyed.made(&app, 1).await?.first() {
        Some(Some(made)) => *made,
        _ => send_one(&app, &keyed, &request).await?,
    };
    app.audit().sent(&caller, living(published), &topic).await;
    Ok((status(&[published]), Json(published.into())))
}

/// Sends many messages; those the storage carries in one step, all or nothing. The answer is 200 when all of
/// them are duplicates.
#[utoipa::path(post, path = "/messages/batch", tag = "messages", request_body = PublishManyRequest,
    responses((status = 201, body = PublishedManyView),
        (status = 200, description = "All are duplicates.", body = PublishedManyView),
        (status = 422, body = Problem)))]
pub(crate) async fn publish_many(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<PublishManyRequest>,
) -> Answer<(StatusCode, Json<PublishedManyView>)> {
    caller.must_have(Scope::Publish)?;
    let count = request.items.len();
    if count == 0 || count > ITEMS_MAX {
        return Err(Problem::refused(format!("{count} messages; send 1 to {ITEMS_MAX} at once"))
            .field("items", format!("must have 1 to {ITEMS_MAX}")));
    }
    let published = send_all(&app, &keyed, &request.items).await?;
    // The audit trail comes between this and the answer.
    keyed.confirm(&published).await;
    let change = Change::new("messages.publish", format!("{count} messages"));
    app.audit().note(&caller, change).await?;
    let items = published.iter().copied().map(PublishedView::from).collect();
    Ok((status(&published), Json(PublishedManyView { items })))
}

/// Sends a message like another one, with what is given here instead of what that one had. Its `dedupe` is
/// not taken over, nor what tied it to others.
#[utoipa::path(post, path = "/messages/{id}/clone", tag = "messages", params(("id" = String, Path)),
    request_body = PublishRequest,
    responses((status = 201, body = PublishedView),
        (status = 200, description = "A duplicate: the message with this id lives.", body = PublishedView),
        (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn clone(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(edits): Body<PublishRequest>,
) -> Answer<(StatusCode, Json<PublishedView>)> {
    caller.must_have(Scope::Publish)?;
    let id = message_id(&id)?;
    let published = match keyed.made(&app, 1).await?.first() {
        Some(Some(made)) => *made,
        _ => send_copy(&app, (&caller, &keyed), id, edits).await?,
    };
    keyed.confirm(&[published]).await;
    let change = Change::new("message.clone", living(published)).from(&id.to_string());
    app.audit().note(&caller, change).await?;
    Ok((status(&[published]), Json(published.into())))
}

/// Sends a message under the identity of its key.
async fn send_one(app: &App, keyed: &Keyed, request: &PublishRequest) -> Answer<PublishResult> {
    let published = keyed.identified(careful(keyed, request).publish(app)?, 0).await?;
    if request.replace && keyed.replaces(app, &published).await? {
        return Ok(keyed.identified(request.publish(app)?, 0).await?);
    }
    Ok(published)
}

/// Sends those messages that no earlier run of the request has made.
async fn send_all(
    app: &App,
    keyed: &Keyed,
    requests: &[PublishRequest],
) -> Answer<Vec<PublishResult>> {
    let made = keyed.made(app, requests.len()).await?;
    let draft = |index: usize, request: &PublishRequest| {
        let draft = request.publish(app);
        let draft = draft.map_err(|problem| problem.within(&format!("items[{index}]")))?;
        Answer::Ok(keyed.identified(draft, index))
    };
    let left = || requests.iter().enumerate().filter(|(index, _)| made[*index].is_none());
    let drafts = left().map(|(index, request)| draft(index, &careful(keyed, request)));
    let publisher = app.punctual.publisher();
    let mut new = publisher.publish_all(drafts.collect::<Answer<_>>()?).await?;
    for ((index, request), published) in left().zip(&mut new) {
        if request.replace && keyed.replaces(app, published).await? {
            *published = draft(index, request)?.await?;
        }
    }
    let mut new = new.into_iter();
    Ok(made.into_iter().filter_map(|made| made.or_else(|| new.next())).collect())
}

/// Returns what a run sends at first: a repeat replaces nothing before it has seen what it would replace.
fn careful<'a>(keyed: &Keyed, request: &'a PublishRequest) -> Cow<'a, PublishRequest> {
    if keyed.is_repeat() && request.replace {
        return Cow::Owned(PublishRequest { replace: false, ..request.clone() });
    }
    Cow::Borrowed(request)
}

/// Sends a message like another one, under the identity of its key.
async fn send_copy(
    app: &App,
    (caller, keyed): (&Caller, &Keyed),
    id: MessageId,
    edits: PublishRequest,
) -> Answer<PublishResult> {
    let first = copied(app, caller, id, careful(keyed, &edits).into_owned()).await?;
    let published = keyed.identified(first, 0).await?;
    if edits.replace && keyed.replaces(app, &published).await? {
        let again = copied(app, caller, id, edits).await?;
        return Ok(keyed.identified(again, 0).await?);
    }
    Ok(published)
}

/// Returns a message like another one, ready to be sent.
async fn copied(
    app: &App,
    caller: &Caller,
    id: MessageId,
    edits: PublishRequest,
) -> Answer<Publish> {
    let record = app.punctual.admin().message(id).await?.ok_or_else(|| unknown(id))?;
    let takes_content = !edits.has_content();
    let (request, content) = like(&record, edits)?;
    let message = &record.message;
    let hides = |topic: &str| app.redaction().hides_topic(topic);
    if takes_content && hides(message.topic.as_str()) && !hides(request.topic()?) {
        // Under another topic everybody would see it.
        caller.must_be(Role::Admin)?;
    }
    let story = message.correlation.id.as_ref().map_or_else(|| id.to_string(), ToString::to_string);
    let mut publish = request.publish_with(app, content)?.correlation(story);
    if let (None, None, Some(handler_options)) =
        (&request.retry, &request.timeout, &message.handler_options)
    {
        publish = publish.handler_options((**handler_options).clone());
    }
    Ok(publish)
}

/// A request for what a message was, changed by what is given, and its content.
fn like(record: &MessageRecord, edits: PublishRequest) -> Answer<(PublishRequest, Content)> {
    let message = &record.message;
    let content = edits.content()?.unwrap_or_else(|| message.body.clone());
    let mut content_type = edits.content_type.clone();
    if edits.has_content() {
        content_type = None;
    } else if let Some(other) = content_type.take() {
        return Err(Problem::refused(format!("the type {other:?} needs a content of its own"))
            .field("content_type", "give json, text or base64 with it"));
    }
    let line = message.queue.as_str();
    let group = line.strip_prefix("~group/").and_then(|line| line.rsplit_once('/'));
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
        queue: edits.queue.or_else(|| (!line.starts_with('~')).then(|| line.to_owned())),
        priority: edits.priority.or_else(|| Some(message.priority.level())),
        transport: edits.transport.or_else(|| line.strip_prefix("~relay/").map(ToOwned::to_owned)),
        group: edits.group.or_else(|| group.map(|(_, group)| group.to_owned())),
        ..edits
    };
    Ok((request, content))
}

/// A field that was given, also as null.
pub(super) fn given<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
