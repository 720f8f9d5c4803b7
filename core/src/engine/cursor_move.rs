//! Cursor move: an operator moves the cursor of a job. No occurrence disappears: those that are passed over
//! are in the history as skipped, and those the cursor goes back to are decided again.

use jiff::Timestamp;

use super::Process;
use super::scheduler::{Decision, firing, forget_skips, skipped};
use crate::model::{JobRecord, Retirement, SkipReason};
use crate::policy::{COUNT_MAX, Plan, SKIPS_LISTED_MAX, Skip};

/// Returns the decision that moves the cursor. Forward, the occurrences passed over are skipped and recorded;
/// back, they are decided again, on purpose.
pub(crate) fn move_cursor(
    process: &Process,
    record: &JobRecord,
    cursor: Option<Timestamp>,
    now: Timestamp,
) -> Decision {
    let mut after = record.clone();
    after.cursor = cursor;
    after.retired = cursor.is_none().then_some(Retirement::Finished);
    let skips = passed_over(record, cursor);
    after.last_nominal = skips.last().map(|skip| skip.nominal).or(record.last_nominal);
    forget_skips(&mut after);
    let skipped = skipped(process, &record.job, &skips, now);
    let firing = firing(record, after, Vec::new(), skipped, now);
    Decision { firing, plan: Plan { skipped: skips, ..Plan::default() } }
}

/// Returns the occurrences between two cursors: one by one, or as one entry with a count when there are too
/// many.
fn passed_over(record: &JobRecord, cursor: Option<Timestamp>) -> Vec<Skip> {
    let schedule = &record.job.schedule;
    let ends = cursor.unwrap_or(Timestamp::MAX);
    let Some(first) = record.cursor.filter(|first| *first < ends) else { return Vec::new() };
    let all: Vec<Timestamp> = std::iter::successors(Some(first), |at| schedule.next(*at))
        .take_while(|at| *at < ends)
        .take(usize::try_from(SKIPS_LISTED_MAX).unwrap_or(usize::MAX) + 1)
        .collect();
    if all.len() as u64 <= SKIPS_LISTED_MAX {
        return all.into_iter().map(|nominal| Skip::one(nominal, SkipReason::Operator)).collect();
    }
    let nominal = schedule.prev(ends).unwrap_or(first);
    let later = schedule.count(first, nominal, COUNT_MAX);
    let more = later == COUNT_MAX;
    vec![Skip { nominal, first, count: 1 + later, more, reason: SkipReason::Operator }]
}
