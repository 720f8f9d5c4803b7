//! Transport over Apache Kafka.
//!
#![doc = include_str!("../README.md")]

mod address;
mod assignment;
mod builder;
mod commit_window;
mod connection;
mod consumer;
mod error;
mod in_flight;
mod last_error;
mod membership;
mod names;
mod notifier;
mod producer;
mod reader;
mod receipt;
mod settings;
mod topology;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::backend::wire::Wire;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::{Error, ErrorKind, Result};

pub use self::builder::{
    KafkaBuilder, PAYLOAD_MAX_DEFAULT, REVOKE_TIMEOUT_DEFAULT, UNCOMMITTED_MAX_DEFAULT,
};

use self::consumer::KafkaConsumer;
use self::in_flight::InFlight;
use self::names::{group_names, topic_name};
use self::producer::{Producer, Record};
use self::reader::Reader;
use self::receipt::ConsumerContext;
use self::settings::Settings;
use self::topology::Topology;
use self::wire::ATTRIBUTE_PREFIX;

/// Sends and receives messages over Apache Kafka.
pub struct KafkaTransport {
    settings: Arc<Settings>,
    producer: Arc<Producer>,
    topology: Topology,
}

impl KafkaTransport {
    /// Returns a builder for a cluster: `host:9092`, several separated by commas, or
    /// `kafka://user:password@host:9092`.
    pub fn builder(address: impl Into<String>) -> KafkaBuilder {
        KafkaBuilder::new(address)
    }

    pub(crate) async fn connect(settings: Settings) -> Result<Self> {
        let settings = Arc::new(settings);
        let producer = Arc::new(Producer::new(Arc::clone(&settings))?);
        let topology = Topology::new(Arc::clone(&settings), Arc::clone(&producer))?;
        connection::check(&settings, &producer, &topology).await?;
        Ok(Self { settings, producer, topology })
    }

    /// Refuses a message that cannot be sent, before any of its batch is.
    fn check(&self, outgoing: &OutgoingMessage) -> Result<()> {
        let OutgoingMessage { message, delay, .. } = outgoing;
        check_delay("Kafka", Delay::None, message.id, *delay)?;
        let (size, limit) = (message.body.bytes.len(), self.settings.payload_max);
        if size > limit {
            return Err(Error::invalid(format!(
                "message {} has a body of {size} bytes, more than payload_max, {limit}; send a reference \
                 instead, or raise payload_max here and max.message.bytes on the broker",
                message.id
            )));
        }
        Ok(())
    }
}

#[async_trait]
impl Transport for KafkaTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::None,
            dead_letter: true,
            ordering: Ordering::PerKey,
            fan_out: true,
            // The attempt travels with every copy that is put back.
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Cumulative,
            durable: true,
            payload_max: Some(self.settings.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, _now: Timestamp) -> Result<()> {
        batch.iter().try_for_each(|outgoing| self.check(outgoing))?;
        let mut names: BTreeMap<&Topic, String> = BTreeMap::new();
        for OutgoingMessage { message, .. } in &batch {
            if !names.contains_key(&message.topic) {
                let name = topic_name(&self.settings.prefix, &message.topic)?;
                self.topology.ensure_topic(&name).await?;
                names.insert(&message.topic, name);
            }
        }
        let encode = |outgoing| self.settings.wrapping.wire(outgoing, ATTRIBUTE_PREFIX);
        let wires: Vec<Wire> = batch.iter().map(encode).collect::<Result<_>>()?;
        let records: Vec<Record<'_>> = batch
            .iter()
            .zip(&wires)
            .filter_map(|(OutgoingMessage { message, .. }, wire)| {
                Some(Record { topic: names.get(&message.topic)?, message, wire })
            })
            .collect();
        let sent = self.producer.send(&records).await;
        if sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            self.topology.forget(names.values());
        }
        sent
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        let names = group_names(&self.settings.prefix, &topic, &group)?;
        self.topology.ensure_group(&names).await?;
        let in_flight = Arc::new(InFlight::new(prefetch, self.settings.uncommitted_max));
        let context = ConsumerContext {
            in_flight: Arc::clone(&in_flight),
            producer: Arc::clone(&self.producer),
            names: names.clone(),
            group: group.clone(),
        };
        let settings = Arc::clone(&self.settings);
        let reader = Reader { settings, names, topic, group, in_flight };
        Ok(Box::new(KafkaConsumer::start(reader, context).await?))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        self.topology.topics().await
    }
}

impl fmt::Debug for KafkaTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaTransport").field("settings", &self.settings).finish_non_exhaustive()
    }
}
