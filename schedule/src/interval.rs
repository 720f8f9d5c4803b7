//! [`Interval`]: occurrences at a fixed distance, computed by division from an anchor.
//!
//! No wall clock is involved: 36 hours are 36 hours, also when clocks change.
//! The anchor only sets the phase; there are occurrences on both sides of it, and a
//! first or last one is set by the schedule's bounds.

use std::time::Duration;

use jiff::Timestamp;

use super::duration::format_duration;
use super::error::ScheduleError;

/// Occurrences at anchor + k · every, for every whole k. Both have whole microseconds, and so have the
/// occurrences: every storage keeps such an instant as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    every: Duration,
    anchor: Timestamp,
    follows_last_run: bool,
}

const EVERY_MIN: Duration = Duration::from_millis(1);
const EVERY_MAX: Duration = Duration::from_secs(1_000 * 366 * 24 * 60 * 60);

impl Interval {
    /// Creates an interval of at least a millisecond and at most a thousand years, rounded down to
    /// whole microseconds.
    pub fn new(every: Duration, anchor: Timestamp) -> Result<Interval, ScheduleError> {
        let problem = match every {
            Duration::ZERO => "is zero, use 1ms or more",
            every if every < EVERY_MIN => "is too short for a schedule, use 1ms or more",
            every if every > EVERY_MAX => "is too large, use at most 1000 years",
            _ => {
                let every = Duration::new(every.as_secs(), every.subsec_micros() * 1_000);
                let anchor = whole_microseconds(anchor);
                return Ok(Interval { every, anchor, follows_last_run: false });
            }
        };
        Err(ScheduleError::Duration { text: format_duration(every), problem: problem.to_owned() })
    }

    /// Returns the distance between two occurrences.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Returns the occurrence from which the others are counted.
    pub fn anchor(&self) -> Timestamp {
        self.anchor
    }

    /// Returns the same interval from another anchor, which is rounded down to whole microseconds.
    pub fn reanchored(&self, anchor: Timestamp) -> Interval {
        Interval { anchor: whole_microseconds(anchor), ..*self }
    }

    /// Returns whether a late run for missed occurrences is the anchor from then on. Otherwise the occurrences
    /// stay where they are, whatever was missed.
    pub fn follows_last_run(&self) -> bool {
        self.follows_last_run
    }

    /// Returns the same interval, with a late run for missed occurrences as its anchor from then on.
    #[must_use]
    pub fn following_last_run(self) -> Interval {
        Interval { follows_last_run: true, ..self }
    }

    /// Returns the first occurrence strictly after an instant.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.occurrence(self.place(after) + 1)
    }

    /// Returns the last occurrence strictly before an instant.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let just_before = before.as_nanosecond() - 1;
        self.occurrence((just_before - self.anchor.as_nanosecond()).div_euclid(self.step()))
    }

    /// Counts the occurrences after one instant and not after another.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        let places = self.place(until) - self.place(after);
        u64::try_from(places.max(0)).unwrap_or(u64::MAX)
    }

    /// Returns the number of the last occurrence at or before an instant.
    fn place(&self, at: Timestamp) -> i128 {
        (at.as_nanosecond() - self.anchor.as_nanosecond()).div_euclid(self.step())
    }

    fn occurrence(&self, place: i128) -> Option<Timestamp> {
        let nanosecond = self.anchor.as_nanosecond() + place * self.step();
        Timestamp::from_nanosecond(nanosecond).ok()
    }

    /// Returns the interval in nanoseconds, bounded by the constructor.
    fn step(&self) -> i128 {
        i128::try_from(self.every.as_nanos()).unwrap_or(i128::MAX)
    }
}

/// Rounds an instant down to whole microseconds.
pub(super) fn whole_microseconds(at: Timestamp) -> Timestamp {
    let nanosecond = at.as_nanosecond();
    Timestamp::from_nanosecond(nanosecond - nanosecond.rem_euclid(1_000)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn divides_the_time_line() {
        let anchor = at("2026-01-01T00:00:00.25Z");
        let interval = Interval::new(Duration::from_secs(7 * 60), anchor).unwrap();
        assert_eq!(interval.next(anchor), Some(at("2026-01-01T00:07:00.25Z")));
        assert_eq!(interval.next(at("2026-01-01T00:00:00Z")), Some(anchor));
        assert_eq!(interval.prev(anchor), Some(at("2025-12-31T23:53:00.25Z")));
        assert_eq!(interval.next(at("2025-12-31T23:50:00Z")), Some(at("2025-12-31T23:53:00.25Z")));
        assert_eq!(interval.count(anchor, at("2026-01-02T00:00:00.25Z")), 205);
        assert_eq!(interval.count(anchor, anchor), 0);
        assert_eq!(interval.count(at("2026-01-02T00:00:00Z"), anchor), 0);
        // 36 hours stay 36 hours across a clock change.
        let long =
            Interval::new(Duration::from_secs(36 * 60 * 60), at("2026-03-28T12:00:00Z")).unwrap();
        assert_eq!(long.next(at("2026-03-28T12:00:00Z")), Some(at("2026-03-30T00:00:00Z")));
    }

    #[test]
    fn occurrences_have_whole_microseconds() {
        let anchor = at("2026-11-16T16:55:25.343352391Z");
        let interval = Interval::new(Duration::new(60, 1_999), anchor).unwrap();
        assert_eq!(interval.anchor(), at("2026-11-16T16:55:25.343352Z"));
        assert_eq!(interval.next(anchor), Some(at("2026-11-16T16:56:25.343353Z")));
        let moved = interval.reanchored(at("2026-11-16T17:00:00.000000999Z"));
        assert_eq!(moved.anchor(), at("2026-11-16T17:00:00Z"));
        assert_eq!(moved.every(), Duration::new(60, 1_000));
        // Also before 1970, where cutting off means earlier, too.
        assert_eq!(
            whole_microseconds(at("1969-12-31T23:59:59.999999999Z")),
            at("1969-12-31T23:59:59.999999Z")
        );
    }

    #[test]
    fn refuses_invalid_durations() {
        for (every, words) in [
            (Duration::ZERO, "the duration \"0s\" is zero, use 1ms or more"),
            (Duration::from_nanos(999_999), "is too short"),
            (Duration::MAX, "is too large, use at most 1000 years"),
        ] {
            let error = Interval::new(every, Timestamp::UNIX_EPOCH).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn stops_at_the_last_instant() {
        let longest = Interval::new(EVERY_MAX, Timestamp::MAX).unwrap();
        assert_eq!(longest.next(Timestamp::MAX), None);
        assert!(longest.prev(Timestamp::MAX).is_some());
        assert!(longest.next(Timestamp::MIN).is_some());
        let shortest = Interval::new(EVERY_MIN, Timestamp::MIN).unwrap();
        assert_eq!(shortest.next(Timestamp::MAX), None);
        assert_eq!(shortest.count(Timestamp::MIN, Timestamp::MAX), 631_107_230_401_999);
    }

    proptest! {
        #[test]
        fn agrees_with_itself(every in 1_u64..10_000_000, anchor in -5_000_000_000_i64..5_000_000_000, start in -5_000_000_000_i64..5_000_000_000) {
            let interval = Interval::new(Duration::from_millis(every), Timestamp::from_millisecond(anchor).unwrap()).unwrap();
            let start = Timestamp::from_millisecond(start).unwrap();
            let next = interval.next(start).unwrap();
            let prev = interval.prev(next).unwrap();
            prop_assert!(prev <= start && start < next);
            prop_assert_eq!(interval.next(prev), Some(next));
            prop_assert_eq!(interval.count(start, next), 1);
            prop_assert_eq!((next.as_millisecond() - anchor).rem_euclid(i64::try_from(every).unwrap()), 0);
        }
    }
}
