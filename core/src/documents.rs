//! Document store contract: small documents that a server has to remember and that are neither messages
//! nor jobs, such as its users, their saved views and its audit trail. One contract for all of them,
//! so that a new kind of document needs no new table in any storage.
//!
//! A document has a kind, a key that is unique within the kind, a version that every write moves by
//! one, and a body of JSON. The store does not interpret it. Exports do not carry documents; see
//! [`copy_documents`](crate::transfer::copy_documents).

mod key_range;

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

pub use self::key_range::KeyRange;
use crate::error::{Error, Result};

/// How many characters a kind or a key may have.
pub const KEY_LEN_MAX: usize = 200;
/// How many bytes a body may have as JSON.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// How many documents one call lists or puts at most.
pub const DOCUMENTS_MAX: usize = 1_000;

/// Remembers documents.
///
/// - A document whose `expires_at` is `now` or earlier counts as absent, in every call that takes
///   the time, whether or not [`DocumentStore::expire`] has run.
/// - The versions of a key begin at 1 and grow by one. They begin again when the document was removed
///   or has expired.
/// - Keys are ordered by the bytes of their UTF-8, which is the order of their characters' numbers.
/// - Names and bodies beyond their bounds are refused as invalid, in every call; see
///   [`Document::check`].
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// Writes a document if its version is the expected one. Of many calls that expect the same version,
    /// one returns [`PutResult::Stored`].
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult>;

    /// Writes documents whatever their version, all or none, at most [`DOCUMENTS_MAX`]. Of two drafts of one
    /// key the later one counts.
    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()>;

    /// Returns a document.
    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>>;

    /// Returns documents of a kind, by key.
    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>>;

    /// Removes a document if its version is the expected one, also one that has expired and is still kept.
    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult>;

    /// Deletes at most `limit` documents that have expired, oldest first; returns how many.
    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64>;
}

/// A small record that is kept under a kind and a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Kind, such as `user`.
    pub kind: String,
    /// Key within the kind.
    pub key: String,
    /// How often the key was written.
    pub version: u64,
    /// Content.
    pub body: Value,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// From when on it counts as absent; `None` keeps it for ever.
    pub expires_at: Option<Timestamp>,
}

impl Document {
    /// Refuses a document that no storage keeps, and returns the body as JSON: kind and key have 1 to
    /// [`KEY_LEN_MAX`] characters and no control characters, the body has at most
    /// [`BODY_BYTES_MAX`] bytes.
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

    /// Returns whether it counts as absent.
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
    /// From when on it counts as absent.
    pub expires_at: Option<Timestamp>,
}

impl NewDocument {
    /// A document that is kept until it is removed.
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

/// The version that a writer expects of the document it is about to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Any version.
    Any,
    /// Absent.
    New,
    /// This version.
    Version(u64),
}

impl ExpectedVersion {
    /// Returns the result of a put, given the stored version.
    pub fn put(self, present: Option<u64>) -> PutResult {
        let is_right = match self {
            Self::Any => true,
            Self::New => present.is_none(),
            Self::Version(version) => present == Some(version),
        };
        if is_right {
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
    /// Not stored: the version is not the expected one. The stored version; none when the document is absent.
    Raced(Option<u64>),
}

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a removal that raced has removed nothing"]
pub enum RemoveResult {
    /// Removed.
    Removed,
    /// It was absent.
    Absent,
    /// Not removed: it has this other version.
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
