//! [`Schedule`]: when a job is due, as a pure value.
//!
//! The order is fixed: expand, exclude, bound. `next`, `prev`, `count` and
//! `occurrences` agree on one set of instants. Misfires, overlaps and counting
//! runs are policies of the job and not part of a schedule.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::calendar::Calendar;
use super::cron::Cron;
use super::error::ScheduleError;
use super::form::ScheduleForm;
use super::interval::{Interval, whole_microseconds};
use super::zone::Zone;

/// A cron expression in a zone, an interval on the time line, or one instant;
/// within bounds, and without the times its calendars exclude.
///
/// ```
/// use punctual_schedule::Schedule;
///
/// let schedule = Schedule::cron("0 9 * * MON-FRI", "Europe/Berlin")?;
/// let next = schedule.next("2026-03-27T12:00:00Z".parse()?);
/// assert_eq!(next, Some("2026-03-30T07:00:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ScheduleForm", into = "ScheduleForm")]
#[must_use]
pub struct Schedule {
    pub(super) rule: Rule,
    pub(super) start_at: Option<Timestamp>,
    pub(super) end_at: Option<Timestamp>,
    pub(super) runs_max: Option<u64>,
    pub(super) calendars: Vec<Calendar>,
}

/// The three kinds of schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Cron { cron: Cron, zone: Zone },
    Every(Interval),
    Once(Timestamp),
}

/// Largest number of excluded periods in a row before a search ends: more than thirteen years of days. It bounds a cron text whose every
/// occurrence is excluded.
const EXCLUDED_MAX: usize = 5_000;

impl Schedule {
    /// Creates a schedule from a cron text of five or six fields in an IANA zone.
    pub fn cron(text: &str, zone: &str) -> Result<Schedule, ScheduleError> {
        let zone = Zone::named(zone)?;
        Ok(Schedule::of_cron(Cron::parse(text)?, zone))
    }

    /// Creates a schedule from a cron text in UTC.
    pub fn cron_utc(text: &str) -> Result<Schedule, ScheduleError> {
        Ok(Schedule::of_cron(Cron::parse(text)?, Zone::utc()))
    }

    /// Creates a schedule from a parsed expression in a zone; needed for expressions with `H`.
    pub fn of_cron(cron: Cron, zone: Zone) -> Schedule {
        Schedule::of_rule(Rule::Cron { cron, zone })
    }

    /// Creates an interval schedule, counted from an anchor.
    pub fn every(every: Duration, anchor: Timestamp) -> Result<Schedule, ScheduleError> {
        Ok(Schedule::of_rule(Rule::Every(Interval::new(every, anchor)?)))
    }

    /// Creates a schedule of one instant, rounded down to whole microseconds.
    pub fn once(at: Timestamp) -> Schedule {
        Schedule::of_rule(Rule::Once(whole_microseconds(at)))
    }

    pub(super) fn of_rule(rule: Rule) -> Schedule {
        Schedule { rule, start_at: None, end_at: None, runs_max: None, calendars: Vec::new() }
    }

    /// Excludes everything before an instant; the instant itself may be an occurrence.
    pub fn starting(mut self, start_at: Timestamp) -> Result<Schedule, ScheduleError> {
        self.start_at = Some(start_at);
        self.checked()
    }

    /// Excludes everything from an instant on.
    pub fn ending(mut self, end_at: Timestamp) -> Result<Schedule, ScheduleError> {
        self.end_at = Some(end_at);
        self.checked()
    }

    /// Limits the number of runs. Only stored here: the scheduler counts the runs, and `next`
    /// ignores them.
    pub fn at_most(mut self, runs_max: u64) -> Schedule {
        self.runs_max = Some(runs_max);
        self
    }

    /// Excludes the occurrences that a calendar contains.
    pub fn excluding(mut self, calendar: Calendar) -> Schedule {
        self.calendars.push(calendar);
        self
    }

    fn checked(self) -> Result<Schedule, ScheduleError> {
        match (self.start_at, self.end_at) {
            (Some(start_at), Some(end_at)) if start_at > end_at => {
                Err(ScheduleError::Bounds { start_at, end_at })
            }
            _ => Ok(self),
        }
    }

    /// Returns the first occurrence strictly after an instant.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = match self.start_at {
            Some(start_at) if after < start_at => just_before(start_at),
            _ => after,
        };
        let mut found = self.rule.next(after)?;
        for _ in 0..EXCLUDED_MAX {
            if self.end_at.is_some_and(|end_at| found >= end_at) {
                return None;
            }
            match self.excluded_until(found) {
                None => return Some(found),
                Some(until) => found = self.rule.next(just_before(until))?,
            }
        }
        None
    }

    /// Returns the last occurrence strictly before an instant; the same instants as
    /// [`next`](Self::next), backwards.
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let before = match self.end_at {
            Some(end_at) if before > end_at => end_at,
            _ => before,
        };
        let mut found = self.rule.prev(before)?;
        for _ in 0..EXCLUDED_MAX {
            if self.start_at.is_some_and(|start_at| found < start_at) {
                return None;
            }
            match self.excluded_since(found) {
                None => return Some(found),
                Some(since) => found = self.rule.prev(since)?,
            }
        }
        None
    }

    /// Counts the occurrences after one instant and not after another, no
    /// more than `count_max`. Intervals are divided, not walked.
    pub fn count(&self, after: Timestamp, until: Timestamp, count_max: u64) -> u64 {
        if let (Rule::Every(interval), true) = (&self.rule, self.calendars.is_empty()) {
            let after = self.start_at.map_or(after, |start| after.max(just_before(start)));
            let until = self.end_at.map_or(until, |end| until.min(just_before(end)));
            return interval.count(after, until).min(count_max);
        }
        let limit = usize::try_from(count_max).unwrap_or(usize::MAX);
        let count = self.occurrences(after, until).take(limit).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Returns the occurrences after one instant and not after another.
    pub fn occurrences(
        &self,
        after: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next(after), |at| self.next(*at))
            .take_while(move |at| *at <= until)
    }

    /// Returns whether it counts from an anchor instead of following a calendar.
    pub fn is_interval(&self) -> bool {
        matches!(self.rule, Rule::Every(_))
    }

    /// Returns the same schedule with its interval counted from another anchor; cron
    /// and one-time schedules stay as they are.
    pub fn reanchored(&self, anchor: Timestamp) -> Schedule {
        let mut moved = self.clone();
        if let Rule::Every(interval) = &self.rule {
            moved.rule = Rule::Every(interval.reanchored(anchor));
        }
        moved
    }

    /// Returns the same schedule with a late run for missed occurrences as the anchor of its interval from then
    /// on, instead of occurrences that stay where they are; cron and one-time schedules stay the same.
    pub fn following_last_run(mut self) -> Schedule {
        if let Rule::Every(interval) = self.rule {
            self.rule = Rule::Every(interval.following_last_run());
        }
        self
    }

    /// Returns whether a late run for missed occurrences is the anchor from then on.
    pub fn follows_last_run(&self) -> bool {
        self.as_interval().is_some_and(Interval::follows_last_run)
    }

    /// Returns the expression of a cron schedule.
    pub fn as_cron(&self) -> Option<&Cron> {
        match &self.rule {
            Rule::Cron { cron, .. } => Some(cron),
            _ => None,
        }
    }

    /// Returns the interval of an interval schedule.
    pub fn as_interval(&self) -> Option<&Interval> {
        match &self.rule {
            Rule::Every(interval) => Some(interval),
            _ => None,
        }
    }

    /// Returns the instant of a one-time schedule.
    pub fn as_once(&self) -> Option<Timestamp> {
        match &self.rule {
            Rule::Once(at) => Some(*at),
            _ => None,
        }
    }

    /// Returns the zone of a cron schedule; UTC for the others, which have none.
    pub fn zone(&self) -> Zone {
        match &self.rule {
            Rule::Cron { zone, .. } => zone.clone(),
            _ => Zone::utc(),
        }
    }

    /// Returns the first instant that may be an occurrence.
    pub fn start_at(&self) -> Option<Timestamp> {
        self.start_at
    }

    /// Returns the first instant after the schedule, which cannot be an occurrence.
    pub fn end_at(&self) -> Option<Timestamp> {
        self.end_at
    }

    /// Returns the largest number of runs.
    pub fn runs_max(&self) -> Option<u64> {
        self.runs_max
    }

    /// Returns the excluded calendars.
    pub fn calendars(&self) -> &[Calendar] {
        &self.calendars
    }

    fn excluded_until(&self, at: Timestamp) -> Option<Timestamp> {
        self.calendars.iter().filter_map(|calendar| calendar.excluded_until(at)).max()
    }

    fn excluded_since(&self, at: Timestamp) -> Option<Timestamp> {
        self.calendars.iter().filter_map(|calendar| calendar.excluded_since(at)).min()
    }
}

impl Rule {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Rule::Cron { cron, zone } => cron.next(after, zone),
            Rule::Every(interval) => interval.next(after),
            Rule::Once(at) => (*at > after).then_some(*at),
        }
    }

    fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        match self {
            Rule::Cron { cron, zone } => cron.prev(before, zone),
            Rule::Every(interval) => interval.prev(before),
            Rule::Once(at) => (*at < before).then_some(*at),
        }
    }
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_nanosecond(at.as_nanosecond() - 1).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
