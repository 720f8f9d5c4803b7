//! The record of a keyed request: a document that is written before the request runs, and again with its
//! answer. It holds what makes a repeat the same request: the instant at which it was first seen.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use jiff::Timestamp;
use punctual::clock::add;
use punctual::documents::{BODY_BYTES_MAX, Document, NewDocument};
use punctual::model::MessageId;
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

use super::owner::Owner;

/// The kind of the documents.
pub(crate) const KIND: &str = "idempotency";
/// The header of an answer that was given before.
pub(super) const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");
/// How long a key is kept, from its first request on.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a request belongs to its process without a word from it. After that a retry takes it over.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// The headers of an answer that are kept with it.
const HEADERS: [HeaderName; 3] = [CONTENT_TYPE, ETAG, LOCATION];

/// What is remembered of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// Method, path and body in few letters.
    pub(super) fingerprint: String,
    /// When the key was first seen, to the microsecond, which is what every storage keeps.
    #[serde(default)]
    pub(super) first_at: Timestamp,
    /// How often the request was begun.
    #[serde(default)]
    pub(super) runs: u32,
    /// The process that works on it.
    #[serde(default)]
    pub(super) owner: Owner,
    /// When it may be taken over.
    #[serde(default)]
    pub(super) until: Timestamp,
    /// What it has made, in the order of the positions; none until that is stored, and with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) made: Option<Vec<Made>>,
    /// The answer; none while there is none.
    pub(super) answer: Option<KeptAnswer>,
}

/// A message that a request has made, or the living one that its own is a duplicate of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) id: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) duplicate_of: Option<MessageId>,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    /// The bytes as base64; none when they must not or cannot be kept.
    body: Option<String>,
}

impl Record {
    /// Returns the record of a request that begins now.
    pub(super) fn new(fingerprint: String, owner: Owner, now: Timestamp) -> Self {
        let first_at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let until = add(now, LEASE);
        Self { fingerprint, first_at, runs: 1, owner, until, made: None, answer: None }
    }

    /// Returns the record with its answer, which says what was made.
    pub(super) fn answered(self, answer: KeptAnswer) -> Self {
        Self { made: None, answer: Some(answer), ..self }
    }

    /// Returns the record of the same request, begun once more by another owner.
    pub(super) fn taken_over(self, owner: Owner, now: Timestamp) -> Self {
        Self { runs: self.runs.saturating_add(1), owner, until: add(now, LEASE), ..self }
    }

    /// Whether another owner may take the request over. That of this process has ended here: only one
    /// request of a key is let in at a time.
    pub(super) fn is_free_for(&self, owner: &Owner, now: Timestamp) -> bool {
        self.until <= now || self.owner == *owner || owner.knows_gone(&self.owner)
    }

    /// Reads the record of a document.
    pub(super) fn read(document: Document) -> Result<Self> {
        serde_json::from_value(document.body).map_err(|error| {
            Error::internal("the record of an Idempotency-Key cannot be read").caused_by(error)
        })
    }

    /// Returns the document that is written.
    pub(super) fn draft(&self, place: &str) -> Result<NewDocument> {
        let body = serde_json::to_value(self).map_err(|error| {
            Error::internal("the record of an Idempotency-Key cannot be written").caused_by(error)
        })?;
        Ok(NewDocument::new(KIND, place, body).expires_at(add(self.first_at, KEPT)))
    }
}

impl KeptAnswer {
    /// Returns what is kept of an answer; without bytes its body is not.
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, bytes: Option<&Bytes>) -> Self {
        let shown = HEADERS.iter().filter_map(|name| {
            let value = headers.get(name)?.to_str().ok()?;
            Some((name.to_string(), value.to_owned()))
        });
        let body = bytes.map(|bytes| BASE64.encode(bytes));
        // Beside the body there are a few short texts.
        let body = body.filter(|body| body.len() < BODY_BYTES_MAX - 4_096);
        Self { status: status.as_u16(), headers: shown.collect(), body }
    }

    /// Returns the answer as it was given; none when its body was not kept.
    pub(super) fn response(&self) -> Result<Option<Response>> {
        let Some(body) = &self.body else { return Ok(None) };
        let body = BASE64
            .decode(body)
            .map_err(|error| Error::internal("a kept answer cannot be read").caused_by(error))?;
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        for (name, value) in &self.headers {
            if let (Ok(name), Ok(value)) =
                (name.parse::<HeaderName>(), HeaderValue::from_str(value))
            {
                response.headers_mut().insert(name, value);
            }
        }
        response.headers_mut().insert(REPLAY, HeaderValue::from_static("true"));
        Ok(Some(response))
    }
}
