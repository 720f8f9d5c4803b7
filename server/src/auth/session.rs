//! Sessions of users who logged in. The cookie holds a random secret; only its hash is stored.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{DocumentStore, ExpectedVersion};
use punctual::clock::{add, between};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

use super::changes::Changes;
use super::{User, Users};
use crate::document_store::TypedStore;
use crate::secret::{hashed, random};

/// The kind of the documents.
pub(crate) const KIND: &str = "session";

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "punctual_session";
/// Longest lifetime of a session, however often it is used.
const LIFETIME_MAX: Duration = Duration::from_hours(30 * 24);

/// A session of a user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The name of the user.
    pub(crate) user: String,
    /// The id of the user.
    #[serde(default)]
    pub(crate) user_id: String,
    pub(crate) generation: u64,
    /// When the user logged in.
    #[serde(default)]
    pub(crate) began_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

impl Session {
    /// Returns whether the session is valid for this user: not disabled, same id and generation.
    fn is_of(&self, user: &User) -> bool {
        !user.disabled && self.user_id == user.id && self.generation == user.generation
    }
}

/// Store of sessions.
#[derive(Clone)]
pub(crate) struct Sessions {
    store: TypedStore<Session>,
    users: Users,
    changes: Changes,
    clock: Arc<dyn Clock>,
    ttl: Duration,
}

impl Sessions {
    pub(super) fn new(
        documents: &Arc<dyn DocumentStore>,
        clock: &Arc<dyn Clock>,
        (users, changes): (&Users, &Changes),
        ttl: Duration,
    ) -> Self {
        let store = TypedStore::new(KIND, documents.clone(), clock.clone());
        let (users, changes) = (users.clone(), changes.clone());
        Self { store, users, changes, clock: clock.clone(), ttl }
    }

    /// Begins a session and returns its secret.
    pub(crate) async fn begin(&self, user: &User) -> Result<String> {
        let (secret, now) = (random(), self.clock.now());
        let session = Session {
            user: user.name.clone(),
            user_id: user.id.clone(),
            generation: user.generation,
            began_at: now,
            expires_at: add(now, self.ttl),
        };
        let expires_at = Some(session.expires_at);
        self.store.put(&hashed(&secret), &session, ExpectedVersion::New, expires_at).await?;
        Ok(secret)
    }

    /// Returns the user of a session secret. Extends a used session past half of its lifetime, up to the longest one.
    pub(super) async fn user(&self, secret: &str) -> Result<Option<User>> {
        let key = hashed(secret);
        let Some((session, version)) = self.store.get(&key).await? else { return Ok(None) };
        let user = self.users.find(&session.user).await?.filter(|user| session.is_of(user));
        let now = self.clock.now();
        let last = add(session.began_at, LIFETIME_MAX);
        if now >= last {
            return Ok(None);
        }
        if user.is_some() && between(now, session.expires_at) < self.ttl / 2 {
            let expires_at = add(now, self.ttl).min(last);
            // Only over the version that was read, so that a session that ended meanwhile is not restored.
            let extended = Session { expires_at, ..session };
            self.store
                .put(&key, &extended, ExpectedVersion::Version(version), Some(expires_at))
                .await?;
        }
        Ok(user)
    }

    /// Ends a session; returns whether it existed.
    pub(crate) async fn end(&self, secret: &str) -> Result<bool> {
        let existed = self.store.remove(&hashed(secret)).await?;
        self.changes.note();
        Ok(existed)
    }
}

/// Returns the CSRF token of a session, which only pages of the same origin can read.
pub(crate) fn csrf_of(secret: &str) -> String {
    hashed(&format!("csrf {secret}"))
}
