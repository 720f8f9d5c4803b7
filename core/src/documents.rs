//! The contract of keeping small documents: what a server has to remember that is neither a message
//! nor a job, such as its users, their saved views and its audit trail. One contract for all of it,
//! so that a new kind of thing needs no new table in any storage.
//!
//! A document has a kind, a key that is unique within the kind, a version that every write moves by
//! one, and a body of JSON. It knows nothing of what it means. Exports do not carry documents; see
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
/// - A document whose `expires_at` is `now` or earlier counts as not there, in every call that is
///   told the time, whether or not [`DocumentStore::expire`] has come by.
/// - The versions of a key begin at 1 and grow by one. They begin again when the document was removed
///   or has expired.
/// - Keys are ordered by the bytes of their UTF-8, which is the order of their characters' numbers.
/// - Names and bodies beyond their bounds are refused as invalid, in every call; see
///   [`Document::check`].
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// Writes a document if the one that is there is as it was seen. Of many calls that saw the same,
    /// one is answered [`PutResult::Stored`].
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> Result<PutResult>;

    /// Writes documents whatever is there, all or none, at most [`DOCUMENTS_MAX`]. Of two drafts of one
    /// key the later one counts.
    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> Result<()>;

    /// One document.
    async fn get(&self, kind: &str, key: &str, now: Timestamp) -> Result<Option<Document>>;

    /// Documents of a kind, by key.
    async fn list(&self, kind: &str, range: KeyRange, now: Timestamp) -> Result<Vec<Document>>;

    /// Removes a document if it is as it was seen, also one that has expired and is still kept.
    async fn remove(&self, kind: &str, key: &str, seen: ExpectedVersion) -> Result<RemoveResult>;

    /// Deletes at most `limit` documents that have expired, oldest first; answers how many.
    async fn expire(&self, limit: usize, now: Timestamp) -> Result<u64>;
}

/// Something small that is remembered under a kind and a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What it is, such as `user`.
    pub kind: String,
    /// Which one of its kind.
    pub key: String,
    /// How often the key was written.
    pub version: u64,
    /// What it says.
    pub body: Value,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// From when on it counts as not there; nothing keeps it for ever.
    pub expires_at: Option<Timestamp>,
}

impl Document {
    /// Refuses what no storage keeps, and answers the body as JSON: kind and key have 1 to
    /// [`KEY_LEN_MAX`] characters and no control characters, the body has at most
    /// [`BODY_BYTES_MAX`] bytes.
    pub fn check(draft: &NewDocument) -> Result<String> {
        Self::check_names(&draft.kind, &draft.key)?;
        let body = serde_json::to_string(&draft.body).map_err(|error| {
            let sentence = format!("the body of {:?} {:?} is no JSON", draft.kind, draft.key);
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

    /// The same for a kind and a key that are only asked for.
    pub fn check_names(kind: &str, key: &str) -> Result<()> {
        Self::check_kind(kind)?;
        check_name("key", key)
    }

    /// The same for a kind whose documents are listed.
    pub fn check_kind(kind: &str) -> Result<()> {
        check_name("kind", kind)
    }

    /// Whether it counts as not there.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// A document to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDocument {
    /// What it is.
    pub kind: String,
    /// Which one of its kind.
    pub key: String,
    /// What it says.
    pub body: Value,
    /// From when on it counts as not there.
    pub expires_at: Option<Timestamp>,
}

impl NewDocument {
    /// A document that is kept until it is removed.
    pub fn new(kind: impl Into<String>, key: impl Into<String>, body: Value) -> Self {
        Self { kind: kind.into(), key: key.into(), body, expires_at: None }
    }

    /// It counts as not there from an instant on.
    #[must_use]
    pub fn expires_at(mut self, instant: Timestamp) -> Self {
        self.expires_at = Some(instant);
        self
    }

    /// Checks drafts that are written together; answers each with its body as JSON, by kind and key,
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

/// What a writer knows of the document it is about to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Nothing, and it does not matter.
    Any,
    /// It is not there.
    New,
    /// It has this version.
    Version(u64),
}

impl ExpectedVersion {
    /// What a put comes to, given the version that is there.
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

    /// What a removal comes to, given the version that is there.
    pub fn remove(self, present: Option<u64>) -> RemoveResult {
        match (self, present) {
            (_, None) => RemoveResult::Absent,
            (Self::Any, Some(_)) => RemoveResult::Removed,
            (Self::Version(version), Some(present)) if version == present => RemoveResult::Removed,
            (Self::New | Self::Version(_), Some(present)) => RemoveResult::Raced(present),
        }
    }
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a put that raced has written nothing"]
pub enum PutResult {
    /// It is stored, with this version.
    Stored(u64),
    /// Somebody else was faster: nothing is written. The version that is there; none when it is not.
    Raced(Option<u64>),
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a removal that raced has removed nothing"]
pub enum RemoveResult {
    /// It is gone.
    Removed,
    /// It was not there.
    Absent,
    /// It has another version, this one, and stays.
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
