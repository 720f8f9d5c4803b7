//! What surrounds every request: bounds of size and time, headers that protect a browser, and problem
//! documents also for what no endpoint answers.

use std::any::Any;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use punctual::clock::{add, within};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};

use crate::app::App;
use crate::problem::Problem;

/// The most bytes a request may have.
const BODY_MAX: usize = 1 << 20;
/// How long a request may take, unless it waits by its nature.
const PATIENCE: Duration = Duration::from_secs(30);
/// Paths whose requests wait by their nature; each has a bound of its own.
const WAITING: [&str; 2] = ["/api/v1/events", "/api/v1/work/claim"];

/// Puts everything around a router.
pub(crate) fn surround(router: Router<App>, app: &App) -> Router<App> {
    let compressed = DefaultPredicate::new().and(NotForContentType::new("text/event-stream"));
    router
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(from_fn_with_state(app.clone(), surrounded))
}

async fn nothing(uri: Uri) -> Problem {
    Problem::not_found(format!(
        "there is nothing at {}; GET /api/openapi.json lists what there is",
        uri.path()
    ))
}

async fn not_so(request: Request) -> Problem {
    let sentence = format!("{} is not possible at {}", request.method(), request.uri().path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, sentence)
}

/// In time, and with the headers that protect a browser.
async fn surrounded(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_secure =
        request.headers().get("x-forwarded-proto").is_some_and(|value| value == "https");
    protected(in_time(&app, request, next).await, is_secure)
}

async fn in_time(app: &App, request: Request, next: Next) -> Response {
    let waits = WAITING.iter().any(|path| request.uri().path().ends_with(path));
    if waits {
        return next.run(request).await;
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = app.clock.now();
    let answered = within(&*app.clock, add(began, PATIENCE), next.run(request)).await;
    let response = answered.unwrap_or_else(|| {
        let sentence = format!("this took longer than {} s; ask for less", PATIENCE.as_secs());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence).into_response()
    });
    let took = punctual::clock::between(began, app.clock.now());
    tracing::debug!(%method, path, status = response.status().as_u16(), took_ms = took.as_millis(), "answered");
    response
}

fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a request ended in a panic");
    let sentence = "the server has a defect here; its log says more";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, sentence).into_response()
}

fn protected(mut response: Response, is_secure: bool) -> Response {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "no-referrer");
    set(CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
    if is_secure {
        set(STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    response
}
