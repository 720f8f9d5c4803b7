//! The ledger of a soak: what was asked for, confirmed, handled and given up, by number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a message is meant to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is handled at once.
    Plain,
    /// Its first attempt fails.
    Again,
    /// Every attempt fails.
    Hopeless,
}

impl Kind {
    /// By its number.
    pub fn of(number: u64) -> Self {
        match number % 20 {
            7 => Self::Hopeless,
            3 | 13 => Self::Again,
            _ => Self::Plain,
        }
    }
}

/// Everything that is known of the messages.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    asked: u64,
    confirmed: BTreeSet<u64>,
    handled: BTreeMap<u64, u64>,
    dead: BTreeMap<u64, Death>,
}

/// Why a message was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Its last attempt failed.
    Failed,
    /// The broker counts deliveries, also those that were cut off before anybody handled them, and there
    /// were too many.
    CutOff,
}

/// The ledger in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Messages that were to be published.
    pub asked: u64,
    /// Those whose publishing was confirmed.
    pub confirmed: u64,
    /// Messages that were handled to their end.
    pub handled: u64,
    /// Messages that were handled more than once.
    pub repeated: u64,
    /// Messages that became dead letters.
    pub dead: u64,
    /// Of them, those that only lost connections brought there: a broker that stops hands what one
    /// process had fetched to the next, and counts it each time.
    pub cut_off: u64,
    /// Confirmed and neither handled nor dead.
    pub lost: Vec<u64>,
    /// Handled although hopeless, or dead although not.
    pub wrong: Vec<u64>,
}

impl Sums {
    /// Whether nothing is lost and nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.lost.is_empty() && self.wrong.is_empty()
    }
}

impl Ledger {
    /// A message is about to be published.
    pub fn asked(&self, number: u64) {
        self.lock().asked = number + 1;
    }

    /// Its publishing was confirmed.
    pub fn confirmed(&self, number: u64) {
        self.lock().confirmed.insert(number);
    }

    /// It was handled to its end.
    pub fn handled(&self, number: u64) {
        *self.lock().handled.entry(number).or_default() += 1;
    }

    /// It was given up.
    pub fn dead(&self, number: u64, death: Death) {
        self.lock().dead.insert(number, death);
    }

    /// Whether everything that was confirmed has come to an end.
    pub fn is_settled(&self) -> bool {
        let lines = self.lock();
        lines.confirmed.iter().all(|number| lines.has_ended(*number))
    }

    /// What it says.
    pub fn sums(&self) -> Sums {
        let lines = self.lock();
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let is_hopeless = |number: &u64| Kind::of(*number) == Kind::Hopeless;
        let lost = lines.confirmed.iter().filter(|number| !lines.has_ended(**number));
        let handled_wrongly = lines.handled.keys().filter(|number| is_hopeless(number));
        let unexpected = lines.dead.iter().filter(|(number, _)| !is_hopeless(number));
        let (cut_off, dead_wrongly): (Vec<_>, Vec<_>) =
            unexpected.partition(|(_, death)| **death == Death::CutOff);
        let dead_wrongly = dead_wrongly.into_iter().map(|(number, _)| number);
        Sums {
            asked: lines.asked,
            confirmed: count(lines.confirmed.len()),
            handled: count(lines.handled.len()),
            repeated: count(lines.handled.values().filter(|times| **times > 1).count()),
            dead: count(lines.dead.len()),
            cut_off: count(cut_off.len()),
            lost: lost.copied().collect(),
            wrong: handled_wrongly.chain(dead_wrongly).copied().collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn has_ended(&self, number: u64) -> bool {
        self.handled.contains_key(&number) || self.dead.contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_confirmed_and_has_no_end_is_lost() {
        let ledger = Ledger::default();
        for number in 0..10 {
            ledger.asked(number);
            ledger.confirmed(number);
        }
        for number in (0..10).filter(|number| Kind::of(*number) != Kind::Hopeless) {
            assert!(!ledger.is_settled());
            ledger.handled(number);
        }
        ledger.handled(1);
        assert_eq!(ledger.sums().lost, [7]);
        ledger.dead(7, Death::Failed);
        let sums = ledger.sums();
        assert!(ledger.is_settled() && sums.is_good());
        assert_eq!((sums.asked, sums.handled, sums.repeated, sums.dead), (10, 9, 1, 1));
    }

    #[test]
    fn an_end_of_the_wrong_kind_is_wrong() {
        let ledger = Ledger::default();
        ledger.handled(7);
        ledger.dead(8, Death::Failed);
        ledger.dead(9, Death::CutOff);
        let sums = ledger.sums();
        assert_eq!((sums.wrong, sums.dead, sums.cut_off), (vec![7, 8], 2, 1));
        // What was never confirmed may or may not have arrived.
        assert!(ledger.sums().lost.is_empty());
    }
}
