//! REST API: one file per subject; the OpenAPI document is generated from the same code.

mod audit;
mod batches;
mod calendar;
mod clock_change;
mod common_responses;
mod dead_letters;
mod events;
mod executions;
mod health;
mod jobs;
mod messages;
#[cfg(feature = "oidc")]
mod oidc;
mod overview;
mod queues;
mod schedule;
mod series;
mod session;
mod settings;
mod storage;
mod tokens;
mod topics;
mod users;
mod views;
mod webhooks;
mod work;
mod workers;

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::routing::{MethodRouter, get};
use utoipa::openapi::Server;
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

pub(crate) use dead_letters::{DeadGroups, grouped as dead_groups};
pub(crate) use events::{check_kinds, pattern_matches};
pub(crate) use executions::milliseconds;
pub(crate) use messages::BATCH_BYTES_MAX;
pub(crate) use queues::QueueMeasurements;
pub(crate) use topics::RecentTopics;
pub(crate) use views::KIND as VIEW_KIND;

use self::common_responses::CommonResponses;
use crate::app::App;
use crate::statuses;

/// Path of the OpenAPI document.
const DOCUMENT: &str = "/api/openapi.json";
/// The conventional path of the OpenAPI document; `/api/docs` and older clients use the other one.
const ROOT_DOCUMENT: &str = "/openapi.json";

/// General part of the OpenAPI document.
#[derive(OpenApi)]
#[openapi(info(
    title = "Punctual",
    description = "Message queue, delayed messages and job scheduler."
))]
struct Description;

/// Refreshes the caches of lists that are costly to compute and were requested recently.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    dead_letters::renew(app).await?;
    topics::renew(app).await?;
    statuses::renew(app).await?;
    queues::renew(app).await
}

/// Returns every endpoint under `/api`, and the OpenAPI document.
pub(crate) fn routes() -> Router<App> {
    let v1 = OpenApiRouter::new()
        .merge(jobs::routes())
        .merge(messages::routes())
        .merge(executions::routes())
        .merge(dead_letters::routes())
        .merge(batches::routes())
        .merge(queues::routes())
        .merge(topics::routes())
        .merge(storage::routes())
        .merge(schedule::routes())
        .merge(calendar::routes())
        .merge(session::routes())
        .merge(users::routes())
        .merge(tokens::routes())
        .merge(audit::routes())
        .merge(work::routes())
        .merge(workers::routes())
        .merge(webhooks::routes())
        .merge(events::routes())
        .merge(overview::routes())
        .merge(health::routes())
        .merge(series::routes())
        .merge(settings::routes())
        .merge(views::routes());
    #[cfg(feature = "oidc")]
    let v1 = v1.merge(oidc::routes());
    let (router, description) =
        OpenApiRouter::with_openapi(Description::openapi()).nest("/api/v1", v1).split_for_parts();
    let description = Arc::new(description);
    let document: MethodRouter<App> =
        get(async move |State(app): State<App>, OriginalUri(uri): OriginalUri| {
            let mut description = (*description).clone();
            CommonResponses { closed: app.auth().is_closed() }.modify(&mut description);
            // The paths of the document are relative to where this router is mounted.
            let path = uri.path();
            let prefix = path.strip_suffix(DOCUMENT).or_else(|| path.strip_suffix(ROOT_DOCUMENT));
            let prefix = prefix.filter(|prefix| !prefix.is_empty()).unwrap_or("/");
            description.servers = Some(vec![Server::new(prefix)]);
            Json(description)
        });
    router.route(DOCUMENT, document.clone()).route(ROOT_DOCUMENT, document)
}
