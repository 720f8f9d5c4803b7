//! Upcoming occurrences of jobs, with clock changes, skips and pauses. Pure: computed from records and schedules.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::Timestamp;
use serde::Serialize;

use super::clock_change::{ScheduledTime, just_after, just_before};
use super::walk::Walk;
use crate::model::{JobName, JobRecord, Pause};

/// An upcoming occurrence of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpcomingOccurrence {
    /// Its time.
    pub time: ScheduledTime,
    /// Reason why it will not run: it is skipped, or the job is paused; `None` when it will run.
    pub skipped: Option<String>,
}

/// An upcoming run of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpcomingRun {
    /// Its time.
    pub at: Timestamp,
    /// Name of the job.
    pub job: JobName,
}

/// Upcoming runs of several jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UpcomingRuns {
    /// The runs, in the order of their times.
    pub runs: Vec<UpcomingRun>,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// Returns the next `count` occurrences of a job.
pub(crate) fn upcoming(
    walk: &Walk,
    record: &JobRecord,
    count: usize,
    now: Timestamp,
) -> Vec<UpcomingOccurrence> {
    let occurrence = |(at, skipped)| UpcomingOccurrence {
        time: ScheduledTime::new(&record.job.schedule, at),
        skipped,
    };
    occurrences_from(walk, record, now).take(count).map(occurrence).collect()
}

/// Returns the next runs of jobs, at or after the first and before the second instant of a range.
pub(crate) fn upcoming_runs(
    walk: &Walk,
    records: &[&JobRecord],
    range: (Timestamp, Timestamp),
    limit: usize,
) -> UpcomingRuns {
    let mut times: Vec<_> =
        records.iter().map(|record| runs_between(walk, record, range)).collect();
    // Holds the next run of each job; a run that is taken is replaced by the next one of its job.
    let mut heads: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
    for (place, times) in times.iter_mut().enumerate() {
        heads.extend(times.next().map(|at| Reverse((at, place))));
    }
    let mut runs = Vec::new();
    while runs.len() < limit
        && let Some(Reverse((at, place))) = heads.pop()
    {
        runs.push(UpcomingRun { at, job: records[place].job.name.clone() });
        heads.extend(times[place].next().map(|at| Reverse((at, place))));
    }
    UpcomingRuns { runs, more: !heads.is_empty() }
}

/// Returns the upcoming occurrences, from the cursor on but not before `from`, each with the reason if it will not run.
/// Ends with the schedule, its remaining runs or the limit of the walk.
pub(crate) fn occurrences_from<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    from: Timestamp,
) -> impl Iterator<Item = (Timestamp, Option<String>)> + use<'a> {
    let mut left = record.runs_left();
    times_from(walk, record, from).map(|at| (at, skip_reason(record, at))).take_while(
        move |(_, why)| {
            let has_runs = left > 0;
            if why.is_none() {
                left = left.saturating_sub(1);
            }
            has_runs
        },
    )
}

/// Returns the upcoming occurrences that will run, at or after `from` and before `to`. A pause is passed over in one
/// step.
fn runs_between<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    (from, to): (Timestamp, Timestamp),
) -> impl Iterator<Item = Timestamp> + use<'a> {
    let (resumes_at, to) = match &record.paused {
        None => (from, to),
        Some(Pause { until: Some(until), .. }) => (just_after(*until), to),
        // Nothing runs until the job is resumed.
        Some(Pause { until: None, .. }) => (from, from),
    };
    let left = usize::try_from(record.runs_left()).unwrap_or(usize::MAX);
    times_from(walk, record, from.max(resumes_at))
        .take_while(move |at| *at < to)
        .filter(|at| !record.overrides.skips.contains(at))
        .take(left)
}

/// Returns the times of the schedule from the cursor on but not before `from`.
fn times_from<'a>(
    walk: &'a Walk,
    record: &'a JobRecord,
    from: Timestamp,
) -> impl Iterator<Item = Timestamp> + use<'a> {
    let cursor = record.cursor.filter(|_| record.retired.is_none());
    // The cursor may not be a time of the schedule, so it is added as the first one.
    let first = cursor.filter(|cursor| *cursor >= from);
    let after = cursor.map(|cursor| if cursor >= from { cursor } else { just_before(from) });
    let rest = after.into_iter().flat_map(|after| walk.after(&record.job.schedule, after));
    first.into_iter().chain(rest)
}

/// Returns the reason why an upcoming occurrence will not run.
fn skip_reason(record: &JobRecord, at: Timestamp) -> Option<String> {
    if let Some(pause) = &record.paused
        && pause.until.is_none_or(|until| at <= until)
    {
        return Some(format!("paused by {}: {}", pause.by, pause.reason));
    }
    record.overrides.skips.contains(&at).then(|| "skipped by an operator".to_owned())
}
