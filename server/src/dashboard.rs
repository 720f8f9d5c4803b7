//! Dashboard and API reference: embedded static files, served with a strict content security policy. They refer
//! to each other and to the API by relative paths, so that they work under any prefix.

use axum::Router;
use axum::extract::{OriginalUri, Path};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::app::App;

/// Content security policy: no external resources, no inline scripts, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

#[derive(RustEmbed)]
#[folder = "../dashboard"]
#[exclude = "tests/*"]
#[exclude = "package.json"]
struct Files;

/// Returns the routes of the dashboard and the API reference.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(index))
        .route("/api/docs", get(reference))
        .route("/api/docs/", get(without_slash))
        .route("/{*path}", get(file))
}

/// Serves the start page. Its relative paths need a trailing slash; the redirect names the file because a router
/// mounted by `nest` does not match the slash alone.
async fn index(OriginalUri(uri): OriginalUri, headers: HeaderMap) -> Response {
    if !uri.path().ends_with('/') {
        return Redirect::temporary(&format!("{}/index.html", uri.path())).into_response();
    }
    serve("index.html", &headers)
}

/// Serves the API reference, which the browser renders from the OpenAPI description.
async fn reference(headers: HeaderMap) -> Response {
    serve("reference.html", &headers)
}

/// Redirects to the path without a slash, which its relative paths need.
async fn without_slash(OriginalUri(uri): OriginalUri) -> Redirect {
    Redirect::permanent(uri.path().trim_end_matches('/'))
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Response {
    serve(&path, &headers)
}

fn serve(path: &str, headers: &HeaderMap) -> Response {
    let Some(file) = Files::get(path) else {
        return crate::problem::Problem::not_found(format!("there is nothing at /{path}"))
            .into_response();
    };
    let etag = etag(&file);
    let is_known = etag.is_some() && headers.get(IF_NONE_MATCH) == etag.as_ref();
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { file.data.into_response() };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind(path)));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Revalidated every time, so that a new version shows immediately.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Some(etag) = etag {
        headers.insert(ETAG, etag);
    }
    response
}

fn etag(file: &EmbeddedFile) -> Option<HeaderValue> {
    let text = URL_SAFE_NO_PAD.encode(file.metadata.sha256_hash());
    HeaderValue::from_str(&format!("\"{text}\"")).ok()
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}
