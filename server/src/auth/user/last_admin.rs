//! Last admin: a user who may manage users always remains, however many servers change users at once.
//!
//! Whoever takes the role of an admin away announces it first, in one document that all servers share. An
//! announcement names the version of the user that it was decided on, and the user is then changed only in that
//! version. So an announcement is under way exactly while the user has that version, and needs nobody to end it. A
//! user whose departure is announced does not count as an admin who remains. What a provider of `OpenID` Connect says
//! does not go this way.

use std::time::Duration;

use jiff::Timestamp;
use punctual::clock::between;
use punctual::documents::ExpectedVersion;
use serde::{Deserialize, Serialize};

use super::{User, Users, kept_changing};
use crate::problem::{Answer, Problem};

/// The kind of the document.
pub(crate) const KIND: &str = "last_admin";
/// Its key.
const KEY: &str = "departures";
/// How often a change is tried again when other servers change users at the same time.
const TRIES_MAX: usize = 10;
/// How many users are read at once, and how often, to find another admin.
const PAGE: usize = 200;
const PAGES_MAX: usize = 100;
/// After how long an announcement counts as abandoned, because its server has ended or its request has.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The admins who are about to lose the role.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Departures {
    users: Vec<Departure>,
}

/// An admin who is about to lose the role.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Departure {
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
    ) -> Answer<(User, User)> {
        for _ in 0..TRIES_MAX {
            let (before, version) = self.stored(name).await?;
            let mut after = before.clone();
            change(&mut after);
            if before.is_admin() && !after.is_admin() && !self.announce(name, version).await? {
                continue;
            }
            if self.shelf.put(name, &after, ExpectedVersion::Version(version), None).await? {
                self.changes.note();
                return Ok((before, after));
            }
        }
        Err(kept_changing(name))
    }

    /// Removes a user, and refuses when no admin would remain; returns the user.
    pub(crate) async fn remove_unless_last_admin(&self, name: &str) -> Answer<User> {
        for _ in 0..TRIES_MAX {
            let (user, version) = self.stored(name).await?;
            if user.is_admin() && !self.announce(name, version).await? {
                continue;
            }
            if self.shelf.remove_seen(name, ExpectedVersion::Version(version)).await? {
                self.changes.note();
                return Ok(user);
            }
        }
        Err(kept_changing(name))
    }

    /// Announces that this version of an admin loses the role; false when another server was faster, and it has to be
    /// decided anew. Refuses when nobody else could manage users afterwards.
    async fn announce(&self, name: &str, version: u64) -> Answer<bool> {
        let stored = self.departures.get(KEY).await?;
        let (announced, seen) = match stored {
            Some((departures, version)) => (departures.users, ExpectedVersion::Version(version)),
            None => (Vec::new(), ExpectedVersion::New),
        };
        let mut users = Vec::new();
        for departure in announced {
            if self.is_under_way(&departure).await? {
                users.push(departure);
            }
        }
        let leaves = |user: &User| users.iter().any(|departure| departure.name == user.name);
        if !self.has_admin(|user| user.name != name && !leaves(user)).await? {
            return Err(is_last(name, &users));
        }
        let at = self.clock.now();
        users.push(Departure { name: name.to_owned(), version, at });
        Ok(self.departures.put(KEY, &Departures { users }, seen, None).await?)
    }

    /// Whether the user can still lose the role by this announcement. One that was abandoned is ended: the user is
    /// written as they are, in a version that nothing was announced for.
    async fn is_under_way(&self, departure: &Departure) -> Answer<bool> {
        let Some((user, version)) = self.shelf.get(&departure.name).await? else {
            return Ok(false);
        };
        if version != departure.version {
            return Ok(false);
        }
        if between(departure.at, self.clock.now()) < ABANDONED_AFTER {
            return Ok(true);
        }
        // When it is not written, somebody else has changed the user, which ends the announcement as well.
        self.shelf.put(&departure.name, &user, ExpectedVersion::Version(version), None).await?;
        Ok(false)
    }

    /// Whether there is an admin of whom this is true.
    async fn has_admin(&self, counts: impl Fn(&User) -> bool) -> Answer<bool> {
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

fn is_last(name: &str, leaving: &[Departure]) -> Problem {
    let others: Vec<&str> =
        leaving.iter().map(|one| one.name.as_str()).filter(|other| *other != name).collect();
    let way_out = "make somebody else an admin first";
    if others.is_empty() {
        return Problem::conflict(format!("{name:?} is the only admin; {way_out}"));
    }
    let others = others.join(", ");
    let sentence = format!(
        "{name:?} is the only admin besides {others}, whom another request takes the role from at the moment; {way_out}"
    );
    Problem::conflict(sentence).retry_after(1)
}
