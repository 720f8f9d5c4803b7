//! Punctual's transport over Amazon SQS: a queue for each group of a topic, and beside it one for dead
//! letters and one for what cannot be read. It delays what is sent by up to 15 minutes and what is put
//! back by up to 11 hours; beyond that the engine keeps messages in the storage.
//!
//! [`SqsTransport::builder`] is where to begin. The README beside this crate says what it makes on the
//! account, what it promises, and what it does not.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod builder;
mod consumer;
mod fault;
mod groups;
mod link;
mod lost;
mod names;
mod producer;
mod reader;
mod receipt;
mod settler;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::clock::{Clock, add};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use punctual::transport::feed::Feed;
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};
use tokio::sync::Semaphore;

pub use self::builder::SqsBuilder;
use self::consumer::SqsConsumer;
use self::link::Link;
use self::producer::Producer;
use self::reader::Reader;
use self::receipt::Hand;
use self::settler::{Held, Settler, Settling};

/// Carries messages over the queues of one account and region.
#[derive(Debug)]
pub struct SqsTransport {
    link: Link,
    producer: Producer,
    clock: Arc<dyn Clock>,
    hold_length: Duration,
    wait: Duration,
}

impl SqsTransport {
    /// A transport to the queues at an address: `sqs://eu-west-1` for Amazon's own, or the address of an
    /// endpoint, such as `http://key:secret@127.0.0.1:5000/?region=us-east-1`.
    pub fn builder(address: impl Into<String>) -> SqsBuilder {
        SqsBuilder::new(address.into())
    }

    fn hand(&self, queues: topology::Queues, group: String) -> Arc<Hand> {
        let held = Arc::new(Held::default());
        let settler = Settler::start(Settling {
            link: self.link.clone(),
            queue: queues.queue.clone(),
            held: held.clone(),
            clock: self.clock.clone(),
            hold_length: self.hold_length,
        });
        Arc::new(Hand { link: self.link.clone(), queues, group, settler, held })
    }
}

#[async_trait]
impl Transport for SqsTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::UpTo(producer::DELAY_MAX),
            requeue_delay: Delay::UpTo(receipt::DELAY_MAX),
            dead_letter: true,
            // Standard queues promise none.
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: Some(self.producer.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<Outgoing>, now: Timestamp) -> Result<()> {
        self.producer.publish(&self.link, &batch, now).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        let settings = self.producer.settings.clone();
        let names = settings.names.of_group(&topic, &group)?;
        let queues = topology::declare(&self.link, &settings, &names).await?;
        self.producer.groups.forget(&topic);
        if queues.is_new {
            // Publishers may believe for so long that there is no such group.
            let known_at = add(self.clock.now(), self.producer.groups.kept_for);
            self.clock.sleep_until(known_at).await;
        }
        let prefetch = prefetch.clamp(1, Semaphore::MAX_PERMITS);
        let hand = self.hand(queues, group);
        let reader = |feed: Feed<_>| Reader {
            hand: hand.clone(),
            topic,
            settings,
            names,
            clock: self.clock.clone(),
            hold_length: self.hold_length,
            wait: self.wait,
            room: Arc::new(Semaphore::new(prefetch)),
            taken: feed.taken,
            asked: feed.asked,
            stop: feed.stop,
        };
        Ok(Box::new(SqsConsumer::start(reader, hand.clone(), self.clock.clone(), prefetch)))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        topology::topics(&self.link, &self.producer.settings.names).await
    }
}
