//! Users: a name, a role and the hash of a password. Sessions and tokens belong to the id of a user, not to the
//! name, so a new user with the name of a deleted one inherits nothing. `last_admin.rs` ensures that an admin
//! always remains.

mod last_admin;

use std::sync::Arc;

use jiff::Timestamp;
use punctual::backend::documents::{DocumentStore, ExpectedVersion};
use punctual::{Clock, Result};
use serde::{Deserialize, Serialize};

pub(crate) use self::last_admin::KIND as LAST_ADMIN_KIND;
use self::last_admin::RoleRemovals;
use super::changes::Changes;
use crate::caller::Role;
use crate::document_store::TypedStore;
use crate::problem::{ApiResult, Problem};
use crate::secret::random;

/// The kind of the documents.
pub(crate) const KIND: &str = "user";

/// Largest number of characters of a name.
const NAME_MAX: usize = 100;
/// Attempts of a change under concurrent writes.
const TRIES_MAX: usize = 5;

/// A user who may log in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct User {
    /// Random id, never reused.
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) hash: String,
    /// Incremented by every change that ends older sessions.
    pub(crate) generation: u64,
    /// Incremented by every change that ends older tokens, even when the user may log in again.
    #[serde(default)]
    pub(crate) tokens_generation: u64,
    pub(crate) disabled: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) last_login_at: Option<Timestamp>,
    /// Issuer and subject at the identity provider, for users without a password here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
}

impl User {
    /// Returns a new user.
    pub(crate) fn new(name: String, role: Role, hash: String, now: Timestamp) -> Self {
        Self {
            id: random(),
            name,
            role,
            hash,
            generation: 1,
            tokens_generation: 0,
            disabled: false,
            created_at: now,
            last_login_at: None,
            subject: None,
        }
    }

    /// Returns whether the user may manage users.
    pub(crate) fn is_admin(&self) -> bool {
        self.role == Role::Admin && !self.disabled
    }
}

/// Store of users.
#[derive(Clone)]
pub(crate) struct Users {
    store: TypedStore<User>,
    role_removals: TypedStore<RoleRemovals>,
    changes: Changes,
    clock: Arc<dyn Clock>,
}

impl Users {
    pub(super) fn new(
        documents: &Arc<dyn DocumentStore>,
        clock: &Arc<dyn Clock>,
        changes: &Changes,
    ) -> Self {
        let store = TypedStore::new(KIND, documents.clone(), clock.clone());
        let role_removals = TypedStore::new(LAST_ADMIN_KIND, documents.clone(), clock.clone());
        Self { store, role_removals, changes: changes.clone(), clock: clock.clone() }
    }

    /// Returns a user by name; none for an invalid name.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<User>> {
        if check_name(name).is_err() {
            return Ok(None);
        }
        Ok(self.store.get(name).await?.map(|(user, _)| user))
    }

    pub(crate) async fn get(&self, name: &str) -> ApiResult<User> {
        self.find(name).await?.ok_or_else(|| unknown(name))
    }

    pub(crate) async fn list(&self, after: Option<String>, limit: usize) -> Result<Vec<User>> {
        let users = self.store.list(after, limit).await?;
        Ok(users.into_iter().map(|(_, user)| user).collect())
    }

    pub(crate) async fn create(&self, user: &User) -> ApiResult<()> {
        check_name(&user.name)?;
        if user.name.contains("(token ") {
            let sentence = format!(
                "{:?} cannot be the name of a user: in the audit trail it would look like a token",
                user.name
            );
            return Err(Problem::refused(sentence).field("name", "looks like the name of a token"));
        }
        if self.store.put(&user.name, user, ExpectedVersion::New, None).await? {
            return Ok(());
        }
        Err(Problem::conflict(format!("the user {:?} already exists", user.name)))
    }

    /// Changes a user, retrying after a concurrent write; returns the user before and after. Does not protect the
    /// last admin.
    pub(crate) async fn change(
        &self,
        name: &str,
        change: impl Fn(&mut User),
    ) -> ApiResult<(User, User)> {
        for _ in 0..TRIES_MAX {
            let (before, version) = self.stored(name).await?;
            let mut after = before.clone();
            change(&mut after);
            if self.store.put(name, &after, ExpectedVersion::Version(version), None).await? {
                self.changes.note();
                return Ok((before, after));
            }
        }
        Err(concurrent_changes(name))
    }

    /// Returns a user and the version of their document.
    async fn stored(&self, name: &str) -> ApiResult<(User, u64)> {
        let found = if check_name(name).is_ok() { self.store.get(name).await? } else { None };
        found.ok_or_else(|| unknown(name))
    }
}

pub(super) fn check_name(name: &str) -> ApiResult<()> {
    let is_good = (1..=NAME_MAX).contains(&name.chars().count())
        && name.trim() == name
        && !name.chars().any(|c| c.is_control() || c == ':');
    if is_good {
        return Ok(());
    }
    let sentence = format!(
        "{name:?} cannot be the name of a user; use 1 to {NAME_MAX} characters without a colon, and without spaces at its ends"
    );
    Err(Problem::refused(sentence).field("name", "cannot be the name of a user"))
}

fn concurrent_changes(name: &str) -> Problem {
    Problem::conflict(format!("the user {name:?} was changed concurrently; try again"))
        .retry_after(1)
}

fn unknown(name: &str) -> Problem {
    Problem::not_found(format!("there is no user {name:?}"))
}
