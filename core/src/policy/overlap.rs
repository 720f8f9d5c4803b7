//! Overlap: decides from the number of alive runs of a job which occurrences run. Alive means running, due and
//! waiting, or waiting for a retry; a run that is planned for later is not. In every case the schedule moves
//! on: an occurrence that does not run is skipped for good.

use super::PlannedOccurrence;
use crate::model::{MisfirePolicy, Overlap};

/// Decision about occurrences, and the condition under which a storage may store it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OverlapDecision {
    /// Occurrences that run, oldest first.
    pub fire: Vec<PlannedOccurrence>,
    /// Occurrences that are skipped, oldest first.
    pub skipped: Vec<PlannedOccurrence>,
    /// Number of alive messages of the job up to which the decision is valid; none means it is always valid.
    pub alive_max: Option<u32>,
    /// Whether the alive messages are cancelled first.
    pub cancel_alive: bool,
}

/// Decides which of the candidates, oldest first, run while so many messages of the job are alive.
///
/// Each is compared with what was alive before the decision: the runs of one decision run one after another and
/// never make each other skip. Runs of [`MisfirePolicy::FireAll`] are always admitted, because that policy
/// promises one for each missed occurrence.
pub(crate) fn admit(
    overlap: Overlap,
    alive: u32,
    candidates: Vec<PlannedOccurrence>,
) -> OverlapDecision {
    if overlap == Overlap::CancelRunning {
        let cancel_alive = !candidates.is_empty();
        return OverlapDecision { fire: candidates, cancel_alive, ..OverlapDecision::default() };
    }
    let Some(limit) = overlap.alive_limit() else {
        return OverlapDecision { fire: candidates, ..OverlapDecision::default() };
    };
    if alive < limit {
        let alive_max = (!candidates.iter().all(is_promised)).then(|| limit - 1);
        return OverlapDecision { fire: candidates, alive_max, ..OverlapDecision::default() };
    }
    let (fire, skipped) = candidates.into_iter().partition(is_promised);
    OverlapDecision { fire, skipped, ..OverlapDecision::default() }
}

/// Returns how many runs of one decision may run concurrently; none means no limit. Several late runs of a job
/// never start at one instant, unless [`MisfirePolicy::FireAll`] requires it.
pub(crate) fn at_once_max(overlap: Overlap, policy: MisfirePolicy) -> Option<u32> {
    match (overlap, policy) {
        (Overlap::Allow { parallel_max }, MisfirePolicy::FireAll) => parallel_max,
        _ => Some(1),
    }
}

fn is_promised(planned: &PlannedOccurrence) -> bool {
    planned.misfire.as_ref().is_some_and(|facts| facts.policy == MisfirePolicy::FireAll)
}

#[cfg(test)]
mod tests;
