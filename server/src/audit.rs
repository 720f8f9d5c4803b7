//! The audit trail: who changed what, when, why, and how it was before. Written with changes and never
//! edited; messages that a program sends (`sending.rs`) and logins that were refused (`refusals.rs`) are counted
//! in it. It goes when it is older than the configuration keeps it.

mod refusals;
mod sending;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::{add, subtract};
use punctual::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, RemoveResult,
};
use punctual::model::{IdSource, Ids};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use self::refusals::Refusals;
use self::sending::Sending;
use crate::caller::Caller;

/// The kind of its documents.
pub(crate) const KIND: &str = "audit";
/// How long an entry is kept when nobody says.
const KEPT_DEFAULT: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// One change that somebody made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Its own id; later ones are greater.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// Who, by the name that they had.
    pub who: String,
    /// Who, by what no two of them share: `user` or `token` and an id, `proxy` or `application` and a name, or `nobody`
    /// where callers are not asked. Null in entries from before this was kept.
    #[serde(default)]
    pub identity: Option<String>,
    /// What was done, such as `job.pause`.
    pub what: String,
    /// To what, such as the name of the job.
    pub target: String,
    /// Why, when they said so.
    pub reason: Option<String>,
    /// How it was before, when that is known.
    pub before: Option<Value>,
    /// How it is now.
    pub after: Option<Value>,
    /// The address the call came from, when it came over a socket.
    pub from: Option<String>,
}

/// What was changed.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// What was done, such as `job.pause`.
    pub what: &'static str,
    /// To what.
    pub target: String,
    /// Why.
    pub reason: Option<String>,
    /// How it was before.
    pub before: Option<Value>,
    /// How it is now.
    pub after: Option<Value>,
}

impl Change {
    /// A change of something.
    pub fn new(what: &'static str, target: impl ToString) -> Self {
        Self { what, target: target.to_string(), ..Self::default() }
    }

    /// Why it was made.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// How it was before.
    #[must_use]
    pub fn from(mut self, before: &impl Serialize) -> Self {
        self.before = serde_json::to_value(before).ok();
        self
    }

    /// How it is now.
    #[must_use]
    pub fn to(mut self, after: &impl Serialize) -> Self {
        self.after = serde_json::to_value(after).ok();
        self
    }
}

/// Writes and reads the trail.
#[derive(Clone)]
pub struct Audit {
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    kept: Duration,
    sending: Arc<Sending>,
    refusals: Arc<Refusals>,
}

impl Audit {
    /// A trail kept in these documents.
    pub fn new(documents: Arc<dyn DocumentStore>, clock: Arc<dyn Clock>) -> Self {
        Self {
            documents,
            clock,
            ids: Arc::new(Ids::random()),
            kept: KEPT_DEFAULT,
            sending: Arc::default(),
            refusals: Arc::default(),
        }
    }

    /// Keeps entries for so long, 400 days when nobody says.
    #[must_use]
    pub fn keeping(self, kept: Duration) -> Self {
        Self { kept, ..self }
    }

    /// Writes a change down.
    pub async fn note(&self, caller: &Caller, change: Change) -> Result<()> {
        let now = self.clock.now();
        let id = self.ids.next(now).to_string();
        let entry = Entry {
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
        let expires_at = Some(add(now, self.kept));
        let draft = NewDocument { kind: KIND.to_owned(), key: id, body, expires_at };
        self.documents.put_all(vec![draft], now).await
    }

    /// Deletes at most so many entries that are older than it keeps them, oldest first; answers how many.
    /// What was written while it kept them longer has an expiry of its own, which is too late.
    pub async fn prune(&self, limit: usize) -> Result<u64> {
        let now = self.clock.now();
        let until = subtract(now, self.kept);
        let range = KeyRange { limit, ..KeyRange::default() };
        let mut deleted = 0;
        for document in self.documents.list(KIND, range, now).await? {
            let key = document.key.clone();
            // Ids grow with time, so that nothing after this one is older.
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

    /// At most so many entries, newest first, that come after an id.
    pub async fn list(&self, after: Option<String>, limit: usize) -> Result<Vec<Entry>> {
        let range = KeyRange { after, descending: true, limit, ..KeyRange::default() };
        let documents = self.documents.list(KIND, range, self.clock.now()).await?;
        documents.into_iter().map(read).collect()
    }
}

fn read(document: Document) -> Result<Entry> {
    serde_json::from_value(document.body).map_err(|error| {
        punctual::Error::new(
            punctual::ErrorKind::Corrupt,
            format!("the audit entry {:?} cannot be read", document.key),
        )
        .caused_by(error)
    })
}
