//! [`Interval`]: every so often on the time line, by division from an anchor.
//!
//! No wall clock is involved: 36 hours are 36 hours, also when clocks change.
//! The anchor only sets the phase; occurrences lie on both sides of it, and a
//! first or last one is a matter of the schedule's bounds.

use std::time::Duration;

use jiff::Timestamp;

use super::duration::format_duration;
use super::error::ScheduleError;

/// Occurrences at anchor + k · every, for every whole k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    every: Duration,
    anchor: Timestamp,
}

const EVERY_MIN: Duration = Duration::from_millis(1);
const EVERY_MAX: Duration = Duration::from_hours(1_000 * 366 * 24);

impl Interval {
    /// An interval of at least a millisecond and at most a thousand years.
    pub fn new(every: Duration, anchor: Timestamp) -> Result<Interval, ScheduleError> {
        let problem = match every {
            Duration::ZERO => "is zero, use 1ms or more",
            every if every < EVERY_MIN => "is too short for a schedule, use 1ms or more",
            every if every > EVERY_MAX => "is too large, use at most 1000 years",
            _ => return Ok(Interval { every, anchor }),
        };
        Err(ScheduleError::Duration {
            text: format_duration(every),
            problem: problem.to_owned(),
        })
    }

    /// The distance between two occurrences.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// One of the occurrences, from which the others are counted.
    pub fn anchor(&self) -> Timestamp {
        self.anchor
    }

    /// The same distance from another anchor.
    pub fn reanchored(&self, anchor: Timestamp) -> Interval {
        Interval { anchor, ..*self }
    }

    /// The first occurrence strictly after an instant.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.occurrence(self.place(after) + 1)
    }

    /// The last occurrence strictly before an instant.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let just_before = before.as_nanosecond() - 1;
        self.occurrence((just_before - self.anchor.as_nanosecond()).div_euclid(self.step()))
    }

    /// How many occurrences lie after one instant and not after another.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        let places = self.place(until) - self.place(after);
        u64::try_from(places.max(0)).unwrap_or(u64::MAX)
    }

    /// The number of the last occurrence at or before an instant.
    fn place(&self, at: Timestamp) -> i128 {
        (at.as_nanosecond() - self.anchor.as_nanosecond()).div_euclid(self.step())
    }

    fn occurrence(&self, place: i128) -> Option<Timestamp> {
        let nanosecond = self.anchor.as_nanosecond() + place * self.step();
        Timestamp::from_nanosecond(nanosecond).ok()
    }

    /// The interval in nanoseconds, bounded by the constructor.
    fn step(&self) -> i128 {
        i128::try_from(self.every.as_nanos()).unwrap_or(i128::MAX)
    }
}
