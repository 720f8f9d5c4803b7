//! Reference model of the scheduler, slow and simple. All occurrences from the cursor up to now are listed one by
//! one, each is classified as late or missed, and the policies are applied to the list. It shares only
//! `Schedule::next` and the records with the engine.

use std::time::Duration;

use punctual::clock::between;
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{JobRecord, MisfirePolicy, Retirement, SkipReason};
use punctual::schedule::{Interval, Schedule};
use punctual::{Misfire, Overlap};

/// Input of a decision.
pub(crate) struct DecisionInput<'a> {
    pub(crate) record: &'a JobRecord,
    pub(crate) alive: u32,
    pub(crate) threshold_default: Duration,
    pub(crate) now: Timestamp,
}

/// Decision about all occurrences of a job up to now.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decision {
    pub(crate) fired: Vec<RunOccurrence>,
    pub(crate) skipped: Vec<SkippedRange>,
    pub(crate) cursor: Option<Timestamp>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) last_nominal: Option<Timestamp>,
    pub(crate) runs: u64,
    pub(crate) finished: bool,
    pub(crate) cancels: bool,
}

/// Occurrence that runs; a missed one has the policy, the number of missed occurrences and its index among them.
#[derive(Debug, PartialEq)]
pub(crate) struct RunOccurrence {
    pub(crate) nominal: Timestamp,
    pub(crate) missed: Option<(MisfirePolicy, u64, u32)>,
}

/// Range of occurrences that do not run.
#[derive(Debug, PartialEq)]
pub(crate) struct SkippedRange {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) count: u64,
    pub(crate) reason: SkipReason,
}

/// Largest number of skipped occurrences with a record each; more are one record.
const LISTED_MAX: usize = 100;

/// Returns the correct decision and the number of occurrences it covers.
pub(crate) fn decide(input: &DecisionInput<'_>) -> (Decision, usize) {
    let DecisionInput { record, now, .. } = input;
    let schedule = &record.job.schedule;
    let all =
        record.cursor.map_or_else(Vec::new, |cursor| list_occurrences(schedule, cursor, *now));
    let decision = match &record.paused {
        Some(pause) => {
            let end = pause.until.map_or(*now, |until| until.min(*now));
            let over: Vec<_> = all.iter().copied().filter(|at| *at <= end).collect();
            decide_paused(record, &over, end)
        }
        None => decide_active(input, &all),
    };
    (decision, all.len())
}

/// Returns every occurrence from the cursor up to now.
fn list_occurrences(schedule: &Schedule, cursor: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    let mut all = Vec::new();
    let mut at = cursor - SignedDuration::from_nanos(1);
    while let Some(next) = schedule.next(at).filter(|next| *next <= now) {
        all.push(next);
        at = next;
    }
    all
}

/// Decides for a paused job: occurrences up to the end of the pause are skipped; a one-time job keeps its instant.
fn decide_paused(record: &JobRecord, all: &[Timestamp], end: Timestamp) -> Decision {
    let runs = record.runs;
    let once = record.job.schedule.as_once().is_some();
    let keeps_cursor = once || record.cursor.is_some_and(|cursor| cursor > end);
    let cursor = if keeps_cursor { record.cursor } else { record.job.schedule.next(end) };
    let all = if once { &[] } else { all };
    let skipped = match (all.first(), all.last()) {
        (Some(first), Some(last)) => {
            vec![SkippedRange {
                first: *first,
                last: *last,
                count: all.len() as u64,
                reason: SkipReason::Paused,
            }]
        }
        _ => Vec::new(),
    };
    let last_nominal = all.last().copied().or(record.last_nominal);
    let finished = record.retired == Some(Retirement::Finished)
        || (cursor.is_none() && record.retired.is_none());
    Decision { skipped, cursor, last_nominal, runs, finished, ..Decision::default() }
}

/// Returns the next undecided occurrence, independent of clock errors.
pub(crate) fn next_undecided(record: &JobRecord, now: Timestamp) -> Option<Timestamp> {
    record.job.schedule.next(record.last_nominal.map_or(now, |last| last.max(now)))
}

fn decide_active(input: &DecisionInput<'_>, all: &[Timestamp]) -> Decision {
    let DecisionInput { record, alive, now, .. } = input;
    let (job, schedule) = (&record.job, &record.job.schedule);
    let late = |at: &Timestamp| between(*at, *now);
    let once = schedule.as_once().is_some();
    let is_missed = |at: &Timestamp| !once && late(at) > threshold(input, *at);
    let missed: Vec<_> = all.iter().copied().filter(is_missed).collect();
    let in_time = &all[missed.len()..];
    let too_old = missed
        .iter()
        .filter(|at| job.misfire.window.is_some_and(|window| late(at) > window))
        .count();
    let (old, missed) = missed.split_at(too_old);

    let policy = job.misfire.policy_in_force();
    let (caught_up, dropped) = catch_up(&job.misfire, missed);
    let reason = if policy == MisfirePolicy::FireAll {
        SkipReason::CatchUpLimit
    } else {
        SkipReason::Misfire
    };
    let mut decision = Decision {
        last_nominal: all.last().copied().or(record.last_nominal),
        ..Decision::default()
    };
    decision.skipped.extend(fold_skipped(old, SkipReason::Window));
    decision.skipped.extend(fold_skipped(dropped, reason));
    let mut candidates: Vec<RunOccurrence> = (0..)
        .zip(caught_up)
        .map(|(index, nominal)| RunOccurrence {
            nominal: *nominal,
            missed: Some((policy, missed.len() as u64, index)),
        })
        .collect();
    let follows = schedule.as_interval().is_some_and(Interval::follows_last_run);
    if policy == MisfirePolicy::FireNow && follows && !candidates.is_empty() {
        let reanchored_schedule = schedule.reanchored(*now);
        decision.cursor = reanchored_schedule.next(*now);
        decision.schedule = (reanchored_schedule != *schedule).then_some(reanchored_schedule);
    } else {
        candidates.extend(
            in_time.iter().map(|nominal| RunOccurrence { nominal: *nominal, missed: None }),
        );
        decision.cursor = schedule.next(*now);
    }
    apply_overlap(&mut decision, job.overlap, *alive, candidates);
    apply_run_limit(&mut decision, record);
    decision
}

/// Returns the misfire threshold of an occurrence: that of the job, or the default bounded by the next occurrence.
fn threshold(input: &DecisionInput<'_>, at: Timestamp) -> Duration {
    let Misfire { policy, threshold, .. } = &input.record.job.misfire;
    let default = match policy {
        Some(_) => Duration::from_mins(5),
        None => input.threshold_default,
    };
    let next = input.record.job.schedule.next(at).map(|next| between(at, next));
    threshold.unwrap_or_else(|| next.map_or(default, |distance| default.min(distance)))
}

/// Returns the missed occurrences that run, and those that are dropped; the others are covered by a run.
fn catch_up<'a>(misfire: &Misfire, missed: &'a [Timestamp]) -> (&'a [Timestamp], &'a [Timestamp]) {
    let count = missed.len();
    match misfire.policy_in_force() {
        MisfirePolicy::FireNow => (&missed[..count.min(1)], &[]),
        MisfirePolicy::FireOnce => (&missed[count.saturating_sub(1)..], &[]),
        MisfirePolicy::FireAll => {
            let most = usize::try_from(misfire.catch_up_max).unwrap_or(usize::MAX);
            let (dropped, newest) = missed.split_at(count.saturating_sub(most));
            (newest, dropped)
        }
        MisfirePolicy::SkipToNext => (&[], missed),
    }
}

/// Applies the overlap policy with the runs alive before; occurrences of fire-all always run.
fn apply_overlap(
    decision: &mut Decision,
    overlap: Overlap,
    alive: u32,
    candidates: Vec<RunOccurrence>,
) {
    let is_fire_all = |one: &RunOccurrence| {
        one.missed.is_some_and(|(policy, _, _)| policy == MisfirePolicy::FireAll)
    };
    let free = match overlap {
        Overlap::Skip => alive == 0,
        Overlap::QueueOne => alive <= 1,
        Overlap::Allow { parallel_max } => parallel_max.is_none_or(|most| alive < most),
        Overlap::CancelRunning => true,
    };
    decision.cancels = overlap == Overlap::CancelRunning && !candidates.is_empty();
    for one in candidates {
        if free || is_fire_all(&one) {
            decision.fired.push(one);
        } else {
            let RunOccurrence { nominal, .. } = one;
            decision.skipped.push(SkippedRange {
                first: nominal,
                last: nominal,
                count: 1,
                reason: SkipReason::Overlap,
            });
        }
    }
}

/// Applies the largest number of runs, and finishes the job when it has ended.
fn apply_run_limit(decision: &mut Decision, record: &JobRecord) {
    let left =
        record.job.schedule.runs_max().map_or(u64::MAX, |most| most.saturating_sub(record.runs));
    decision.fired.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    let count = decision.fired.len() as u64;
    decision.runs = record.runs + count;
    if decision.cursor.is_none() || count >= left {
        decision.cursor = None;
        decision.finished = true;
    }
}

fn fold_skipped(skipped: &[Timestamp], reason: SkipReason) -> Vec<SkippedRange> {
    let one = |part: &[Timestamp]| SkippedRange {
        first: part[0],
        last: part[part.len() - 1],
        count: part.len() as u64,
        reason,
    };
    match skipped.len() {
        0 => Vec::new(),
        1..=LISTED_MAX => skipped.chunks(1).map(one).collect(),
        _ => vec![one(skipped)],
    }
}
