//! Extractors of requests. The same as those of axum, except that a rejection is a [`Problem`] that names the field.

pub(crate) mod strict;

use std::error::Error as _;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use serde_path_to_error::Track;

use self::strict::Strict;
use crate::problem::{ApiResult, Problem};
use crate::wording::{Syntax, reworded, word_expected};

/// The JSON body of a request. An empty body counts as an empty object, so that an action without required fields
/// needs none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<T>(pub(crate) T);

/// The query of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<T>(pub(crate) T);

/// The variable parts of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> ApiResult<Self> {
        let typed = content_type(request.headers())?;
        let bytes = Bytes::from_request(request, state).await.map_err(unread)?;
        if bytes.is_empty() {
            return read(b"{}").map(Self);
        }
        if !typed {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body has no content type; send JSON with `Content-Type: application/json`",
            ));
        }
        read(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        readable("the query", parts.uri.query().unwrap_or_default())?;
        axum::extract::Query::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Query(value)| Self(value))
            .map_err(|rejection| query_problem(&rejection))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        readable("the path", parts.uri.path())?;
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(value)| Self(value))
            .map_err(|rejection| path_problem(&rejection))
    }
}

/// Refuses invalid UTF-8 and NUL characters, which several storages cannot store.
fn readable(place: &str, text: &str) -> ApiResult<()> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    if decoded.contains(&0) {
        return Err(Problem::malformed(format!(
            "{place} contains a NUL character (%00); leave it out"
        )));
    }
    match std::str::from_utf8(&decoded) {
        Ok(_) => Ok(()),
        Err(_) => Err(Problem::malformed(format!("{place} is not UTF-8 after percent-decoding"))),
    }
}

/// Returns whether the content type is JSON; false without one. Refuses other types.
fn content_type(headers: &HeaderMap) -> ApiResult<bool> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(false) };
    let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let json = essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"));
    if json {
        return Ok(true);
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!(
            "the body has the content type {essence:?}; send JSON with `Content-Type: application/json`"
        ),
    ))
}

/// Returns the problem of a body that could not be received.
fn unread(rejection: BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than the limit of this server; send less per request",
        ),
        _ => Problem::malformed("the body was incomplete; send it again"),
    }
}

/// Parses JSON: 400 on a syntax error, 422 on an invalid value.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    // The path of an error is tracked only in a second pass.
    let mut json = serde_json::Deserializer::from_slice(bytes);
    if let Ok(value) = T::deserialize(Strict(&mut json))
        && json.end().is_ok()
    {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let mut track = Track::new();
    let from = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let value = T::deserialize(Strict(from)).map_err(|error| {
        let path = track.path().to_string();
        // serde_json reports a number or bool in place of an enum string as a syntax error; treat it as a type error.
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
        if error.classify() == Category::Syntax && is_json {
            return wrong("the body", &path, &word_expected(&parts(&path)));
        }
        body_problem(&path, &error)
    })?;
    json.end().map_err(|error| body_problem(".", &error))?;
    Ok(value)
}

fn body_problem(path: &str, error: &serde_json::Error) -> Problem {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    if error.classify() == Category::Data {
        return wrong("the body", path, &reworded(message, &parts(path), Syntax::Json));
    }
    let problem = Problem::malformed(format!("the body is not JSON{place}: {message}"));
    if path == "." { problem } else { problem.field(path, message) }
}

/// Returns the names and indexes of a path such as `items[1].count`.
fn parts(path: &str) -> Vec<&str> {
    path.split(['.', '[', ']']).filter(|part| !part.is_empty()).collect()
}

/// Returns the problem of an invalid value.
fn wrong(place: &str, path: &str, message: &str) -> Problem {
    if path == "." {
        return Problem::refused(format!("{place} is invalid: {message}"));
    }
    Problem::refused(format!("`{path}` in {place} is invalid: {message}")).field(path, message)
}

fn query_problem(rejection: &QueryRejection) -> Problem {
    // The innermost text is `field: what is wrong`, or only the latter.
    let message = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
    match message.split_once(": ") {
        Some((field, problem)) if !field.contains(' ') => {
            wrong("the query", field, &reworded(problem, &[field], Syntax::Url))
        }
        _ => wrong("the query", ".", &reworded(&message, &[], Syntax::Url)),
    }
}

fn path_problem(rejection: &PathRejection) -> Problem {
    match rejection {
        PathRejection::FailedToDeserializePathParams(error) => {
            let message = match error.kind() {
                ErrorKind::ParseError { value, .. }
                | ErrorKind::ParseErrorAtKey { value, .. }
                | ErrorKind::ParseErrorAtIndex { value, .. } => {
                    format!("`{value}` is invalid there")
                }
                other => other.to_string(),
            };
            Problem::malformed(format!("the path is invalid: {message}"))
        }
        other => Problem::malformed(format!("the path is invalid: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body as Sent;
    use axum::extract::DefaultBodyLimit;
    use axum::http::Method;
    use axum::routing::{get, post};
    use axum::{Router, body::to_bytes};
    use serde::Deserialize;
    use serde_json::Value;
    use tower::ServiceExt;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TestBody {
        #[serde(default)]
        items: Vec<Item>,
    }

    #[derive(Deserialize)]
    struct Item {
        count: u8,
        #[serde(default)]
        size: Option<Size>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Size {
        Small,
    }

    #[derive(Deserialize)]
    struct TestQuery {
        limit: Option<u8>,
    }

    fn router() -> Router {
        let body = |Body(value): Body<TestBody>| async move {
            let counts = value.items.iter().filter(|item| !matches!(item.size, Some(Size::Small)));
            counts.map(|item| u32::from(item.count)).sum::<u32>().to_string()
        };
        let list = |Query(value): Query<TestQuery>| async move { format!("{:?}", value.limit) };
        let one = |Path(number): Path<u8>| async move { number.to_string() };
        Router::new()
            .route("/body", post(body))
            .route("/list", get(list))
            .route("/one/{number}", get(one))
            .layer(DefaultBodyLimit::max(100))
    }

    async fn ask(
        method: Method,
        path: &str,
        kind: Option<&str>,
        body: &[u8],
    ) -> (u16, String, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        let request = request.body(Sent::from(body.to_vec())).unwrap();
        let response = router().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 10_000).await.unwrap();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        (status, String::from_utf8_lossy(&bytes).into_owned(), json)
    }

    #[tokio::test]
    async fn a_body_is_read_or_refused_by_name() {
        let json = Some("application/json; charset=utf-8");
        let long = format!("{{\"items\":[],\"x\":\"{}\"}}", "x".repeat(200));
        let table: [(Option<&str>, &[u8], u16, &str); 14] = [
            (json, br#"{"items":[{"count":2},{"count":3}]}"#, 200, "5"),
            (None, b"", 200, "0"),
            (Some("application/merge-patch+json"), b"{}", 200, "0"),
            (None, b"{}", 415, "has no content type"),
            (Some("text/plain"), b"{}", 415, "text/plain"),
            (json, b"{\"items\":", 400, "not JSON"),
            (json, b"{\"items\":[{\"count\":\"\xff\"}]}", 400, "not JSON"),
            (json, b"{} {}", 400, "not JSON"),
            (json, br#"{"items":[{"count":2},{"count":900}]}"#, 422, "items[1].count"),
            (json, long.as_bytes(), 413, "larger"),
            (json, b"[]", 422, "a list; use an object"),
            (json, br#"{"items":[{"count":2,"size":"small"}]}"#, 200, "0"),
            (json, br#"{"items":[{"count":2,"size":true}]}"#, 422, "items[0].size"),
            (json, br#"{"items":[[2]]}"#, 422, "items[0]"),
        ];
        for (kind, body, status, words) in table {
            let (got, text, _) = ask(Method::POST, "/body", kind, body).await;
            assert_eq!(got, status, "{kind:?} {text}");
            assert!(text.contains(words), "{text} has no {words:?}");
        }
        let (_, _, problem) = ask(Method::POST, "/body", json, br#"{"item":[]}"#).await;
        assert_eq!(problem["errors"][0]["field"], "item");
    }

    #[tokio::test]
    async fn a_query_and_a_path_are_refused_by_name() {
        let (status, text, _) = ask(Method::GET, "/list?limit=7", None, b"").await;
        assert_eq!((status, text.as_str()), (200, "Some(7)"));
        let (status, _, problem) = ask(Method::GET, "/list?limit=many", None, b"").await;
        assert_eq!((status, &problem["errors"][0]["field"]), (422, &"limit".into()), "{problem}");
        let (status, _, problem) = ask(Method::GET, "/one/x", None, b"").await;
        assert_eq!(status, 400);
        assert!(problem["detail"].as_str().unwrap().contains("`x`"), "{problem}");
        for path in ["/list?limit=%00", "/list?limit=%ff", "/one/%00", "/one/%C3%28"] {
            assert_eq!(ask(Method::GET, path, None, b"").await.0, 400, "{path}");
        }
        assert_eq!(ask(Method::GET, "/list?x=%C3%A9&y=100%", None, b"").await.0, 200);
    }
}
