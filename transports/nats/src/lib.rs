//! Punctual's transport on NATS JetStream: a stream for each topic, a durable consumer for each group,
//! delays and attempts counted by the broker.
//!
//! [`NatsTransport`] keeps the promises of [`punctual::Transport`]. The README beside this crate says what
//! it creates on the broker, how delays and dead letters work, and where its limits are.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod consumer;
mod fault;
mod held;
mod inbox;
mod link;
mod names;
mod options;
mod origin;
mod producer;
mod pump;
mod receipt;
mod topology;
mod version;
mod wire;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};

pub use async_nats;

pub use self::options::NatsBuilder;

use self::consumer::NatsConsumer;
use self::link::Link;
use self::producer::Producer;
use self::topology::Topology;

/// Carries messages through NATS JetStream.
///
/// - What a group has not settled is kept for it by the broker, also while none of its consumers is there.
/// - A topic that no group has subscribed to keeps nothing, so publishing to it is refused until one has,
///   unless [`NatsBuilder::drop_unheard`] says otherwise.
/// - It reconnects by itself. Until it has, publishing and receiving answer that the broker is unavailable.
pub struct NatsTransport {
    link: Arc<Link>,
    topology: Arc<Topology>,
    producer: Arc<Producer>,
    capabilities: Capabilities,
}

impl NatsTransport {
    /// Connects with what is usual: the prefix `punctual`, streams on disk, topology declared when needed.
    pub async fn connect(address: impl Into<String>) -> Result<Self> {
        Self::builder(address).connect().await
    }

    /// What can be set. Several servers of one cluster are separated by commas.
    pub fn builder(address: impl Into<String>) -> NatsBuilder {
        NatsBuilder::new(address.into())
    }

    fn new(link: Arc<Link>, topology: Arc<Topology>, producer: Arc<Producer>) -> Self {
        let capabilities = Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::Any,
            dead_letter: true,
            // What one consumer gets; what is put back comes later, and several consumers overtake.
            ordering: Ordering::Total,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: topology.is_durable(),
            payload_max: Some(producer.body_max()),
        };
        Self { link, topology, producer, capabilities }
    }
}

impl fmt::Debug for NatsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsTransport").field("place", &self.link.place).finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for NatsTransport {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn publish(&self, batch: Vec<Outgoing>, _now: Timestamp) -> Result<()> {
        self.producer.publish(&batch).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let consumer = NatsConsumer::open(&self.topology, &self.producer, subscription).await?;
        Ok(Box::new(consumer))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        self.topology.topics().await
    }
}
