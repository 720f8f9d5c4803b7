//! Carries Punctual's messages over Apache Kafka.
//!
#![doc = include_str!("../README.md")]

mod address;
mod bell;
mod builder;
mod consumer;
mod desk;
mod fault;
mod lane;
mod membership;
mod names;
mod producer;
mod reader;
mod receipt;
mod settings;
mod topology;
mod trouble;
mod window;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::clock::add;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};
use punctual::wire::Wire;
use punctual::{Error, ErrorKind, Result};
use rdkafka::error::RDKafkaErrorCode;

pub use self::builder::{
    KafkaBuilder, PAYLOAD_MAX_DEFAULT, REVOKE_PATIENCE_DEFAULT, TIMEOUT_DEFAULT, WINDOW_MAX_DEFAULT,
};

use self::consumer::KafkaConsumer;
use self::desk::Desk;
use self::names::{group_names, topic_name};
use self::producer::{Producer, Record};
use self::reader::Reader;
use self::receipt::Settling;
use self::settings::Settings;
use self::topology::Topology;
use self::wire::ATTRIBUTE_PREFIX;

/// How long to wait for a broker after none was found.
const ANOTHER_TRY: Duration = Duration::from_secs(1);

/// Carries messages over Apache Kafka.
pub struct KafkaTransport {
    settings: Arc<Settings>,
    producer: Arc<Producer>,
    topology: Topology,
}

impl KafkaTransport {
    /// A transport on a cluster: `host:9092`, several with commas between, or
    /// `kafka://user:password@host:9092`.
    pub fn builder(address: impl Into<String>) -> KafkaBuilder {
        KafkaBuilder::new(address)
    }

    pub(crate) async fn connect(settings: Settings) -> Result<Self> {
        let settings = Arc::new(settings);
        let producer = Arc::new(Producer::new(Arc::clone(&settings))?);
        let topology = Topology::new(Arc::clone(&settings), Arc::clone(&producer))?;
        let transport = Self { settings, producer, topology };
        transport.reach().await?;
        Ok(transport)
    }

    /// Asks the cluster something, to know that it is there and lets us in.
    async fn reach(&self) -> Result<()> {
        tokio::select! {
            answer = self.topology.metadata(None) => answer.map(|_| ()),
            // The client would go on trying until the time is over.
            code = self.hopeless() => {
                let reason = self.producer.trouble().reason(code);
                Err(fault::from_code(code, "connect", self.settings.at(reason.as_deref())))
            }
        }
    }

    /// Waits until the client has found no broker, and for one more try: a host can have several
    /// addresses, of which it takes one at a time.
    async fn hopeless(&self) -> RDKafkaErrorCode {
        let code = self.producer.trouble().hopeless().await;
        let clock = &*self.settings.clock;
        clock.sleep_until(add(clock.now(), ANOTHER_TRY)).await;
        code
    }

    /// Refuses what cannot be sent, before anything is.
    fn check(&self, outgoing: &Outgoing) -> Result<()> {
        let Outgoing { message, delay, .. } = outgoing;
        if !delay.is_zero() {
            return Err(Error::unsupported(format!(
                "Kafka cannot send a message {delay:?} later; give the builder a storage to keep it in"
            ))
            .with("message", message.id));
        }
        let (size, limit) = (message.body.bytes.len(), self.settings.payload_max);
        if size > limit {
            return Err(Error::invalid(format!(
                "message {} has a body of {size} bytes, and at most {limit} are sent; send a reference \
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
            // The count travels with every copy that is put back.
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Cumulative,
            durable: true,
            payload_max: Some(self.settings.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<Outgoing>, _now: Timestamp) -> Result<()> {
        batch.iter().try_for_each(|outgoing| self.check(outgoing))?;
        let mut names: BTreeMap<&Topic, String> = BTreeMap::new();
        for Outgoing { message, .. } in &batch {
            if !names.contains_key(&message.topic) {
                let name = topic_name(&self.settings.prefix, &message.topic)?;
                self.topology.ensure_topic(&name).await?;
                names.insert(&message.topic, name);
            }
        }
        let wrapped = |outgoing| self.settings.wrapping.wire(outgoing, ATTRIBUTE_PREFIX);
        let wires: Vec<Wire> = batch.iter().map(wrapped).collect::<Result<_>>()?;
        let records: Vec<Record<'_>> = batch
            .iter()
            .zip(&wires)
            .filter_map(|(Outgoing { message, .. }, wire)| {
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
        let desk = Arc::new(Desk::new(prefetch, self.settings.window_max));
        let settling = Settling {
            desk: Arc::clone(&desk),
            producer: Arc::clone(&self.producer),
            names: names.clone(),
            group: group.clone(),
        };
        let settings = Arc::clone(&self.settings);
        let reader = Reader { settings, names, topic, group, desk };
        Ok(Box::new(KafkaConsumer::start(reader, settling).await?))
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
