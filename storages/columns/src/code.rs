//! Codes: small numbers that columns hold for states, sources, reasons and endings. An assigned number never changes.

use punctual::model::{DeadReason, Ending, MessageState, SkipReason, Source};
use punctual::{Error, ErrorKind, Result};

/// Value that is stored as a small number.
pub trait Code: Copy + PartialEq + Sized + 'static {
    /// Name of the column's content, used in errors.
    const WHAT: &'static str;
    /// Every value with its number.
    const CODES: &'static [(Self, i16)];

    /// Returns the number of this value.
    fn code(self) -> i16 {
        Self::CODES.iter().find(|(value, _)| *value == self).map_or(-1, |(_, code)| *code)
    }

    /// Returns the value of a number, or an error of kind `Corrupt` for an unknown number.
    fn from_code(code: i16) -> Result<Self> {
        Self::CODES.iter().find(|(_, known)| *known == code).map(|(value, _)| *value).ok_or_else(
            || {
                Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "the stored {} {code} is unknown to this version; it was probably written by a newer one",
                        Self::WHAT
                    ),
                )
            },
        )
    }
}

impl Code for MessageState {
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
        (Self::Interrupted, 7),
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

/// Returns the numbers of the endings with these names, for the condition of a filter.
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
        assert_eq!(codes.len(), T::CODES.len(), "no number has two meanings");
        for (value, code) in T::CODES {
            assert_eq!((value.code(), T::from_code(*code).unwrap()), (*code, *value));
        }
        assert_eq!(T::from_code(99).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn every_value_has_one_number_and_reads_back() {
        check::<MessageState>();
        check::<Source>();
        check::<DeadReason>();
        check::<Ending>();
    }

    #[test]
    fn every_ending_has_a_number() {
        let named: BTreeSet<&str> =
            Ending::CODES.iter().map(|(ending, _)| ending.as_str()).collect();
        assert_eq!(named, BTreeSet::from(Ending::NAMES));
        assert_eq!(endings_named(&["skipped"]).len(), 7);
    }
}
