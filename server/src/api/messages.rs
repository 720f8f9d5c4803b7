//! Messages: lists, one with everything known of it, sending, and acting on one or on many.

mod acting;
mod body;
mod bulk;
mod draft;
mod filter;
mod look;
mod looking;
mod part;
mod related;
mod sending;
mod sweep;
pub(crate) mod view;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use filter::{MessageQuery, Wanted, checked, instant, words};
pub(crate) use look::{LOOKED_AT_MAX, NEAR, TIMEOUT, look};
pub(crate) use looking::{MessageList, listed};
pub(crate) use related::execution_of;
pub(crate) use sweep::{Act, Swept, limit as sweep_limit, sweep};

use crate::app::App;

/// The most bytes of a batch.
pub(crate) const BATCH_BYTES_MAX: usize = 16 << 20;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    let batch = OpenApiRouter::new()
        .routes(routes!(sending::publish_many))
        .layer(DefaultBodyLimit::max(BATCH_BYTES_MAX));
    OpenApiRouter::new()
        .routes(routes!(looking::list, sending::publish))
        .routes(routes!(looking::count))
        .routes(routes!(bulk::bulk))
        .routes(routes!(looking::one, acting::delete))
        .routes(routes!(acting::cancel))
        .routes(routes!(acting::redrive))
        .routes(routes!(acting::reschedule))
        .routes(routes!(acting::reassign))
        .routes(routes!(acting::delete_by_post))
        .routes(routes!(sending::clone))
        .merge(batch)
}
