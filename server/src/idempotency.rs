//! Idempotency keys: a caller that does not know whether its change arrived repeats it with the same
//! `Idempotency-Key`, and gets the first response again instead of a second change.
//!
//! The record of a key is written before its request runs and belongs to the process that runs it while that
//! renews its lease. The response is stored before it is sent. A process that ends in between leaves a record
//! without a response: the next repeat takes it over and runs the request again with the ids of the first run
//! ([`Keyed`]), so that the effect is not duplicated. Only a refusal of the first run frees a key.
//!
//! Created messages are recognized while they are stored, when the record lists them ([`Claim`]), or when they
//! were deleted over this API ([`remember_removed`]).

mod claim;
mod keyed;
mod owner;
mod record;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use punctual::backend::documents::{ExpectedVersion, PutResult};
use sha2::{Digest, Sha256};

use self::claim::Claim;
pub(crate) use self::keyed::Keyed;
pub(crate) use self::keyed::removed::{KIND as REMOVED_KIND, remember_removed};
pub(crate) use self::owner::RequestOwner;
pub(crate) use self::record::KIND;
use self::record::Record;
use crate::api::BATCH_BYTES_MAX;
use crate::app::App;
use crate::caller::Caller;
use crate::http_layers::BODY_MAX;
use crate::problem::{ApiResult, Problem};
use crate::request_limit::RequestPlace;

/// The request header.
const KEY: &str = "idempotency-key";
/// Largest number of characters of a key.
const KEY_LEN_MAX: usize = 200;
/// Endpoints whose requests or responses contain secrets, which must not be stored, not even as a hash.
const SECRETS: [&str; 4] =
    ["/api/v1/session", "/api/v1/tokens", "/api/v1/users", "/api/v1/webhooks"];
/// The endpoint with a larger body limit.
const BATCH: &str = "/api/v1/messages/batch";

/// Keys of requests in flight in this process.
pub(crate) type InFlight = Mutex<BTreeSet<String>>;

/// Replays the response of a repeated changing request, and stores that of others with a key.
pub(crate) async fn layer(app: App, request: Request, next: Next) -> Response {
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let is_of_jobs = changes && request.uri().path().contains("/jobs");
    let _forget_statuses = is_of_jobs.then(|| ForgetStatuses(app.clone()));
    let key = match key(request.headers()) {
        Ok(Some(key)) if changes => key,
        Ok(_) => return next.run(request).await,
        Err(problem) => return problem.into_response(),
    };
    // An unauthenticated caller is refused by the endpoint; responses are never shared between callers.
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return next.run(request).await;
    };
    keyed(app, &caller.identity(), key, request, next)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

/// Drops the cached job statuses when a change of jobs ends, so that it shows immediately.
struct ForgetStatuses(App);

impl Drop for ForgetStatuses {
    fn drop(&mut self) {
        self.0.node().statuses.forget();
    }
}

/// Returns the key of a request, if any.
fn key(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > KEY_LEN_MAX {
        return Err(Problem::refused(format!(
            "an Idempotency-Key must have 1 to {KEY_LEN_MAX} printable characters; use a new one for every change"
        ))
        .field("Idempotency-Key", "is empty, too long or not printable"));
    }
    Ok(Some(key.to_owned()))
}

async fn keyed(
    app: App,
    caller: &str,
    key: String,
    request: Request,
    next: Next,
) -> ApiResult<Response> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let bytes_max = if path.starts_with(BATCH) { BATCH_BYTES_MAX } else { BODY_MAX };
    let body = to_bytes(body, bytes_max).await.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the request body has more than {bytes_max} bytes; send less per request"),
        )
    })?;
    let secret = SECRETS.iter().any(|prefix| path.starts_with(prefix));
    let hashed: &[u8] = if secret { b"" } else { &body };
    let fingerprint = digest(&[parts.method.as_str().as_bytes(), path.as_bytes(), hashed]);
    let place = digest(&[caller.as_bytes(), key.as_bytes()]);
    let Some(in_flight_guard) = InFlightGuard::enter(&app, &place) else {
        let known = load_record(&app, &place).await?;
        return replay(&key, &fingerprint, known.map(|(record, _)| record).as_ref());
    };
    let claim = match begin(&app, &key, place, fingerprint).await? {
        BeginResult::Runs(claim) => claim,
        BeginResult::Completed(response) => return Ok(response),
    };
    parts.extensions.insert(claim.keyed());
    let place = parts.extensions.get::<RequestPlace>().cloned();
    let request = Request::from_parts(parts, Body::from(body));
    // In a task of its own, so that a disconnecting caller leaves no change without a stored response.
    let done = tokio::spawn(async move {
        let response = claim.run_renewing(next.run(request)).await;
        let result = claim.finish(response, secret).await;
        drop((in_flight_guard, place));
        result
    });
    done.await.map_err(|_| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request was interrupted; repeat it with the same Idempotency-Key",
        )
    })?
}

/// Marks a key as in flight in this process until dropped.
struct InFlightGuard {
    app: App,
    place: String,
}

impl InFlightGuard {
    /// Returns none when another request with the key is in flight here.
    fn enter(app: &App, place: &str) -> Option<Self> {
        let mut in_flight = app.node().in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = in_flight.insert(place.to_owned());
        is_new.then(|| Self { app: app.clone(), place: place.to_owned() })
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut in_flight =
            self.app.node().in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        in_flight.remove(&self.place);
    }
}

/// Decision about a keyed request.
enum BeginResult {
    /// Run it under this lease.
    Runs(Claim),
    /// Replay this response.
    Completed(Response),
}

/// Creates the record of a new key, takes over one whose process has ended, or replays the stored response.
async fn begin(app: &App, key: &str, place: String, fingerprint: String) -> ApiResult<BeginResult> {
    let (now, owner) = (app.clock.now(), app.node().owner.clone());
    let record = Record::new(fingerprint, owner.clone(), now);
    let put = app.documents.put(record.draft(&place)?, ExpectedVersion::New, now).await?;
    if let PutResult::Stored(version) = put {
        return Ok(BeginResult::Runs(Claim::new(app, place, (version, record))));
    }
    let Some((known, version)) = load_record(app, &place).await? else {
        return Err(in_flight_problem(key));
    };
    let is_same = known.fingerprint == record.fingerprint && known.response.is_none();
    if !is_same || !known.is_free_for(&owner, now) {
        return replay(key, &record.fingerprint, Some(&known)).map(BeginResult::Completed);
    }
    let record = known.taken_over(owner, now);
    match app.documents.put(record.draft(&place)?, ExpectedVersion::Version(version), now).await? {
        PutResult::Stored(version) => {
            Ok(BeginResult::Runs(Claim::new(app, place, (version, record))))
        }
        PutResult::Raced(_) => Err(in_flight_problem(key)),
    }
}

/// Returns the record of a key and its version.
async fn load_record(app: &App, place: &str) -> ApiResult<Option<(Record, u64)>> {
    let document = app.documents.get(KIND, place, app.clock.now()).await?;
    let known = document.map(|document| {
        let version = document.version;
        Record::read(document).map(|record| (record, version))
    });
    Ok(known.transpose()?)
}

/// Returns the response to a request whose key is taken.
fn replay(key: &str, fingerprint: &str, known: Option<&Record>) -> ApiResult<Response> {
    // Without a record the request was refused meanwhile, and the next repeat runs it.
    let Some(known) = known else { return Err(in_flight_problem(key)) };
    if known.fingerprint != fingerprint {
        return Err(Problem::refused(format!(
            "the Idempotency-Key {key:?} was used for another request; use a new one for every change"
        ))
        .field("Idempotency-Key", "belongs to another request"));
    }
    let stored = known.response.as_ref().ok_or_else(|| in_flight_problem(key))?;
    stored.response()?.ok_or_else(|| {
        Problem::conflict(format!(
            "the request with the Idempotency-Key {key:?} succeeded, but its response was not stored, because it contained a secret or was too large; read the current state"
        ))
    })
}

fn in_flight_problem(key: &str) -> Problem {
    Problem::conflict(format!(
        "the request with the Idempotency-Key {key:?} is in flight; try again in a second"
    ))
    .retry_after(1)
}

/// Returns the SHA-256 of length-prefixed parts as base64.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    BASE64.encode(hash.finalize())
}
