//! Plan: decides from schedule, cursor and misfire settings what happens to every occurrence from the cursor up
//! to now, in one step, so that the cursor moves with it and nothing is decided twice. However long the outage,
//! the cost is limited: skipped occurrences are counted up to one limit and listed up to another. Overlap,
//! spread and the number of runs are decided afterwards.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::time::{between, subtract};
use crate::model::{CATCH_UP_LIMIT, Misfire, MisfirePolicy};
use crate::model::{MisfireFacts, SkipReason};
use crate::schedule::Schedule;

/// Limit of counting missed occurrences: a year of seconds is "10,000 and more".
pub(crate) const COUNT_MAX: u64 = 10_000;
/// Number of skipped occurrences up to which each gets its own record; more share one record.
pub(crate) const SKIPS_LISTED_MAX: u64 = 100;
/// Largest number of occurrences that one plan fires on time; the next plan continues after them.
pub(super) const OCCURRENCES_PER_PLAN: usize = 1_000;

/// Decision about every occurrence from the cursor up to now, and the new cursor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Occurrences to run, oldest first.
    pub fire: Vec<PlannedOccurrence>,
    /// Occurrences that are skipped, oldest first.
    pub skipped: Vec<Skip>,
    /// Next occurrence to decide about; none when the schedule is over.
    pub cursor: Option<Timestamp>,
    /// New schedule, when this plan moved its anchor.
    pub schedule: Option<Schedule>,
    /// Newest occurrence that was decided about; none when nothing was due.
    pub last_nominal: Option<Timestamp>,
    /// Number of missed occurrences, also those older than the window; with `missed_more` at least that many. A
    /// warning is due only above zero.
    pub missed_count: u64,
    /// Whether counting stopped at its limit.
    pub missed_more: bool,
    /// Threshold that was used; the one of the oldest occurrence where they differ.
    pub threshold: Duration,
}

/// An occurrence to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedOccurrence {
    /// Instant on the schedule.
    pub nominal: Timestamp,
    /// Facts about the missed occurrences that this run stands for, if any.
    pub misfire: Option<MisfireFacts>,
}

/// Skipped occurrences: one, or many in one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Newest of them.
    pub nominal: Timestamp,
    /// Oldest of them.
    pub first: Timestamp,
    /// Number of them; with `more` at least that many.
    pub count: u64,
    /// Whether counting stopped at its limit.
    pub more: bool,
    /// Reason for skipping.
    pub reason: SkipReason,
}

impl Skip {
    /// Returns the skip of one occurrence.
    pub(crate) fn one(nominal: Timestamp, reason: SkipReason) -> Self {
        Self { nominal, first: nominal, count: 1, more: false, reason }
    }
}

/// Decides about every occurrence from the cursor up to and including now.
///
/// The cursor is the next occurrence, or any instant an operator moved it to. An occurrence that is not later
/// than the threshold is not missed and runs normally, whatever the policy. A default threshold is never longer
/// than the distance to the next occurrence, so that of several overdue occurrences only the newest can be on
/// time. A one-time schedule is never missed: it runs however late.
pub(super) fn plan(
    schedule: &Schedule,
    cursor: Timestamp,
    misfire: &Misfire,
    threshold_default: Duration,
    now: Timestamp,
) -> Plan {
    let oldest = schedule.next(just_before(cursor)).unwrap_or(cursor);
    let threshold = match schedule.as_once() {
        Some(_) => Duration::MAX,
        None => misfire.threshold_in_force(schedule, oldest, threshold_default).duration,
    };
    if cursor > now {
        return Plan { cursor: Some(cursor), threshold, ..Plan::default() };
    }
    let grid = Grid { schedule, now };
    let in_time = grid.in_time(misfire, threshold_default);
    let window = misfire.window.map_or(Timestamp::MIN, |window| subtract(now, window));
    let too_old = Span { from: cursor, until: window.min(in_time) };
    let missed = Span { from: cursor.max(window), until: in_time };
    let recent = Span { from: cursor.max(in_time), until: just_after(now) };

    let (dropped, tally) = (grid.tally(too_old), grid.tally(missed));
    let mut plan = Plan {
        skipped: grid.skips(too_old, dropped, SkipReason::Window),
        missed_count: dropped.count + tally.count,
        missed_more: dropped.more || tally.more,
        last_nominal: grid.last(Span { from: cursor, ..recent }),
        threshold,
        ..Plan::default()
    };
    plan.catch_up(&grid, (missed, tally), misfire);
    if schedule.follows_last_run() && plan.fire.iter().any(is_fire_now) {
        // The run stands for all due occurrences, also those still on time: counting starts again from it.
        let reanchored = schedule.reanchored(now);
        plan.cursor = reanchored.next(now);
        plan.schedule = Some(reanchored);
    } else {
        plan.fire_in_time(&grid, recent);
    }
    plan
}

impl Plan {
    /// Adds runs and skips for occurrences that were missed inside the window.
    fn catch_up(&mut self, grid: &Grid<'_>, (missed, tally): (Span, Tally), misfire: &Misfire) {
        let policy = misfire.policy_in_force();
        let runs: Vec<Timestamp> = match policy {
            MisfirePolicy::FireNow => grid.first(missed).into_iter().collect(),
            MisfirePolicy::FireOnce => grid.last(missed).into_iter().collect(),
            MisfirePolicy::FireAll => grid.newest(missed, misfire.catch_up_max.min(CATCH_UP_LIMIT)),
            MisfirePolicy::SkipToNext => Vec::new(),
        };
        let skips = match policy {
            MisfirePolicy::FireNow | MisfirePolicy::FireOnce => Vec::new(),
            MisfirePolicy::FireAll => {
                let rest = Span { until: runs.first().copied().unwrap_or(missed.until), ..missed };
                let kept = u64::try_from(runs.len()).unwrap_or(u64::MAX);
                let left = Tally { count: tally.count.saturating_sub(kept), ..tally };
                grid.skips(rest, left, SkipReason::CatchUpLimit)
            }
            MisfirePolicy::SkipToNext => grid.skips(missed, tally, SkipReason::Misfire),
        };
        self.skipped.extend(skips);
        self.fire.extend((0..).zip(runs).map(|(index, nominal)| {
            let facts = MisfireFacts {
                policy,
                misfired_from: nominal,
                missed_count: tally.count,
                missed_more: tally.more,
                detected_at: grid.now,
                delay_ms: u64::try_from(between(nominal, grid.now).as_millis()).unwrap_or(u64::MAX),
                index,
            };
            PlannedOccurrence { nominal, misfire: Some(facts) }
        }));
    }

    /// Adds runs for occurrences that are on time, and sets the cursor after them.
    fn fire_in_time(&mut self, grid: &Grid<'_>, recent: Span) {
        let mut next = grid.first(recent);
        let mut last = None;
        for _ in 0..OCCURRENCES_PER_PLAN {
            let Some(nominal) = next else { break };
            self.fire.push(PlannedOccurrence { nominal, misfire: None });
            last = Some(nominal);
            next = grid.schedule.next(nominal).filter(|next| *next < recent.until);
        }
        if next.is_some() {
            self.last_nominal = last;
            self.cursor = next;
        } else {
            self.cursor = grid.schedule.next(grid.now);
        }
    }
}

fn is_fire_now(planned: &PlannedOccurrence) -> bool {
    planned.misfire.as_ref().is_some_and(|facts| facts.policy == MisfirePolicy::FireNow)
}

/// Span of time; empty when it ends before it begins.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// First instant inside.
    from: Timestamp,
    /// First instant after it.
    until: Timestamp,
}

/// Number of occurrences, up to the limit of counting.
#[derive(Clone, Copy, Debug)]
struct Tally {
    count: u64,
    more: bool,
}

/// Occurrences of a schedule, relative to now.
struct Grid<'a> {
    schedule: &'a Schedule,
    now: Timestamp,
}

impl Grid<'_> {
    /// Returns the oldest instant at which an occurrence is not missed.
    fn in_time(&self, misfire: &Misfire, threshold_default: Duration) -> Timestamp {
        if self.schedule.as_once().is_some() {
            return Timestamp::MIN;
        }
        let in_time = subtract(self.now, misfire.threshold_max(threshold_default));
        if misfire.threshold.is_some() {
            return in_time;
        }
        // An occurrence is later than the distance to the next one when the next one has passed, too.
        self.schedule.prev(self.now).map_or(in_time, |last| in_time.max(last))
    }

    fn first(&self, span: Span) -> Option<Timestamp> {
        self.schedule.next(just_before(span.from)).filter(|first| *first < span.until)
    }

    fn last(&self, span: Span) -> Option<Timestamp> {
        self.schedule.prev(span.until).filter(|last| *last >= span.from)
    }

    /// Returns at most `most` of the newest occurrences, oldest first.
    fn newest(&self, span: Span, most: u32) -> Vec<Timestamp> {
        let mut found = Vec::new();
        let mut end = span.until;
        for _ in 0..most {
            let Some(nominal) = self.last(Span { until: end, ..span }) else {
                break;
            };
            found.push(nominal);
            end = nominal;
        }
        found.reverse();
        found
    }

    fn tally(&self, span: Span) -> Tally {
        if span.from >= span.until {
            return Tally { count: 0, more: false };
        }
        let counted =
            self.schedule.count(just_before(span.from), just_before(span.until), COUNT_MAX + 1);
        Tally { count: counted.min(COUNT_MAX), more: counted > COUNT_MAX }
    }

    /// Returns the records of skipped occurrences: one for each, or one for all when there are too many.
    fn skips(&self, span: Span, tally: Tally, reason: SkipReason) -> Vec<Skip> {
        let (Some(first), Some(last)) = (self.first(span), self.last(span)) else {
            return Vec::new();
        };
        if tally.more || tally.count > SKIPS_LISTED_MAX {
            return vec![Skip {
                nominal: last,
                first,
                count: tally.count,
                more: tally.more,
                reason,
            }];
        }
        let mut skips = Vec::new();
        let mut next = Some(first);
        for _ in 0..SKIPS_LISTED_MAX {
            let Some(nominal) = next else { break };
            skips.push(Skip::one(nominal, reason));
            next = self.schedule.next(nominal).filter(|next| *next < span.until);
        }
        skips
    }
}

const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

/// Returns the instant before, so that "strictly after" it includes `instant`.
fn just_before(instant: Timestamp) -> Timestamp {
    instant.checked_sub(INSTANT).unwrap_or(Timestamp::MIN)
}

/// Returns the instant after, so that "strictly before" it includes `instant`.
fn just_after(instant: Timestamp) -> Timestamp {
    instant.checked_add(INSTANT).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
