//! Receipt of a broker's delivery. One that was acknowledged before it was handled settles nothing any more.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use super::broker_settlement::BrokerSettlement;
use super::{Receipt, UnstartedMessage};
use crate::engine::held_message::unhandled_of;
use crate::engine::settle::{EndedAttempt, within_settle_timeout};
use crate::engine::{Process, Settler, SubscriptionSpec};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::model::Message;
use crate::model::time::add;
use crate::policy::AttemptEnd;
use crate::storage::Storage;
use crate::transport::{Acknowledge, Rejection};

/// Receipt of a broker's delivery.
pub(super) struct BrokerReceipt {
    /// `None` when it was acknowledged before it was handled: it cannot be put back, and settling does nothing.
    pub(super) acknowledge: Option<Box<dyn Acknowledge>>,
    /// The subscription that received it, so that it goes back there and nowhere else.
    pub(super) spec: Arc<SubscriptionSpec>,
}

impl BrokerReceipt {
    pub(super) async fn ack(self) -> Result<()> {
        match self.acknowledge {
            Some(receipt) => receipt.ack().await,
            None => Ok(()),
        }
    }

    pub(super) async fn requeue(self, delay: Duration) -> Result<()> {
        match self.acknowledge {
            Some(receipt) => receipt.requeue(delay).await,
            None => Err(Error::unsupported("the message was acknowledged before it was handled")),
        }
    }

    pub(super) async fn reject(self, rejection: &Rejection) -> Result<()> {
        match self.acknowledge {
            Some(receipt) => receipt.reject(rejection).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Receipt for BrokerReceipt {
    /// Settles with the broker; a message that stays unsettled is delivered again by it.
    fn settle(
        self: Box<Self>,
        settler: &Settler,
        ended: EndedAttempt,
    ) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async move {
            let process = &**settler.process();
            let EndedAttempt { decision, execution, now, .. } = ended;
            let settlement = BrokerSettlement {
                process,
                message: ended.message,
                is_recorded: ended.is_recorded,
                then: ended.then,
                inline_retries: ended.inline_retries,
                storing_until: add(now, process.env.options.settle_timeout / 2),
            };
            let settling = settlement.settle(*self, &decision, execution, now);
            let id = settlement.message.id;
            if let Err(error) = within_settle_timeout(process, id, settling).await {
                process.env.events.emit(Event::ServiceFailed {
                    service: "settle".to_owned(),
                    error: error.to_string(),
                    again_at: now,
                });
            }
            // In flight until here.
            drop((ended.context, ended.in_flight_guard));
        }))
    }

    /// The broker delivers it again when it is dropped.
    fn release(
        self: Box<Self>,
        _settler: &Settler,
        _unstarted: UnstartedMessage,
    ) -> Option<BoxFuture<'_, ()>> {
        None
    }

    async fn acknowledge(self: Box<Self>, _process: &Process) -> Result<()> {
        self.ack().await
    }

    fn possible_end(&self, process: &Process, end: AttemptEnd) -> AttemptEnd {
        if self.acknowledge.is_some() {
            return end;
        }
        let lost = |what: &str| AttemptEnd::Failed {
            error: Arc::from(format!("{what} after it was acknowledged, so it cannot be put back")),
        };
        match end {
            AttemptEnd::Interrupted => lost("was interrupted by a shutdown"),
            AttemptEnd::Snooze { .. } if !process.env.has_storage => lost("was snoozed"),
            AttemptEnd::NoHandler { .. } if !process.env.has_storage => lost("had no handler"),
            end => end,
        }
    }

    fn history<'a>(&'a self, process: &'a Process) -> &'a Arc<dyn Storage> {
        &process.env.storage
    }

    async fn unhandled(&self, process: &Process, message: &Message) -> Option<Duration> {
        process.env.has_storage.then(|| unhandled_of(message))
    }
}
