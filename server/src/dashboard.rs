//! The dashboard and the API's reference: files that are part of the program, served with a strict content
//! security policy. They refer to each other and to the API by relative paths, so that they work under any
//! prefix.

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

/// Nothing from elsewhere, no inline script, and no page around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

#[derive(RustEmbed)]
#[folder = "../dashboard"]
#[exclude = "tests/*"]
#[exclude = "package.json"]
struct Files;

/// The page and what belongs to it.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(index))
        .route("/api/docs", get(reference))
        .route("/api/docs/", get(without_slash))
        .route("/{*path}", get(file))
}

/// Its relative paths need a slash behind the prefix. The file is named because a router that is mounted by
/// `nest` does not answer the slash alone.
async fn index(OriginalUri(uri): OriginalUri, headers: HeaderMap) -> Response {
    if !uri.path().ends_with('/') {
        return Redirect::temporary(&format!("{}/index.html", uri.path())).into_response();
    }
    serve("index.html", &headers)
}

/// The API for people; what it shows is made from the description in the browser.
async fn reference(headers: HeaderMap) -> Response {
    serve("reference.html", &headers)
}

/// Its relative paths need no slash at the end.
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
    // Asked for every time, answered by "not modified": a new version shows at once.
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
