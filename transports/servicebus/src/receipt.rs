//! Receipt of a delivery. Each method consumes it; a dropped receipt requeues its message.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::types::definitions::Fields;
use punctual::backend::transport::{Acknowledge, OutgoingMessage, Rejection};
use punctual::backend::wire::Wire;
use punctual::model::Message;
use punctual::{Error, Result};
use tokio::sync::{mpsc, oneshot};

use crate::in_flight::DeliveryNumber;
use crate::management::Lock;
use crate::producer::Producer;
use crate::settings::Settings;
use crate::wire;

/// Disposition of a delivery.
#[derive(Debug)]
pub(crate) enum Disposition {
    /// Settled for good.
    Complete,
    /// Requeued, with one more delivery counted.
    Abandon,
    /// Requeued, as if it had never been delivered.
    Release,
    /// Dead-lettered, with these fields.
    DeadLetter(Fields),
}

/// Settlement of a delivery.
pub(crate) struct Settlement {
    pub(crate) info: DeliveryInfo,
    pub(crate) link_number: u64,
    pub(crate) lock: Option<Lock>,
    pub(crate) disposition: Disposition,
    pub(crate) result_sender: Option<oneshot::Sender<Result<()>>>,
}

impl Settlement {
    pub(crate) fn number(&self) -> DeliveryNumber {
        (self.link_number, self.info.delivery_id())
    }
}

/// Command to a reader.
pub(crate) enum ReaderCommand {
    /// Settle a delivery.
    Settle(Settlement),
    /// Report when every earlier settlement is done.
    Flush(oneshot::Sender<()>),
}

/// State shared by all deliveries of a consumer.
pub(crate) struct ConsumerContext {
    pub(crate) settings: Arc<Settings>,
    pub(crate) producer: Arc<Producer>,
    /// Group that requeued copies are for; none for a queue, which has one group.
    pub(crate) group: Option<String>,
}

/// Right to settle one delivery.
pub(crate) struct ServiceBusReceipt {
    pub(crate) context: Arc<ConsumerContext>,
    pub(crate) commands: mpsc::UnboundedSender<ReaderCommand>,
    pub(crate) info: DeliveryInfo,
    /// Number of the link of the delivery.
    pub(crate) link_number: u64,
    pub(crate) lock: Option<Lock>,
    pub(crate) message: Arc<Message>,
    /// Number of this attempt.
    pub(crate) attempt: u32,
    /// How often the broker had delivered the message before.
    pub(crate) deliveries: u32,
    /// Whether one of those deliveries was no attempt.
    pub(crate) is_uncounted: bool,
    /// Whether `receive` returned the delivery; if not, no attempt is counted.
    pub(crate) is_returned: bool,
    /// Whether settling has begun; from then on dropping the receipt does nothing.
    pub(crate) is_settled: bool,
}

impl ServiceBusReceipt {
    async fn settle(mut self, disposition: Disposition) -> Result<()> {
        self.is_settled = true;
        let (result_sender, result) = oneshot::channel();
        let settlement = self.settlement(disposition, Some(result_sender));
        let gone = || {
            Error::unavailable(
                "the consumer of this delivery has ended; the message is delivered again when its lock expires",
            )
        };
        self.commands.send(ReaderCommand::Settle(settlement)).map_err(|_| gone())?;
        result.await.map_err(|_| gone())?
    }

    fn settlement(
        &self,
        disposition: Disposition,
        result_sender: Option<oneshot::Sender<Result<()>>>,
    ) -> Settlement {
        Settlement {
            info: self.info.clone(),
            link_number: self.link_number,
            lock: self.lock,
            disposition,
            result_sender,
        }
    }

    /// Sends a copy of the message to its own group, after a delay.
    async fn send_copy(&self, delay: Duration) -> Result<()> {
        let copy = OutgoingMessage {
            message: self.message.clone(),
            delay,
            attempt: self.attempt,
            group: self.context.group.clone(),
        };
        let now = self.context.settings.clock.now();
        self.context.producer.requeue(copy, now).await
    }
}

#[async_trait]
impl Acknowledge for ServiceBusReceipt {
    async fn ack(self: Box<Self>) -> Result<()> {
        self.settle(Disposition::Complete).await.map_err(|error| error.during("ack"))
    }

    async fn requeue(self: Box<Self>, delay: Duration) -> Result<()> {
        // The broker dead-letters what it has delivered too often, whatever the engine's limit; and where its
        // count is wrong, a copy carries the right one.
        let is_last =
            self.deliveries + 1 >= self.context.settings.deliveries_max || self.is_uncounted;
        let requeued = async {
            if delay.is_zero() && !is_last {
                return self.settle(Disposition::Abandon).await;
            }
            // The copy is sent first: a crash in between repeats the message and never loses it.
            self.send_copy(delay).await?;
            self.settle(Disposition::Complete).await
        };
        requeued.await.map_err(|error| error.during("requeue"))
    }

    async fn reject(self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let letter = Wire::dead(&self.message, rejection)?;
        let disposition = Disposition::DeadLetter(wire::dead_letter_fields(&letter));
        self.settle(disposition).await.map_err(|error| error.during("reject"))
    }
}

impl Drop for ServiceBusReceipt {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let disposition =
            if self.is_returned { Disposition::Abandon } else { Disposition::Release };
        let settlement = self.settlement(disposition, None);
        // Without a reader the message becomes available when its lock expires.
        let _ = self.commands.send(ReaderCommand::Settle(settlement));
    }
}
