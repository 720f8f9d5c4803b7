//! Rescue: decides what happens to a message whose process was lost or shut down, from its counts and options.
//! Neither is the handler's failure: a shutdown returns the attempt, and crashes have a budget of their own;
//! only beyond it does a crash spend attempts, so that a message that keeps crashing its process ends as a dead
//! letter. A crash never returns more than the running attempt: the retry budget is not reset. A message with
//! [`WhenInterrupted::Lost`] is dead after either.

use std::sync::Arc;

use super::verdict::{AgainReason, AttemptDecision, AttemptFacts, Verdict, dead};
use crate::model::{DeadReason, Ending, INTERRUPTED_ERROR, Rescue, WhenInterrupted};

/// Decides about a message whose running attempt will never end, because its process is gone.
pub(crate) fn rescue(facts: &AttemptFacts<'_>) -> AttemptDecision {
    let facts = AttemptFacts { crashes: facts.crashes.saturating_add(1), ..*facts };
    let mut decision = dead_if_lost(&facts).unwrap_or_else(|| {
        let error: Arc<str> = Arc::from(format!("its process was lost (crash {})", facts.crashes));
        AttemptDecision { verdict: next(&facts, &error), ending: Ending::Lost, note: Some(error) }
    });
    if facts.cancel_requested {
        decision.verdict = Verdict::Cancelled;
    }
    decision
}

/// Decides about a message whose running attempt was interrupted by a shutdown.
pub(super) fn interrupted(facts: &AttemptFacts<'_>) -> AttemptDecision {
    dead_if_lost(facts).unwrap_or_else(|| facts.released())
}

/// Returns the decision about a message that is not run again after an interruption; none when it is. A message
/// on its way to a transport is not handled yet, so it is sent again whatever its options.
fn dead_if_lost(facts: &AttemptFacts<'_>) -> Option<AttemptDecision> {
    let is_lost = facts.handler_options.when_interrupted == WhenInterrupted::Lost;
    (is_lost && facts.message.transport().is_none())
        .then(|| dead(DeadReason::Interrupted, Ending::Lost, &Arc::from(INTERRUPTED_ERROR)))
}

fn next(facts: &AttemptFacts<'_>, error: &Arc<str>) -> Verdict {
    let budget = facts.handler_options.crashes_max;
    let reason = match facts.handler_options.rescue {
        Rescue::AtOnce if budget == 0 || facts.crashes <= budget => {
            return facts.without_this_attempt().again(
                facts.now,
                AgainReason::Rescue,
                Some(error.clone()),
            );
        }
        Rescue::AtOnce => DeadReason::CrashLoop,
        Rescue::AsFailure => DeadReason::AttemptsSpent,
    };
    match facts.retry_at(None) {
        Some(due_at) => facts.again(due_at, AgainReason::Rescue, Some(error.clone())),
        None => Verdict::Dead { reason, error: Some(error.clone()) },
    }
}

#[cfg(test)]
mod tests;
