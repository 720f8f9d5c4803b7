//! Record of a keyed request: a document that is written before the request runs, and again with its response. It
//! holds the instant of the first use of the key, from which repeats derive the same ids.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use jiff::Timestamp;
use punctual::backend::documents::{BODY_BYTES_MAX, Document, NewDocument};
use punctual::clock::add;
use punctual::model::MessageId;
use punctual::{Error, Result};
use serde::{Deserialize, Serialize};

use super::owner::RequestOwner;

/// The kind of the documents.
pub(crate) const KIND: &str = "idempotency";
/// The header of a replayed response.
pub(super) const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");
/// Retention of a key, from its first use.
pub(super) const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Lease of a request without renewal; afterwards a repeat takes it over.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// The response headers that are stored.
const HEADERS: [HeaderName; 3] = [CONTENT_TYPE, ETAG, LOCATION];

/// Record of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// Hash of method, path and body.
    pub(super) fingerprint: String,
    /// The first use of the key, to the microsecond, the precision of every storage.
    #[serde(default)]
    pub(super) first_at: Timestamp,
    /// Number of runs of the request.
    #[serde(default)]
    pub(super) runs: u32,
    /// The process that runs it.
    #[serde(default)]
    pub(super) owner: RequestOwner,
    /// The end of the lease.
    #[serde(default)]
    pub(super) until: Timestamp,
    /// The created messages by position; none before they are stored, and once the response is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) made: Option<Vec<MadeMessage>>,
    /// The response, once there is one.
    #[serde(rename = "answer")]
    pub(super) response: Option<StoredResponse>,
}

/// A message that a request has created, or the existing one that it is a duplicate of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MadeMessage {
    pub(super) id: MessageId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) duplicate_of: Option<MessageId>,
}

/// A stored response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredResponse {
    status: u16,
    headers: Vec<(String, String)>,
    /// The body as base64; none when it contains a secret or is too large.
    body: Option<String>,
}

impl Record {
    /// Returns the record of a request that begins now.
    pub(super) fn new(fingerprint: String, owner: RequestOwner, now: Timestamp) -> Self {
        let first_at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let until = add(now, LEASE);
        Self { fingerprint, first_at, runs: 1, owner, until, made: None, response: None }
    }

    /// Returns the record with its response, which names the created messages.
    pub(super) fn with_response(self, response: StoredResponse) -> Self {
        Self { made: None, response: Some(response), ..self }
    }

    /// Returns the record of the next run by another owner.
    pub(super) fn taken_over(self, owner: RequestOwner, now: Timestamp) -> Self {
        Self { runs: self.runs.saturating_add(1), owner, until: add(now, LEASE), ..self }
    }

    /// Returns whether `owner` may take the request over. A run of the same owner has ended: only one request per
    /// key is in flight in a process.
    pub(super) fn is_free_for(&self, owner: &RequestOwner, now: Timestamp) -> bool {
        self.until <= now || self.owner == *owner || owner.detects_end_of(&self.owner)
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
        Ok(NewDocument::new(KIND, place, body).expires_at(add(self.first_at, RETENTION)))
    }
}

impl StoredResponse {
    /// Returns the storable part of a response; without `bytes` its body is not stored.
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, bytes: Option<&Bytes>) -> Self {
        let shown = HEADERS.iter().filter_map(|name| {
            let value = headers.get(name)?.to_str().ok()?;
            Some((name.to_string(), value.to_owned()))
        });
        let body = bytes.map(|bytes| BASE64.encode(bytes));
        // Leaves room for the other short fields.
        let body = body.filter(|body| body.len() < BODY_BYTES_MAX - 4_096);
        Self { status: status.as_u16(), headers: shown.collect(), body }
    }

    /// Returns the original response; none when its body was not stored.
    pub(super) fn response(&self) -> Result<Option<Response>> {
        let Some(body) = &self.body else { return Ok(None) };
        let body = BASE64.decode(body).map_err(|error| {
            Error::internal("a stored response cannot be read").caused_by(error)
        })?;
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
