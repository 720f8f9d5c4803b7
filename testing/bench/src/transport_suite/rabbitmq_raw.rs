//! Bare client of RabbitMQ: a quorum queue and persistent messages, published through the default exchange.

use anyhow::{Context as _, Result};
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer};

use super::BATCH;
use super::comparison::{BenchClient, Names};
use crate::rates::BODY;

/// Delivery mode of a message that survives a restart.
const PERSISTENT: u8 = 2;

/// Queue with a connection to publish and one to consume.
pub(super) struct BareClient {
    queue: ShortString,
    publishing: Channel,
    consumer: Consumer,
    _connections: [Connection; 2],
}

impl BareClient {
    pub(super) async fn open(url: &str, names: &Names) -> Result<Self> {
        let queue = ShortString::from(names.bare());
        let connect = || Connection::connect(url, ConnectionProperties::default());
        let connections = [connect().await?, connect().await?];
        let publishing = connections[0].create_channel().await?;
        publishing.confirm_select(ConfirmSelectOptions::default()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        publishing.queue_declare(queue.clone(), durable, arguments).await?;
        let consuming = connections[1].create_channel().await?;
        consuming.basic_qos(u16::try_from(2 * BATCH)?, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let consumer =
            consuming.basic_consume(queue.clone(), "".into(), options, FieldTable::default());
        let consumer = consumer.await?;
        Ok(Self { queue, publishing, consumer, _connections: connections })
    }
}

impl BenchClient for BareClient {
    fn how(&self) -> &'static str {
        "a persistent publish with the body alone, all confirmations of a batch awaited \
                               together, pushed deliveries, an acknowledgement each"
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let (channel, queue) = (&self.publishing, &self.queue);
        let sent = (0..count).map(|_| async move {
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish("".into(), queue.clone(), options, &BODY, properties);
            sent.await?.await
        });
        for answer in try_join_all(sent).await? {
            anyhow::ensure!(answer == Confirmation::Ack(None), "a message was not confirmed");
        }
        Ok(())
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        for _ in 0..limit {
            let delivery = self.consumer.next().await.context("the consumer has ended")??;
            anyhow::ensure!(delivery.data[..] == BODY, "a message has a different body");
            delivery.ack(BasicAckOptions::default()).await?;
        }
        Ok(limit)
    }

    async fn close(self) -> Result<()> {
        self.publishing.queue_delete(self.queue, QueueDeleteOptions::default()).await?;
        Ok(())
    }
}
