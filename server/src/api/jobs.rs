//! Jobs: what runs on a schedule, how it is, what it did and will do, and how people steer it. Every
//! decision is the core's; here requests become its calls and records become views.

mod acting;
mod backfilling;
mod defining;
mod editing;
mod finding;
mod hidden;
mod ledger;
mod looking;
mod occurrences;
mod outage;
mod planned;
mod policies;
mod tag;
mod traces;
mod upcoming;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

pub(crate) use upcoming::{bounded, future_runs};

/// What this folder answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(looking::list, defining::create))
        .routes(routes!(looking::show, defining::replace, editing::edit, defining::delete))
        .routes(routes!(looking::executions))
        .routes(routes!(editing::reset))
        .routes(routes!(editing::layers))
        .routes(routes!(acting::trigger))
        .routes(routes!(acting::pause))
        .routes(routes!(acting::resume))
        .routes(routes!(acting::skip))
        .routes(routes!(acting::move_cursor))
        .routes(routes!(upcoming::upcoming))
        .routes(routes!(occurrences::occurrences))
        .routes(routes!(backfilling::backfill))
        .routes(routes!(outage::preview))
        .routes(routes!(planned::list))
        .routes(routes!(planned::pause))
        .routes(routes!(planned::resume))
        .routes(routes!(planned::trigger))
        .routes(routes!(planned::cancel))
}
