//! How a delivery is settled. Each way takes it by value, and whoever drops it puts it back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::model::Message;
use punctual::transport::{Acknowledge, Rejection};
use punctual::wire::Wire;
use punctual::{Error, Result};
use tokio::sync::OwnedSemaphorePermit;

use crate::desk::Return;
use crate::hand::Hand;
use crate::settler::{Request, lost_to_others};
use crate::streams::Spot;

/// The right to settle one entry.
pub(crate) struct RedisReceipt {
    pub(crate) hand: Arc<Hand>,
    pub(crate) spot: Spot,
    pub(crate) message: Arc<Message>,
    /// Which attempt this is.
    pub(crate) attempt: u32,
    /// Whether anybody has seen the delivery; if not, no attempt is spent.
    pub(crate) is_given: bool,
    /// Whether somebody has begun to settle it; nobody else does from then on.
    pub(crate) is_settled: bool,
    /// Room within the prefetch, free again when this is gone.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

impl RedisReceipt {
    fn back(&self) -> Return {
        let attempt = if self.is_given { self.attempt } else { self.attempt.saturating_sub(1) };
        let Message { id, created_at, .. } = *self.message;
        Return { spot: self.spot, attempt, message: id, created_at }
    }
}

#[async_trait]
impl Acknowledge for RedisReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.is_settled = true;
        let spot = self.spot;
        self.hand.settler.settle(|answer| Request::Acknowledge(spot, answer)).await
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        if !delay.is_zero() {
            return Err(Error::unsupported(format!(
                "Redis cannot put the message {} back for {delay:?}; keep it in a storage",
                self.message.id
            )));
        }
        self.is_settled = true;
        let back = self.back();
        self.hand.settler.settle(|answer| Request::PutBack(back, answer)).await
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let letter = Wire::dead(&self.message, rejection)?;
        self.is_settled = true;
        let desk = &self.hand.desk;
        let to = if rejection.is_invalid() { &desk.streams.invalid } else { &desk.streams.dead };
        let rejected = desk.reject(self.spot, to, &letter).await;
        match rejected {
            Ok(true) => Ok(()),
            Ok(false) => Err(lost_to_others(self.message.id)),
            Err(error) => Err(desk.link.told(&error).during("reject")),
        }
    }
}

impl Drop for RedisReceipt {
    fn drop(&mut self) {
        if !self.is_settled {
            self.hand.settler.ask(Request::PutBack(self.back(), None));
        }
        // Only now: what is being settled must not look like something nobody has. If settling failed,
        // the hold runs out and it comes again.
        self.hand.release(self.spot);
    }
}
