//! The whole of HTTP: the API, its description, the dashboard, and what surrounds every request.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use crate::app::App;
use crate::surround::surround;
use crate::{api, auth, dashboard, health, idempotency, metrics};

/// Everything the server answers.
pub fn router(app: App) -> Router {
    let routes = api::routes()
        .merge(metrics::routes())
        .merge(dashboard::routes())
        .layer(from_fn_with_state(app.clone(), admitted));
    #[cfg(feature = "otlp")]
    let routes = routes.layer(from_fn_with_state(app.clone(), crate::telemetry::layer));
    // Outside of it: who asks how a node is need not be known.
    let routes = routes.merge(health::routes());
    surround(routes, &app).with_state(app)
}

/// Who calls is known first, since what is remembered of a request is remembered of them. One layer for both:
/// each costs every request some copies of all that is within.
async fn admitted(State(app): State<App>, request: Request, next: Next) -> Response {
    match auth::known(&app, request).await {
        Ok(request) => idempotency::remembered(app, request, next).await,
        Err(problem) => problem.into_response(),
    }
}
