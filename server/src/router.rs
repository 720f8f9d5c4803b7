//! The whole of HTTP: the API, its description, and what surrounds every request.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;

use crate::api;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::{health, idempotency, metrics};

/// Everything the server answers.
pub fn router(app: App) -> Router {
    api::routes()
        .merge(metrics::routes())
        .layer(from_fn_with_state(app.clone(), idempotency::layer))
        .layer(from_fn(anybody))
        // Outside of it: who asks how a node is need not be known.
        .merge(health::routes())
        .with_state(app)
}

/// Without an auth choice only this machine is listened to, and whoever is on it may do everything.
async fn anybody(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Caller {
        name: "local".to_owned(),
        role: Role::Admin,
        from: None,
    });
    next.run(request).await
}
