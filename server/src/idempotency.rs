//! Idempotency keys: a caller that does not know whether its change arrived sends it again with the same
//! `Idempotency-Key`, and gets the first answer again instead of a second change.
//!
//! The record of a key is written before its request runs and belongs to the process that runs it, for as long
//! as that renews its lease. The answer is written before it is given. A process that ends in between leaves a
//! record without an answer: the next repeat takes it over and runs the request again, with the identities of
//! the first run ([`Keyed`]), so that the effect is not made twice. Only a refusal of the first run frees a key.
//!
//! What was made is known again while it is stored, when the record says so ([`Claim`]), or when it was deleted
//! over this API ([`remember_removed`]).

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
use punctual::documents::{ExpectedVersion, PutResult};
use sha2::{Digest, Sha256};

use self::claim::Claim;
pub(crate) use self::keyed::Keyed;
pub(crate) use self::keyed::removed::{KIND as REMOVED_KIND, remember_removed};
pub(crate) use self::owner::Owner;
pub(crate) use self::record::KIND;
use self::record::Record;
use crate::api::BATCH_BYTES_MAX;
use crate::app::App;
use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::request_limit::RequestPlace;
use crate::surround::BODY_MAX;

/// The header of a request.
const KEY: &str = "idempotency-key";
/// The most characters of a key.
const KEY_LEN_MAX: usize = 200;
/// Endpoints whose requests or answers hold secrets, of which nothing must be kept, not even a hash.
const SECRETS: [&str; 4] =
    ["/api/v1/session", "/api/v1/tokens", "/api/v1/users", "/api/v1/webhooks"];
/// The endpoint whose requests may be longer than others.
const BATCH: &str = "/api/v1/messages/batch";

/// The keys whose requests run in this process.
pub(crate) type InFlight = Mutex<BTreeSet<String>>;

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
    // An unknown caller is refused further in; answers are shared with no other caller.
    let Some(caller) = request.extensions().get::<Caller>().cloned() else {
        return next.run(request).await;
    };
    keyed(app, &caller.identity(), key, request, next)
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

/// Returns the key of a request, when it has one.
fn key(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    let key = value.to_str().unwrap_or_default().trim();
    if key.is_empty() || key.len() > KEY_LEN_MAX {
        return Err(Problem::refused(format!(
            "an Idempotency-Key has 1 to {KEY_LEN_MAX} printable characters; choose a new one for every change"
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
) -> Answer<Response> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let length_max = if path.starts_with(BATCH) { BATCH_BYTES_MAX } else { BODY_MAX };
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
    let Some(flight) = Flight::enter(&app, &place) else {
        let known = known(&app, &place).await?;
        return again(&key, &fingerprint, known.map(|(record, _)| record).as_ref());
    };
    let claim = match begin(&app, &key, place, fingerprint).await? {
        Begun::Runs(claim) => claim,
        Begun::Answered(response) => return Ok(response),
    };
    parts.extensions.insert(claim.keyed());
    let place = parts.extensions.get::<RequestPlace>().cloned();
    let request = Request::from_parts(parts, Body::from(body));
    // By itself, so that a caller who hangs up leaves no change behind without its answer.
    let done = tokio::spawn(async move {
        let response = claim.renewed(next.run(request)).await;
        let answer = claim.finish(response, secret).await;
        drop((flight, place));
        answer
    });
    done.await.map_err(|_| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request was broken off; repeat it with the same Idempotency-Key",
        )
    })?
}

/// The one request of a key that runs in this process.
struct Flight {
    app: App,
    place: String,
}

impl Flight {
    /// Returns none when another request of the key runs here.
    fn enter(app: &App, place: &str) -> Option<Self> {
        let mut in_flight = app.node().in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = in_flight.insert(place.to_owned());
        is_new.then(|| Self { app: app.clone(), place: place.to_owned() })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut in_flight =
            self.app.node().in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        in_flight.remove(&self.place);
    }
}

/// How a keyed request begins.
enum Begun {
    /// It runs, under a lease.
    Runs(Claim),
    /// It was answered before.
    Answered(Response),
}

/// Writes the record of a new key, takes over one whose process has ended, or answers by what is kept.
async fn begin(app: &App, key: &str, place: String, fingerprint: String) -> Answer<Begun> {
    let (now, owner) = (app.clock.now(), app.node().owner.clone());
    let record = Record::new(fingerprint, owner.clone(), now);
    let put = app.documents.put(record.draft(&place)?, ExpectedVersion::New, now).await?;
    if let PutResult::Stored(version) = put {
        return Ok(Begun::Runs(Claim::new(app, place, (version, record))));
    }
    let Some((known, version)) = known(app, &place).await? else { return Err(under_way(key)) };
    let is_same = known.fingerprint == record.fingerprint && known.answer.is_none();
    if !is_same || !known.is_free_for(&owner, now) {
        return again(key, &record.fingerprint, Some(&known)).map(Begun::Answered);
    }
    let record = known.taken_over(owner, now);
    match app.documents.put(record.draft(&place)?, ExpectedVersion::Version(version), now).await? {
        PutResult::Stored(version) => Ok(Begun::Runs(Claim::new(app, place, (version, record)))),
        PutResult::Raced(_) => Err(under_way(key)),
    }
}

/// Returns the record that is kept at a place, and its version.
async fn known(app: &App, place: &str) -> Answer<Option<(Record, u64)>> {
    let document = app.documents.get(KIND, place, app.clock.now()).await?;
    let known = document.map(|document| {
        let version = document.version;
        Record::read(document).map(|record| (record, version))
    });
    Ok(known.transpose()?)
}

/// Answers a request whose key is taken.
fn again(key: &str, fingerprint: &str, known: Option<&Record>) -> Answer<Response> {
    // Without a record it was refused in between, and the next repeat begins anew.
    let Some(known) = known else { return Err(under_way(key)) };
    if known.fingerprint != fingerprint {
        return Err(Problem::refused(format!(
            "the Idempotency-Key {key:?} was used for another request; choose a new one for every change"
        ))
        .field("Idempotency-Key", "belongs to another request"));
    }
    let kept = known.answer.as_ref().ok_or_else(|| under_way(key))?;
    kept.response()?.ok_or_else(|| {
        Problem::conflict(format!(
            "the request with the Idempotency-Key {key:?} was done, and its answer was not kept, because it held a secret or was too large; look at what there is now"
        ))
    })
}

fn under_way(key: &str) -> Problem {
    Problem::conflict(format!(
        "the request with the Idempotency-Key {key:?} is under way; ask again in a moment"
    ))
    .retry_after(1)
}

/// Returns parts in few letters; no two lists of parts share them.
fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    BASE64.encode(hash.finalize())
}
