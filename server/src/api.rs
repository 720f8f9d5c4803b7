//! The REST API, one file per subject, and its description generated from the same code.

mod audit;
mod batches;
mod calendar;
mod clock_change;
mod dead_letters;
mod events;
mod everywhere;
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
use axum::routing::get;
use utoipa::openapi::Server;
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

pub(crate) use dead_letters::{DeadGroups, grouped as dead_groups};
pub(crate) use events::{check_kinds, means};
pub(crate) use executions::milliseconds;
pub(crate) use messages::BATCH_BYTES_MAX;
pub(crate) use queues::Measured;
pub(crate) use topics::Topics as TopicsSeen;
pub(crate) use views::KIND as VIEW_KIND;

use crate::app::App;
use crate::statuses;

/// Where the description is.
const DESCRIPTION: &str = "/api/openapi.json";

/// What the description says of the whole.
#[derive(OpenApi)]
#[openapi(info(
    title = "Punctual",
    description = "Messages now, messages later, and work on a schedule."
))]
struct Description;

/// Finds anew what lists show, where that is costly and was asked for lately.
pub(crate) async fn renew(app: &App) -> punctual::Result<()> {
    dead_letters::renew(app).await?;
    topics::renew(app).await?;
    statuses::renew(app).await?;
    queues::renew(app).await
}

/// Every endpoint under `/api`.
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
    router.route(
        DESCRIPTION,
        get(async move |State(app): State<App>, OriginalUri(uri): OriginalUri| {
            let mut description = (*description).clone();
            everywhere::Everywhere { closed: app.auth().is_closed() }.modify(&mut description);
            // Wherever this router is mounted, its paths begin there.
            let prefix = uri.path().strip_suffix(DESCRIPTION).unwrap_or_default();
            let prefix = if prefix.is_empty() { "/" } else { prefix };
            description.servers = Some(vec![Server::new(prefix)]);
            Json(description)
        }),
    )
}
