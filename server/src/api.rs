//! The REST API, one file per subject, and its description generated from the same code.

mod audit;
mod batches;
mod calendar;
mod clock_change;
mod dead_letters;
mod events;
mod executions;
mod jobs;
mod messages;
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

use axum::Json;
use axum::Router;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

pub(crate) use dead_letters::DeadGroups;
pub(crate) use events::{check_kinds, means};
pub(crate) use executions::milliseconds;
pub(crate) use queues::Measured;
pub(crate) use topics::Topics as TopicsSeen;

use crate::app::App;
use crate::statuses;

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
        .merge(series::routes())
        .merge(settings::routes())
        .merge(views::routes());
    let (router, description) =
        OpenApiRouter::with_openapi(Description::openapi()).nest("/api/v1", v1).split_for_parts();
    router.route("/api/openapi.json", get(|| async move { Json(description) }))
}
