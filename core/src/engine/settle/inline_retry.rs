//! Inline retry: attempts without a settlement of their own, because the message is tried again within the
//! same delivery.

use std::sync::Arc;

use super::{Settler, attempt_facts, emit_attempt_end, is_recorded, within_settle_timeout};
use crate::engine::started_attempt::StartedAttempt;
use crate::event::Event;
use crate::policy::{AgainReason, AttemptEnd, Verdict, judge};
use crate::storage::BrokerRecord;

impl Settler {
    /// Records an attempt that failed and is retried within the same delivery. Returns false, and records
    /// nothing, when the policy allows no further attempt.
    pub(crate) async fn retry_inline(&self, started: &StartedAttempt, report: &AttemptEnd) -> bool {
        let StartedAttempt { received, handler_options, context, .. } = started;
        let now = self.process().now();
        let mut decision = judge(&attempt_facts(received, handler_options, now), report.clone());
        let Verdict::Again { due_at, why: AgainReason::Retry, .. } = &mut decision.verdict else {
            return false;
        };
        *due_at = now;
        emit_attempt_end(self.process(), context, &decision, now);
        let execution = Arc::new(context.execution(decision.ending, decision.note.clone(), now));
        self.process().runner.hooks.failed(&received.message, &execution, Some(now));
        self.process().runner.recent_runs.push(&execution);
        if is_recorded(handler_options, &decision) {
            let storage = received.receipt.history(self.process());
            let recording = storage.record(vec![BrokerRecord { execution, dead: None }], now);
            if let Err(error) =
                within_settle_timeout(self.process(), received.message.id, recording).await
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
