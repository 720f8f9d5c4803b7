//! Last admin protection: a user who may manage users always remains, however many servers change users concurrently.
//!
//! A request that removes the role of an admin announces it first, in one document that all servers share. An
//! announcement names the version of the user that it was decided on, and the user is then changed only in that
//! version. So an announcement is pending exactly while the user has that version, and does not need to be
//! removed. A user with an announced removal does not count as a remaining admin. Role changes by an identity
//! provider are not checked.

use std::time::Duration;

use jiff::Timestamp;
use punctual::backend::documents::ExpectedVersion;
use punctual::clock::between;
use serde::{Deserialize, Serialize};

use super::{User, Users, concurrent_changes};
use crate::problem::{ApiResult, Problem};

/// The kind of the document.
pub(crate) const KIND: &str = "last_admin";
/// The key of the document.
const KEY: &str = "departures";
/// Attempts of a change under concurrent writes.
const TRIES_MAX: usize = 10;
/// Page size and largest number of pages when another admin is searched.
const PAGE: usize = 200;
const PAGES_MAX: usize = 100;
/// After how long an announcement counts as abandoned, because its server or its request has ended.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The admins who are about to lose the role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RoleRemovals {
    users: Vec<RoleRemoval>,
}

/// An admin who is about to lose the role.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RoleRemoval {
    name: String,
    /// The version of the user that it was decided on.
    version: u64,
    at: Timestamp,
}

impl Users {
    /// Changes a user as [`Users::change`] does, and refuses when no admin would remain.
    pub(crate) async fn change_unless_last_admin(
        &self,
        name: &str,
        change: impl Fn(&mut User),
    ) -> ApiResult<(User, User)> {
        for _ in 0..TRIES_MAX {
            let (before, version) = self.stored(name).await?;
            let mut after = before.clone();
            change(&mut after);
            if before.is_admin() && !after.is_admin() && !self.announce(name, version).await? {
                continue;
            }
            if self.store.put(name, &after, ExpectedVersion::Version(version), None).await? {
                self.changes.note();
                return Ok((before, after));
            }
        }
        Err(concurrent_changes(name))
    }

    /// Removes and returns a user; refuses when no admin would remain.
    pub(crate) async fn remove_unless_last_admin(&self, name: &str) -> ApiResult<User> {
        for _ in 0..TRIES_MAX {
            let (user, version) = self.stored(name).await?;
            if user.is_admin() && !self.announce(name, version).await? {
                continue;
            }
            if self.store.remove_version(name, ExpectedVersion::Version(version)).await? {
                self.changes.note();
                return Ok(user);
            }
        }
        Err(concurrent_changes(name))
    }

    /// Announces that this version of an admin loses the role; false after a concurrent announcement, when the
    /// decision must be repeated. Refuses when no other admin would remain.
    async fn announce(&self, name: &str, version: u64) -> ApiResult<bool> {
        let stored = self.role_removals.get(KEY).await?;
        let (announced, expected) = match stored {
            Some((removals, version)) => (removals.users, ExpectedVersion::Version(version)),
            None => (Vec::new(), ExpectedVersion::New),
        };
        let mut users = Vec::new();
        for removal in announced {
            if self.is_pending(&removal).await? {
                users.push(removal);
            }
        }
        let leaves = |user: &User| users.iter().any(|removal| removal.name == user.name);
        if !self.has_admin(|user| user.name != name && !leaves(user)).await? {
            return Err(is_last(name, &users));
        }
        let at = self.clock.now();
        users.push(RoleRemoval { name: name.to_owned(), version, at });
        Ok(self.role_removals.put(KEY, &RoleRemovals { users }, expected, None).await?)
    }

    /// Returns whether this announcement is pending. Ends an abandoned one by writing the user unchanged, which
    /// gives it a new version.
    async fn is_pending(&self, removal: &RoleRemoval) -> ApiResult<bool> {
        let Some((user, version)) = self.store.get(&removal.name).await? else {
            return Ok(false);
        };
        if version != removal.version {
            return Ok(false);
        }
        if between(removal.at, self.clock.now()) < ABANDONED_AFTER {
            return Ok(true);
        }
        // A conflict means that the user was changed, which ends the announcement as well.
        self.store.put(&removal.name, &user, ExpectedVersion::Version(version), None).await?;
        Ok(false)
    }

    /// Returns whether an admin satisfies the predicate.
    async fn has_admin(&self, counts: impl Fn(&User) -> bool) -> ApiResult<bool> {
        let mut after = None;
        for _ in 0..PAGES_MAX {
            let page = self.list(after, PAGE).await?;
            if page.iter().any(|user| user.is_admin() && counts(user)) {
                return Ok(true);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.name.clone()),
                _ => break,
            }
        }
        Ok(false)
    }
}

fn is_last(name: &str, leaving: &[RoleRemoval]) -> Problem {
    let others: Vec<&str> =
        leaving.iter().map(|one| one.name.as_str()).filter(|other| *other != name).collect();
    let fix = "give another user the role admin first";
    if others.is_empty() {
        return Problem::conflict(format!("{name:?} is the only admin; {fix}"));
    }
    let others = others.join(", ");
    let sentence = format!(
        "{name:?} is the only admin besides {others}, whose role another request is removing; {fix}"
    );
    Problem::conflict(sentence).retry_after(1)
}
