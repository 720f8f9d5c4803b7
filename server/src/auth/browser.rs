//! Known browsers: a login leaves a second cookie that outlives the session. It does not authenticate, but
//! exempts the browser from the throttling caused by others. It is valid for one user, and only its hash is
//! stored.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{DocumentStore, ExpectedVersion};
use punctual::clock::{add, between};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

use super::User;
use crate::document_store::TypedStore;
use crate::secret::{hashed, random};

/// The kind of the documents.
pub(crate) const KIND: &str = "browser";

/// The name of the cookie.
pub(crate) const BROWSER_COOKIE: &str = "punctual_browser";
/// How long a browser is known after a login.
pub(crate) const BROWSER_TTL: Duration = Duration::from_hours(180 * 24);
/// Number of characters of a cookie: 32 bytes in base64.
const COOKIE_LEN: usize = 43;

/// A browser in which a user has logged in.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Browser {
    user_id: String,
    expires_at: Timestamp,
}

/// Store of known browsers.
#[derive(Clone)]
pub(crate) struct Browsers {
    store: TypedStore<Browser>,
    clock: Arc<dyn Clock>,
}

impl Browsers {
    pub(super) fn new(documents: &Arc<dyn DocumentStore>, clock: &Arc<dyn Clock>) -> Self {
        let store = TypedStore::new(KIND, documents.clone(), clock.clone());
        Self { store, clock: clock.clone() }
    }

    /// Returns the hash of the cookie if it belongs to this user.
    pub(super) async fn known(&self, secret: &str, user: &User) -> Result<Option<String>> {
        Ok(self.find(secret, user).await?.map(|_| hashed(secret)))
    }

    /// Returns the cookie for a browser at a login: its present one during the first half of its lifetime, else a
    /// new one.
    pub(crate) async fn remember(&self, secret: Option<&str>, user: &User) -> Result<String> {
        let now = self.clock.now();
        if let Some(secret) = secret
            && let Some(known) = self.find(secret, user).await?
            && between(now, known.expires_at) > BROWSER_TTL / 2
        {
            return Ok(secret.to_owned());
        }
        let (new, expires_at) = (random(), add(now, BROWSER_TTL));
        let browser = Browser { user_id: user.id.clone(), expires_at };
        self.store.put(&hashed(&new), &browser, ExpectedVersion::New, Some(expires_at)).await?;
        if let Some(old) = secret.filter(|old| old.len() == COOKIE_LEN) {
            self.store.remove(&hashed(old)).await?;
        }
        Ok(new)
    }

    async fn find(&self, secret: &str, user: &User) -> Result<Option<Browser>> {
        if secret.len() != COOKIE_LEN || user.id.is_empty() {
            return Ok(None);
        }
        let found = self.store.get(&hashed(secret)).await?;
        Ok(found.map(|(browser, _)| browser).filter(|browser| browser.user_id == user.id))
    }
}
