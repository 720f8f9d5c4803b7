//! Our transport: any transport of Punctual, used as the engine uses it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use punctual::Message;
use punctual::backend::transport::{
    Consumer, Delivery, OutgoingMessage, Receipt, Subscription, Transport,
};
use punctual::model::{
    Body, Correlation, Headers, IdSource as _, Ids, MessageId, Priority, Queue, Source, Topic,
};

use super::BATCH;
use super::comparison::BenchClient;
use crate::rates::BODY;

/// Transport with one subscription.
pub(super) struct OurTransport<T> {
    transport: T,
    consumer: Box<dyn Consumer>,
    factory: MessageFactory,
}

impl<T: Transport> OurTransport<T> {
    /// Subscribes to a topic; a second batch may be prefetched while one is in flight.
    pub(super) async fn open(transport: T) -> Result<Self> {
        let factory = MessageFactory::new("tick")?;
        let (topic, group) = (factory.topic.clone(), "bench".to_owned());
        let subscription = Subscription { topic, group, prefetch: 2 * BATCH };
        let consumer = transport.subscribe(subscription).await?;
        Ok(Self { transport, consumer, factory })
    }
}

impl<T: Transport> BenchClient for OurTransport<T> {
    fn label(&self) -> &'static str {
        "our transport"
    }

    fn how(&self) -> &'static str {
        "the message is created, encoded with identity, times and type, confirmed, \
                               decoded, tracked while unsettled, and acknowledged"
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let now = Timestamp::now();
        let batch = (0..count).map(|_| self.factory.outgoing(now)).collect();
        Ok(self.transport.publish(batch, now).await?)
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        let deliveries = self.consumer.receive(limit).await?;
        let count = deliveries.len();
        try_join_all(deliveries.into_iter().map(acknowledge)).await?;
        Ok(count)
    }

    async fn close(mut self) -> Result<()> {
        let until = punctual::clock::add(Timestamp::now(), Duration::from_secs(5));
        Ok(self.consumer.close(until).await?)
    }
}

async fn acknowledge(delivery: Delivery) -> Result<()> {
    anyhow::ensure!(delivery.message.body.bytes[..] == BODY, "a message has a different body");
    match delivery.receipt {
        Receipt::Broker(receipt) => Ok(receipt.ack().await?),
        Receipt::Lease(_) => anyhow::bail!("the delivery of a broker has a lease"),
    }
}

/// Creates messages as a publisher does.
pub(super) struct MessageFactory {
    ids: Ids,
    topic: Topic,
    body: Body,
}

impl MessageFactory {
    pub(super) fn new(topic: &str) -> Result<Self> {
        let body = Body::raw(&BODY[..], "application/json");
        Ok(Self { ids: Ids::random(), topic: Topic::new(topic)?, body })
    }

    pub(super) fn outgoing(&self, now: Timestamp) -> OutgoingMessage {
        let message = Message {
            id: MessageId::from_uuid(self.ids.next(now)),
            topic: self.topic.clone(),
            queue: Queue::default(),
            priority: Priority::default(),
            due_at: now,
            created_at: now,
            source: Source::Published,
            key: None,
            dedupe: None,
            exclusive: false,
            body: self.body.clone(),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: None,
            handler_options: None,
            relations: None,
            route: None,
        };
        OutgoingMessage {
            message: Arc::new(message),
            delay: Duration::ZERO,
            attempt: 0,
            group: None,
        }
    }
}
