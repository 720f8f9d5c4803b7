//! Jobs: definitions, state, history, upcoming runs and operations. The core decides; here requests become calls of
//! the core and records become views.

mod actions;
mod backfill;
mod definitions;
mod etag;
mod lookup;
mod occurrences;
mod outage;
mod overrides;
mod planned;
mod policies;
mod queries;
mod secrets;
mod upcoming;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

pub(crate) use upcoming::checked_count;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(queries::list, definitions::create))
        .routes(routes!(queries::get, definitions::replace, overrides::edit, definitions::delete))
        .routes(routes!(queries::executions))
        .routes(routes!(overrides::reset))
        .routes(routes!(overrides::layers))
        .routes(routes!(actions::trigger))
        .routes(routes!(actions::pause))
        .routes(routes!(actions::resume))
        .routes(routes!(actions::skip))
        .routes(routes!(actions::move_cursor))
        .routes(routes!(upcoming::upcoming))
        .routes(routes!(occurrences::occurrences))
        .routes(routes!(backfill::backfill))
        .routes(routes!(outage::preview))
        .routes(routes!(planned::list))
        .routes(routes!(planned::pause))
        .routes(routes!(planned::resume))
        .routes(routes!(planned::trigger))
        .routes(routes!(planned::cancel))
}
