//! Inline retry: attempts without a settlement of their own, because the message is tried again within the
//! same delivery or was acknowledged before it was handled.

use std::sync::Arc;

use super::{Settler, attempt_facts, emit_attempt_end, is_recorded, within_settle_timeout};
use crate::engine::started_attempt::StartedAttempt;
use crate::event::Event;
use crate::policy::{AgainReason, AttemptEnd, Verdict, judge};
use crate::storage::BrokerRecord;
use crate::transport::Receipt;

impl Settler {
    /// Returns the end of an attempt whose message cannot be put back at its broker.
    pub(super) fn without_requeue(&self, report: AttemptEnd) -> AttemptEnd {
        let lost = |what: &str| AttemptEnd::Failed {
            error: Arc::from(format!("{what} after it was acknowledged, so it cannot be put back")),
        };
        match report {
            AttemptEnd::Interrupted => lost("was interrupted by a shutdown"),
            AttemptEnd::Snooze { .. } if !self.process().env.has_storage => lost("was snoozed"),
            AttemptEnd::NoHandler { .. } if !self.process().env.has_storage => {
                lost("had no handler")
            }
            report => report,
        }
    }

    /// Records an attempt that failed and is retried within the same delivery. Returns false, and records
    /// nothing, when the policy allows no further attempt.
    pub(crate) async fn retry_inline(&self, started: &StartedAttempt, report: &AttemptEnd) -> bool {
        let StartedAttempt { delivery, handler_options, context, .. } = started;
        let now = self.process().now();
        let mut decision = judge(&attempt_facts(delivery, handler_options, now), report.clone());
        let Verdict::Again { due_at, why: AgainReason::Retry, .. } = &mut decision.verdict else {
            return false;
        };
        *due_at = now;
        emit_attempt_end(self.process(), context, &decision, now);
        let execution = Arc::new(context.execution(decision.ending, decision.note.clone(), now));
        self.process().runner.hooks.failed(&delivery.message, &execution, Some(now));
        self.process().runner.recent_runs.push(&execution);
        if is_recorded(handler_options, &decision) {
            let storage = match &delivery.receipt {
                Receipt::Lease(receipt) => &receipt.storage,
                Receipt::Broker(_) => &self.process().env.storage,
            };
            let record = BrokerRecord { execution, dead: None };
            let recording = storage.record(vec![record], now);
            if let Err(error) =
                within_settle_timeout(self.process(), delivery.message.id, recording).await
            {
                // The retry continues; only the history lacks this execution.
                let (service, error) = ("settle".to_owned(), error.to_string());
                self.process().env.events.emit(Event::ServiceFailed {
                    service,
                    error,
                    again_at: now,
                });
            }
        }
        true
    }
}
