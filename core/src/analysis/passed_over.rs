//! Occurrences that a moved cursor passes over: one by one, or as one entry with a count when there are too many.

use jiff::Timestamp;

use super::walk::Walk;
use crate::model::{JobRecord, SkipReason};
use crate::policy::{COUNT_MAX, SKIPS_LISTED_MAX, Skip};

/// Returns the occurrences from the cursor of a job on and before another cursor, or all when there is none.
pub(crate) fn passed_over(walk: &Walk, record: &JobRecord, cursor: Option<Timestamp>) -> Vec<Skip> {
    let schedule = &record.job.schedule;
    let ends = cursor.unwrap_or(Timestamp::MAX);
    let Some(first) = record.cursor.filter(|first| *first < ends) else { return Vec::new() };
    let all: Vec<Timestamp> = std::iter::successors(Some(first), |at| walk.next(schedule, *at))
        .take_while(|at| *at < ends)
        .take(usize::try_from(SKIPS_LISTED_MAX).unwrap_or(usize::MAX) + 1)
        .collect();
    if all.len() as u64 <= SKIPS_LISTED_MAX {
        return all.into_iter().map(|nominal| Skip::one(nominal, SkipReason::Operator)).collect();
    }
    let nominal = walk.before(schedule, ends).next().unwrap_or(first);
    let later = walk.count(schedule, (first, nominal), COUNT_MAX);
    let more = later == COUNT_MAX;
    vec![Skip { nominal, first, count: 1 + later, more, reason: SkipReason::Operator }]
}
