//! Sender of one topic's due messages: publishes them with a timeout, then settles them. A batch that the
//! transport refuses for good is sent again one by one, so that only the message at fault is given up.

use std::sync::Arc;

use crate::clock::within;
use crate::engine::Process;
use crate::engine::dead_message::DeadMessage;
use crate::engine::held_message::outgoing;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::model::time::add;
use crate::model::{DeadReason, TransportName};
use crate::policy::{AgainReason, Verdict, backoff, bounded};
use crate::storage::{ClaimedMessage, SettleResult, Settlement};
use crate::transport::{OutgoingMessage, Transport};

/// Publishes messages of one topic to one transport.
pub(super) struct TopicSender {
    pub(super) process: Arc<Process>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) target: TransportName,
}

impl TopicSender {
    /// Publishes messages of one topic in their order, and settles each.
    pub(super) async fn send(&self, claimed: Vec<ClaimedMessage>) -> Result<()> {
        let batch = claimed.iter().map(|one| outgoing(&one.message)).collect();
        let settlements = match self.publish(batch).await {
            Ok(()) => claimed.iter().map(|one| settlement(one, Verdict::Done)).collect(),
            Err(error) if is_final(&error) => self.one_by_one(&claimed, error).await,
            Err(error) => claimed.iter().map(|one| self.retry(one, &error)).collect(),
        };
        self.settle(&claimed, settlements).await
    }

    /// Publishes the messages of a refused batch one by one, to find those that are refused themselves.
    async fn one_by_one(&self, claimed: &[ClaimedMessage], error: Error) -> Vec<Settlement> {
        if let [only] = claimed {
            return vec![refused(only, &error)];
        }
        let mut settlements = Vec::with_capacity(claimed.len());
        for one in claimed {
            settlements.push(match self.publish(vec![outgoing(&one.message)]).await {
                Ok(()) => settlement(one, Verdict::Done),
                Err(error) if is_final(&error) => refused(one, &error),
                Err(error) => self.retry(one, &error),
            });
        }
        settlements
    }

    /// Publishes with a timeout, which is shorter than the lease, so that no other process sends the same
    /// messages meanwhile.
    async fn publish(&self, batch: Vec<OutgoingMessage>) -> Result<()> {
        let (now, options) = (self.process.now(), &self.process.env.options);
        let timeout = options.publish_timeout.min(options.lease_duration / 2);
        let publish = self.transport.publish(batch, now);
        within(&*self.process.env.clock, add(now, timeout), publish).await.unwrap_or_else(|| {
            Err(Error::unavailable(format!(
                "the transport {:?} did not confirm within {timeout:?}",
                self.target
            )))
        })
    }

    async fn settle(&self, claimed: &[ClaimedMessage], settlements: Vec<Settlement>) -> Result<()> {
        let verdicts: Vec<Verdict> =
            settlements.iter().map(|settlement| settlement.verdict.clone()).collect();
        let answers = self.process.env.storage.settle(settlements, self.process.now()).await?;
        let applied = answers.iter().map(|answer| *answer == SettleResult::Applied);
        for ((one, verdict), _) in
            claimed.iter().zip(verdicts).zip(applied).filter(|(_, applied)| *applied)
        {
            self.report(one, verdict);
        }
        Ok(())
    }

    fn report(&self, one: &ClaimedMessage, verdict: Verdict) {
        let message = one.message.id;
        match verdict {
            Verdict::Done => {
                let transport = self.target.clone();
                self.process.env.events.emit(Event::MessageRelayed { message, transport });
            }
            Verdict::Dead { reason, error } => {
                let (message, attempts) = (&*one.message, one.attempt);
                self.process.report_dead_message(DeadMessage {
                    message,
                    attempts,
                    reason,
                    error,
                    log: None,
                });
            }
            Verdict::Again { .. } | Verdict::Cancelled => {}
        }
    }

    fn retry(&self, claimed: &ClaimedMessage, error: &Error) -> Settlement {
        let verdict = Verdict::Again {
            due_at: add(self.process.now(), backoff(claimed.attempt)),
            attempt: claimed.attempt,
            crashes: claimed.crashes,
            snoozes: claimed.snoozes,
            error: Some(bounded(&Arc::from(error.to_string()))),
            why: AgainReason::Retry,
        };
        settlement(claimed, verdict)
    }
}

/// Returns whether the same message can never be sent: too large, or not supported by the transport.
fn is_final(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported)
}

fn refused(claimed: &ClaimedMessage, error: &Error) -> Settlement {
    let error = Some(bounded(&Arc::from(error.to_string())));
    settlement(claimed, Verdict::Dead { reason: DeadReason::Refused, error })
}

fn settlement(claimed: &ClaimedMessage, verdict: Verdict) -> Settlement {
    Settlement::new(claimed.lease_ref(), verdict, None)
}
