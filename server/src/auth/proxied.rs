//! People whom a proxy in front knows: the role each had when they last came, so that their tokens never allow
//! more than the proxy says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::documents::{DocumentStore, ExpectedVersion};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

use crate::caller::Role;
use crate::secret::hashed;
use crate::shelf::Shelf;

/// The kind of the documents.
pub(crate) const KIND: &str = "proxied";

/// How long somebody is remembered who does not come; their tokens end with it.
const REMEMBERED: Duration = Duration::from_hours(90 * 24);
/// The same role is written down again no more often than this.
const NOTED_EVERY: Duration = Duration::from_secs(60);
/// The most people who are remembered in memory, so that not every call writes.
const PEOPLE_MAX: usize = 10_000;

/// Somebody as they last came.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Person {
    name: String,
    role: Role,
    at: Timestamp,
}

/// Everybody whom the proxy has let through.
#[derive(Clone)]
pub(super) struct Proxied {
    shelf: Shelf<Person>,
    clock: Arc<dyn Clock>,
    noted: Arc<Mutex<HashMap<String, (Role, Timestamp)>>>,
}

impl Proxied {
    pub(super) fn new(documents: &Arc<dyn DocumentStore>, clock: &Arc<dyn Clock>) -> Self {
        let shelf = Shelf::new(KIND, documents.clone(), clock.clone());
        Self { shelf, clock: clock.clone(), noted: Arc::default() }
    }

    /// Notes that somebody came with a role.
    pub(super) async fn came(&self, name: &str, role: Role) -> Result<()> {
        let now = self.clock.now();
        let known = self.noted.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        if known.is_some_and(|(noted, at)| noted == role && between(at, now) < NOTED_EVERY) {
            return Ok(());
        }
        let person = Person { name: name.to_owned(), role, at: now };
        let until = Some(add(now, REMEMBERED));
        self.shelf.put(&hashed(name), &person, ExpectedVersion::Any, until).await?;
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= PEOPLE_MAX {
            noted.clear();
        }
        noted.insert(name.to_owned(), (role, now));
        Ok(())
    }

    /// The role somebody had when they last came; none when that was too long ago.
    pub(super) async fn role(&self, name: &str) -> Result<Option<Role>> {
        Ok(self.shelf.get(&hashed(name)).await?.map(|(person, _)| person.role))
    }
}
