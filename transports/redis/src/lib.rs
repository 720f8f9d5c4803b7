//! Punctual's transport over Redis streams: a stream for each topic, a consumer group for each group. Redis
//! counts deliveries and recovers abandoned ones; it cannot delay, so the engine stores delayed messages.
//!
//! Start with [`RedisTransport::builder`]. The README of this crate describes the keys on the server, the
//! guarantees and the limits.

// The README is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod address;
mod builder;
mod connection;
mod consumer;
mod error;
mod group_consumer;
mod names;
mod producer;
mod reader;
mod receipt;
mod renewal;
mod scripts;
mod server;
mod settler;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::in_flight::InFlight;
use punctual::backend::transport::prefetch::PrefetchSender;
use punctual::backend::transport::renewal::{RENEWALS_PER_TIMEOUT, VisibilityRenewal};
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::clock::Clock;
use punctual::jiff::Timestamp;
use punctual::model::{IdSource as _, Ids, Topic};
use tokio::sync::Semaphore;

pub use self::builder::{RedisBuilder, Retention};
use self::connection::BrokerConnection;
use self::consumer::RedisConsumer;
use self::group_consumer::{CONSUMER, GroupConsumer};
use self::names::Streams;
use self::producer::Producer;
use self::reader::{PrefetchedDelivery, Reader, ReaderState};
use self::receipt::ConsumerContext;
use self::renewal::VisibilityRenewer;

/// Longest time one read waits for new entries.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Transport over the streams of one Redis server.
#[derive(Debug)]
pub struct RedisTransport {
    connection: Arc<BrokerConnection>,
    producer: Producer,
    clock: Arc<dyn Clock>,
    ids: Ids,
    declares: bool,
    trims: bool,
    visibility_timeout: Duration,
    durable: bool,
}

impl RedisTransport {
    /// Returns a builder for the server at an address: `redis://user:password@host:6379/0`, or `rediss://` for
    /// TLS.
    pub fn builder(address: impl Into<String>) -> RedisBuilder {
        RedisBuilder::new(address.into())
    }

    fn consumer_context(&self, group_consumer: Arc<GroupConsumer>) -> Arc<ConsumerContext> {
        let in_flight = Arc::new(InFlight::default());
        let (trims, rounds) = (self.trims, 0);
        let renewer = VisibilityRenewer { group_consumer: group_consumer.clone(), trims, rounds };
        let interval = self.visibility_timeout / RENEWALS_PER_TIMEOUT;
        let renewal = VisibilityRenewal::start(&in_flight, self.clock.clone(), interval, renewer);
        let settler = settler::start(group_consumer.clone(), trims);
        Arc::new(ConsumerContext { group_consumer, settler, in_flight, _renewal: renewal })
    }

    fn reader(
        &self,
        context: &Arc<ConsumerContext>,
        topic: Topic,
        prefetch: usize,
        deliveries: PrefetchSender<PrefetchedDelivery>,
    ) -> Reader {
        let wait = WAIT_MAX.min(self.visibility_timeout / 2);
        Reader {
            context: context.clone(),
            connection: self.connection.with_longer_timeout(wait),
            topic,
            clock: self.clock.clone(),
            declares: self.declares,
            visibility_timeout: self.visibility_timeout,
            wait,
            capacity: Arc::new(Semaphore::new(prefetch)),
            prefetch,
            deliveries,
            client: Arc::default(),
            state: ReaderState::default(),
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
            // A stream is read in order, but several consumers overtake each other, and requeued messages come
            // later.
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: self.durable,
            payload_max: Some(self.producer.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, now: Timestamp) -> Result<()> {
        self.producer.publish(&self.connection, &batch, now).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        names::check_group(&group)?;
        let streams = Streams::of(&self.producer.prefix, &topic, &group);
        if self.declares {
            topology::declare(&self.connection, &streams, &group).await?;
        } else {
            topology::check(&self.connection, &streams, &group).await?;
        }
        let prefetch = prefetch.clamp(1, Semaphore::MAX_PERMITS);
        let name = format!("{CONSUMER}{}", self.ids.next(self.clock.now()));
        let connection = self.connection.clone();
        let consumer = GroupConsumer { connection, streams, group, name };
        let context = self.consumer_context(Arc::new(consumer));
        let reader = |deliveries| self.reader(&context, topic, prefetch, deliveries);
        Ok(Box::new(RedisConsumer::start(reader, context.clone(), self.clock.clone(), prefetch)))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        topology::topics(&self.connection, &self.producer.prefix).await
    }
}
