//! Message queries: list, count, and details of one message.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use punctual::client::MatchCount;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Execution, HandlerOptions, MessageId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::actions::{message_id, unknown};
use super::body::BodyView;
use super::filter::MessageQuery;
use super::related::{RelatedView, related};
use super::search::{SCANNED_MAX, search};
use super::view::MessageView;
use crate::api::executions::ExecutionView;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::live;
use crate::page::PageQuery;
use crate::problem::{ApiResult, Problem};
use crate::why::Why;
use crate::why_facts;

/// Largest number of attempts shown with a message.
const EXECUTIONS_MAX: usize = 100;

/// A page of messages.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageList {
    /// The messages, newest first.
    pub(crate) items: Vec<MessageView>,
    /// Cursor of the next page, passed as `after`; null on the last page.
    pub(crate) next: Option<String>,
    /// Whether the search stopped before the page was full; continue it with `next`.
    pub(crate) more: bool,
}

/// Number of matching messages.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct CountView {
    /// Number of messages; a lower bound when `more` is true.
    count: u64,
    /// Whether the count stopped at its limit.
    more: bool,
    /// Whether large counts are estimates.
    estimate: bool,
}

/// A message with its body, attempts, diagnosis and relations.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct MessageDetails {
    /// The message.
    #[serde(flatten)]
    message: MessageView,
    /// Headers of the message.
    headers: BTreeMap<String, String>,
    /// Body of the message.
    body: BodyView,
    /// Checkpoint from which its handler continues.
    checkpoint: Option<BodyView>,
    /// Handler options of the message; null when those of its handler apply.
    #[schema(value_type = Option<Object>)]
    handler_options: Option<Value>,
    /// Attempts, newest first, at most 100.
    executions: Vec<ExecutionView>,
    /// Explanation of its current state.
    why: Why,
    /// Related messages.
    related: RelatedView,
}

/// Lists messages, newest first. Filters that the storage cannot check itself are applied to at most 10000 messages per
/// request.
#[utoipa::path(get, path = "/messages", tag = "messages", params(MessageQuery),
    responses((status = 200, body = MessageList), (status = 422, body = Problem)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<MessageQuery>,
) -> ApiResult<Json<MessageList>> {
    caller.must_be(Role::Viewer)?;
    list_page(&app, query, |_| true).await.map(Json)
}

/// Returns a page of the messages that match the query and `matches`.
pub(crate) async fn list_page(
    app: &App,
    query: MessageQuery,
    matches: impl Fn(&punctual::model::MessageRecord) -> bool,
) -> ApiResult<MessageList> {
    let page = PageQuery { limit: query.limit, after: query.after.clone() };
    let page = page.page()?;
    let found =
        search(app, &query.selection()?.for_page(), page.after, page.limit, matches).await?;
    let now = app.clock.now();
    Ok(MessageList {
        more: found.next.is_some() && found.rows.len() < page.limit,
        next: found.next.map(|id| id.to_string()),
        items: found.rows.iter().map(|record| MessageView::of(app, record, now)).collect(),
    })
}

/// Counts messages.
#[utoipa::path(get, path = "/messages/count", tag = "messages", params(MessageQuery),
    responses((status = 200, body = CountView), (status = 422, body = Problem)))]
pub(crate) async fn count(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<MessageQuery>,
) -> ApiResult<Json<CountView>> {
    caller.must_be(Role::Viewer)?;
    // A count has no pages; invalid page parameters are still reported.
    PageQuery { limit: query.limit, after: query.after.clone() }.page::<MessageId>()?;
    let selection = query.selection()?;
    let counts = live::counts_now(&app).await?;
    if let Some(count) = selection.count_from(&counts) {
        return Ok(Json(CountView { count, more: false, estimate: counts.is_estimate }));
    }
    let estimate = false;
    if selection.is_by_storage() {
        let MatchCount { count, more } = app.admin().count(&selection.filter).await?;
        return Ok(Json(CountView { count, more, estimate }));
    }
    let found = search(&app, &selection, None, SCANNED_MAX, |_| true).await?;
    let (count, more) = (found.rows.len() as u64, found.next.is_some());
    Ok(Json(CountView { count, more, estimate }))
}

/// Returns a message with its body, attempts, diagnosis and relations.
#[utoipa::path(get, path = "/messages/{id}", tag = "messages", params(("id" = String, Path)),
    responses((status = 200, body = MessageDetails), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<MessageDetails>> {
    caller.must_be(Role::Viewer)?;
    let id = message_id(&id)?;
    let record = app.admin().message(id).await?.ok_or_else(|| unknown(id))?;
    let filter = ExecutionFilter { message: Some(id), ..ExecutionFilter::default() };
    let attempts = app.inspect.executions(filter, PageRequest::first(EXECUTIONS_MAX)).await?.rows;
    let why = why_facts::why(&app, &record, attempts.first()).await?;
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

/// Returns handler options in their stored form.
fn handler_options(handler_options: &HandlerOptions) -> Value {
    serde_json::to_value(handler_options).unwrap_or(Value::Null)
}
