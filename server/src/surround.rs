//! What surrounds every request: bounds of size and time, headers that protect a browser, and problem
//! documents also for what no endpoint answers.

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

/// The most bytes a request may have.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// How long a request may take, unless it waits by its nature.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Paths whose requests wait by their nature; each has a bound of its own.
const WAITING: [&str; 2] = ["/api/v1/events", "/api/v1/work/claim"];

/// Whether the request of a path waits by its nature, and has a bound of its own.
pub(crate) fn waits(path: &str) -> bool {
    WAITING.iter().any(|end| path.ends_with(end))
}

/// Puts everything around a router. In one layer, because each costs every request some copies of all that
/// is within.
pub(crate) fn surround(router: Router<App>, app: &App) -> Router<App> {
    router
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(BODY_MAX))
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

/// In time, compressed for who understands it, and with the headers that protect a browser.
async fn surrounded(State(app): State<App>, request: Request, next: Next) -> Response {
    let forwarded =
        request.headers().get("x-forwarded-proto").is_some_and(|value| value == "https");
    let is_secure = forwarded || app.is_encrypted();
    let response = if waits(request.uri().path()) {
        match received(&app, request).await {
            Ok(request) => answered(request, next).await,
            Err(problem) => problem.into_response(),
        }
    } else if tracing::enabled!(tracing::Level::DEBUG) {
        logged(&app, request, next).await
    } else {
        in_time(&app, request, next).await
    };
    protected(response, is_secure)
}

async fn logged(app: &App, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let began = app.clock.now();
    let response = in_time(app, request, next).await;
    let took = punctual::clock::between(began, app.clock.now());
    tracing::debug!(%method, path, status = response.status().as_u16(), took_ms = took.as_millis(), "answered");
    response
}

/// Returns a request whose body has come whole. Requests that wait have no bound of time, but sending them has.
async fn received(app: &App, request: Request) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    let until = add(app.clock.now(), TIMEOUT);
    match within(&*app.clock, until, to_bytes(body, BODY_MAX)).await {
        Some(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Some(Err(_)) => {
            let sentence = "the body is larger than this server takes, or broke off before its end";
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, sentence))
        }
        None => {
            let sentence = format!("the body did not come within {} s", TIMEOUT.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, sentence))
        }
    }
}

async fn in_time(app: &App, request: Request, next: Next) -> Response {
    let mut work = pin!(answered(request, next));
    // Most requests are answered at once, and then no time has to be waited for.
    let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(response) = first {
        return response;
    }
    let until = add(app.clock.now(), TIMEOUT);
    within(&*app.clock, until, work).await.unwrap_or_else(|| {
        let sentence = format!("this took longer than {} s; ask for less", TIMEOUT.as_secs());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, sentence).into_response()
    })
}

/// The answer, also to what ends in a panic.
async fn answered(request: Request, next: Next) -> Response {
    // What an endpoint shares with others is behind locks that outlive a panic.
    let answered = AssertUnwindSafe(compressed(request, next)).catch_unwind().await;
    answered.unwrap_or_else(|_| {
        tracing::error!("a request ended in a panic");
        let sentence = "the server has a defect here; its log says more";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, sentence).into_response()
    })
}

async fn compressed(request: Request, next: Next) -> Response {
    if !request.headers().contains_key(ACCEPT_ENCODING) {
        return next.run(request).await;
    }
    let worth = DefaultPredicate::new().and(NotForContentType::new("text/event-stream"));
    let Ok(response) = Compression::new(next).compress_when(worth).oneshot(request).await;
    response.map(Body::new)
}

fn protected(mut response: Response, is_secure: bool) -> Response {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    // What may be kept says so itself, as the files of the dashboard do.
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
