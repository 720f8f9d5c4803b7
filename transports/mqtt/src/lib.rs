//! Punctual's transport over MQTT 5 and 3.1.1: a shared subscription for each group, and sessions that keep
//! what the group has not handled. It carries and counts; it cannot delay, so the engine keeps what has to
//! wait in the storage.
//!
//! [`MqttTransport::builder`] is where to begin. The README beside this crate says what it makes on the
//! broker, what it promises, and what it does not.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod adoption;
mod builder;
mod codec;
mod consumer;
mod dial;
mod fault;
mod feeder;
mod hand;
mod link;
mod members;
mod names;
mod producer;
mod receipt;
mod topics;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{IdSource as _, Ids, Topic};
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::adoption::Adopter;
pub use self::builder::MqttBuilder;
pub use self::codec::Version;
use self::consumer::{Feed, MqttConsumer};
use self::feeder::Feeder;
use self::hand::{Hand, Owner};
use self::members::Members;
use self::names::Names;
use self::producer::Producer;

/// Carries messages over one MQTT broker.
#[derive(Debug)]
pub struct MqttTransport {
    producer: Producer,
    ids: Ids,
    keep_for: Duration,
    patience: Duration,
    durable: bool,
}

impl MqttTransport {
    /// A transport to the broker at an address: `mqtt://user:password@host:1883`, or `mqtts://` for TLS.
    pub fn builder(address: impl Into<String>) -> MqttBuilder {
        MqttBuilder::new(address.into())
    }

    fn adopter(&self, topic: &Topic, group: &str) -> Adopter {
        let Producer { dial, prefix, .. } = &self.producer;
        Adopter {
            dial: dial.clone(),
            prefix: prefix.clone(),
            names: Names::of(prefix, topic, group),
            topic: topic.clone(),
            group: group.to_owned(),
            keep_for: self.keep_for,
        }
    }
}

#[async_trait]
impl Transport for MqttTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::None,
            // They are published, and gone when nobody has subscribed to them.
            dead_letter: false,
            // Members of a group overtake each other, and what was put back comes later.
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: self.durable,
            payload_max: Some(self.producer.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<Outgoing>, _now: Timestamp) -> Result<()> {
        self.producer.publish(&batch).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        names::check_group(&group)?;
        let adopter = self.adopter(&topic, &group);
        let dial = &self.producer.dial;
        let id = self.ids.next(dial.clock.now()).to_string();
        let (give, taken) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let owner = Owner {
            names: adopter.names.clone(),
            topic,
            group,
            client: adoption::client(&self.producer.prefix, &id),
            version: dial.version,
            place: dial.place(),
        };
        let hand = Arc::new(Hand::new(owner, give));
        let prefetch = u16::try_from(prefetch).unwrap_or(u16::MAX).max(1);
        let members = Members::new(id.clone(), self.patience);
        let feeder = Feeder {
            hand: hand.clone(),
            id,
            adopter,
            members,
            prefetch,
            stop: stopped,
            adoptions: JoinSet::new(),
        };
        let connected = feeder.connect().await;
        let connected =
            connected.map_err(|trouble| trouble.told(&dial.place()).during("subscribe"))?;
        let feeder = tokio::spawn(feeder.run(connected));
        let feed = Feed { hand, clock: dial.clock.clone(), taken, stop, feeder };
        Ok(Box::new(MqttConsumer::new(feed, prefetch.into())))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        let Producer { dial, prefix, .. } = &self.producer;
        let id = self.ids.next(dial.clock.now()).to_string();
        let topics = topics::list(dial, prefix, &id).await;
        topics.map_err(|trouble| trouble.told(&dial.place()).during("topics"))
    }
}
