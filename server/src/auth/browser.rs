//! Browsers that logged in before. A login leaves a second cookie that outlives the session; who shows it is not let
//! in by it, but is not slowed by the guesses of strangers either. It counts for one user, and only its hash is kept.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::documents::{DocumentStore, ExpectedVersion};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

use super::User;
use crate::secret::{hashed, random};
use crate::shelf::Shelf;

/// The kind of the documents.
pub(crate) const KIND: &str = "browser";

/// The name of the cookie.
pub(crate) const BROWSER_COOKIE: &str = "punctual_browser";
/// How long a browser is known after a login.
pub(crate) const BROWSER_KNOWN_FOR: Duration = Duration::from_hours(180 * 24);
/// The characters of a cookie that this server gave: 32 bytes in base64.
const LENGTH: usize = 43;

/// A browser, by the id of the user who logged in with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Browser {
    user_id: String,
    expires_at: Timestamp,
}

/// All browsers.
#[derive(Clone)]
pub(crate) struct Browsers {
    shelf: Shelf<Browser>,
    clock: Arc<dyn Clock>,
}

impl Browsers {
    pub(super) fn new(documents: &Arc<dyn DocumentStore>, clock: &Arc<dyn Clock>) -> Self {
        let shelf = Shelf::new(KIND, documents.clone(), clock.clone());
        Self { shelf, clock: clock.clone() }
    }

    /// Returns the hash of a cookie that a login of this user left.
    pub(super) async fn known(&self, secret: &str, user: &User) -> Result<Option<String>> {
        Ok(self.find(secret, user).await?.map(|_| hashed(secret)))
    }

    /// Returns the cookie that a browser gets at a login: the one it has while that is young, else a new one.
    pub(crate) async fn remember(&self, secret: Option<&str>, user: &User) -> Result<String> {
        let now = self.clock.now();
        if let Some(secret) = secret
            && let Some(known) = self.find(secret, user).await?
            && between(now, known.expires_at) > BROWSER_KNOWN_FOR / 2
        {
            return Ok(secret.to_owned());
        }
        let (new, expires_at) = (random(), add(now, BROWSER_KNOWN_FOR));
        let browser = Browser { user_id: user.id.clone(), expires_at };
        self.shelf.put(&hashed(&new), &browser, ExpectedVersion::New, Some(expires_at)).await?;
        if let Some(old) = secret.filter(|old| old.len() == LENGTH) {
            self.shelf.remove(&hashed(old)).await?;
        }
        Ok(new)
    }

    async fn find(&self, secret: &str, user: &User) -> Result<Option<Browser>> {
        if secret.len() != LENGTH || user.id.is_empty() {
            return Ok(None);
        }
        let found = self.shelf.get(&hashed(secret)).await?;
        Ok(found.map(|(browser, _)| browser).filter(|browser| browser.user_id == user.id))
    }
}
