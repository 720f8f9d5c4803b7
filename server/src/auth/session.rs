//! Sessions of people who logged in. The cookie holds a random secret; only its hash is kept, so that what
//! is stored lets nobody in.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::documents::{DocumentStore, ExpectedVersion};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

use super::changes::Changes;
use super::{User, Users};
use crate::secret::{hashed, random};
use crate::shelf::Shelf;

/// The kind of the documents.
pub(crate) const KIND: &str = "session";

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "punctual_session";
/// How long a session lasts at most, however often it is used.
const LIFE_MAX: Duration = Duration::from_hours(30 * 24);

/// Somebody who logged in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The name of the user.
    pub(crate) user: String,
    /// The id of the user.
    #[serde(default)]
    pub(crate) user_id: String,
    pub(crate) generation: u64,
    /// When it began.
    #[serde(default)]
    pub(crate) began_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

impl Session {
    /// Whether it is a session of this user as they are now.
    fn is_of(&self, user: &User) -> bool {
        !user.disabled && self.user_id == user.id && self.generation == user.generation
    }
}

/// All sessions.
#[derive(Clone)]
pub(crate) struct Sessions {
    shelf: Shelf<Session>,
    users: Users,
    changes: Changes,
    clock: Arc<dyn Clock>,
    length: Duration,
}

impl Sessions {
    pub(super) fn new(
        documents: &Arc<dyn DocumentStore>,
        clock: &Arc<dyn Clock>,
        (users, changes): (&Users, &Changes),
        length: Duration,
    ) -> Self {
        let shelf = Shelf::new(KIND, documents.clone(), clock.clone());
        let (users, changes) = (users.clone(), changes.clone());
        Self { shelf, users, changes, clock: clock.clone(), length }
    }

    /// Begins a session; answers its secret.
    pub(crate) async fn begin(&self, user: &User) -> Result<String> {
        let (secret, now) = (random(), self.clock.now());
        let session = Session {
            user: user.name.clone(),
            user_id: user.id.clone(),
            generation: user.generation,
            began_at: now,
            expires_at: add(now, self.length),
        };
        let expires_at = Some(session.expires_at);
        self.shelf.put(&hashed(&secret), &session, ExpectedVersion::New, expires_at).await?;
        Ok(secret)
    }

    /// The user whose session a secret is. One that is used lives on: past half of its time it is prolonged,
    /// up to its longest life.
    pub(super) async fn user(&self, secret: &str) -> Result<Option<User>> {
        let place = hashed(secret);
        let Some((session, version)) = self.shelf.get(&place).await? else { return Ok(None) };
        let user = self.users.find(&session.user).await?.filter(|user| session.is_of(user));
        let now = self.clock.now();
        let last = add(session.began_at, LIFE_MAX);
        if now >= last {
            return Ok(None);
        }
        if user.is_some() && between(now, session.expires_at) < self.length / 2 {
            let expires_at = add(now, self.length).min(last);
            // Only over what was read, so that one that ended meanwhile does not come back.
            let longer = Session { expires_at, ..session };
            self.shelf
                .put(&place, &longer, ExpectedVersion::Version(version), Some(expires_at))
                .await?;
        }
        Ok(user)
    }

    /// Ends one; whether there was one.
    pub(crate) async fn end(&self, secret: &str) -> Result<bool> {
        let was_there = self.shelf.remove(&hashed(secret)).await?;
        self.changes.note();
        Ok(was_there)
    }
}

/// What changing calls of a session must show; whoever cannot read the page cannot know it.
pub(crate) fn csrf_of(secret: &str) -> String {
    hashed(&format!("csrf {secret}"))
}
