//! Users of the authenticating proxy: the last role of each, so that their tokens never grant more than the proxy
//! does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::{DocumentStore, ExpectedVersion};
use punctual::clock::{add, between};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

use crate::caller::Role;
use crate::document_store::TypedStore;
use crate::secret::hashed;

/// The kind of the documents.
pub(crate) const KIND: &str = "proxied";

/// How long an inactive user is remembered; their tokens end with it.
const ROLE_TTL: Duration = Duration::from_hours(90 * 24);
/// Shortest interval between writes of an unchanged role.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);
/// Largest number of users in the memory cache, which avoids a write per request.
const CACHED_MAX: usize = 10_000;

/// A user at the last request.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ProxyUser {
    name: String,
    role: Role,
    at: Timestamp,
}

/// Store of the users behind the proxy.
#[derive(Clone)]
pub(super) struct ProxyUsers {
    store: TypedStore<ProxyUser>,
    clock: Arc<dyn Clock>,
    recorded: Arc<Mutex<HashMap<String, (Role, Timestamp)>>>,
}

impl ProxyUsers {
    pub(super) fn new(documents: &Arc<dyn DocumentStore>, clock: &Arc<dyn Clock>) -> Self {
        let store = TypedStore::new(KIND, documents.clone(), clock.clone());
        Self { store, clock: clock.clone(), recorded: Arc::default() }
    }

    /// Records the role of a user who sent a request.
    pub(super) async fn record(&self, name: &str, role: Role) -> Result<()> {
        let now = self.clock.now();
        let known = self.recorded.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        if known
            .is_some_and(|(recorded, at)| recorded == role && between(at, now) < RECORD_INTERVAL)
        {
            return Ok(());
        }
        let user = ProxyUser { name: name.to_owned(), role, at: now };
        let until = Some(add(now, ROLE_TTL));
        self.store.put(&hashed(name), &user, ExpectedVersion::Any, until).await?;
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.len() >= CACHED_MAX {
            recorded.clear();
        }
        recorded.insert(name.to_owned(), (role, now));
        Ok(())
    }

    /// Returns the last role of a user; none when the user was inactive for too long.
    pub(super) async fn role(&self, name: &str) -> Result<Option<Role>> {
        Ok(self.store.get(&hashed(name)).await?.map(|(user, _)| user.role))
    }
}
