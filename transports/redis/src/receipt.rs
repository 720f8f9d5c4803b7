//! Receipt of a delivery. Each method consumes it; a dropped receipt requeues its entry.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::in_flight::InFlight;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::renewal::VisibilityRenewal;
use punctual::backend::transport::settler::Settler;
use punctual::backend::transport::{Acknowledge, Delay, Rejection};
use punctual::backend::wire::Wire;
use punctual::model::Message;
use tokio::sync::OwnedSemaphorePermit;

use crate::group_consumer::{GroupConsumer, RequeueEntry};
use crate::names::EntryPosition;
use crate::settler::{SettleAction, delivery_lost};

/// State shared by all deliveries of a consumer.
pub(crate) struct ConsumerContext {
    pub(crate) group_consumer: Arc<GroupConsumer>,
    pub(crate) settler: Settler<SettleAction>,
    pub(crate) in_flight: Arc<InFlight<EntryPosition, ()>>,
    /// Renews the visibility timeout as long as the consumer or one of its deliveries lives.
    pub(crate) _renewal: VisibilityRenewal,
}

/// Right to settle one entry.
pub(crate) struct RedisReceipt {
    pub(crate) context: Arc<ConsumerContext>,
    pub(crate) position: EntryPosition,
    pub(crate) message: Arc<Message>,
    /// Number of this attempt.
    pub(crate) attempt: u32,
    /// Whether `receive` returned the delivery; if not, no attempt is counted.
    pub(crate) is_returned: bool,
    /// Whether settling has begun; from then on dropping the receipt does nothing.
    pub(crate) is_settled: bool,
    /// Share of the prefetch, free again when the receipt is gone.
    pub(crate) capacity: Option<OwnedSemaphorePermit>,
}

impl RedisReceipt {
    fn requeue_entry(&self) -> RequeueEntry {
        let attempt = if self.is_returned { self.attempt } else { self.attempt.saturating_sub(1) };
        let Message { id, created_at, .. } = *self.message;
        RequeueEntry { position: self.position, attempt, message: id, created_at }
    }
}

#[async_trait]
impl Acknowledge for RedisReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.is_settled = true;
        self.context.settler.settle(SettleAction::Acknowledge(self.position)).await
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        check_delay("Redis", Delay::None, self.message.id, delay)?;
        self.is_settled = true;
        self.context.settler.settle(SettleAction::Requeue(self.requeue_entry())).await
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let letter = Wire::dead(&self.message, rejection)?;
        self.is_settled = true;
        let group_consumer = &self.context.group_consumer;
        let to = if rejection.is_invalid() {
            &group_consumer.streams.invalid
        } else {
            &group_consumer.streams.dead
        };
        let rejected = group_consumer.reject(self.position, to, &letter).await;
        match rejected {
            Ok(true) => Ok(()),
            Ok(false) => Err(delivery_lost(self.message.id)),
            Err(error) => Err(group_consumer.connection.map_error(&error).during("reject")),
        }
    }
}

impl Drop for RedisReceipt {
    fn drop(&mut self) {
        if !self.is_settled {
            self.context.settler.send(SettleAction::Requeue(self.requeue_entry()));
        }
        // Removed last: an entry that is being settled must not look abandoned. If settling failed, its
        // visibility timeout ends and it is delivered again.
        self.context.in_flight.remove(self.position);
    }
}
