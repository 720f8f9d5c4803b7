//! Punctual's transport over RabbitMQ: capabilities, publishing, subscribing. `topology` declares what a group
//! has on the broker, `wire` maps messages.
//!
#![doc = include_str!("../README.md")]

mod address;
mod builder;
mod connection;
mod consumer;
mod delay;
mod error;
mod names;
mod producer;
mod receipt;
mod settings;
mod topology;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lapin::types::ShortString;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, Result};

pub use crate::builder::{
    DELAY_MAX_DEFAULT, PAYLOAD_MAX_DEFAULT, PREFIX_DEFAULT, RabbitmqBuilder, TIMEOUT_DEFAULT,
};
use crate::connection::BrokerConnection;
use crate::consumer::RabbitmqConsumer;
use crate::delay::delay_ms;
use crate::names::{Names, exchange};
use crate::producer::{Producer, Publication};
pub use crate::settings::QueueKind;
use crate::settings::Settings;
use crate::topology::Topology;
use crate::wire::{ATTRIBUTE_PREFIX, HEADERS_RESERVED, properties};

/// Transport over RabbitMQ, by AMQP 0.9.1.
pub struct RabbitmqTransport {
    shared: Arc<TransportState>,
}

/// State shared by the transport, its consumers and their deliveries.
pub(crate) struct TransportState {
    pub(crate) settings: Arc<Settings>,
    pub(crate) topology: Topology,
    pub(crate) producer: Producer,
    pub(crate) consumer_connection: BrokerConnection,
}

impl RabbitmqTransport {
    /// Returns a builder for the broker at an address such as `amqp://user:password@host:5672/vhost`.
    pub fn builder(address: &str) -> RabbitmqBuilder {
        RabbitmqBuilder::new(address)
    }

    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        let settings = Arc::new(settings);
        let shared = TransportState {
            topology: Topology::new(settings.clone()),
            producer: Producer::new(settings.clone()),
            consumer_connection: BrokerConnection::new(settings.clone(), "consuming"),
            settings,
        };
        shared.producer.connection.open().await?;
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl fmt::Debug for RabbitmqTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitmqTransport")
            .field("broker", &self.shared.settings.endpoint())
            .field("prefix", &self.shared.settings.prefix)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for RabbitmqTransport {
    fn capabilities(&self) -> Capabilities {
        self.shared.capabilities()
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, _now: Timestamp) -> Result<()> {
        for outgoing in &batch {
            self.shared.check(outgoing)?;
        }
        let mut publications = Vec::with_capacity(batch.len());
        let mut last: Option<(&OutgoingMessage, Target)> = None;
        for outgoing in &batch {
            let wire = self.shared.settings.wrapping.wire(outgoing, ATTRIBUTE_PREFIX)?;
            let properties = properties(&wire, HEADERS_RESERVED)?;
            let target = match last.take() {
                Some((before, target)) if has_same_target(before, outgoing) => target,
                _ => self.shared.target(&outgoing.message.topic, outgoing.group.as_deref()).await?,
            };
            let Target { exchange, routing_key } = target.clone();
            last = Some((outgoing, target));
            publications.push(Publication { exchange, routing_key, properties, body: wire.body });
        }
        self.shared.send(publications).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let consumer = RabbitmqConsumer::open(self.shared.clone(), subscription).await?;
        Ok(Box::new(consumer))
    }
}

/// Exchange and routing key of a message.
#[derive(Clone)]
struct Target {
    exchange: ShortString,
    routing_key: ShortString,
}

fn has_same_target(one: &OutgoingMessage, other: &OutgoingMessage) -> bool {
    one.message.topic == other.message.topic && one.group == other.group
}

impl TransportState {
    pub(crate) fn capabilities(&self) -> Capabilities {
        let Settings { declare, delay_max, payload_max, .. } = &*self.settings;
        let (counted, delay_max) = (self.settings.counts_deliveries(), *delay_max);
        let delays = counted && *declare && !delay_max.is_zero();
        Capabilities {
            // The broker would silently drop a message for all groups if no group existed when it is due, and
            // its delays are coarse. The storage is exact and loses none.
            publish_delay: Delay::None,
            requeue_delay: if delays { Delay::UpTo(delay_max) } else { Delay::None },
            dead_letter: true,
            // One consumer receives them in order; requeued messages come later, and several consumers overtake
            // each other.
            ordering: Ordering::None,
            fan_out: true,
            attempts: if counted { AttemptCount::Counted } else { AttemptCount::RedeliveredFlag },
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: Some(*payload_max),
        }
    }

    /// Sends a batch. After an error every exchange and queue is declared again, as one may be missing.
    pub(crate) async fn send(&self, publications: Vec<Publication>) -> Result<()> {
        let sent = self.producer.send(publications).await;
        if sent.is_err() {
            self.topology.forget_declared();
        }
        sent
    }

    /// Sends a message through the queue of a delay, which moves it to the queue in its routing key when the delay is over.
    pub(crate) async fn send_delayed(
        &self,
        publication: Publication,
        delay: Duration,
    ) -> Result<()> {
        let connection = &self.producer.connection;
        let exchange = self.topology.ensure_delay(connection, delay_ms(delay)).await?;
        let publication = Publication { exchange, ..publication };
        connection.retry_while_declared(|| self.send(vec![publication.clone()])).await
    }

    /// Refuses a message that can never be sent, before any of its batch is sent.
    fn check(&self, outgoing: &OutgoingMessage) -> Result<()> {
        let OutgoingMessage { message, delay, .. } = outgoing;
        check_delay("RabbitMQ", self.capabilities().publish_delay, message.id, *delay)?;
        let (size, limit) = (message.body.bytes.len(), self.settings.payload_max);
        if size > limit {
            return Err(Error::invalid(format!(
                "the body of message {} has {size} bytes; this transport takes {limit} at most: send a \
                 reference to it, or raise payload_max together with the broker's max_message_size",
                message.id
            )));
        }
        Ok(())
    }

    async fn target(&self, topic: &Topic, group: Option<&str>) -> Result<Target> {
        let (prefix, connection) = (&self.settings.prefix, &self.producer.connection);
        if let Some(group) = group {
            let names = Names::new(prefix, topic, group)?;
            self.topology.ensure_group(connection, &names).await?;
            return Ok(Target { exchange: ShortString::default(), routing_key: names.queue });
        }
        let exchange = exchange(prefix, topic)?;
        self.topology.ensure_topic(connection, &exchange).await?;
        Ok(Target { exchange, routing_key: ShortString::default() })
    }
}
