//! The whole of HTTP: the API, its description, the dashboard, and what surrounds every request.

use axum::Router;
use axum::middleware::from_fn_with_state;

use crate::app::App;
use crate::surround::surround;
use crate::{api, auth, dashboard, health, idempotency, metrics};

/// Everything the server answers.
pub fn router(app: App) -> Router {
    let routes = api::routes()
        .merge(metrics::routes())
        .merge(dashboard::routes())
        .layer(from_fn_with_state(app.clone(), idempotency::layer))
        .layer(from_fn_with_state(app.clone(), auth::layer));
    #[cfg(feature = "otlp")]
    let routes = routes.layer(from_fn_with_state(app.clone(), crate::telemetry::layer));
    // Outside of it: who asks how a node is need not be known.
    let routes = routes.merge(health::routes());
    surround(routes, &app).with_state(app)
}
