//! The contract of a transport: carry messages between processes. What it can do by itself is data
//! ([`Capabilities`]); what it cannot do, the engine does with the storage. A transport never
//! sleeps to delay something and never decides whether a message is retried.

pub mod address;
pub mod back_off;
pub mod prefetch;
pub mod settings;
pub mod settler;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::{DeadReason, Message, Topic};
use crate::storage::{ClaimedMessage, Storage};

/// Carries messages.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// What it can do; constant for a configuration.
    fn capabilities(&self) -> Capabilities;

    /// Sends a batch, in order; `Ok` when the broker has confirmed all of it, where it can confirm.
    ///
    /// - A delay beyond [`Capabilities::publish_delay`] is refused as unsupported, never slept.
    /// - After an error any part of the batch may have been sent; repeating it may duplicate.
    async fn publish(&self, batch: Vec<Outgoing>, now: Timestamp) -> Result<()>;

    /// The storage behind it, when it is one of our own kind: leases are then renewed and rescued
    /// there as well. Brokers have none.
    fn storage(&self) -> Option<Arc<dyn Storage>> {
        None
    }

    /// Starts to receive a topic for a group; declares what it needs on the broker if allowed.
    ///
    /// Each group gets every message once; consumers of the same group share them.
    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>>;

    /// The topics it knows of, in order; refused as unsupported where the broker does not tell.
    async fn topics(&self) -> Result<Vec<Topic>> {
        Err(Error::unsupported("this transport cannot list its topics; name the one you mean"))
    }
}

/// Receives deliveries of one subscription.
#[async_trait]
pub trait Consumer: Send + 'static {
    /// Waits for the next deliveries, at most `limit`, at least one. Cancel-safe: what was not
    /// returned is not lost. Malformed input is a delivery too, marked as poison.
    ///
    /// It may not be called for a long time, while the subscription is paused: the consumer keeps its
    /// place in the group by itself. After an error it may be called again; when it keeps failing, the
    /// consumer is closed and the topic is subscribed to anew. Where the broker is out of reach the error
    /// is [unavailable](crate::ErrorKind::Unavailable), here and in [`Transport::subscribe`]; every other
    /// kind of error to subscribe fails the start.
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>>;

    /// Stops receiving and hands back what is in flight, until an instant at the latest.
    async fn close(&mut self, until: Timestamp) -> Result<()>;
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The message.
    pub message: Arc<Message>,
    /// Not before this much later; only as long as the transport declared.
    pub delay: Duration,
    /// Attempts spent so far, for transports that carry the count themselves.
    pub attempt: u32,
    /// Only for this group, whose delivery is put back; none for all of them.
    pub group: Option<String>,
}

/// What to receive.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The topic.
    pub topic: Topic,
    /// Every group gets its own copy.
    pub group: String,
    /// How many deliveries may be unsettled at once.
    pub prefetch: usize,
}

/// A message received and not yet settled. Dropping it unsettled is legal and means "redeliver".
///
/// The engine drops a delivery that it could not settle, as while the storage is away, and makes no pause: a broker that
/// delivers it again at once has the handler run again and again until it can be settled. Where the broker can wait (by a
/// lock, a visibility timeout or a delay), a delivery that is dropped should not come back at once, but after a second or so.
///
/// While it is in hand the broker must not give it to anybody else: a transport whose broker would after
/// a while keeps extending its hold on it by itself.
pub struct Delivery {
    /// What was sent; for a poison delivery, as much of it as could be read.
    pub message: Arc<Message>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Why it could not be read, when it could not.
    pub poison: Option<String>,
    /// How it is settled.
    pub receipt: Receipt,
}

/// How a delivery is settled: by the storage it was claimed from, or by the broker.
pub enum Receipt {
    /// Claimed from a storage; the engine settles its lease there, with the execution.
    Lease(Box<LeaseReceipt>),
    /// Received from a broker.
    Broker(Box<dyn Acknowledge>),
}

/// A claim and the storage it came from.
pub struct LeaseReceipt {
    /// What was claimed.
    pub claimed: ClaimedMessage,
    /// Where from.
    pub storage: Arc<dyn Storage>,
}

/// The three ways to settle a broker's delivery. Each takes it by value: a delivery is settled once.
///
/// A call should fail when its connection is lost. One that does not return is dropped after
/// [`Options::settle_timeout`](crate::Options::settle_timeout); the delivery is then settled or comes again.
#[async_trait]
pub trait Acknowledge: Send + Sync + 'static {
    /// Done with it.
    async fn ack(self: Box<Self>) -> Result<()>;

    /// Puts it back into the one queue it came from, not before the delay; only called with delays
    /// within [`Capabilities::requeue_delay`].
    async fn requeue(self: Box<Self>, delay: Duration) -> Result<()>;

    /// To the broker's place for dead letters, or for what cannot be read, if it has one; else drops it.
    /// What is there says why, from which topic, after how many attempts and when.
    async fn reject(self: Box<Self>, rejection: &Rejection) -> Result<()>;
}

/// Why a delivery is not handled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub reason: DeadReason,
    /// The last failure, for people.
    pub error: Option<Arc<str>>,
    /// Attempts spent.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
}

impl Rejection {
    /// Whether it belongs to what cannot be read, and not to what failed.
    pub fn is_invalid(&self) -> bool {
        self.reason == DeadReason::Poison
    }
}

/// What a transport can do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// How long a message may be delayed when it is published.
    pub publish_delay: Delay,
    /// How long a delivery may be delayed when it is put back.
    pub requeue_delay: Delay,
    /// Whether rejected deliveries are kept by the broker.
    pub dead_letter: bool,
    /// What order deliveries come in.
    pub ordering: Ordering,
    /// Whether several groups each get a copy.
    pub fan_out: bool,
    /// Who counts deliveries.
    pub attempts: AttemptCount,
    /// Whether deliveries are acknowledged one by one.
    pub acknowledge: AcknowledgeMode,
    /// Whether an accepted message survives a restart of the broker.
    pub durable: bool,
    /// The largest body, in bytes.
    pub payload_max: Option<usize>,
}

/// How long a delay can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// No delay at all.
    None,
    /// At most this long.
    UpTo(Duration),
    /// As long as one likes.
    Any,
}

impl Delay {
    /// Whether a delay is within reach; none at all always is.
    pub fn reaches(self, wanted: Duration) -> bool {
        match self {
            Self::None => wanted.is_zero(),
            Self::UpTo(limit) => wanted <= limit,
            Self::Any => true,
        }
    }
}

/// What order deliveries come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// Any.
    None,
    /// As sent, among messages with the same key.
    PerKey,
    /// As sent.
    Total,
}

/// Who counts deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptCount {
    /// The transport, durably.
    Counted,
    /// It only says whether this is the first.
    RedeliveredFlag,
    /// Nobody; the engine keeps the count.
    None,
}

/// Whether deliveries are acknowledged one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AcknowledgeMode {
    /// Each by itself.
    Single,
    /// One and all before it.
    Cumulative,
}
