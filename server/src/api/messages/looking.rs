//! Looking at messages: lists, counts, and one with everything known of it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use punctual::client::MatchCount;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Execution, HandlerOptions, MessageId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::acting::{message_id, unknown};
use super::body::BodyView;
use super::filter::MessageQuery;
use super::look::{LOOKED_AT_MAX, look};
use super::related::{RelatedView, related};
use super::view::MessageView;
use crate::api::executions::ExecutionView;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::live;
use crate::page::PageQuery;
use crate::problem::{Answer, Problem};
use crate::surroundings;
use crate::why::Why;

/// The most attempts that are shown with a message.
const EXECUTIONS_MAX: usize = 100;

/// Messages, and where the next page begins.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageList {
    /// The messages, newest first.
    pub(crate) items: Vec<MessageView>,
    /// Give this as `after` for the next page; null when this was the last.
    pub(crate) next: Option<String>,
    /// Whether looking stopped before the page was full; `next` goes on from there.
    pub(crate) more: bool,
}

/// How many messages match.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct CountView {
    /// How many; with `more` at least that many.
    count: u64,
    /// Whether counting stopped before the end.
    more: bool,
    /// Whether a large number is an estimate.
    estimate: bool,
}

/// A message with everything known of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageDetails {
    /// The message.
    #[serde(flatten)]
    message: MessageView,
    /// Small facts that travel along.
    headers: BTreeMap<String, String>,
    /// The content.
    body: BodyView,
    /// Where its handler wants to go on.
    checkpoint: Option<BodyView>,
    /// The terms it carries; null when its handler's apply.
    #[schema(value_type = Option<Object>)]
    handler_options: Option<Value>,
    /// Its attempts, newest first, at most 100.
    executions: Vec<ExecutionView>,
    /// Why it is where it is.
    why: Why,
    /// What it belongs to.
    related: RelatedView,
}

/// Messages that match, newest first. What a storage cannot answer by itself is looked for among at most
/// 10000 messages at once.
#[utoipa::path(get, path = "/messages", tag = "messages", params(MessageQuery),
    responses((status = 200, body = MessageList), (status = 422, body = Problem)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<MessageQuery>,
) -> Answer<Json<MessageList>> {
    caller.must_be(Role::Viewer)?;
    listed(&app, query, |_| true).await.map(Json)
}

/// A page of what is asked for, of those that are taken.
pub(crate) async fn listed(
    app: &App,
    query: MessageQuery,
    takes: impl Fn(&punctual::model::MessageRecord) -> bool,
) -> Answer<MessageList> {
    let page = PageQuery { limit: query.limit, after: query.after.clone() };
    let page = page.page()?;
    let found = look(app, &query.wanted()?.for_page(), page.after, page.limit, takes).await?;
    let now = app.clock.now();
    Ok(MessageList {
        more: found.next.is_some() && found.rows.len() < page.limit,
        next: found.next.map(|id| id.to_string()),
        items: found.rows.iter().map(|record| MessageView::of(app, record, now)).collect(),
    })
}

/// How many messages match.
#[utoipa::path(get, path = "/messages/count", tag = "messages", params(MessageQuery),
    responses((status = 200, body = CountView), (status = 422, body = Problem)))]
pub(crate) async fn count(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<MessageQuery>,
) -> Answer<Json<CountView>> {
    caller.must_be(Role::Viewer)?;
    // A count has no pages; what is wrong is said all the same.
    PageQuery { limit: query.limit, after: query.after.clone() }.page::<MessageId>()?;
    let wanted = query.wanted()?;
    let counts = live::counts_now(&app).await?;
    if let Some(count) = wanted.counted(&counts) {
        return Ok(Json(CountView { count, more: false, estimate: counts.is_estimate }));
    }
    let estimate = false;
    if wanted.is_plain() {
        let MatchCount { count, more } = app.punctual.admin().count(&wanted.filter).await?;
        return Ok(Json(CountView { count, more, estimate }));
    }
    let found = look(&app, &wanted, None, LOOKED_AT_MAX, |_| true).await?;
    let (count, more) = (found.rows.len() as u64, found.next.is_some());
    Ok(Json(CountView { count, more, estimate }))
}

/// One message: content, attempts, why it is where it is, and what it belongs to.
#[utoipa::path(get, path = "/messages/{id}", tag = "messages", params(("id" = String, Path)),
    responses((status = 200, body = MessageDetails), (status = 404, body = Problem)))]
pub(crate) async fn one(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<MessageDetails>> {
    caller.must_be(Role::Viewer)?;
    let id = message_id(&id)?;
    let record = app.punctual.admin().message(id).await?.ok_or_else(|| unknown(id))?;
    let filter = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
    let attempts = app.inspect.executions(filter, PageRequest::first(EXECUTIONS_MAX)).await?.rows;
    let why = surroundings::why(&app, &record, attempts.first()).await?;
    let message = &record.message;
    let redaction = app.redaction();
    Ok(Json(MessageDetails {
        headers: redaction.headers(&message.headers).0,
        body: BodyView::of(message.topic.as_str(), &message.body, redaction),
        checkpoint: record
            .checkpoint
            .as_ref()
            .map(|body| BodyView::of(message.topic.as_str(), body, redaction)),
        handler_options: message.handler_options.as_deref().map(handler_options),
        related: related(&app, &record, &attempts).await?,
        executions: attempts.iter().map(|one: &Execution| ExecutionView::new(one)).collect(),
        message: MessageView::of(&app, &record, app.clock.now()),
        why,
    }))
}

/// Handler options as they are stored, which people can read.
fn handler_options(handler_options: &HandlerOptions) -> Value {
    serde_json::to_value(handler_options).unwrap_or(Value::Null)
}
