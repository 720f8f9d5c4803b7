//! The reference model: the fate of every occurrence, the slow and obvious way. All occurrences from
//! the cursor up to now are listed one by one, each is called late or missed, and the policy is read
//! out over the list. It shares nothing with the engine but `Schedule::next` and the records.

use std::time::Duration;

use punctual::clock::between;
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::{JobRecord, Retirement, SkipReason};
use punctual::policy::MisfirePolicy;
use punctual::schedule::{Interval, Schedule};
use punctual::{Misfire, Overlap};

/// What a scheduler knew when it decided.
pub(crate) struct Known<'a> {
    pub(crate) record: &'a JobRecord,
    pub(crate) alive: u32,
    pub(crate) threshold_default: Duration,
    pub(crate) now: Timestamp,
}

/// What must come of it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Fate {
    pub(crate) fired: Vec<FiredOne>,
    pub(crate) skipped: Vec<SkippedOne>,
    pub(crate) cursor: Option<Timestamp>,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) last_nominal: Option<Timestamp>,
    pub(crate) runs: u64,
    pub(crate) finished: bool,
    pub(crate) cancels: bool,
}

/// An occurrence that runs; for one that was missed how many were, and its place among its like.
#[derive(Debug, PartialEq)]
pub(crate) struct FiredOne {
    pub(crate) nominal: Timestamp,
    pub(crate) missed: Option<(MisfirePolicy, u64, u32)>,
}

/// Occurrences that do not run.
#[derive(Debug, PartialEq)]
pub(crate) struct SkippedOne {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) count: u64,
    pub(crate) reason: SkipReason,
}

/// More than this many skipped at once are one record.
const LISTED_MAX: usize = 100;

/// Decides as a scheduler must, and says how many occurrences that was about.
pub(crate) fn decide(known: &Known<'_>) -> (Fate, usize) {
    let Known { record, now, .. } = known;
    let schedule = &record.job.schedule;
    let all = record.cursor.map_or_else(Vec::new, |cursor| listed(schedule, cursor, *now));
    let fate = match &record.paused {
        Some(pause) => {
            let end = pause.until.map_or(*now, |until| until.min(*now));
            let over: Vec<_> = all.iter().copied().filter(|at| *at <= end).collect();
            resumed(record, &over, end)
        }
        None => fired(known, &all),
    };
    (fate, all.len())
}

/// Every occurrence from the cursor up to now.
fn listed(schedule: &Schedule, cursor: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    let mut all = Vec::new();
    let mut at = cursor - SignedDuration::from_nanos(1);
    while let Some(next) = schedule.next(at).filter(|next| *next <= now) {
        all.push(next);
        at = next;
    }
    all
}

/// A pause that ended: nothing runs of what was due until then, a one-time job keeps its instant.
fn resumed(record: &JobRecord, all: &[Timestamp], end: Timestamp) -> Fate {
    let runs = record.runs;
    let once = record.job.schedule.as_once().is_some();
    let kept = once || record.cursor.is_some_and(|cursor| cursor > end);
    let cursor = if kept { record.cursor } else { record.job.schedule.next(end) };
    let all = if once { &[] } else { all };
    let skipped = match (all.first(), all.last()) {
        (Some(first), Some(last)) => {
            vec![SkippedOne {
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
    Fate { skipped, cursor, last_nominal, runs, finished, ..Fate::default() }
}

/// The next occurrence that nobody has decided about, however wrong the clock is.
pub(crate) fn after_all(record: &JobRecord, now: Timestamp) -> Option<Timestamp> {
    record.job.schedule.next(record.last_nominal.map_or(now, |last| last.max(now)))
}

fn fired(known: &Known<'_>, all: &[Timestamp]) -> Fate {
    let Known { record, alive, now, .. } = known;
    let (job, schedule) = (&record.job, &record.job.schedule);
    let late = |at: &Timestamp| between(*at, *now);
    let once = schedule.as_once().is_some();
    let is_missed = |at: &Timestamp| !once && late(at) > threshold(known, *at);
    let missed: Vec<_> = all.iter().copied().filter(is_missed).collect();
    let in_time = &all[missed.len()..];
    let too_old = missed
        .iter()
        .filter(|at| job.misfire.window.is_some_and(|window| late(at) > window))
        .count();
    let (old, missed) = missed.split_at(too_old);

    let policy = job.misfire.policy_in_force();
    let (made_up, dropped) = made_up(&job.misfire, missed);
    let reason = if policy == MisfirePolicy::FireAll {
        SkipReason::CatchUpLimit
    } else {
        SkipReason::Misfire
    };
    let mut fate =
        Fate { last_nominal: all.last().copied().or(record.last_nominal), ..Fate::default() };
    fate.skipped.extend(folded(old, SkipReason::Window));
    fate.skipped.extend(folded(dropped, reason));
    let mut candidates: Vec<FiredOne> = (0..)
        .zip(made_up)
        .map(|(index, nominal)| FiredOne {
            nominal: *nominal,
            missed: Some((policy, missed.len() as u64, index)),
        })
        .collect();
    let follows = schedule.as_interval().is_some_and(Interval::follows_last_run);
    if policy == MisfirePolicy::FireNow && follows && !candidates.is_empty() {
        let anew = schedule.reanchored(*now);
        fate.cursor = anew.next(*now);
        fate.schedule = (anew != *schedule).then_some(anew);
    } else {
        candidates
            .extend(in_time.iter().map(|nominal| FiredOne { nominal: *nominal, missed: None }));
        fate.cursor = schedule.next(*now);
    }
    overlap(&mut fate, job.overlap, *alive, candidates);
    bound(&mut fate, record);
    fate
}

/// How late an occurrence may be: as long as the job says, else by default, but not until after the next.
fn threshold(known: &Known<'_>, at: Timestamp) -> Duration {
    let Misfire { policy, threshold, .. } = &known.record.job.misfire;
    let default = match policy {
        Some(_) => Duration::from_mins(5),
        None => known.threshold_default,
    };
    let next = known.record.job.schedule.next(at).map(|next| between(at, next));
    threshold.unwrap_or_else(|| next.map_or(default, |distance| default.min(distance)))
}

/// Which missed occurrences run, and which are dropped; those that are neither stand behind a run.
fn made_up<'a>(misfire: &Misfire, missed: &'a [Timestamp]) -> (&'a [Timestamp], &'a [Timestamp]) {
    let count = missed.len();
    match misfire.policy_in_force() {
        MisfirePolicy::FireNow => (&missed[..count.min(1)], &[]),
        MisfirePolicy::FireOnce => (&missed[count.saturating_sub(1)..], &[]),
        MisfirePolicy::FireAll => {
            let most = usize::try_from(misfire.catch_up_max).unwrap_or(usize::MAX);
            let (dropped, kept) = missed.split_at(count.saturating_sub(most));
            (kept, dropped)
        }
        MisfirePolicy::SkipToNext => (&[], missed),
    }
}

/// What was alive before decides who may run; what a promise was made for always does.
fn overlap(fate: &mut Fate, overlap: Overlap, alive: u32, candidates: Vec<FiredOne>) {
    let promised =
        |one: &FiredOne| one.missed.is_some_and(|(policy, _, _)| policy == MisfirePolicy::FireAll);
    let free = match overlap {
        Overlap::Skip => alive == 0,
        Overlap::QueueOne => alive <= 1,
        Overlap::Allow { parallel_max } => parallel_max.is_none_or(|most| alive < most),
        Overlap::CancelRunning => true,
    };
    fate.cancels = overlap == Overlap::CancelRunning && !candidates.is_empty();
    for one in candidates {
        if free || promised(&one) {
            fate.fired.push(one);
        } else {
            let FiredOne { nominal, .. } = one;
            fate.skipped.push(SkippedOne {
                first: nominal,
                last: nominal,
                count: 1,
                reason: SkipReason::Overlap,
            });
        }
    }
}

/// The number of runs a schedule may have, and its end.
fn bound(fate: &mut Fate, record: &JobRecord) {
    let left =
        record.job.schedule.runs_max().map_or(u64::MAX, |most| most.saturating_sub(record.runs));
    fate.fired.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    let count = fate.fired.len() as u64;
    fate.runs = record.runs + count;
    if fate.cursor.is_none() || count >= left {
        fate.cursor = None;
        fate.finished = true;
    }
}

fn folded(skipped: &[Timestamp], reason: SkipReason) -> Vec<SkippedOne> {
    let one = |part: &[Timestamp]| SkippedOne {
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
