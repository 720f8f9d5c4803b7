//! Document store contract: small documents of a server that are neither messages nor jobs, such as its
//! users, their saved views and its audit trail. One contract serves all of them, so that a new kind of
//! document needs no new table in any storage.
//!
//! A document has a kind, a key that is unique within the kind, a version that every write increments, and
//! a JSON body that the store does not interpret. Exports do not contain documents; see
//! [`copy_documents`](crate::transfer::copy_documents).

mod key_range;

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

pub use self::key_range::KeyRange;
use crate::error::{Error, Result};

/// Largest number of characters of a kind or a key.
pub const KEY_LEN_MAX: usize = 200;
/// Largest size of a body as JSON, in bytes.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// Largest number of documents that one call lists or writes.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Stores documents.
///
/// - A document whose `expires_at` is `now` or earlier counts as absent in every call that takes
///   `now`, whether or not [`DocumentStore::expire`] has run.
/// - The versions of a key begin at 1 and increase by one. They begin again after the document was
///   removed or has expired.
/// - Keys are ordered by their UTF-8 bytes, which is the order of their code points.
/// - Every call refuses names and bodies beyond their bounds as invalid; see [`Document::check`].
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// Writes a document if its version is the expected one. Of concurrent calls that expect the same
    /// version, exactly one returns [`PutResult::Stored`].
    async fn put(
        &self,
        draft: NewDocument,
        expected: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult>;

    /// Writes up to [`DOCUMENTS_MAX`] documents of any version, all or none. Of two drafts with the same
    /// key the later one is written.
    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()>;

    /// Returns a document; `None` when it is absent.
    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>>;

    /// Returns the documents of a kind in a range of keys, ordered by key.
    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>>;

    /// Removes a document if its version is the expected one. Takes no time, so a document that has expired
    /// and is not yet deleted is removed like any other.
    async fn remove(
        &self,
        kind: &str,
        key: &str,
        expected: ExpectedVersion,
    ) -> Result<RemoveResult>;

    /// Deletes up to `limit` expired documents, earliest expiry first; returns their number.
    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64>;
}

/// A small record that is stored under a kind and a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Kind, such as `user`.
    pub kind: String,
    /// Key within the kind.
    pub key: String,
    /// Number of writes of the key, from 1.
    pub version: u64,
    /// Content.
    pub body: Value,
    /// Instant of the last write.
    pub updated_at: Timestamp,
    /// Instant from which it counts as absent; `None` keeps it for ever.
    pub expires_at: Option<Timestamp>,
}

impl Document {
    /// Checks a document and returns its body as JSON. Kind and key have 1 to [`KEY_LEN_MAX`] characters
    /// and no control characters; the body has at most [`BODY_BYTES_MAX`] bytes.
    pub fn check(draft: &NewDocument) -> Result<String> {
        Self::check_names(&draft.kind, &draft.key)?;
        let body = serde_json::to_string(&draft.body).map_err(|error| {
            let sentence = format!("the body of {:?} {:?} is not JSON", draft.kind, draft.key);
            Error::invalid(sentence).caused_by(error)
        })?;
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the body of {:?} {:?} has {} bytes and may have {BODY_BYTES_MAX}; keep less in one document",
                draft.kind,
                draft.key,
                body.len()
            )));
        }
        Ok(body)
    }

    /// Checks a kind and a key that are only read.
    pub fn check_names(kind: &str, key: &str) -> Result<()> {
        Self::check_kind(kind)?;
        check_name("key", key)
    }

    /// Checks a kind whose documents are listed.
    pub fn check_kind(kind: &str) -> Result<()> {
        check_name("kind", kind)
    }

    /// Returns whether it counts as absent at an instant.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// A document to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDocument {
    /// Kind.
    pub kind: String,
    /// Key within the kind.
    pub key: String,
    /// Content.
    pub body: Value,
    /// Instant from which it counts as absent; `None` keeps it for ever.
    pub expires_at: Option<Timestamp>,
}

impl NewDocument {
    /// Creates a document that is kept until it is removed.
    pub fn new(kind: impl Into<String>, key: impl Into<String>, body: Value) -> Self {
        Self { kind: kind.into(), key: key.into(), body, expires_at: None }
    }

    /// Sets the instant from which it counts as absent.
    #[must_use]
    pub fn expires_at(mut self, instant: Timestamp) -> Self {
        self.expires_at = Some(instant);
        self
    }

    /// Checks drafts that are written together; returns each with its body as JSON, by kind and key,
    /// the last one of every key.
    pub fn check_all(drafts: Vec<Self>) -> Result<Vec<(Self, String)>> {
        if drafts.len() > DOCUMENTS_MAX {
            return Err(Error::invalid(format!(
                "{} documents are too many for one call, which may write {DOCUMENTS_MAX}; make several calls",
                drafts.len()
            )));
        }
        let mut checked = BTreeMap::new();
        for draft in drafts {
            let body = Document::check(&draft)?;
            checked.insert((draft.kind.clone(), draft.key.clone()), (draft, body));
        }
        Ok(checked.into_values().collect())
    }
}

/// The version that the stored document must have for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Any version, or none.
    Any,
    /// None: the document is absent.
    New,
    /// Exactly this version.
    Version(u64),
}

impl ExpectedVersion {
    /// Returns the result of a put, given the stored version.
    pub fn put(self, present: Option<u64>) -> PutResult {
        let matches = match self {
            Self::Any => true,
            Self::New => present.is_none(),
            Self::Version(version) => present == Some(version),
        };
        if matches {
            PutResult::Stored(present.unwrap_or(0) + 1)
        } else {
            PutResult::Raced(present)
        }
    }

    /// Returns the result of a removal, given the stored version.
    pub fn remove(self, present: Option<u64>) -> RemoveResult {
        match (self, present) {
            (_, None) => RemoveResult::Absent,
            (Self::Any, Some(_)) => RemoveResult::Removed,
            (Self::Version(version), Some(present)) if version == present => RemoveResult::Removed,
            (Self::New | Self::Version(_), Some(present)) => RemoveResult::Raced(present),
        }
    }
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a put that raced has written nothing"]
pub enum PutResult {
    /// Stored, with this version.
    Stored(u64),
    /// Not stored: the version is not the expected one but this; `None` when the document is absent.
    Raced(Option<u64>),
}

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a removal that raced has removed nothing"]
pub enum RemoveResult {
    /// Removed.
    Removed,
    /// Nothing to remove: the document is absent.
    Absent,
    /// Not removed: the version is not the expected one but this.
    Raced(u64),
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("the {what} of a document is empty; give it one")));
    }
    check_text(what, name)
}

fn check_text(what: &str, text: &str) -> Result<()> {
    let length = text.chars().take(KEY_LEN_MAX + 1).count();
    if length > KEY_LEN_MAX {
        return Err(Error::invalid(format!(
            "the {what} {:?}... of a document has more than {KEY_LEN_MAX} characters; shorten it",
            text.chars().take(20).collect::<String>()
        )));
    }
    if let Some(found) = text.chars().find(|c| c.is_control()) {
        return Err(Error::invalid(format!(
            "the {what} {text:?} of a document holds the control character {found:?}; leave it out"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
