//! Punctual's transport over RabbitMQ: what it says it can do, publishing, and subscribing. What a group is
//! on the broker is in `topology`, how a message looks there in `wire`.
//!
#![doc = include_str!("../README.md")]

mod builder;
mod consumer;
mod delay;
mod fault;
mod link;
mod producer;
mod receipt;
mod settings;
mod topology;
mod wire;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lapin::types::ShortString;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};
use punctual::{Error, Result};

pub use crate::builder::{
    DELAY_MAX_DEFAULT, PATIENCE_DEFAULT, PAYLOAD_MAX_DEFAULT, PREFIX_DEFAULT, RabbitmqBuilder,
};
use crate::consumer::RabbitmqConsumer;
use crate::link::Link;
use crate::producer::{Parcel, Producer};
pub use crate::settings::QueueKind;
use crate::settings::Settings;
use crate::topology::{Names, Topology, exchange};
use crate::wire::{ATTRIBUTE_PREFIX, HEADERS_ROOM, properties};

/// Carries messages over RabbitMQ, by AMQP 0.9.1.
pub struct RabbitmqTransport {
    shared: Arc<Shared>,
}

/// What the transport, its consumers and their deliveries have in common.
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) topology: Topology,
    pub(crate) producer: Producer,
    pub(crate) consuming: Link,
}

impl RabbitmqTransport {
    /// A transport to the broker at an address such as `amqp://user:password@host:5672/vhost`.
    pub fn builder(address: &str) -> RabbitmqBuilder {
        RabbitmqBuilder::new(address)
    }

    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        let settings = Arc::new(settings);
        let shared = Shared {
            topology: Topology::new(settings.clone()),
            producer: Producer::new(settings.clone()),
            consuming: Link::new(settings.clone(), "consuming"),
            settings,
        };
        shared.producer.link.connection().await?;
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl fmt::Debug for RabbitmqTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitmqTransport")
            .field("broker", &self.shared.settings.place())
            .field("prefix", &self.shared.settings.prefix)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Transport for RabbitmqTransport {
    fn capabilities(&self) -> Capabilities {
        self.shared.capabilities()
    }

    async fn publish(&self, batch: Vec<Outgoing>, _now: Timestamp) -> Result<()> {
        for outgoing in &batch {
            self.shared.check(outgoing)?;
        }
        let mut parcels = Vec::with_capacity(batch.len());
        let mut last: Option<(&Outgoing, Target)> = None;
        for outgoing in &batch {
            let wire = self.shared.settings.wrapping.wire(outgoing, ATTRIBUTE_PREFIX)?;
            let properties = properties(&wire, HEADERS_ROOM)?;
            let target = match last.take() {
                Some((before, target)) if is_alike(before, outgoing) => target,
                _ => self.shared.target(&outgoing.message.topic, outgoing.group.as_deref()).await?,
            };
            let Target { exchange, routing_key } = target.clone();
            last = Some((outgoing, target));
            parcels.push(Parcel { exchange, routing_key, properties, body: wire.body });
        }
        self.shared.send(parcels).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let consumer = RabbitmqConsumer::open(self.shared.clone(), subscription).await?;
        Ok(Box::new(consumer))
    }
}

/// Where a message goes.
#[derive(Clone)]
struct Target {
    exchange: ShortString,
    routing_key: ShortString,
}

fn is_alike(one: &Outgoing, other: &Outgoing) -> bool {
    one.message.topic == other.message.topic && one.group == other.group
}

impl Shared {
    pub(crate) fn capabilities(&self) -> Capabilities {
        let Settings { declare, delay_max, payload_max, .. } = &*self.settings;
        let (counted, delay_max) = (self.settings.is_counted(), *delay_max);
        let delays = counted && *declare && !delay_max.is_zero();
        Capabilities {
            // The broker would drop a message for all groups silently if none were there when it is due,
            // and lengths of delay are coarse on it. The storage is exact and forgets nothing.
            publish_delay: Delay::None,
            requeue_delay: if delays { Delay::UpTo(delay_max) } else { Delay::None },
            dead_letter: true,
            // One consumer sees them as sent; what is put back comes later, and several overtake each other.
            ordering: Ordering::None,
            fan_out: true,
            attempts: if counted { AttemptCount::Counted } else { AttemptCount::RedeliveredFlag },
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: Some(*payload_max),
        }
    }

    /// Sends; when something is not where it should be, nothing is taken for granted after that.
    pub(crate) async fn send(&self, parcels: Vec<Parcel>) -> Result<()> {
        let sent = self.producer.send(parcels).await;
        if sent.is_err() {
            self.topology.forget();
        }
        sent
    }

    /// Refuses what can never be sent, before anything is.
    fn check(&self, outgoing: &Outgoing) -> Result<()> {
        let Outgoing { message, delay, .. } = outgoing;
        if !self.capabilities().publish_delay.reaches(*delay) {
            return Err(Error::unsupported(format!(
                "message {} cannot be published with a delay of {delay:?}: RabbitMQ does not delay what \
                 is published; hold it in the storage",
                message.id
            )));
        }
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
        let (prefix, link) = (&self.settings.prefix, &self.producer.link);
        if let Some(group) = group {
            let names = Names::new(prefix, topic, group)?;
            self.topology.group(link, &names).await?;
            return Ok(Target { exchange: ShortString::default(), routing_key: names.queue });
        }
        let exchange = exchange(prefix, topic)?;
        self.topology.topic(link, &exchange).await?;
        Ok(Target { exchange, routing_key: ShortString::default() })
    }
}
