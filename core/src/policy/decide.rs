//! Decision about a due job: the plan of its occurrences, then the skips that an operator asked for, the overlap
//! policy and the number of runs that are left. The scheduler stores it, and the outage preview shows it.

use std::time::Duration;

use jiff::Timestamp;

use super::overlap::{OverlapDecision, admit};
use super::plan::{Plan, PlannedOccurrence, Skip, plan};
use crate::model::{JobRecord, MisfirePolicy, SkipReason};

/// Decision about every occurrence of a job from its cursor up to an instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobDecision {
    /// Occurrences that run and that are skipped, and the new cursor: none once the schedule or its number of
    /// runs has ended. Occurrences beyond that number are in neither list.
    pub(crate) plan: Plan,
    /// Number of alive messages of the job up to which the decision is valid; none means it is always valid.
    pub(crate) alive_max: Option<u32>,
    /// Whether the alive messages are cancelled first.
    pub(crate) cancel_alive: bool,
}

/// Decides about every occurrence of a job from a cursor up to and including now, while `alive` of its messages
/// are alive.
pub(crate) fn decide(
    record: &JobRecord,
    cursor: Timestamp,
    alive: u32,
    threshold_default: Duration,
    now: Timestamp,
) -> JobDecision {
    let job = &record.job;
    let mut plan = plan(&job.schedule, cursor, &job.misfire, threshold_default, now);
    let (unwanted, wanted): (Vec<PlannedOccurrence>, Vec<PlannedOccurrence>) =
        std::mem::take(&mut plan.fire).into_iter().partition(|run| is_unwanted(record, run));
    let OverlapDecision { mut fire, skipped, alive_max, cancel_alive } =
        admit(job.overlap, alive, wanted);
    let left = record.runs_left();
    fire.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    if left <= fire.len() as u64 {
        plan.cursor = None;
    }
    plan.fire = fire;
    plan.skipped.extend(unwanted.iter().map(|run| Skip::one(run.nominal, SkipReason::Operator)));
    plan.skipped.extend(skipped.iter().map(|run| Skip::one(run.nominal, SkipReason::Overlap)));
    JobDecision { plan, alive_max, cancel_alive }
}

/// Returns whether an operator skipped an occurrence. A run that also stands for other occurrences is not
/// skipped.
fn is_unwanted(record: &JobRecord, run: &PlannedOccurrence) -> bool {
    let alone = run
        .misfire
        .as_ref()
        .is_none_or(|facts| facts.policy == MisfirePolicy::FireAll || facts.missed_count <= 1);
    alone && record.overrides.skips.contains(&run.nominal)
}

#[cfg(test)]
mod tests;
