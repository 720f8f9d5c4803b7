//! Idempotency keys: a caller that does not know whether its change arrived sends it again with the same
//! `Idempotency-Key`, and gets the first answer again instead of a second change.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use punctual::clock::add;
use punctual::documents::{BODY_LENGTH_MAX, Document, Draft, Put, Seen};
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::api::BATCH_LENGTH_MAX;
use crate::app::App;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::surround::BODY_MAX;

/// The kind of the documents.
const KIND: &str = "idempotency";
/// The header of a request.
const KEY: &str = "idempotency-key";
/// The header of an answer that was given before.
const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");
/// The most characters of a key.
const KEY_LENGTH_MAX: usize = 200;
/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a request may be under way. A process that ends in between leaves the key taken for so long.
const UNDER_WAY_MAX: Duration = Duration::from_secs(5 * 60);
/// The most bytes of an answer; every endpoint stays far below.
const ANSWER_LENGTH_MAX: usize = 64 << 20;
/// Endpoints whose requests or answers hold secrets, of which nothing must be kept, not even a hash.
const SECRETS: [&str; 4] =
    ["/api/v1/session", "/api/v1/tokens", "/api/v1/users", "/api/v1/webhooks"];
/// The endpoint whose requests may be longer than others.
const BATCH: &str = "/api/v1/messages/batch";
/// The headers of an answer that are kept with it.
const HEADERS: [HeaderName; 3] = [CONTENT_TYPE, ETAG, LOCATION];

/// What is remembered of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Remembered {
    /// Method, path and body in few letters.
    fingerprint: String,
    /// The answer; none while the request is under way.
    answer: Option<Kept>,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    status: u16,
    headers: Vec<(String, String)>,
    /// The bytes as base64; none when they must not or cannot be kept.
    body: Option<String>,
}

/// Answers a changing request that was answered before with the same key, and remembers the others.
pub(crate) async fn remembered(app: App, request: Request, next: Next) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let is_of_jobs = changes && request.uri().path().contains("/jobs");
    let _forgetting = is_of_jobs.then(|| Forgetting(app.clone()));
    let key = match key(request.headers()) {
        Ok(Some(key)) if changes => key,
        Ok(_) => return next.run(request).await,
        Err(problem) => return problem.into_response(),
    };
    // Whoever is not known is refused further in; nobody's answers are shared.
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return next.run(request).await;
    };
    keyed(app, &caller.identity(), &key, request, next)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

/// Forgets how jobs are when a change of one is over, however it ended, so that it shows at once.
struct Forgetting(App);

impl Drop for Forgetting {
    fn drop(&mut self) {
        self.0.node().statuses.forget();
    }
}

/// The key of a request, when it has one.
fn key(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > KEY_LENGTH_MAX {
        return Err(Problem::refused(format!(
            "an Idempotency-Key has 1 to {KEY_LENGTH_MAX} printable characters; choose a new one for every change"
        ))
        .field("Idempotency-Key", "is empty, too long or not printable"));
    }
    Ok(Some(key.to_owned()))
}

async fn keyed(
    app: App,
    caller: &str,
    key: &str,
    request: Request,
    next: Next,
) -> Answer<Response> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let length_max = if path.starts_with(BATCH) { BATCH_LENGTH_MAX } else { BODY_MAX };
    let body = to_bytes(body, length_max).await.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the request has more than {length_max} bytes; send less at once"),
        )
    })?;
    let secret = SECRETS.iter().any(|prefix| path.starts_with(prefix));
    let shown: &[u8] = if secret { b"" } else { &body };
    let fingerprint = digest(&[parts.method.as_str().as_bytes(), path.as_bytes(), shown]);
    let place = digest(&[caller.as_bytes(), key.as_bytes()]);
    let remembered = Remembered { fingerprint, answer: None };
    let now = app.clock.now();
    let begun = draft(&place, &remembered)?.expires_at(add(now, UNDER_WAY_MAX));
    let version = match app.documents.put(begun, Seen::New, now).await? {
        Put::Stored(version) => version,
        Put::Raced(_) => {
            let known = app.documents.get(KIND, &place, now).await?;
            return again(key, &remembered, known);
        }
    };
    let request = Request::from_parts(parts, Body::from(body));
    // By itself, so that a caller who hangs up leaves no change behind that nobody remembers.
    let done = tokio::spawn(async move {
        let response = next.run(request).await;
        remember(&app, (&place, version), remembered, response, secret).await
    });
    done.await.map_err(|_| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request was broken off; look before you repeat it",
        )
    })?
}

/// What is answered to a request whose key is taken.
fn again(key: &str, request: &Remembered, known: Option<Document>) -> Answer<Response> {
    let under_way = || {
        Problem::conflict(format!(
            "the request with the Idempotency-Key {key:?} is under way; ask again in a moment"
        ))
    };
    // Gone in between: it failed, and whoever asks again may begin anew.
    let known = known.ok_or_else(under_way)?;
    let known: Remembered = serde_json::from_value(known.body)
        .map_err(|error| Error::internal("a kept answer cannot be read").caused_by(error))?;
    if known.fingerprint != request.fingerprint {
        return Err(Problem::refused(format!(
            "the Idempotency-Key {key:?} was used for another request; choose a new one for every change"
        ))
        .field("Idempotency-Key", "belongs to another request"));
    }
    let kept = known.answer.ok_or_else(under_way)?;
    let Some(body) = &kept.body else {
        return Err(Problem::conflict(format!(
            "the request with the Idempotency-Key {key:?} was done, and its answer was not kept, because it held a secret or was too large; look at what there is now"
        )));
    };
    let body = BASE64
        .decode(body)
        .map_err(|error| Error::internal("a kept answer cannot be read").caused_by(error))?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    for (name, value) in &kept.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
    Ok(response)
}

/// Keeps the answer of a change that was made, and frees the key of one that was not.
async fn remember(
    app: &App,
    (place, version): (&str, u64),
    remembered: Remembered,
    response: Response,
    secret: bool,
) -> Answer<Response> {
    if !response.status().is_success() {
        let _ = app.documents.remove(KIND, place, Seen::Version(version)).await?;
        return Ok(response);
    }
    let secret =
        secret || response.headers().get(CACHE_CONTROL).is_some_and(|value| value == "no-store");
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, ANSWER_LENGTH_MAX)
        .await
        .map_err(|error| Error::internal("an answer cannot be read").caused_by(error))?;
    let kept = kept(parts.status, &parts.headers, (!secret).then_some(&bytes));
    let now = app.clock.now();
    let ended = draft(place, &Remembered { answer: Some(kept), ..remembered })?;
    // The change is made either way; an answer that cannot be kept is still given.
    let stored =
        app.documents.put(ended.expires_at(add(now, KEPT)), Seen::Version(version), now).await;
    if !matches!(stored, Ok(Put::Stored(_))) {
        tracing::warn!(place, "the answer to a request with an idempotency key was not kept");
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

fn kept(status: StatusCode, headers: &HeaderMap, bytes: Option<&Bytes>) -> Kept {
    let shown = HEADERS.iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name.to_string(), value.to_owned()))
    });
    let body = bytes.map(|bytes| BASE64.encode(bytes));
    // Beside the body there are a few short texts.
    let body = body.filter(|body| body.len() < BODY_LENGTH_MAX - 4_096);
    Kept { status: status.as_u16(), headers: shown.collect(), body }
}

fn draft(place: &str, remembered: &Remembered) -> Result<Draft> {
    let body = serde_json::to_value(remembered)
        .map_err(|error| Error::internal("an answer cannot be kept").caused_by(error))?;
    Ok(Draft::new(KIND, place, body))
}

/// Parts in few letters; no two lists of parts share them.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    BASE64.encode(hash.finalize())
}
