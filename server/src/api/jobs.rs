//! Jobs: the list, one of them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::page::Listing;
use crate::problem::Answer;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct JobView {
    /// Its name.
    name: String,
}

/// Every job, by name.
#[utoipa::path(get, path = "/jobs", tag = "jobs", responses((status = 200, body = Listing<JobView>)))]
async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<Listing<JobView>>> {
    caller.must_be(Role::Viewer)?;
    let status = app.punctual.admin().status().await;
    let items = status.jobs.into_iter().map(|job| JobView { name: job.name.to_string() }).collect();
    Ok(Json(Listing::whole(items)))
}
