//! Attempts that do not end with a settlement of their own: those that are tried again on the spot, and
//! those whose message was acknowledged before it was handled.

use std::sync::Arc;

use super::{Settler, Started, case, in_time, is_recorded, tell};
use crate::event::Event;
use crate::policy::{AgainReason, AttemptEnd, Verdict, judge};
use crate::storage::BrokerRecord;
use crate::transport::Receipt;

impl Settler {
    /// What counts for a message that cannot go back where it came from.
    pub(super) fn without_return(&self, report: AttemptEnd) -> AttemptEnd {
        let lost = |what: &str| AttemptEnd::Failed {
            error: Arc::from(format!("{what} after it was acknowledged, so it cannot be put back")),
        };
        match report {
            AttemptEnd::Interrupted => lost("was interrupted by a shutdown"),
            AttemptEnd::Snooze { .. } if !self.process().holds => lost("was snoozed"),
            AttemptEnd::NoHandler { .. } if !self.process().holds => lost("met no handler"),
            report => report,
        }
    }

    /// Writes down an attempt that failed and is tried again on the spot; answers no, and writes nothing,
    /// when the policy wants no further attempt.
    pub(crate) async fn again_at_once(&self, started: &Started, report: &AttemptEnd) -> bool {
        let Started { delivery, handler_options, context, .. } = started;
        let now = self.process().now();
        let mut judged = judge(&case(delivery, handler_options, now), report.clone());
        let Verdict::Again { due_at, why: AgainReason::Retry, .. } = &mut judged.verdict else {
            return false;
        };
        *due_at = now;
        tell(self.process(), context, &judged, now);
        let execution = Arc::new(context.execution(judged.ending, judged.note.clone(), now));
        self.process().hooks.failed(&delivery.message, &execution, Some(now));
        self.process().recent.push(&execution);
        if is_recorded(handler_options, &judged) {
            let storage = match &delivery.receipt {
                Receipt::Lease(receipt) => &receipt.storage,
                Receipt::Broker(_) => &self.process().storage,
            };
            let record = BrokerRecord { execution, dead: None };
            let recording = storage.record(vec![record], now);
            if let Err(error) = in_time(self.process(), delivery.message.id, recording).await {
                // History is worth less than the message.
                let (service, error) = ("settle".to_owned(), error.to_string());
                self.process().events.emit(Event::ServiceFailed { service, error, again_at: now });
            }
        }
        true
    }
}
