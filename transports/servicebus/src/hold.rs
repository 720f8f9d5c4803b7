//! What a consumer has in hand, and what it was losing when its connection broke.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual::clock;
use punctual::jiff::Timestamp;

use crate::manage::Lock;
use crate::wire::Read;

/// How long a lock is taken to last when the broker does not say.
const LOCK_LENGTH: Duration = Duration::from_secs(30);
/// How long after its lock has run out a message may take to come again.
const LOSS_LENGTH: Duration = Duration::from_secs(60);
/// The most that is forgiven; more than can be on its way.
const FORGIVEN_MAX: usize = 4_096;
/// The most locks in one question.
const ASK_MAX: usize = 100;

/// A delivery's number: that of the link it came by, and its own on that link.
pub(crate) type Number = (u64, u32);

/// The right to one delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) lock: Lock,
    renew_at: Timestamp,
}

/// A delivery in hand.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// None when the lock is lost or was never known.
    hold: Option<Hold>,
    sequence: Option<i64>,
    /// Whether anybody has seen the delivery.
    is_given: bool,
}

/// All deliveries that are unsettled.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<Number, Held>>);

impl Holds {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Number, Held>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn len(&self) -> usize {
        self.with(|holds| holds.len())
    }

    /// Takes a delivery in hand.
    pub(crate) fn take(&self, number: Number, read: &Read, now: Timestamp) {
        let until = read.locked_until.unwrap_or_else(|| clock::add(now, LOCK_LENGTH));
        let hold = read.lock.map(|lock| Hold { lock, renew_at: halfway(now, until) });
        let held = Held { hold, sequence: read.sequence, is_given: false };
        self.with(|holds| holds.insert(number, held));
    }

    /// Notes that somebody has seen a delivery.
    pub(crate) fn given(&self, number: Number) {
        self.with(|holds| {
            if let Some(held) = holds.get_mut(&number) {
                held.is_given = true;
            }
        });
    }

    /// Lets a delivery go; false when it was not in hand.
    pub(crate) fn let_go(&self, number: Number) -> bool {
        self.with(|holds| holds.remove(&number).is_some())
    }

    /// Lets go what nobody has seen; answers the sequence numbers of the rest.
    pub(crate) fn keep_seen(&self) -> HashSet<i64> {
        self.with(|holds| {
            holds.retain(|_, held| held.is_given);
            holds.values().filter_map(|held| held.sequence).collect()
        })
    }

    /// Some whose locks should be renewed.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<(Number, Hold)> {
        self.with(|holds| {
            let due = holds.iter().filter_map(|(number, held)| Some((*number, held.hold?)));
            due.filter(|(_, hold)| hold.renew_at <= now).take(ASK_MAX).collect()
        })
    }

    pub(crate) fn renewed(&self, number: Number, now: Timestamp, length: Duration) {
        self.with(|holds| {
            if let Some(hold) = holds.get_mut(&number).and_then(|held| held.hold.as_mut()) {
                hold.renew_at = halfway(now, clock::add(now, length));
            }
        });
    }

    /// Its lock is somebody else's; it stays in hand until it is settled, and settling it does nothing.
    pub(crate) fn lost(&self, number: Number) {
        self.with(|holds| {
            if let Some(held) = holds.get_mut(&number) {
                held.hold = None;
            }
        });
    }
}

/// What a lost connection may have taken with it. The broker counts a delivery that was on its way when
/// the connection broke, and nobody has seen it: such a one is no attempt.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    until: Option<Timestamp>,
    seen: HashSet<i64>,
    forgiven: HashSet<i64>,
}

impl Loss {
    /// The connection broke; what had been seen until then counts, and locks last for so long.
    pub(crate) fn note(&mut self, seen: HashSet<i64>, lock_length: Duration, now: Timestamp) {
        if self.until.is_none_or(|until| until < now) {
            *self = Self::default();
        }
        self.seen.extend(seen);
        self.until = Some(clock::add(now, lock_length + LOSS_LENGTH));
    }

    /// Whether one delivery that the broker has counted is no attempt; once for each message.
    pub(crate) fn forgives(&mut self, read: &Read, now: Timestamp) -> bool {
        let is_near = self.until.is_some_and(|until| now < until);
        let Some(sequence) = read.sequence.filter(|_| is_near && read.deliveries > 0) else {
            return false;
        };
        !self.seen.contains(&sequence)
            && self.forgiven.len() < FORGIVEN_MAX
            && self.forgiven.insert(sequence)
    }
}

/// The losses of all consumers, by where they receive: a consumer that is subscribed anew after its
/// connection broke must know of it.
#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<HashMap<String, Loss>>);

impl Losses {
    /// Looks at the loss of one source, which is an empty one at first.
    pub(crate) fn of<T>(&self, source: &str, act: impl FnOnce(&mut Loss) -> T) -> T {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match losses.get_mut(source) {
            Some(loss) => act(loss),
            None => act(losses.entry(source.to_owned()).or_default()),
        }
    }
}

fn halfway(now: Timestamp, until: Timestamp) -> Timestamp {
    clock::add(now, clock::between(now, until) / 2)
}

#[cfg(test)]
mod tests {
    use punctual::model::Topic;

    use super::*;
    use crate::wire;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn read(lock: Option<Lock>, sequence: i64, deliveries: u32) -> Read {
        let topic = Topic::new("mail").unwrap();
        let read = wire::unreadable("no", &[], (&topic, "mail"), at(0));
        Read { lock, locked_until: Some(at(30)), sequence: Some(sequence), deliveries, ..read }
    }

    #[test]
    fn a_lock_is_renewed_when_half_of_it_is_over() {
        let holds = Holds::default();
        holds.take((1, 1), &read(Some([7; 16]), 1, 0), at(0));
        holds.take((1, 2), &read(None, 2, 0), at(0));
        assert!(holds.due(at(14)).is_empty());
        assert_eq!(holds.due(at(15)).len(), 1, "one without a lock cannot be renewed");
        holds.renewed((1, 1), at(15), Duration::from_secs(30));
        assert!(holds.due(at(29)).is_empty());
        assert_eq!(holds.due(at(30)).len(), 1);
        holds.lost((1, 1));
        assert!(holds.due(at(99)).is_empty());
        assert_eq!(holds.len(), 2);
        assert!(holds.let_go((1, 1)) && !holds.let_go((1, 1)));
    }

    #[test]
    fn what_was_on_its_way_when_the_connection_broke_is_no_attempt_and_once() {
        let holds = Holds::default();
        holds.take((1, 1), &read(None, 1, 0), at(0));
        holds.take((1, 2), &read(None, 2, 0), at(0));
        holds.given((1, 1));
        let mut loss = Loss::default();
        assert!(!loss.forgives(&read(None, 3, 1), at(1)), "nothing was lost yet");
        loss.note(holds.keep_seen(), Duration::from_secs(30), at(10));
        assert_eq!(holds.len(), 1, "what somebody has seen stays in hand");
        assert!(!loss.forgives(&read(None, 1, 1), at(41)), "somebody has seen it");
        assert!(!loss.forgives(&read(None, 2, 0), at(41)), "nothing was counted");
        assert!(loss.forgives(&read(None, 2, 1), at(41)));
        assert!(!loss.forgives(&read(None, 2, 2), at(42)));
        assert!(!loss.forgives(&read(None, 4, 1), at(100)), "too long ago");
    }
}
