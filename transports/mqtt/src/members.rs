//! Who belongs to a group, and whose session is without its owner. Members say on the broker how they are,
//! and the broker says it for one that vanishes. What waits in the session of a member that is gone would
//! wait for ever; the eldest of those that are there adopts it.
//!
//! Pure: what is known, and what follows from it at an instant.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::clock::add;
use punctual::jiff::Timestamp;

/// Said by a member that is there.
pub(crate) const HERE: &[u8] = b"here";
/// Said by a member that left in order.
pub(crate) const LEFT: &[u8] = b"left";
/// Said by the broker for a member whose connection broke.
pub(crate) const GONE: &[u8] = b"gone";

/// How often a member says that it is there.
pub(crate) const SAID_EVERY: Duration = Duration::from_secs(20);
/// A member that has said nothing for so long is gone, although nobody said so.
const SILENCE_MAX: Duration = Duration::from_secs(70);
/// After so long an adoption that failed is tried again.
const TRIED_EVERY: Duration = Duration::from_secs(5);

/// The members of one group of one topic, as one of them sees them.
#[derive(Debug)]
pub(crate) struct Members {
    own: String,
    /// How long a member whose connection broke may take to come back.
    patience: Duration,
    others: BTreeMap<String, Member>,
}

#[derive(Debug)]
struct Member {
    is_here: bool,
    /// Whether it left in order: nobody was handling what it had.
    is_in_order: bool,
    /// When its session may be adopted.
    free_at: Timestamp,
}

/// A session to be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) id: String,
    pub(crate) is_in_order: bool,
}

impl Members {
    pub(crate) fn new(own: String, patience: Duration) -> Self {
        Self { own, patience, others: BTreeMap::new() }
    }

    /// Notes what is said of a member; answers whether it was said of us and is wrong.
    pub(crate) fn note(&mut self, id: &str, said: &[u8], now: Timestamp) -> bool {
        if id == self.own {
            return said != HERE;
        }
        let (is_here, is_in_order, wait) = match said {
            HERE => (true, false, SILENCE_MAX),
            GONE => (false, false, self.patience),
            LEFT => (false, true, Duration::ZERO),
            // Nothing is left of it, or somebody else says what we do not understand.
            _ => {
                self.others.remove(id);
                return false;
            }
        };
        let member = Member { is_here, is_in_order, free_at: add(now, wait) };
        self.others.insert(id.to_owned(), member);
        false
    }

    /// The session that is ours to adopt now.
    pub(crate) fn orphan(&self, now: Timestamp) -> Option<Orphan> {
        if !self.is_eldest(now) {
            return None;
        }
        let (id, member) = self.others.iter().find(|(_, member)| member.free_at <= now)?;
        Some(Orphan { id: id.clone(), is_in_order: member.is_in_order })
    }

    /// When to look again, if nothing is said before.
    pub(crate) fn next_look(&self, now: Timestamp) -> Timestamp {
        let free = self.others.values().map(|member| member.free_at).filter(|at| *at > now);
        free.min().unwrap_or(Timestamp::MAX)
    }

    /// An adoption did not work; it is tried again a little later.
    pub(crate) fn try_again(&mut self, id: &str, now: Timestamp) {
        if let Some(member) = self.others.get_mut(id) {
            member.free_at = add(now, TRIED_EVERY);
        }
    }

    /// Nothing is left of a member.
    pub(crate) fn forget(&mut self, id: &str) {
        self.others.remove(id);
    }

    /// Identities begin with a time, so the least is the eldest.
    fn is_eldest(&self, now: Timestamp) -> bool {
        let mut here =
            self.others.iter().filter(|(_, member)| member.is_here && member.free_at > now);
        here.all(|(id, _)| *id > self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn members(own: &str) -> Members {
        Members::new(own.to_owned(), Duration::from_secs(10))
    }

    fn orphan(id: &str, is_in_order: bool) -> Orphan {
        Orphan { id: id.to_owned(), is_in_order }
    }

    #[test]
    fn one_that_left_is_adopted_at_once_and_one_that_broke_after_a_while() {
        let mut members = members("b");
        members.note("a", LEFT, at(0));
        assert_eq!(members.orphan(at(0)), Some(orphan("a", true)));
        members.note("a", GONE, at(0));
        assert_eq!(members.orphan(at(9)), None);
        assert_eq!(members.next_look(at(9)), at(10));
        assert_eq!(members.orphan(at(10)), Some(orphan("a", false)));
        members.note("a", HERE, at(10));
        assert_eq!(members.orphan(at(60)), None, "it came back");
        members.note("a", b"", at(60));
        assert_eq!(members.orphan(at(1_000)), None, "somebody else adopted it");
    }

    #[test]
    fn the_eldest_that_is_there_adopts_and_nobody_else() {
        let mut members = members("b");
        members.note("c", LEFT, at(0));
        members.note("a", HERE, at(0));
        assert_eq!(members.orphan(at(1)), None, "a is older");
        members.note("d", HERE, at(1));
        members.note("a", GONE, at(2));
        assert_eq!(members.orphan(at(2)), Some(orphan("c", true)));
    }

    #[test]
    fn one_that_says_nothing_for_long_is_gone() {
        let mut members = members("b");
        members.note("a", HERE, at(0));
        assert_eq!(members.orphan(at(69)), None);
        assert_eq!(members.next_look(at(0)), at(70));
        assert_eq!(members.orphan(at(70)), Some(orphan("a", false)));
        members.try_again("a", at(70));
        assert_eq!(members.orphan(at(74)), None);
        assert_eq!(members.orphan(at(75)), Some(orphan("a", false)));
        members.forget("a");
        assert_eq!(members.orphan(at(80)), None);
    }

    #[test]
    fn what_is_said_of_us_is_put_right() {
        let mut members = members("b");
        assert!(!members.note("b", HERE, at(0)));
        assert!(members.note("b", GONE, at(0)) && members.note("b", b"", at(0)));
        assert_eq!(members.orphan(at(100)), None, "nobody adopts itself");
    }
}
