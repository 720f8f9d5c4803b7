//! Membership of a group: which consumers are online, and whose session has no owner. Members announce their status
//! in retained messages, and the broker publishes the will of one that vanishes. The messages in the session of a
//! member that is gone would wait forever; the oldest online member adopts it.
//!
//! Pure: known status, and the decisions derived from it at an instant.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::clock::add;
use punctual::jiff::Timestamp;

/// Status of a member that is online.
pub(crate) const HERE: &[u8] = b"here";
/// Status of a member that left cleanly.
pub(crate) const LEFT: &[u8] = b"left";
/// Status that the broker publishes for a member whose connection broke.
pub(crate) const GONE: &[u8] = b"gone";

/// How often a member announces its status.
pub(crate) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(20);
/// A member without an announcement for this long is treated as gone.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(70);
/// Wait before a failed adoption is retried.
const ADOPTION_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The members of one group of one topic, as seen by one of them.
#[derive(Debug)]
pub(crate) struct Membership {
    own: String,
    /// How long a member whose connection broke may take to reconnect.
    reconnect_timeout: Duration,
    others: BTreeMap<String, Member>,
}

#[derive(Debug)]
struct Member {
    is_online: bool,
    /// Whether it left cleanly: no handler was running its messages.
    left_cleanly: bool,
    /// When its session may be adopted.
    adoptable_at: Timestamp,
}

/// A session to be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrphanedSession {
    pub(crate) id: String,
    pub(crate) left_cleanly: bool,
}

impl Membership {
    pub(crate) fn new(own: String, reconnect_timeout: Duration) -> Self {
        Self { own, reconnect_timeout, others: BTreeMap::new() }
    }

    /// Records the status of a member; returns whether it concerns this member and is wrong.
    pub(crate) fn update(&mut self, id: &str, status: &[u8], now: Timestamp) -> bool {
        if id == self.own {
            return status != HERE;
        }
        let (is_online, left_cleanly, wait) = match status {
            HERE => (true, false, MEMBER_TIMEOUT),
            GONE => (false, false, self.reconnect_timeout),
            LEFT => (false, true, Duration::ZERO),
            // The session was ended, or the status is unknown.
            _ => {
                self.others.remove(id);
                return false;
            }
        };
        let member = Member { is_online, left_cleanly, adoptable_at: add(now, wait) };
        self.others.insert(id.to_owned(), member);
        false
    }

    /// Returns the session that this member has to adopt now.
    pub(crate) fn orphan(&self, now: Timestamp) -> Option<OrphanedSession> {
        if !self.is_oldest(now) {
            return None;
        }
        let (id, member) = self.others.iter().find(|(_, member)| member.adoptable_at <= now)?;
        Some(OrphanedSession { id: id.clone(), left_cleanly: member.left_cleanly })
    }

    /// Returns when to check again if no status arrives before.
    pub(crate) fn next_check_at(&self, now: Timestamp) -> Timestamp {
        let adoptable =
            self.others.values().map(|member| member.adoptable_at).filter(|at| *at > now);
        adoptable.min().unwrap_or(Timestamp::MAX)
    }

    /// Schedules the retry of a failed adoption.
    pub(crate) fn retry_later(&mut self, id: &str, now: Timestamp) {
        if let Some(member) = self.others.get_mut(id) {
            member.adoptable_at = add(now, ADOPTION_RETRY_INTERVAL);
        }
    }

    /// Removes a member whose session was ended.
    pub(crate) fn remove(&mut self, id: &str) {
        self.others.remove(id);
    }

    /// Identifiers begin with a time, so the smallest is the oldest.
    fn is_oldest(&self, now: Timestamp) -> bool {
        let mut online =
            self.others.iter().filter(|(_, member)| member.is_online && member.adoptable_at > now);
        online.all(|(id, _)| *id > self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn members(own: &str) -> Membership {
        Membership::new(own.to_owned(), Duration::from_secs(10))
    }

    fn orphan(id: &str, left_cleanly: bool) -> OrphanedSession {
        OrphanedSession { id: id.to_owned(), left_cleanly }
    }

    #[test]
    fn a_session_is_adopted_at_once_after_leaving_and_after_a_timeout_otherwise() {
        let mut members = members("b");
        members.update("a", LEFT, at(0));
        assert_eq!(members.orphan(at(0)), Some(orphan("a", true)));
        members.update("a", GONE, at(0));
        assert_eq!(members.orphan(at(9)), None);
        assert_eq!(members.next_check_at(at(9)), at(10));
        assert_eq!(members.orphan(at(10)), Some(orphan("a", false)));
        members.update("a", HERE, at(10));
        assert_eq!(members.orphan(at(60)), None, "it came back");
        members.update("a", b"", at(60));
        assert_eq!(members.orphan(at(1_000)), None, "another member adopted it");
    }

    #[test]
    fn only_the_oldest_online_member_adopts() {
        let mut members = members("b");
        members.update("c", LEFT, at(0));
        members.update("a", HERE, at(0));
        assert_eq!(members.orphan(at(1)), None, "a is older");
        members.update("d", HERE, at(1));
        members.update("a", GONE, at(2));
        assert_eq!(members.orphan(at(2)), Some(orphan("c", true)));
    }

    #[test]
    fn a_silent_member_is_treated_as_gone() {
        let mut members = members("b");
        members.update("a", HERE, at(0));
        assert_eq!(members.orphan(at(69)), None);
        assert_eq!(members.next_check_at(at(0)), at(70));
        assert_eq!(members.orphan(at(70)), Some(orphan("a", false)));
        members.retry_later("a", at(70));
        assert_eq!(members.orphan(at(74)), None);
        assert_eq!(members.orphan(at(75)), Some(orphan("a", false)));
        members.remove("a");
        assert_eq!(members.orphan(at(80)), None);
    }

    #[test]
    fn a_wrong_status_of_this_member_is_corrected() {
        let mut members = members("b");
        assert!(!members.update("b", HERE, at(0)));
        assert!(members.update("b", GONE, at(0)) && members.update("b", b"", at(0)));
        assert_eq!(members.orphan(at(100)), None, "no member adopts itself");
    }
}
