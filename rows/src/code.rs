//! The small numbers that stand for words in a column. A number, once given out, is never changed.

use punctual::model::{DeadReason, Ending, SkipReason, Source, State};
use punctual::{Error, ErrorKind, Result};

/// A word that is stored as a small number.
pub trait Code: Copy + PartialEq + Sized + 'static {
    /// What the column is about, for errors.
    const WHAT: &'static str;
    /// Every word with its number.
    const CODES: &'static [(Self, i16)];

    /// The number of this word.
    fn code(self) -> i16 {
        Self::CODES.iter().find(|(word, _)| *word == self).map_or(-1, |(_, code)| *code)
    }

    /// The word of a number.
    fn from_code(code: i16) -> Result<Self> {
        Self::CODES.iter().find(|(_, known)| *known == code).map(|(word, _)| *word).ok_or_else(
            || {
                Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "the stored {} {code} means nothing to this version; was it written by a newer one?",
                        Self::WHAT
                    ),
                )
            },
        )
    }
}

impl Code for State {
    const WHAT: &'static str = "state";
    const CODES: &'static [(Self, i16)] = &[
        (Self::Pending, 0),
        (Self::Running, 1),
        (Self::Done, 2),
        (Self::Dead, 3),
        (Self::Cancelled, 4),
    ];
}

impl Code for Source {
    const WHAT: &'static str = "source";
    const CODES: &'static [(Self, i16)] = &[
        (Self::Published, 0),
        (Self::Scheduled, 1),
        (Self::Manual, 2),
        (Self::Deferred, 3),
        (Self::Redriven, 4),
    ];
}

impl Code for DeadReason {
    const WHAT: &'static str = "reason of a dead letter";
    const CODES: &'static [(Self, i16)] = &[
        (Self::AttemptsSpent, 0),
        (Self::Discarded, 1),
        (Self::Poison, 2),
        (Self::TimedOut, 3),
        (Self::CrashLoop, 4),
        (Self::Refused, 5),
        (Self::NoHandler, 6),
    ];
}

impl Code for Ending {
    const WHAT: &'static str = "ending of an execution";
    const CODES: &'static [(Self, i16)] = &[
        (Self::Succeeded, 0),
        (Self::Failed, 1),
        (Self::TimedOut, 2),
        (Self::Panicked, 3),
        (Self::NoHandler, 4),
        (Self::Poison, 5),
        (Self::Snoozed, 6),
        (Self::Discarded, 7),
        (Self::Cancelled, 8),
        (Self::Released, 9),
        (Self::Lost, 10),
        (Self::Skipped(SkipReason::Misfire), 20),
        (Self::Skipped(SkipReason::Window), 21),
        (Self::Skipped(SkipReason::CatchUpLimit), 22),
        (Self::Skipped(SkipReason::Overlap), 23),
        (Self::Skipped(SkipReason::Paused), 24),
        (Self::Skipped(SkipReason::Operator), 25),
        (Self::Skipped(SkipReason::Expired), 26),
    ];
}

/// The numbers of the endings with these names, as a filter speaks of them.
pub fn endings_named(names: &[&str]) -> Vec<i16> {
    let named = Ending::CODES.iter().filter(|(ending, _)| names.contains(&ending.as_str()));
    named.map(|(_, code)| *code).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn check<T: Code + std::fmt::Debug>() {
        let codes: BTreeSet<i16> = T::CODES.iter().map(|(_, code)| *code).collect();
        assert_eq!(codes.len(), T::CODES.len(), "no number means two things");
        for (word, code) in T::CODES {
            assert_eq!((word.code(), T::from_code(*code).unwrap()), (*code, *word));
        }
        assert_eq!(T::from_code(99).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn every_word_has_one_number_and_reads_back() {
        check::<State>();
        check::<Source>();
        check::<DeadReason>();
        check::<Ending>();
    }

    #[test]
    fn every_ending_there_is_has_a_number() {
        let named: BTreeSet<&str> = Ending::CODES.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(named, BTreeSet::from(Ending::NAMES));
        assert_eq!(endings_named(&["skipped"]).len(), 7);
    }
}
