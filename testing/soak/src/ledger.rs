//! Ledger of a soak: the numbers of messages sent, confirmed, handled and dead-lettered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Behaviour of the handler for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first attempt succeeds.
    Succeeds,
    /// The first attempt fails.
    FailsOnce,
    /// Every attempt fails.
    AlwaysFails,
}

impl Kind {
    /// Returns the kind of a message, by its number.
    pub fn of(number: u64) -> Self {
        match number % 20 {
            7 => Self::AlwaysFails,
            3 | 13 => Self::FailsOnce,
            _ => Self::Succeeds,
        }
    }
}

/// Ledger of all messages of a soak.
#[derive(Debug, Default)]
pub struct SoakLedger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    sent: u64,
    confirmed: BTreeSet<u64>,
    handled: BTreeMap<u64, u64>,
    dead: BTreeMap<u64, DeadLetterCause>,
}

/// Reason why a message became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterCause {
    /// The last attempt failed.
    AttemptFailed,
    /// The broker counted too many deliveries, including those that a lost connection ended before they were
    /// handled.
    ConnectionLost,
}

/// Totals of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages passed to the publisher.
    pub sent: u64,
    /// Messages whose publish was confirmed.
    pub confirmed: u64,
    /// Messages that were handled successfully.
    pub handled: u64,
    /// Messages that were handled more than once.
    pub repeated: u64,
    /// Messages that became dead letters.
    pub dead: u64,
    /// Dead letters caused only by lost connections: a stopping broker redelivers prefetched messages to the next
    /// process and counts each delivery.
    pub connection_lost: u64,
    /// Messages that were confirmed, but neither handled nor dead-lettered.
    pub lost: Vec<u64>,
    /// Messages that were handled although every attempt fails, or dead-lettered although an attempt succeeds.
    pub wrong: Vec<u64>,
}

impl Totals {
    /// Returns whether no message is lost or wrong.
    pub fn is_good(&self) -> bool {
        self.lost.is_empty() && self.wrong.is_empty()
    }
}

impl SoakLedger {
    /// Records that a message is about to be published.
    pub fn sent(&self, number: u64) {
        self.lock().sent = number + 1;
    }

    /// Records a confirmed publish.
    pub fn confirmed(&self, number: u64) {
        self.lock().confirmed.insert(number);
    }

    /// Records a successful attempt.
    pub fn handled(&self, number: u64) {
        *self.lock().handled.entry(number).or_default() += 1;
    }

    /// Records a dead letter.
    pub fn dead(&self, number: u64, cause: DeadLetterCause) {
        self.lock().dead.insert(number, cause);
    }

    /// Returns whether every confirmed message was handled or dead-lettered.
    pub fn is_settled(&self) -> bool {
        let entries = self.lock();
        entries.confirmed.iter().all(|number| entries.has_ended(*number))
    }

    /// Returns the totals.
    pub fn totals(&self) -> Totals {
        let entries = self.lock();
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let always_fails = |number: &u64| Kind::of(*number) == Kind::AlwaysFails;
        let lost = entries.confirmed.iter().filter(|number| !entries.has_ended(**number));
        let handled_wrongly = entries.handled.keys().filter(|number| always_fails(number));
        let unexpected = entries.dead.iter().filter(|(number, _)| !always_fails(number));
        let (connection_lost, dead_wrongly): (Vec<_>, Vec<_>) =
            unexpected.partition(|(_, cause)| **cause == DeadLetterCause::ConnectionLost);
        let dead_wrongly = dead_wrongly.into_iter().map(|(number, _)| number);
        Totals {
            sent: entries.sent,
            confirmed: count(entries.confirmed.len()),
            handled: count(entries.handled.len()),
            repeated: count(entries.handled.values().filter(|times| **times > 1).count()),
            dead: count(entries.dead.len()),
            connection_lost: count(connection_lost.len()),
            lost: lost.copied().collect(),
            wrong: handled_wrongly.chain(dead_wrongly).copied().collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn has_ended(&self, number: u64) -> bool {
        self.handled.contains_key(&number) || self.dead.contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmed_message_without_an_end_is_lost() {
        let ledger = SoakLedger::default();
        for number in 0..10 {
            ledger.sent(number);
            ledger.confirmed(number);
        }
        for number in (0..10).filter(|number| Kind::of(*number) != Kind::AlwaysFails) {
            assert!(!ledger.is_settled());
            ledger.handled(number);
        }
        ledger.handled(1);
        assert_eq!(ledger.totals().lost, [7]);
        ledger.dead(7, DeadLetterCause::AttemptFailed);
        let totals = ledger.totals();
        assert!(ledger.is_settled() && totals.is_good());
        assert_eq!((totals.sent, totals.handled, totals.repeated, totals.dead), (10, 9, 1, 1));
    }

    #[test]
    fn an_end_of_the_wrong_kind_is_wrong() {
        let ledger = SoakLedger::default();
        ledger.handled(7);
        ledger.dead(8, DeadLetterCause::AttemptFailed);
        ledger.dead(9, DeadLetterCause::ConnectionLost);
        let totals = ledger.totals();
        assert_eq!((totals.wrong, totals.dead, totals.connection_lost), (vec![7, 8], 2, 1));
        // An unconfirmed message may or may not have arrived.
        assert!(ledger.totals().lost.is_empty());
    }
}
