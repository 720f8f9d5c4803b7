//! Status route: the state of every job.

use axum::Json;
use axum::extract::State;
use punctual::status::Status;

use crate::routes::RouteState;

/// Returns every job that the process declares or the storage contains; also while the storage is unavailable, and then
/// with the reason in `storage_error`.
pub(crate) async fn status(State(shared): State<RouteState>) -> Json<Status> {
    Json(shared.punctual.admin().status().await)
}
