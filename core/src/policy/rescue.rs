//! Rescue: what the loss of its process means for a message. A crash is not the handler's failure,
//! so it has a budget of its own; only beyond it does a crash spend attempts, so that a message that
//! keeps killing its process ends as a dead letter. A crash never gives more than the running
//! attempt back: the retry budget is not reset.

use std::sync::Arc;

use super::verdict::{Case, Judged, Verdict, Why};
use crate::model::{DeadReason, Ending, Rescue};

/// Decides about a message whose running attempt will never report, because its process is gone.
pub fn rescue(case: &Case<'_>) -> Judged {
    let case = Case { crashes: case.crashes.saturating_add(1), ..*case };
    let error: Arc<str> = Arc::from(format!("its process was lost (crash {})", case.crashes));
    let verdict = if case.cancel_requested { Verdict::Cancelled } else { next(&case, &error) };
    Judged { verdict, ending: Ending::Lost, note: Some(error) }
}

fn next(case: &Case<'_>, error: &Arc<str>) -> Verdict {
    let budget = case.terms.crashes_max;
    let reason = match case.terms.rescue {
        Rescue::AtOnce if budget == 0 || case.crashes <= budget => {
            return case.given_back().again(case.now, Why::Rescue, Some(error.clone()));
        }
        Rescue::AtOnce => DeadReason::CrashLoop,
        Rescue::AsFailure => DeadReason::AttemptsSpent,
    };
    match case.retry_at(None) {
        Some(due_at) => case.again(due_at, Why::Rescue, Some(error.clone())),
        None => Verdict::Dead { reason, error: Some(error.clone()) },
    }
}

#[cfg(test)]
mod tests;
