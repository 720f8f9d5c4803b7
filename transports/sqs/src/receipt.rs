//! How a delivery is settled. Each way takes it by value, and whoever drops it puts it back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::model::Message;
use punctual::transport::{Acknowledge, Outgoing, Rejection};
use punctual::wire::Wire;
use punctual::{Error, Result};
use tokio::sync::OwnedSemaphorePermit;

use crate::link::Link;
use crate::producer::{seconds, send};
use crate::settler::{Handle, Held, Request, Settler};
use crate::topology::Queues;
use crate::wire::Packed;

/// How long SQS waits before it gives a delivery again, counted from when it was received.
const WAIT_LIMIT: Duration = Duration::from_hours(12);
/// The longest delay of a delivery that is put back: an hour is left to its handler.
pub(crate) const DELAY_MAX: Duration = Duration::from_hours(11);
/// How often the original of a dead letter is tried to be removed.
const REMOVALS_MAX: usize = 3;

/// What the deliveries of one consumer have in common.
pub(crate) struct Hand {
    pub(crate) link: Link,
    pub(crate) queues: Queues,
    pub(crate) group: String,
    pub(crate) settler: Settler,
    pub(crate) held: Arc<Held>,
}

/// The right to settle one delivery.
pub(crate) struct SqsReceipt {
    pub(crate) hand: Arc<Hand>,
    /// Its number among those of this consumer.
    pub(crate) number: u64,
    pub(crate) handle: Handle,
    pub(crate) message: Arc<Message>,
    /// Which attempt this is.
    pub(crate) attempt: u32,
    /// Whether somebody has begun to settle it; nobody else does from then on.
    pub(crate) is_settled: bool,
    /// Room within the prefetch, free again when this is gone.
    pub(crate) _room: OwnedSemaphorePermit,
}

impl SqsReceipt {
    /// From here on it is not held longer, so that an extension cannot undo how it is settled.
    fn begin(&mut self) {
        self.is_settled = true;
        self.hand.held.release(self.number);
    }

    async fn delete(&self) -> Result<()> {
        self.hand.settler.settle(|answer| Request::Delete(self.handle.clone(), answer)).await
    }

    /// Puts back what nobody has seen, as a copy, because SQS counts what it gave out as an attempt.
    pub(crate) async fn hand_back(mut self) -> Result<()> {
        let outgoing = Outgoing {
            message: self.message.clone(),
            delay: Duration::ZERO,
            attempt: self.attempt.saturating_sub(1),
            group: Some(self.hand.group.clone()),
        };
        let entry = Packed::of(&Wire::of(&outgoing)?)?.entry(0, 0)?;
        send(&self.hand.link, self.hand.queues.queue.clone(), vec![entry]).await?;
        self.begin();
        self.delete().await
    }
}

#[async_trait]
impl Acknowledge for SqsReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.begin();
        self.delete().await
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        if delay > WAIT_LIMIT {
            return Err(Error::unsupported(format!(
                "SQS cannot put the message {} back for {delay:?}, only for {DELAY_MAX:?}; keep it in a storage",
                self.message.id
            )));
        }
        self.begin();
        let after = seconds(delay);
        let free = |answer| Request::Free(self.handle.clone(), after, answer);
        self.hand.settler.settle(free).await
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let Hand { link, queues, .. } = &*self.hand;
        let to = if rejection.is_invalid() { &queues.invalid } else { &queues.dead };
        let letter = Packed::of(&Wire::dead(&self.message, rejection)?)?.entry(0, 0)?;
        send(link, to.clone(), vec![letter])
            .await
            .map_err(|fault| Error::from(fault).during("reject"))?;
        self.begin();
        let mut removed = self.delete().await;
        for _ in 1..REMOVALS_MAX {
            if !removed.as_ref().is_err_and(Error::is_temporary) {
                break;
            }
            removed = self.delete().await;
        }
        removed
    }
}

impl Drop for SqsReceipt {
    fn drop(&mut self) {
        if !self.is_settled {
            self.begin();
            self.hand.settler.ask(Request::Free(self.handle.clone(), 0, None));
        }
    }
}
