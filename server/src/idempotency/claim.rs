//! Claim of a keyed request: the right to run it, and the record of its key as this process wrote it last.
//!
//! The record is written up to three times: with the lease before the request runs, with the created messages as
//! soon as they are stored, and with the response before it is sent.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use jiff::Timestamp;
use punctual::Error;
use punctual::backend::documents::{ExpectedVersion, PutResult};
use punctual::clock::{add, within};

use super::keyed::Keyed;
use super::load_record;
use super::record::{KIND, LEASE, MadeMessage, REPLAY, Record, StoredResponse};
use crate::app::App;
use crate::problem::{ApiResult, Problem};

/// Renewal interval of the lease of a long request.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
/// Largest number of renewals of one request: two hours, far longer than any endpoint takes.
const RENEWALS_MAX: usize = 2_400;
/// Attempts of a write under concurrent writes.
const TRIES_MAX: usize = 4;
/// Largest size of a response in bytes; every endpoint stays far below.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// The right to run a request. Shared with its endpoint, which reports created messages.
#[derive(Clone)]
pub(super) struct Claim {
    app: App,
    place: String,
    /// The last written record and its version. Never locked across an await.
    written: Arc<Mutex<(u64, Record)>>,
}

impl Claim {
    /// Returns the claim of a record that was just written.
    pub(super) fn new(app: &App, place: String, written: (u64, Record)) -> Self {
        Self { app: app.clone(), place, written: Arc::new(Mutex::new(written)) }
    }

    /// Returns the context for the endpoint.
    pub(super) fn keyed(&self) -> Keyed {
        let (_, record) = self.written();
        let Record { fingerprint, first_at, runs, made, .. } = &record;
        let keyed = Keyed::new((&self.place, fingerprint), *first_at, *runs);
        keyed.with_made(made.clone()).with_claim(self.clone())
    }

    fn written(&self) -> (u64, Record) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes the changed record; returns false when it was taken over.
    async fn write(&self, change: impl Fn(&mut Record)) -> punctual::Result<bool> {
        for _ in 0..TRIES_MAX {
            let (version, mut record) = self.written();
            change(&mut record);
            let (draft, now) = (record.draft(&self.place)?, self.app.clock.now());
            match self.app.documents.put(draft, ExpectedVersion::Version(version), now).await? {
                PutResult::Stored(version) => {
                    let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                    *written = (version, record);
                    return Ok(true);
                }
                // Unless this process renewed the lease meanwhile, the record has a new owner.
                PutResult::Raced(_) if self.written().0 == version => return Ok(false),
                PutResult::Raced(_) => {}
            }
        }
        Ok(false)
    }

    /// Stores the created messages, so that a repeat finds them even after their deletion. A failed write is only
    /// logged: a repeat still finds the messages while they are stored.
    pub(super) async fn confirm(&self, made: Vec<MadeMessage>) {
        let until = add(self.app.clock.now(), LEASE);
        let change = |record: &mut Record| {
            record.made = Some(made.clone());
            record.until = until;
        };
        if let Err(error) = self.write(change).await {
            tracing::debug!(%error, "the messages created by a keyed request were not recorded");
        }
    }

    /// Runs a request and renews its lease meanwhile.
    pub(super) async fn run_renewing(&self, work: impl Future<Output = Response>) -> Response {
        let clock = self.app.clock.clone();
        let mut work = pin!(work);
        for _ in 0..RENEWALS_MAX {
            let next = add(clock.now(), RENEWAL_INTERVAL);
            if let Some(response) = within(&*clock, next, work.as_mut()).await {
                return response;
            }
            self.lease_until(add(clock.now(), LEASE)).await;
        }
        work.await
    }

    /// Sets the end of the lease. A lease that was taken over is unchanged, and a failed write is ignored: a
    /// second run does no harm.
    async fn lease_until(&self, until: Timestamp) {
        let _ = self.write(|record| record.until = until).await;
    }

    /// Stores the response of a successful change, frees the key of a refused one, and keeps the key when the
    /// effect may exist.
    pub(super) async fn finish(self, response: Response, secret: bool) -> ApiResult<Response> {
        let status = response.status();
        let (version, record) = self.written();
        if status.is_client_error() && record.runs == 1 && record.made.is_none() {
            let expected = ExpectedVersion::Version(version);
            let _ = self.app.documents.remove(KIND, &self.place, expected).await;
            return Ok(response);
        }
        if !status.is_success() {
            // Lets a repeat run it again immediately.
            self.lease_until(self.app.clock.now()).await;
            return Ok(response);
        }
        let hides = response.headers().get(CACHE_CONTROL).is_some_and(|value| value == "no-store");
        let secret = secret || hides;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, RESPONSE_BYTES_MAX)
            .await
            .map_err(|error| Error::internal("a response cannot be read").caused_by(error))?;
        let stored = StoredResponse::new(parts.status, &parts.headers, (!secret).then_some(&bytes));
        match self.store(stored).await {
            Ok(None) => {
                let mut response = Response::from_parts(parts, Body::from(bytes));
                if record.runs > 1 {
                    response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
                }
                Ok(response)
            }
            Ok(Some(first)) => Ok(first),
            // The secret exists only in this response.
            Err(problem) if secret => {
                tracing::warn!(
                    problem = problem.detail(),
                    "a response with a secret was not recorded"
                );
                Ok(Response::from_parts(parts, Body::from(bytes)))
            }
            Err(problem) => Err(problem),
        }
    }

    /// Stores the response, or returns the one that another run has stored.
    async fn store(&self, response: StoredResponse) -> ApiResult<Option<Response>> {
        let (mut version, record) = self.written();
        let record = record.with_response(response);
        for _ in 0..TRIES_MAX {
            let (draft, now) = (record.draft(&self.place)?, self.app.clock.now());
            let put = self.app.documents.put(draft, ExpectedVersion::Version(version), now).await;
            match put.map_err(|error| not_stored(&error))? {
                // Without a record the key has expired.
                PutResult::Stored(_) | PutResult::Raced(None) => return Ok(None),
                PutResult::Raced(Some(_)) => {}
            }
            let Some((known, current)) = load_record(&self.app, &self.place).await? else {
                return Ok(None);
            };
            if let Some(first) = known.response {
                return Ok(first.response()?);
            }
            version = current;
        }
        Err(not_stored(&Error::unavailable(
            "the record of its Idempotency-Key was changed concurrently",
        )))
    }
}

/// Returns the problem of a change whose response could not be stored; a repeat returns the response.
fn not_stored(error: &Error) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!(
            "the change was made, but its response could not be stored ({error}); repeat the request with the same Idempotency-Key"
        ),
    )
}
