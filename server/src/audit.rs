//! Audit trail: who changed what, when, why, and the value before. Written with changes and never edited;
//! messages published by a program (`sending.rs`) and refused logins (`refusals.rs`) are counted. Entries are
//! deleted after the configured retention.

mod refusals;
mod sending;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, RemoveResult,
};
use punctual::clock::{add, subtract};
use punctual::model::{IdSource, Ids};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use self::refusals::Refusals;
use self::sending::Sending;
use crate::caller::Caller;

/// The kind of the documents.
pub(crate) const KIND: &str = "audit";
/// Retention of entries without a configured one.
const RETENTION_DEFAULT: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// One change made by a caller.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// The id; later entries have greater ids.
    pub id: String,
    /// When the change was made.
    pub at: Timestamp,
    /// The name of the caller at that time.
    pub who: String,
    /// The unique identity of the caller: `user` or `token` and an id, `proxy` or `application` and a name, or
    /// `nobody` without authentication. Null in older entries.
    #[serde(default)]
    pub identity: Option<String>,
    /// The action, such as `job.pause`.
    pub what: String,
    /// The target, such as the name of the job.
    pub target: String,
    /// The reason given by the caller, if any.
    pub reason: Option<String>,
    /// The value before the change, if known.
    pub before: Option<Value>,
    /// The value after the change.
    pub after: Option<Value>,
    /// The address the call came from, when it came over a socket.
    pub from: Option<String>,
}

/// A change to be written to the trail.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The action, such as `job.pause`.
    pub what: &'static str,
    /// The target, such as the name of the job.
    pub target: String,
    /// The reason given by the caller, if any.
    pub reason: Option<String>,
    /// The value before the change, if known.
    pub before: Option<Value>,
    /// The value after the change.
    pub after: Option<Value>,
}

impl Change {
    /// Returns a change of `target` by the action `what`.
    pub fn new(what: &'static str, target: impl ToString) -> Self {
        Self { what, target: target.to_string(), ..Self::default() }
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the value before the change.
    #[must_use]
    pub fn from(mut self, before: &impl Serialize) -> Self {
        self.before = serde_json::to_value(before).ok();
        self
    }

    /// Sets the value after the change.
    #[must_use]
    pub fn to(mut self, after: &impl Serialize) -> Self {
        self.after = serde_json::to_value(after).ok();
        self
    }
}

/// Writer and reader of the audit trail.
#[derive(Clone)]
pub struct Audit {
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    retention: Duration,
    sending: Arc<Sending>,
    refusals: Arc<Refusals>,
}

impl Audit {
    /// Returns a trail stored in these documents.
    pub fn new(documents: Arc<dyn DocumentStore>, clock: Arc<dyn Clock>) -> Self {
        Self {
            documents,
            clock,
            ids: Arc::new(Ids::random()),
            retention: RETENTION_DEFAULT,
            sending: Arc::default(),
            refusals: Arc::default(),
        }
    }

    /// Sets the retention of entries; 400 days by default.
    #[must_use]
    pub fn keeping(self, retention: Duration) -> Self {
        Self { retention, ..self }
    }

    /// Writes a change to the trail.
    pub async fn note(&self, caller: &Caller, change: Change) -> Result<()> {
        let now = self.clock.now();
        let id = self.ids.next(now).to_string();
        let entry = AuditEntry {
            id: id.clone(),
            at: now,
            who: caller.name.clone(),
            identity: Some(caller.identity()),
            what: change.what.to_owned(),
            target: change.target,
            reason: change.reason,
            before: change.before,
            after: change.after,
            from: caller.from.map(|address| address.to_string()),
        };
        let body = serde_json::to_value(&entry).map_err(|error| {
            punctual::Error::internal("an audit entry cannot be written").caused_by(error)
        })?;
        let expires_at = Some(add(now, self.retention));
        let draft = NewDocument { kind: KIND.to_owned(), key: id, body, expires_at };
        self.documents.put_all(vec![draft], now).await
    }

    /// Deletes up to `limit` entries older than the retention, oldest first, and returns how many. Needed because
    /// entries written under a longer retention have a later expiry.
    pub async fn prune(&self, limit: usize) -> Result<u64> {
        let now = self.clock.now();
        let until = subtract(now, self.retention);
        let range = KeyRange { limit, ..KeyRange::default() };
        let mut deleted = 0;
        for document in self.documents.list(KIND, range, now).await? {
            let key = document.key.clone();
            // Ids grow with time, so later entries are not older.
            if read(document)?.at > until {
                break;
            }
            if self.documents.remove(KIND, &key, ExpectedVersion::Any).await?
                == RemoveResult::Removed
            {
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Returns up to `limit` entries after the id `after`, newest first.
    pub async fn list(&self, after: Option<String>, limit: usize) -> Result<Vec<AuditEntry>> {
        let range = KeyRange { after, descending: true, limit, ..KeyRange::default() };
        let documents = self.documents.list(KIND, range, self.clock.now()).await?;
        documents.into_iter().map(read).collect()
    }
}

fn read(document: Document) -> Result<AuditEntry> {
    serde_json::from_value(document.body).map_err(|error| {
        punctual::Error::new(
            punctual::ErrorKind::Corrupt,
            format!("the audit entry {:?} cannot be read", document.key),
        )
        .caused_by(error)
    })
}
