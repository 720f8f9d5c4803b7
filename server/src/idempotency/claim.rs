//! The right to run a keyed request, and the record of its key as this process wrote it last.
//!
//! The record is written up to three times: with the lease before the request runs, with what it made as soon
//! as that is stored, and with the answer before that is given.

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
use punctual::clock::{add, within};
use punctual::documents::{ExpectedVersion, PutResult};

use super::keyed::Keyed;
use super::known;
use super::record::{KIND, KeptAnswer, LEASE, Made, REPLAY, Record};
use crate::app::App;
use crate::problem::{Answer, Problem};

/// How often a request that takes long renews its lease.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
/// The most renewals of one request: two hours, far longer than any endpoint takes.
const RENEWALS_MAX: usize = 2_400;
/// How often a record is written when others write it meanwhile.
const TRIES_MAX: usize = 4;
/// The most bytes of an answer; every endpoint stays far below.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// The right to run a request. Its endpoint has a part in it, to say what it made.
#[derive(Clone)]
pub(super) struct Claim {
    app: App,
    place: String,
    /// The record as it was written last, and its version. Never held while something is waited for.
    written: Arc<Mutex<(u64, Record)>>,
}

impl Claim {
    /// Returns the right to run the request of a record that was just written.
    pub(super) fn new(app: &App, place: String, written: (u64, Record)) -> Self {
        Self { app: app.clone(), place, written: Arc::new(Mutex::new(written)) }
    }

    /// Returns what the endpoint has to know.
    pub(super) fn keyed(&self) -> Keyed {
        let (_, record) = self.written();
        let Record { fingerprint, first_at, runs, made, .. } = &record;
        let keyed = Keyed::new((&self.place, fingerprint), *first_at, *runs);
        keyed.with_made(made.clone()).of(self.clone())
    }

    fn written(&self) -> (u64, Record) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes the record changed, unless it was taken over; returns whether it was written.
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
                // Unless the lease was renewed in between, it has a new owner.
                PutResult::Raced(_) if self.written().0 == version => return Ok(false),
                PutResult::Raced(_) => {}
            }
        }
        Ok(false)
    }

    /// Keeps what the request has made, so that a repeat knows it whatever becomes of it. That it cannot be
    /// written is no reason to fail: then it is known while it is stored.
    pub(super) async fn confirm(&self, made: Vec<Made>) {
        let until = add(self.app.clock.now(), LEASE);
        let change = |record: &mut Record| {
            record.made = Some(made.clone());
            record.until = until;
        };
        if let Err(error) = self.write(change).await {
            tracing::debug!(%error, "what a keyed request has made was not noted");
        }
    }

    /// Waits for a request and renews its lease meanwhile.
    pub(super) async fn renewed(&self, work: impl Future<Output = Response>) -> Response {
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

    /// Moves the end of the lease. One that was taken over stays with its new owner, and a storage that does
    /// not answer leaves the end where it is: a second run does no harm.
    async fn lease_until(&self, until: Timestamp) {
        let _ = self.write(|record| record.until = until).await;
    }

    /// Keeps the answer of a change that was made, frees the key of one that was refused, and leaves a key
    /// taken whose effect may exist.
    pub(super) async fn finish(self, response: Response, secret: bool) -> Answer<Response> {
        let status = response.status();
        let (version, record) = self.written();
        if status.is_client_error() && record.runs == 1 && record.made.is_none() {
            let seen = ExpectedVersion::Version(version);
            let _ = self.app.documents.remove(KIND, &self.place, seen).await;
            return Ok(response);
        }
        if !status.is_success() {
            // A repeat may run it again at once.
            self.lease_until(self.app.clock.now()).await;
            return Ok(response);
        }
        let hides = response.headers().get(CACHE_CONTROL).is_some_and(|value| value == "no-store");
        let secret = secret || hides;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, RESPONSE_BYTES_MAX)
            .await
            .map_err(|error| Error::internal("an answer cannot be read").caused_by(error))?;
        let kept = KeptAnswer::new(parts.status, &parts.headers, (!secret).then_some(&bytes));
        match self.keep(kept).await {
            Ok(None) => {
                let mut response = Response::from_parts(parts, Body::from(bytes));
                if record.runs > 1 {
                    response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
                }
                Ok(response)
            }
            Ok(Some(first)) => Ok(first),
            // A secret is in this answer and in no other.
            Err(problem) if secret => {
                tracing::warn!(problem = problem.detail(), "an answer with a secret was not kept");
                Ok(Response::from_parts(parts, Body::from(bytes)))
            }
            Err(problem) => Err(problem),
        }
    }

    /// Writes the answer, unless another run has written one; that one is returned.
    async fn keep(&self, kept: KeptAnswer) -> Answer<Option<Response>> {
        let (mut version, record) = self.written();
        let record = record.answered(kept);
        for _ in 0..TRIES_MAX {
            let (draft, now) = (record.draft(&self.place)?, self.app.clock.now());
            let put = self.app.documents.put(draft, ExpectedVersion::Version(version), now).await;
            match put.map_err(|error| not_kept(&error))? {
                // Without a record a day has passed since the key was first seen.
                PutResult::Stored(_) | PutResult::Raced(None) => return Ok(None),
                PutResult::Raced(Some(_)) => {}
            }
            let Some((known, seen)) = known(&self.app, &self.place).await? else {
                return Ok(None);
            };
            if let Some(first) = known.answer {
                return Ok(first.response()?);
            }
            version = seen;
        }
        Err(not_kept(&Error::unavailable("the record of its Idempotency-Key kept changing")))
    }
}

/// The effect exists and its answer does not: the caller repeats the request and gets the answer.
fn not_kept(error: &Error) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!(
            "the change was made and its answer could not be recorded ({error}); repeat the request with the same Idempotency-Key"
        ),
    )
}
