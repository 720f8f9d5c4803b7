//! Transport over NATS JetStream: a stream for each topic, a durable consumer for each group, requeue delays and
//! attempts counted by the broker.
//!
//! Start with [`NatsTransport`]. The README of this crate describes what is created on the broker, how delays and
//! dead letters work, and the limits.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod builder;
mod connection;
mod consumer;
mod error;
mod in_flight;
mod inbox;
mod names;
mod origin;
mod producer;
mod reader;
mod receipt;
mod renewal;
mod server;
mod settings;
mod topology;
mod wire;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::jiff::Timestamp;
use punctual::model::Topic;

pub use async_nats;

pub use self::builder::NatsBuilder;

use self::connection::Connection;
use self::consumer::NatsConsumer;
use self::producer::Producer;
use self::topology::Topology;

/// Sends and receives messages through NATS JetStream.
///
/// - The broker keeps what a group has not settled, also while the group has no consumer.
/// - A topic without a group keeps nothing, so publishing to it fails until a group has subscribed, unless
///   [`NatsBuilder::allow_no_subscribers`] is set.
/// - The client reconnects automatically. Until then publishing and receiving fail as unavailable.
pub struct NatsTransport {
    connection: Arc<Connection>,
    topology: Arc<Topology>,
    producer: Arc<Producer>,
    capabilities: Capabilities,
}

impl NatsTransport {
    /// Connects with the defaults: the prefix `punctual`, streams on disk, topology created when missing.
    pub async fn connect(address: impl Into<String>) -> Result<Self> {
        Self::builder(address).connect().await
    }

    /// Returns a builder. Several servers of one cluster are separated by commas.
    pub fn builder(address: impl Into<String>) -> NatsBuilder {
        NatsBuilder::new(address.into())
    }

    fn new(connection: Arc<Connection>, topology: Arc<Topology>, producer: Arc<Producer>) -> Self {
        let capabilities = Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::Any,
            dead_letter: true,
            // The order for one consumer; requeued messages come later, and several consumers work concurrently.
            ordering: Ordering::Total,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: topology.is_durable(),
            payload_max: Some(producer.body_max()),
        };
        Self { connection, topology, producer, capabilities }
    }
}

impl fmt::Debug for NatsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsTransport")
            .field("servers", &self.connection.servers)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for NatsTransport {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, _now: Timestamp) -> Result<()> {
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
