//! Webhooks: list, create, change, delete, test, and their deliveries.

mod view;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::clock::add;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Execution, MessageId, Topic};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::view::{WebhookEdit, WebhookRequest, WebhookTestResult, WebhookView, WebhookWithSecret};
use super::executions::{ExecutionView, milliseconds, search};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path, Query};
use crate::idempotency::Keyed;
use crate::page::{Listing, PageQuery};
use crate::problem::{ApiResult, Problem};
use crate::webhooks::{self, WEBHOOK_TOPIC, WEBHOOKS_MAX, Webhook};

/// How long a test waits for its delivery.
const TEST_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a test checks for its delivery.
const TEST_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(get, edit, delete))
        .routes(routes!(test))
        .routes(routes!(deliveries))
}

async fn find(app: &App, id: &str) -> ApiResult<Webhook> {
    let webhook = webhooks::get(&*app.documents, id, app.clock.now()).await?;
    webhook.ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Problem {
    Problem::not_found(format!("there is no webhook {id:?}; see /api/v1/webhooks"))
}

/// Lists webhooks, oldest first.
#[utoipa::path(get, path = "/webhooks", tag = "webhooks",
    responses((status = 200, body = Listing<WebhookView>)))]
async fn list(State(app): State<App>, caller: Caller) -> ApiResult<Json<Listing<WebhookView>>> {
    caller.must_be(Role::Viewer)?;
    let all = webhooks::all(&app).await?;
    Ok(Json(Listing::whole(all.into_iter().map(WebhookView::from).collect())))
}

/// Creates a webhook. Only this response contains its secret.
#[utoipa::path(post, path = "/webhooks", tag = "webhooks", request_body = WebhookRequest,
    responses((status = 201, body = WebhookWithSecret), (status = 422, body = Problem)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Body(request): Body<WebhookRequest>,
) -> ApiResult<(StatusCode, Json<WebhookWithSecret>)> {
    caller.must_be(Role::Admin)?;
    let mut webhook = request.webhook(&app).await?;
    if let Some(id) = keyed.id(0) {
        // A repeated request creates the same webhook again, with a secret that its response returns.
        webhook.id = id.to_string();
    }
    let others = webhooks::all(&app).await?.into_iter().filter(|other| other.id != webhook.id);
    if others.count() >= WEBHOOKS_MAX {
        return Err(Problem::refused(format!(
            "there are {WEBHOOKS_MAX} webhooks, which is the limit; delete one first"
        )));
    }
    webhooks::create(&app, &webhook).await?;
    let secret = webhook.secret.clone();
    let view = WebhookView::from(webhook);
    let change = Change::new("webhook.create", &view.id).to(&view);
    app.audit().note(&caller, change).await?;
    Ok((StatusCode::CREATED, Json(WebhookWithSecret { webhook: view, secret })))
}

/// Returns a webhook.
#[utoipa::path(get, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 200, body = WebhookView), (status = 404, body = Problem)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<WebhookView>> {
    caller.must_be(Role::Viewer)?;
    Ok(Json(find(&app, &id).await?.into()))
}

/// Changes a webhook. Enabling it resets its failure count.
#[utoipa::path(patch, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)),
    request_body = WebhookEdit,
    responses((status = 200, body = WebhookView), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn edit(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(id): Path<String>,
    Body(request): Body<WebhookEdit>,
) -> ApiResult<Json<WebhookView>> {
    caller.must_be(Role::Admin)?;
    request.check(&app).await?;
    keyed.refuse_if_overtaken(&app, &caller, &Change::new("webhook.edit", &id)).await?;
    let now = app.clock.now();
    let changed =
        webhooks::change(&*app.documents, &id, now, |webhook| request.apply(webhook)).await?;
    let (before, after) = changed.ok_or_else(|| unknown(&id))?;
    webhooks::changed(&app);
    let (before, after) = (WebhookView::from(before), WebhookView::from(after));
    let change = Change::new("webhook.edit", &id).from(&before).to(&after);
    app.audit().note(&caller, change).await?;
    Ok(Json(after))
}

/// Deletes a webhook; its pending deliveries are cancelled when they are due.
#[utoipa::path(delete, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 204), (status = 404, body = Problem)))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    caller.must_be(Role::Admin)?;
    let before = WebhookView::from(find(&app, &id).await?);
    if !webhooks::remove(&app, &id).await? {
        return Err(unknown(&id));
    }
    app.audit().note(&caller, Change::new("webhook.delete", &id).from(&before)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a test delivery, also when the webhook is disabled, and waits up to 15 seconds for its result. The response is
/// 200 when it has ended, also when it failed, with the reason in `note`; 202 when it has not ended.
#[utoipa::path(post, path = "/webhooks/{id}/test", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 200, body = WebhookTestResult), (status = 202, body = WebhookTestResult),
        (status = 404, body = Problem)))]
async fn test(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<(StatusCode, Json<WebhookTestResult>)> {
    caller.must_be(Role::Admin)?;
    let message = webhooks::test(&app, &find(&app, &id).await?).await?;
    app.audit().note(&caller, Change::new("webhook.test", &id)).await?;
    let ended = first_attempt(&app, message).await?;
    let status = if ended.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let ended = ended.as_ref();
    let tested = WebhookTestResult {
        message: message.to_string(),
        ending: ended.map(|ended| ended.ending.as_str()),
        note: ended.and_then(|ended| ended.note.as_ref().map(ToString::to_string)),
        took_ms: ended.map(|ended| milliseconds(ended.took())),
    };
    Ok((status, Json(tested)))
}

/// Waits for the first attempt of a message on any node; `None` when it has not ended in time.
async fn first_attempt(app: &App, message: MessageId) -> ApiResult<Option<Execution>> {
    let until = add(app.clock.now(), TEST_TIMEOUT);
    let filter = ExecutionFilter { message: Some(message), ..ExecutionFilter::default() };
    loop {
        let found = app.inspect.executions(filter.clone(), PageRequest::first(1)).await?;
        if let Some(execution) = found.rows.into_iter().next() {
            return Ok(Some(execution));
        }
        let next = add(app.clock.now(), TEST_POLL_INTERVAL);
        if next > until || app.punctual.is_stopping() {
            return Ok(None);
        }
        app.rest_until(next).await;
    }
}

/// Lists the delivery attempts of a webhook, newest first.
#[utoipa::path(get, path = "/webhooks/{id}/deliveries", tag = "webhooks", params(("id" = String, Path), PageQuery),
    responses((status = 200, body = Listing<ExecutionView>), (status = 404, body = Problem)))]
async fn deliveries(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<Listing<ExecutionView>>> {
    caller.must_be(Role::Viewer)?;
    find(&app, &id).await?;
    let filter =
        ExecutionFilter { topic: Some(Topic::system(WEBHOOK_TOPIC)), ..ExecutionFilter::default() };
    let of_webhook =
        |execution: &Execution| execution.key.as_ref().is_some_and(|key| key.as_str() == id);
    let paged = search(&app, &filter, page.page()?, of_webhook).await?;
    Ok(Json(Listing::of(paged, |execution| ExecutionView::new(&execution))))
}
