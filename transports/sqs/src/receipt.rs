//! Receipt of a delivery. Each method consumes it; a dropped receipt requeues its message.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::transport::in_flight::InFlight;
use punctual::backend::transport::renewal::VisibilityRenewal;
use punctual::backend::transport::settler::Settler;
use punctual::backend::transport::{Acknowledge, OutgoingMessage, Rejection};
use punctual::backend::wire::Wire;
use punctual::model::Message;
use punctual::{Error, Result};
use tokio::sync::OwnedSemaphorePermit;

use crate::connection::BrokerConnection;
use crate::producer::{seconds, send};
use crate::settler::{SettleAction, delete_copied};
use crate::topology::Queues;
use crate::wire::EncodedMessage;

/// Longest delay before SQS delivers a message again, counted from when it was received.
const VISIBILITY_MAX: Duration = Duration::from_hours(12);
/// Longest delay of a requeued delivery: an hour is left for its handler.
pub(crate) const DELAY_MAX: Duration = Duration::from_hours(11);

/// Receipt handle of SQS.
pub(crate) type ReceiptHandle = Arc<str>;

/// State shared by all deliveries of a consumer.
pub(crate) struct ConsumerContext {
    pub(crate) connection: BrokerConnection,
    pub(crate) queues: Queues,
    pub(crate) group: String,
    pub(crate) settler: Settler<SettleAction>,
    pub(crate) in_flight: Arc<InFlight<u64, ReceiptHandle>>,
    /// Renews the visibility timeout as long as the consumer or one of its deliveries lives.
    pub(crate) _renewal: VisibilityRenewal,
}

/// Right to settle one delivery.
pub(crate) struct SqsReceipt {
    pub(crate) context: Arc<ConsumerContext>,
    /// Number among the deliveries of its consumer.
    pub(crate) number: u64,
    pub(crate) handle: ReceiptHandle,
    pub(crate) message: Arc<Message>,
    /// Number of this attempt.
    pub(crate) attempt: u32,
    /// Whether settling has begun; from then on dropping the receipt does nothing.
    pub(crate) is_settled: bool,
    /// Share of the prefetch, free again when the receipt is gone.
    pub(crate) _capacity: OwnedSemaphorePermit,
}

impl SqsReceipt {
    /// Ends the renewals of the visibility timeout, as a later renewal would undo the settlement.
    fn begin_settling(&mut self) {
        self.is_settled = true;
        self.context.in_flight.remove(self.number);
    }

    async fn delete(&self) -> Result<()> {
        self.context.settler.settle(SettleAction::Delete(self.handle.clone())).await
    }

    /// Requeues a delivery that no handler received, as a copy, because SQS counts every delivery as an attempt.
    pub(crate) async fn requeue_unattempted(mut self) -> Result<()> {
        let outgoing = OutgoingMessage {
            message: self.message.clone(),
            delay: Duration::ZERO,
            attempt: self.attempt.saturating_sub(1),
            group: Some(self.context.group.clone()),
        };
        let entry = EncodedMessage::encode(&Wire::of(&outgoing)?)?.entry(0, 0)?;
        send(&self.context.connection, self.context.queues.queue.clone(), vec![entry]).await?;
        self.begin_settling();
        self.delete().await
    }
}

#[async_trait]
impl Acknowledge for SqsReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.begin_settling();
        self.delete().await
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        if delay > VISIBILITY_MAX {
            return Err(Error::unsupported(format!(
                "SQS cannot requeue the message {} with a delay of {delay:?}, only of {DELAY_MAX:?}; give the builder a storage for longer delays",
                self.message.id
            )));
        }
        self.begin_settling();
        let settling = SettleAction::ChangeVisibility(self.handle.clone(), seconds(delay));
        self.context.settler.settle(settling).await
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let ConsumerContext { connection, queues, .. } = &*self.context;
        let to = if rejection.is_invalid() { &queues.invalid } else { &queues.dead };
        let letter = EncodedMessage::encode(&Wire::dead(&self.message, rejection)?)?.entry(0, 0)?;
        send(connection, to.clone(), vec![letter])
            .await
            .map_err(|error| Error::from(error).during("reject"))?;
        self.begin_settling();
        delete_copied(&self.context.settler, &self.handle).await
    }
}

impl Drop for SqsReceipt {
    fn drop(&mut self) {
        if !self.is_settled {
            self.begin_settling();
            self.context.settler.send(SettleAction::ChangeVisibility(self.handle.clone(), 0));
        }
    }
}
