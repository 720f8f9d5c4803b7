//! Punctual's transport over Amazon SQS: a queue for each group of a topic, one for its dead letters and one for
//! its unreadable messages. SQS delays published messages by up to 15 minutes and requeued ones by up to 11
//! hours; beyond that the engine stores delayed messages.
//!
//! Start with [`SqsTransport::builder`]. The README of this crate describes the queues on the account, the
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
mod groups;
mod lost_polls;
mod names;
mod producer;
mod reader;
mod receipt;
mod renewal;
mod settings;
mod settler;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::in_flight::InFlight;
use punctual::backend::transport::renewal::{RENEWALS_PER_TIMEOUT, VisibilityRenewal};
use punctual::backend::transport::{
    AcknowledgeMode, AttemptCount, Capabilities, Consumer, Delay, Ordering, OutgoingMessage,
    Subscription, Transport,
};
use punctual::clock::{Clock, add};
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use tokio::sync::Semaphore;

pub use self::builder::SqsBuilder;
use self::connection::BrokerConnection;
use self::consumer::SqsConsumer;
use self::producer::Producer;
use self::reader::Reader;
use self::receipt::ConsumerContext;
use self::renewal::VisibilityRenewer;
use self::settler::QueueClient;

/// Transport over the queues of one account and region.
#[derive(Debug)]
pub struct SqsTransport {
    connection: BrokerConnection,
    producer: Producer,
    clock: Arc<dyn Clock>,
    visibility_timeout: Duration,
    poll_timeout: Duration,
}

impl SqsTransport {
    /// Returns a builder for the queues at an address: `sqs://eu-west-1` for Amazon's endpoint of a region, or
    /// the URL of an endpoint, such as `http://key:secret@127.0.0.1:5000/?region=us-east-1`.
    pub fn builder(address: impl Into<String>) -> SqsBuilder {
        SqsBuilder::new(address.into())
    }

    fn consumer_context(&self, queues: topology::Queues, group: String) -> Arc<ConsumerContext> {
        let in_flight = Arc::new(InFlight::default());
        let (connection, url) = (self.connection.clone(), queues.queue.clone());
        let queue = Arc::new(QueueClient { connection, url });
        let timeout_seconds = producer::seconds(self.visibility_timeout);
        let renewer = VisibilityRenewer { queue: queue.clone(), timeout_seconds };
        let interval = self.visibility_timeout / RENEWALS_PER_TIMEOUT;
        let renewal = VisibilityRenewal::start(&in_flight, self.clock.clone(), interval, renewer);
        Arc::new(ConsumerContext {
            connection: self.connection.clone(),
            queues,
            group,
            settler: settler::start(queue, in_flight.clone()),
            in_flight,
            _renewal: renewal,
        })
    }
}

#[async_trait]
impl Transport for SqsTransport {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            publish_delay: Delay::UpTo(producer::DELAY_MAX),
            requeue_delay: Delay::UpTo(receipt::DELAY_MAX),
            dead_letter: true,
            // Standard queues promise no order.
            ordering: Ordering::None,
            fan_out: true,
            attempts: AttemptCount::Counted,
            acknowledge: AcknowledgeMode::Single,
            durable: true,
            payload_max: Some(self.producer.payload_max),
        }
    }

    async fn publish(&self, batch: Vec<OutgoingMessage>, now: Timestamp) -> Result<()> {
        self.producer.publish(&self.connection, &batch, now).await
    }

    async fn subscribe(&self, subscription: Subscription) -> Result<Box<dyn Consumer>> {
        let Subscription { topic, group, prefetch } = subscription;
        let settings = self.producer.settings.clone();
        let names = settings.names.of_group(&topic, &group)?;
        let queues = topology::declare(&self.connection, &settings, &names).await?;
        self.producer.groups.forget(&topic);
        if queues.is_new {
            // Publishers may have cached the groups without this one until then.
            let known_at = add(self.clock.now(), self.producer.groups.retention);
            self.clock.sleep_until(known_at).await;
        }
        let prefetch = prefetch.clamp(1, Semaphore::MAX_PERMITS);
        let context = self.consumer_context(queues, group);
        let reader = |deliveries| Reader {
            context: context.clone(),
            topic,
            settings,
            names,
            clock: self.clock.clone(),
            visibility_timeout: self.visibility_timeout,
            poll_timeout: self.poll_timeout,
            capacity: Arc::new(Semaphore::new(prefetch)),
            deliveries,
        };
        Ok(Box::new(SqsConsumer::start(reader, context.clone(), self.clock.clone(), prefetch)))
    }

    async fn topics(&self) -> Result<Vec<Topic>> {
        topology::topics(&self.connection, &self.producer.settings.names).await
    }
}
