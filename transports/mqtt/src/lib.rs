//! Transport over MQTT 5 and 3.1.1: a shared subscription for each group, and sessions that keep what the group has
//! not handled. Attempts travel with the messages. MQTT has no delays, so the engine keeps delayed messages in the
//! storage.
//!
//! Start with [`MqttTransport::builder`]. The README of this crate describes what is created on the broker, the
//! guarantees, and the limits.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod adoption;
mod builder;
mod codec;
mod connection;
mod connector;
mod consumer;
mod error;
mod in_flight;
mod membership;
mod names;
mod producer;
mod reader;
mod receipt;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::jiff::Timestamp;
use punctual::model::{IdSource as _, Ids, Topic};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::adoption::Adopter;
pub use self::builder::MqttBuilder;
pub use self::codec::Version;
use self::consumer::{MqttConsumer, ReaderHandle};
use self::in_flight::{ConsumerIdentity, InFlight};
use self::membership::Membership;
use self::names::Names;
use self::producer::Producer;
use self::reader::Reader;

/// Sends and receives messages over one MQTT broker.
#[derive(Debug)]
pub struct MqttTransport {
    producer: Producer,
    ids: Ids,
    session_retention: Duration,
    reconnect_timeout: Duration,
    durable: bool,
}

impl MqttTransport {
    /// Returns a builder for a broker at an address: `mqtt://user:password@host:1883`, or `mqtts://` for TLS.
    pub fn builder(address: impl Into<String>) -> MqttBuilder {
        MqttBuilder::new(address.into())
    }

    fn adopter(&self, topic: &Topic, group: &str) -> Adopter {
        let Producer { connector, prefix, .. } = &self.producer;
        Adopter {
            connector: connector.clone(),
            prefix: prefix.clone(),
            names: Names::of(prefix, topic, group),
            topic: topic.clone(),
            group: group.to_owned(),
            session_retention: self.session_retention,
        }
    }
}

#[async_trait]
impl Transport for MqttTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::None,
            // Rejected messages are published, and discarded by the broker if no subscription matches.
            dead_letter: false,
            // Consumers of a group work concurrently, and requeued messages come later.
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: self.durable,
            payload_max: Some(self.producer.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, _now: Timestamp) -> Result<()> {
        self.producer.publish(&batch).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        names::check_group(&group)?;
        let adopter = self.adopter(&topic, &group);
        let connector = &self.producer.connector;
        let id = self.ids.next(connector.clock.now()).to_string();
        let (sender, deliveries) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let identity = ConsumerIdentity {
            names: adopter.names.clone(),
            topic,
            group,
            client: adoption::client(&self.producer.prefix, &id),
            version: connector.version,
            server: connector.server(),
        };
        let in_flight = Arc::new(InFlight::new(identity, sender));
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX).max(1);
        let members = Membership::new(id.clone(), self.reconnect_timeout);
        let reader = Reader {
            in_flight: in_flight.clone(),
            id,
            adopter,
            members,
            prefetch,
            stop: stopped,
            adoptions: JoinSet::new(),
        };
        let connected = reader.connect().await;
        let connected = connected
            .map_err(|error| error::map_error(&error, &connector.server()).during("subscribe"))?;
        let reader = tokio::spawn(reader.run(connected));
        let handle =
            ReaderHandle { in_flight, clock: connector.clock.clone(), deliveries, stop, reader };
        Ok(Box::new(MqttConsumer::new(handle, prefetch.into())))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        let Producer { connector, prefix, .. } = &self.producer;
        let id = self.ids.next(connector.clock.now()).to_string();
        let topics = topology::list(connector, prefix, &id).await;
        topics.map_err(|error| error::map_error(&error, &connector.server()).during("topics"))
    }
}
