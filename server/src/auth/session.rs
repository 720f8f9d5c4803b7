//! Sessions of people who logged in. The cookie holds a random secret; only its hash is kept, so that what
//! is stored lets nobody in.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::documents::{Documents, Seen};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

use super::User;
use crate::secret::{hashed, random};
use crate::shelf::Shelf;

/// The name of the cookie.
pub(crate) const COOKIE_NAME: &str = "punctual_session";

/// Somebody who logged in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) generation: u64,
    pub(crate) expires_at: Timestamp,
}

/// All sessions.
#[derive(Clone)]
pub(crate) struct Sessions {
    shelf: Shelf<Session>,
    clock: Arc<dyn Clock>,
    length: Duration,
}

impl Sessions {
    pub(super) fn new(
        documents: &Arc<dyn Documents>,
        clock: &Arc<dyn Clock>,
        length: Duration,
    ) -> Self {
        let shelf = Shelf::new("session", documents.clone(), clock.clone());
        Self { shelf, clock: clock.clone(), length }
    }

    /// Begins a session; answers its secret.
    pub(crate) async fn begin(&self, user: &User) -> Result<String> {
        let secret = random();
        self.keep(&secret, &user.name, user.generation).await?;
        Ok(secret)
    }

    /// The session of a secret. One that is used lives on: past half of its time it begins anew.
    pub(super) async fn find(&self, secret: &str) -> Result<Option<Session>> {
        let found = self.shelf.get(&hashed(secret)).await?.map(|(session, _)| session);
        if let Some(session) = &found
            && between(self.clock.now(), session.expires_at) < self.length / 2
        {
            self.keep(secret, &session.user, session.generation).await?;
        }
        Ok(found)
    }

    pub(crate) async fn end(&self, secret: &str) -> Result<()> {
        self.shelf.remove(&hashed(secret)).await?;
        Ok(())
    }

    async fn keep(&self, secret: &str, user: &str, generation: u64) -> Result<()> {
        let expires_at = add(self.clock.now(), self.length);
        let session = Session { user: user.to_owned(), generation, expires_at };
        self.shelf.put(&hashed(secret), &session, Seen::Any, Some(expires_at)).await?;
        Ok(())
    }
}

/// What changing calls of a session must show; whoever cannot read the page cannot know it.
pub(crate) fn csrf_of(secret: &str) -> String {
    hashed(&format!("csrf {secret}"))
}
