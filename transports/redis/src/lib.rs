//! Punctual's transport over Redis streams: a stream for each topic, a consumer group for each group. It
//! carries, counts and recovers; it cannot delay, so the engine keeps what has to wait in the storage.
//!
//! [`RedisTransport::builder`] is where to begin. The README beside this crate says what it makes on the
//! server, what it promises, and what it does not.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod builder;
mod consumer;
mod desk;
mod fault;
mod hand;
mod link;
mod producer;
mod reader;
mod receipt;
mod scripts;
mod server;
mod settler;
mod streams;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::clock::Clock;
use punctual::jiff::Timestamp;
use punctual::model::{IdSource as _, Ids, Topic};
use punctual::transport::feed::Feed;
use punctual::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, Outgoing, Subscription,
    Transport,
};
use tokio::sync::Semaphore;

pub use self::builder::{Keep, RedisBuilder};
use self::consumer::RedisConsumer;
use self::desk::{CONSUMER, Desk};
use self::hand::{Hand, Holding};
use self::link::Link;
use self::producer::Producer;
use self::reader::{Progress, Reader, Taken};
use self::streams::Streams;

/// The longest one read waits for new entries.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Carries messages over the streams of one Redis server.
#[derive(Debug)]
pub struct RedisTransport {
    link: Arc<Link>,
    producer: Producer,
    clock: Arc<dyn Clock>,
    ids: Ids,
    declares: bool,
    trims: bool,
    hold_length: Duration,
    durable: bool,
}

impl RedisTransport {
    /// A transport to the server at an address: `redis://user:password@host:6379/0`, or `rediss://` for
    /// TLS.
    pub fn builder(address: impl Into<String>) -> RedisBuilder {
        RedisBuilder::new(address.into())
    }

    fn reader(&self, hand: &Arc<Hand>, topic: Topic, prefetch: usize, feed: Feed<Taken>) -> Reader {
        let wait = WAIT_MAX.min(self.hold_length / 2);
        let Feed { taken, asked, stop } = feed;
        Reader {
            hand: hand.clone(),
            link: self.link.another(wait),
            topic,
            clock: self.clock.clone(),
            declares: self.declares,
            hold_length: self.hold_length,
            wait,
            room: Arc::new(Semaphore::new(prefetch)),
            prefetch,
            taken,
            asked,
            stop,
            client: Arc::default(),
            progress: Progress::default(),
        }
    }
}

#[async_trait]
impl Transport for RedisTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::None,
            requeue_delay: Delay::None,
            dead_letter: true,
            // A stream is read in order, but several consumers overtake each other, and what was put
            // back comes later.
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: self.durable,
            payload_max: Some(self.producer.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<Outgoing>, now: Timestamp) -> Result<()> {
        self.producer.publish(&self.link, &batch, now).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        streams::check_group(&group)?;
        let streams = Streams::of(&self.producer.prefix, &topic, &group);
        if self.declares {
            topology::declare(&self.link, &streams, &group).await?;
        } else {
            topology::check(&self.link, &streams, &group).await?;
        }
        let prefetch = prefetch.clamp(1, Semaphore::MAX_PERMITS);
        let consumer = format!("{CONSUMER}{}", self.ids.next(self.clock.now()));
        let desk = Desk { link: self.link.clone(), streams, group, consumer };
        let (clock, length, trims) = (self.clock.clone(), self.hold_length, self.trims);
        let hand = Hand::new(Arc::new(desk), Holding { clock, length, trims });
        let reader = |feed| self.reader(&hand, topic, prefetch, feed);
        Ok(Box::new(RedisConsumer::start(reader, hand.clone(), self.clock.clone(), prefetch)))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        topology::topics(&self.link, &self.producer.prefix).await
    }
}
