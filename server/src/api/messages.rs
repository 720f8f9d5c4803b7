//! Messages: list, search, inspect, publish, and change one or many.

mod actions;
mod body;
mod bulk;
mod bulk_commands;
mod filter;
mod payload_filter;
mod publish;
mod publish_request;
mod queries;
mod related;
mod search;
pub(crate) mod view;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use bulk_commands::{BulkCommand, BulkResult, bulk_limit, run_bulk};
pub(crate) use filter::{MessageQuery, MessageSelection, checked, comma_separated, instant};
pub(crate) use publish::duration;
pub(crate) use queries::{MessageList, list_page};
pub(crate) use related::execution_of;
pub(crate) use search::{ID_TIME_TOLERANCE, PAGE_TIMEOUT, SCANNED_MAX, search};

use crate::app::App;

/// Largest size of the body of `POST /messages/batch`.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 20;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    let batch = OpenApiRouter::new()
        .routes(routes!(publish::publish_many))
        .layer(DefaultBodyLimit::max(BATCH_BYTES_MAX));
    OpenApiRouter::new()
        .routes(routes!(queries::list, publish::publish))
        .routes(routes!(queries::count))
        .routes(routes!(bulk::bulk))
        .routes(routes!(queries::get, actions::delete))
        .routes(routes!(actions::cancel))
        .routes(routes!(actions::redrive))
        .routes(routes!(actions::reschedule))
        .routes(routes!(actions::reassign))
        .routes(routes!(actions::delete_by_post))
        .routes(routes!(publish::clone))
        .merge(batch)
}
