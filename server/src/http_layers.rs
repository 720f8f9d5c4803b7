//! HTTP layers around every request: limits of size and time, security headers for browsers, compression, and problem
//! documents also for unknown routes and panics.

use std::future::{Future as _, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use punctual::clock::{add, within};
use tower::ServiceExt as _;
use tower_http::compression::Compression;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};

use crate::app::App;
use crate::problem::Problem;

/// Largest size of a request body in bytes.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// Timeout of a request, except long-polling ones.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Paths of long-polling requests, which have timeouts of their own.
const LONG_REQUESTS: [&str; 2] = ["/api/v1/events", "/api/v1/work/claim"];

/// Returns whether requests of a path are long-polling with a timeout of their own.
pub(crate) fn has_own_timeout(path: &str) -> bool {
    LONG_REQUESTS.iter().any(|end| path.ends_with(end))
}

/// Adds the layers to a router. As one layer, because each layer clones the inner service per request.
pub(crate) fn with_http_layers(router: Router<App>, app: &App) -> Router<App> {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn_with_state(app.clone(), apply_layers))
}

async fn not_found(uri: Uri) -> Problem {
    Problem::not_found(format!(
        "there is nothing at {}; GET /api/openapi.json lists the routes",
        uri.path()
    ))
}

async fn method_not_allowed(request: Request) -> Problem {
    let sentence = format!("{} is not allowed at {}", request.method(), request.uri().path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, sentence)
}

/// Applies the timeout, compression and security headers to a request.
async fn apply_layers(State(app): State<App>, request: Request, next: Next) -> Response {
    let forwarded =
        request.headers().get("x-forwarded-proto").is_some_and(|value| value == "https");
    let is_secure = forwarded || app.is_encrypted();
    let response = if has_own_timeout(request.uri().path()) {
        match with_whole_body(&app, request).await {
            Ok(request) => catching_panics(request, next).await,
            Err(problem) => problem.into_response(),
        }
    } else if tracing::enabled!(tracing::Level::DEBUG) {
        with_logging(&app, request, next).await
    } else {
        with_timeout(&app, request, next).await
    };
    with_security_headers(response, is_secure)
}

async fn with_logging(app: &App, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = app.clock.now();
    let response = with_timeout(app, request, next).await;
    let took = punctual::clock::between(began, app.clock.now());
    tracing::debug!(%method, path, status = response.status().as_u16(), took_ms = took.as_millis(), "responded");
    response
}

/// Returns a request with its body read. Long-polling requests have no timeout, but sending their body has.
async fn with_whole_body(app: &App, request: Request) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    let until = add(app.clock.now(), TIMEOUT);
    match within(&*app.clock, until, to_bytes(body, BODY_MAX)).await {
        Some(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Some(Err(_)) => {
            let sentence = "the body is larger than the limit of this server, or was incomplete";
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, sentence))
        }
        None => {
            let sentence = format!("the body was not received within {} s", TIMEOUT.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, sentence))
        }
    }
}

async fn with_timeout(app: &App, request: Request, next: Next) -> Response {
    let mut work = pin!(catching_panics(request, next));
    // Most requests complete at the first poll and need no timer.
    let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(response) = first {
        return response;
    }
    let until = add(app.clock.now(), TIMEOUT);
    within(&*app.clock, until, work).await.unwrap_or_else(|| {
        let sentence =
            format!("the request took longer than {} s; request less", TIMEOUT.as_secs());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence).into_response()
    })
}

/// Runs a request and returns 500 when it panics.
async fn catching_panics(request: Request, next: Next) -> Response {
    // State shared by endpoints is behind locks that tolerate poisoning.
    let response = AssertUnwindSafe(compressed(request, next)).catch_unwind().await;
    response.unwrap_or_else(|_| {
        tracing::error!("a request panicked");
        let sentence = "internal error; see the log of the server";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, sentence).into_response()
    })
}

async fn compressed(request: Request, next: Next) -> Response {
    if !request.headers().contains_key(ACCEPT_ENCODING) {
        return next.run(request).await;
    }
    let compressible = DefaultPredicate::new().and(NotForContentType::new("text/event-stream"));
    let Ok(response) = Compression::new(next).compress_when(compressible).oneshot(request).await;
    response.map(Body::new)
}

fn with_security_headers(mut response: Response, is_secure: bool) -> Response {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    // Cacheable responses set the header themselves, as the files of the dashboard do.
    set(CACHE_CONTROL, "no-store");
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "no-referrer");
    set(CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
    if is_secure {
        set(STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    response
}
