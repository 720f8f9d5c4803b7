//! Rescue: what the loss or the shutdown of its process means for a message. Neither is the handler's
//! failure: a shutdown gives the attempt back, and a crash has a budget of its own; only beyond it does a
//! crash spend attempts, so that a message that keeps killing its process ends as a dead letter. A crash
//! never gives more than the running attempt back: the retry budget is not reset. A message whose terms say
//! [`WhenInterrupted::Lost`] is dead after either.

use std::sync::Arc;

use super::verdict::{AgainReason, AttemptDecision, AttemptFacts, Verdict, dead};
use crate::model::{DeadReason, Ending, Rescue, WhenInterrupted};

/// What people read about a message that is not run again.
pub(crate) const NOT_AGAIN: &str =
    "interrupted: the process ended while it ran, and when_interrupted is lost";

/// Decides about a message whose running attempt will never report, because its process is gone.
pub fn rescue(case: &AttemptFacts<'_>) -> AttemptDecision {
    let case = AttemptFacts { crashes: case.crashes.saturating_add(1), ..*case };
    let mut judged = not_again(&case).unwrap_or_else(|| {
        let error: Arc<str> = Arc::from(format!("its process was lost (crash {})", case.crashes));
        AttemptDecision { verdict: next(&case, &error), ending: Ending::Lost, note: Some(error) }
    });
    if case.cancel_requested {
        judged.verdict = Verdict::Cancelled;
    }
    judged
}

/// Decides about a message whose running attempt was cut off by a shutdown.
pub(super) fn interrupted(case: &AttemptFacts<'_>) -> AttemptDecision {
    not_again(case).unwrap_or_else(|| case.released())
}

/// What becomes of a message that is not run again after an interruption; none when it is. On its way to a
/// transport a message is not handled yet, so it is sent again whatever its terms say.
fn not_again(case: &AttemptFacts<'_>) -> Option<AttemptDecision> {
    let is_lost = case.handler_options.when_interrupted == WhenInterrupted::Lost;
    (is_lost && !case.message.queue.is_relay())
        .then(|| dead(DeadReason::Interrupted, Ending::Lost, &Arc::from(NOT_AGAIN)))
}

fn next(case: &AttemptFacts<'_>, error: &Arc<str>) -> Verdict {
    let budget = case.handler_options.crashes_max;
    let reason = match case.handler_options.rescue {
        Rescue::AtOnce if budget == 0 || case.crashes <= budget => {
            return case.given_back().again(case.now, AgainReason::Rescue, Some(error.clone()));
        }
        Rescue::AtOnce => DeadReason::CrashLoop,
        Rescue::AsFailure => DeadReason::AttemptsSpent,
    };
    match case.retry_at(None) {
        Some(due_at) => case.again(due_at, AgainReason::Rescue, Some(error.clone())),
        None => Verdict::Dead { reason, error: Some(error.clone()) },
    }
}

#[cfg(test)]
mod tests;
