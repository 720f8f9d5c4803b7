//! Rate: decides from the latest starts under a rate how many messages may start now. No window as long as the
//! period ever contains more starts than the rate allows, also after an idle time. The latest starts are stored
//! as instants with counts; beyond [`STARTS_MAX`] entries the two closest are merged at the later instant,
//! which can delay a start by a fraction of the period and never allows one more.
//!
//! A start is the instant of the permit. The handler starts a little later, which nothing here knows.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::Rate;
use crate::model::time::{add, between};

/// Largest number of entries stored for a name.
pub(super) const STARTS_MAX: usize = 64;

/// Number of messages that may start, and when one more may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateGrant {
    /// Number of messages that may start now.
    pub granted: u32,
    /// Instant at which the next one may start.
    pub next_at: Timestamp,
}

/// Latest starts under a rate, oldest first. Instants have microseconds, rounded up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateStarts {
    entries: Vec<(Timestamp, u32)>,
}

impl RateStarts {
    /// Parses a text of [`RateStarts::to_text`]; entries that cannot be read are left out.
    pub fn from_text(text: &str) -> Self {
        let entry = |word: &str| {
            let (at, count) = word.split_once('x')?;
            Some((Timestamp::from_microsecond(at.parse().ok()?).ok()?, count.parse().ok()?))
        };
        let mut entries: Vec<(Timestamp, u32)> =
            text.split_ascii_whitespace().take(STARTS_MAX).filter_map(entry).collect();
        entries.sort_unstable();
        Self { entries }
    }

    /// Returns the starts of a name for which an older release stored only until when its rate is used up.
    pub fn from_used_until(rate: Rate, used_until: Timestamp, now: Timestamp) -> Self {
        let step = (rate.per / rate.count.max(1)).as_nanos().max(1);
        let used = between(now, used_until).as_nanos().div_ceil(step);
        let count = u32::try_from(used).unwrap_or(u32::MAX).min(rate.count);
        Self { entries: if count == 0 { Vec::new() } else { vec![(now, count)] } }
    }

    /// Returns the text that a storage stores.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (at, count) in &self.entries {
            let space = if text.is_empty() { "" } else { " " };
            // Writing into a string cannot fail.
            let _ = write!(text, "{space}{}x{count}", at.as_microsecond());
        }
        text
    }

    /// Returns when the last start stops counting, after which nothing need be stored.
    pub fn used_until(&self, rate: Rate) -> Option<Timestamp> {
        self.entries.last().map(|(at, _)| add(*at, rate.per))
    }

    fn push(&mut self, at: Timestamp, count: u32) {
        match self.entries.last_mut() {
            Some((last, counted)) if *last == at => *counted = counted.saturating_add(count),
            _ => self.entries.push((at, count)),
        }
        if self.entries.len() > STARTS_MAX {
            self.join_closest();
        }
    }

    /// Merges the two closest entries at the later instant.
    fn join_closest(&mut self) {
        let gap = |index: &usize| between(self.entries[*index].0, self.entries[index + 1].0);
        let closest = (0..self.entries.len().saturating_sub(1)).min_by_key(gap);
        if let Some(index) = closest {
            let (_, count) = self.entries.remove(index);
            self.entries[index].1 = self.entries[index].1.saturating_add(count);
        }
    }
}

/// Grants as many of `requested` starts as a rate allows after the starts so far; returns the grant and the
/// starts to store.
pub fn grant_starts(
    rate: Rate,
    starts: &RateStarts,
    requested: u32,
    now: Timestamp,
) -> (RateGrant, RateStarts) {
    let now = rounded_up(now);
    // A start exactly one period ago shares no window with one now. A start in the future comes from a clock
    // that is ahead; it cannot have happened later than now.
    let counts = |(at, _): &(Timestamp, u32)| between(*at, now) < rate.per || *at > now;
    let entries = starts.entries.iter().copied().filter(counts);
    let mut after = RateStarts { entries: Vec::new() };
    for (at, count) in entries {
        after.push(at.min(now), count);
    }
    let used = after.entries.iter().fold(0_u32, |sum, (_, count)| sum.saturating_add(*count));
    let granted = requested.min(rate.count.saturating_sub(used));
    if granted > 0 {
        after.push(now, granted);
    }
    let is_full = used.saturating_add(granted) >= rate.count;
    let first = after.entries.first().filter(|_| is_full);
    let next_at = first.map_or(now, |(at, _)| add(*at, rate.per));
    (RateGrant { granted, next_at }, after)
}

/// Rounds up to microseconds, the precision of every storage.
fn rounded_up(at: Timestamp) -> Timestamp {
    let micros = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    if micros < at { add(micros, Duration::from_micros(1)) } else { micros }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate { count: 10, per: Duration::from_secs(1) };

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn an_idle_name_may_use_its_whole_rate_at_once_and_then_waits_for_a_period() {
        let (first, starts) = grant_starts(RATE, &RateStarts::default(), 25, at(0));
        assert_eq!((first.granted, first.next_at), (10, at(1_000)));
        let (second, starts) = grant_starts(RATE, &starts, 15, at(999));
        assert_eq!((second.granted, second.next_at), (0, at(1_000)));
        let (third, _) = grant_starts(RATE, &starts, 15, at(1_000));
        assert_eq!((third.granted, third.next_at), (10, at(2_000)));
    }

    #[test]
    fn starts_count_for_exactly_one_period() {
        let (_, starts) = grant_starts(RATE, &RateStarts::default(), 4, at(0));
        let (some, starts) = grant_starts(RATE, &starts, 9, at(500));
        assert_eq!((some.granted, some.next_at), (6, at(1_000)));
        let (more, _) = grant_starts(RATE, &starts, 9, at(1_100));
        assert_eq!((more.granted, more.next_at), (4, at(1_500)));
    }

    #[test]
    fn a_start_from_a_clock_that_is_ahead_counts_from_now() {
        let (_, ahead) = grant_starts(RATE, &RateStarts::default(), 10, at(3_600_000));
        let (now, _) = grant_starts(RATE, &ahead, 1, at(0));
        assert_eq!((now.granted, now.next_at), (0, at(1_000)));
    }

    #[test]
    fn what_an_older_release_has_stored_is_counted() {
        // Six tenths of the period are used up.
        let starts = RateStarts::from_used_until(RATE, at(600), at(0));
        assert_eq!(grant_starts(RATE, &starts, 9, at(0)).0.granted, 4);
        let starts = RateStarts::from_used_until(RATE, at(0), at(600));
        assert_eq!(grant_starts(RATE, &starts, 99, at(600)).0.granted, 10);
    }

    #[test]
    fn a_text_is_read_as_it_was_written_and_a_wrong_one_counts_nothing() {
        let (_, starts) = grant_starts(RATE, &RateStarts::default(), 4, at(7));
        let (_, starts) = grant_starts(RATE, &starts, 4, at(9));
        assert_eq!(starts.to_text(), "7000x4 9000x4");
        assert_eq!(RateStarts::from_text(&starts.to_text()), starts);
        assert_eq!(RateStarts::from_text("nonsense 5x 7x-1"), RateStarts::default());
    }

    /// Returns the most starts in a window of one period that begins with a start.
    fn fullest(started: &[(i64, u32)], per: i64) -> u32 {
        let from = |begin: i64| {
            let within = |at: i64| at >= begin && at < begin + per;
            started.iter().filter(|(at, _)| within(*at)).map(|(_, count)| count).sum()
        };
        started.iter().map(|(begin, _)| from(*begin)).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_window_holds_more_starts_than_the_rate(
            count in 1..40_u32,
            per in 1..2_000_i64,
            asked in prop::collection::vec((0..300_i64, 0..30_u32), 1..400),
        ) {
            let rate = Rate { count, per: Duration::from_millis(per.unsigned_abs()) };
            let (mut starts, mut time, mut started) = (RateStarts::default(), 0, Vec::new());
            for (later, requested) in asked {
                time += later;
                let (grant, after) = grant_starts(rate, &starts, requested, at(time));
                prop_assert!(after.entries.len() <= STARTS_MAX);
                started.push((time, grant.granted));
                prop_assert!(grant.granted == requested || grant.next_at > at(time));
                starts = RateStarts::from_text(&after.to_text());
            }
            prop_assert!(fullest(&started, per) <= count);
        }

        #[test]
        fn many_callers_get_nearly_the_whole_rate(count in 1..200_u32) {
            let rate = Rate { count, per: Duration::from_secs(1) };
            let (mut starts, mut granted) = (RateStarts::default(), 0);
            for millisecond in 0..10_000 {
                let (now, after) = grant_starts(rate, &starts, 1, at(millisecond));
                granted += now.granted;
                starts = after;
            }
            // Merged entries delay by less than a tenth.
            prop_assert!(granted >= 9 * count && granted <= 10 * count, "{}", granted);
        }
    }
}
