//! Fixture: a process on a manual clock, and requests to its routes.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use punctual::testing::START;
use punctual::{Builder, ManualClock, Punctual};
use serde_json::Value;
use tower::ServiceExt;

/// Largest response body that is read, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A process that is built but not started.
pub(crate) fn built(build: impl FnOnce(Builder) -> Builder) -> Arc<Punctual> {
    let builder = Punctual::builder().clock(Arc::new(ManualClock::new(START)));
    Arc::new(build(builder).build().unwrap())
}

/// A process whose services have all had their first turn.
pub(crate) async fn started(build: impl FnOnce(Builder) -> Builder) -> Arc<Punctual> {
    let punctual = built(build);
    punctual.start().await.unwrap();
    run_until_idle().await;
    punctual
}

/// Lets every task run until nothing more happens at this instant.
pub(crate) async fn run_until_idle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn get(router: &Router, path: &str) -> Response {
    let request = Request::get(path).body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn get_json(router: &Router, path: &str) -> (StatusCode, Value) {
    let response = get(router, path).await;
    let status = response.status();
    let bytes = to_bytes(response.into_body(), BODY_BYTES_MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}
