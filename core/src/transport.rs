//! Transport contract: carry messages between processes. [`Capabilities`] describe what a transport can do by
//! itself; the engine does the rest with the storage. A transport never sleeps to delay a message and never
//! decides about retries.

pub mod address;
pub mod back_off;
pub mod in_flight;
pub mod limits;
pub mod prefetch;
pub mod renewal;
pub mod settings;
pub mod settler;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::error::{Error, Result};
pub use crate::model::{AcknowledgeMode, AttemptCount, Capabilities, Delay, Ordering};
use crate::model::{DeadReason, Message, Topic};
use crate::policy::Verdict;
use crate::storage::{ClaimedMessage, SettleResult, Settlement, Storage};

/// Carrier of messages between processes.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Returns its capabilities; constant for a configuration.
    fn capabilities(&self) -> Capabilities;

    /// Sends a batch, in order; `Ok` when the broker has confirmed all of it, where it can confirm.
    ///
    /// - A delay beyond [`Capabilities::publish_delay`] is refused as unsupported, never slept.
    /// - After an error any part of the batch may have been sent; repeating it may duplicate.
    async fn publish(&self, batch: Vec<OutgoingMessage>, now: Timestamp) -> Result<()>;

    /// Returns the storage behind it, when it is a stored transport: leases are then renewed and rescued there
    /// as well. Brokers have none.
    fn storage(&self) -> Option<Arc<dyn Storage>> {
        None
    }

    /// Starts to receive a topic for a group; declares the required objects on the broker if allowed.
    ///
    /// Each group gets every message once; consumers of the same group share them.
    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>>;

    /// Returns its topics, in order; fails as unsupported where the broker cannot list them.
    async fn topics(&self) -> Result<Vec<Topic>> {
        Err(Error::unsupported("this transport cannot list its topics; name the one you mean"))
    }
}

/// Receiver of the deliveries of one subscription.
#[async_trait]
pub trait Consumer: Send + 'static {
    /// Waits for the next deliveries and returns at most `limit`, at least one. Cancel-safe: deliveries that
    /// were not returned are not lost. A malformed message is returned too, marked as poison.
    ///
    /// It may not be called for a long time, while the subscription is paused: the consumer stays a member of
    /// the group by itself. After an error it may be called again; when it keeps failing, the consumer is
    /// closed and the topic is subscribed to again. Where the broker is out of reach the error is
    /// [unavailable](crate::ErrorKind::Unavailable), here and in [`Transport::subscribe`]; every other kind of
    /// error to subscribe fails the start.
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>>;

    /// Stops receiving and returns deliveries in flight to the broker, until an instant at the latest.
    async fn close(&mut self, until: Timestamp) -> Result<()>;
}

/// Message to send.
#[derive(Clone, Debug)]
pub struct OutgoingMessage {
    /// The message.
    pub message: Arc<Message>,
    /// Delay; only as long as the transport declared.
    pub delay: Duration,
    /// Attempts spent so far, for transports that carry the count themselves.
    pub attempt: u32,
    /// Only group to send to, whose delivery is requeued; none means all groups.
    pub group: Option<String>,
}

/// Topic to receive, for a group.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The topic.
    pub topic: Topic,
    /// Group; every group gets its own copy.
    pub group: String,
    /// Largest number of unsettled deliveries.
    pub prefetch: usize,
}

/// Message received and not yet settled. Dropping it unsettled is legal and means "redeliver".
///
/// The engine drops a delivery that it could not settle, for example during an outage of the storage, without a
/// pause: a broker that delivers it again at once makes the handler run again and again until it can be
/// settled. Where the broker can wait (by a lock, a visibility timeout or a delay), a dropped delivery should
/// be delivered again after about a second.
///
/// While it is in flight the broker must not deliver it elsewhere: where a broker would do so after a while,
/// the transport extends its right to the delivery by itself.
pub struct Delivery {
    /// Message as sent; of a poison delivery, as much as could be decoded.
    pub message: Arc<Message>,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Error of decoding, if it failed.
    pub poison: Option<String>,
    /// Receipt by which it is settled.
    pub receipt: Receipt,
}

/// Receipt of a delivery: settled by the storage it was claimed from, or by the broker.
pub enum Receipt {
    /// Claimed from a storage; the engine settles its lease there, with the execution.
    Lease(Box<LeaseReceipt>),
    /// Received from a broker.
    Broker(Box<dyn Acknowledge>),
}

impl Receipt {
    /// Acknowledges the delivery: it was handled. A lease that was lost meanwhile changes nothing.
    pub async fn ack(self, now: Timestamp) -> Result<()> {
        match self {
            Self::Lease(receipt) => receipt.ack(now).await.map(|_| ()),
            Self::Broker(receipt) => receipt.ack().await,
        }
    }

    /// Releases the delivery as if it had not been received.
    pub async fn release(self, now: Timestamp) -> Result<()> {
        match self {
            Self::Lease(receipt) => {
                let released = receipt.claimed.release(receipt.claimed.due_at);
                receipt.settle(released, now).await.map(|_| ())
            }
            Self::Broker(receipt) => receipt.requeue(Duration::ZERO).await,
        }
    }

    /// Rejects the delivery: it becomes a dead letter.
    pub async fn reject(self, rejection: &Rejection) -> Result<()> {
        match self {
            Self::Lease(receipt) => {
                let (reason, error) = (rejection.reason, rejection.error.clone());
                let dead = Verdict::Dead { reason, error };
                let settlement = Settlement::new(receipt.claimed.lease_ref(), dead, None);
                receipt.settle(settlement, rejection.at).await.map(|_| ())
            }
            Self::Broker(receipt) => receipt.reject(rejection).await,
        }
    }
}

/// Claim, and the storage it came from.
pub struct LeaseReceipt {
    /// Claimed message.
    pub claimed: ClaimedMessage,
    /// Storage it was claimed from.
    pub storage: Arc<dyn Storage>,
}

impl LeaseReceipt {
    /// Settles the message as done.
    pub(crate) async fn ack(self, now: Timestamp) -> Result<SettleResult> {
        let done = Settlement::new(self.claimed.lease_ref(), Verdict::Done, None);
        self.settle(done, now).await
    }

    async fn settle(self, settlement: Settlement, now: Timestamp) -> Result<SettleResult> {
        let results = self.storage.settle(vec![settlement], now).await?;
        Ok(results.first().copied().unwrap_or(SettleResult::Lost))
    }
}

/// Settlement of a broker's delivery, in three ways. Each takes it by value: a delivery is settled once.
///
/// A call should fail when its connection is lost. A call that does not return is dropped after
/// [`Options::settle_timeout`](crate::Options::settle_timeout); the delivery is then settled or delivered
/// again.
#[async_trait]
pub trait Acknowledge: Send + Sync + 'static {
    /// Acknowledges it: it was handled.
    async fn ack(self: Box<Self>) -> Result<()>;

    /// Requeues it in the queue it came from, not before the delay; only called with delays within
    /// [`Capabilities::requeue_delay`].
    async fn requeue(self: Box<Self>, delay: Duration) -> Result<()>;

    /// Moves it to the broker's queue for dead letters, or for messages that cannot be decoded, if it has one;
    /// else drops it. The stored message has the reason, the topic, the number of attempts and the time.
    async fn reject(self: Box<Self>, rejection: &Rejection) -> Result<()>;
}

/// Rejection: the reason why a delivery is not handled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Reason.
    pub reason: DeadReason,
    /// Last failure, for people.
    pub error: Option<Arc<str>>,
    /// Number of attempts spent.
    pub attempt: u32,
    /// Time of the rejection.
    pub at: Timestamp,
}

impl Rejection {
    /// Returns whether the delivery could not be decoded, rather than failed.
    pub fn is_invalid(&self) -> bool {
        self.reason == DeadReason::Poison
    }
}
