//! Consumer of a queue: a channel on which the broker pushes up to `prefetch` messages. When the connection is
//! lost, `receive` returns one error, and the next call opens everything again.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::Channel;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use punctual::backend::transport::{Consumer, Delivery, Receipt, Subscription};
use punctual::clock::within;
use punctual::jiff::Timestamp;
use punctual::model::Message;
use punctual::{Error, Result};

use crate::TransportState;
use crate::error::map_error;
use crate::names::Names;
use crate::receipt::{ConsumerContext, RabbitmqReceipt};
use crate::wire::decode;

/// Consumer of one group of a topic.
pub(crate) struct RabbitmqConsumer {
    context: Arc<ConsumerContext>,
    prefetch: u16,
    stream: Option<DeliveryStream>,
    closed: bool,
}

/// Stream of deliveries, and the channel on which they are settled.
struct DeliveryStream {
    channel: Channel,
    deliveries: lapin::Consumer,
}

impl RabbitmqConsumer {
    /// Subscribes; fails when that is not possible now.
    pub(crate) async fn open(
        shared: Arc<TransportState>,
        subscription: Subscription,
    ) -> Result<Self> {
        let Subscription { topic, group, prefetch } = subscription;
        let names = Names::new(&shared.settings.prefix, &topic, &group)?;
        let context = Arc::new(ConsumerContext { shared, topic, group, names });
        // To the broker zero means "no limit".
        let prefetch = u16::try_from(prefetch.max(1)).unwrap_or(u16::MAX);
        let mut consumer = Self { context, prefetch, stream: None, closed: false };
        consumer.stream = Some(consumer.open_stream().await?);
        Ok(consumer)
    }

    async fn open_stream(&self) -> Result<DeliveryStream> {
        let ConsumerContext { shared, names, .. } = &*self.context;
        let channel = shared.consumer_connection.channel().await?;
        shared.topology.declare_group(&channel, names).await?;
        let (qos, none) = (BasicQosOptions::default(), FieldTable::default());
        let limiting = channel.basic_qos(self.prefetch, qos);
        shared.settings.call("setting the prefetch", limiting).await?;
        let (queue, options) = (names.queue.clone(), BasicConsumeOptions::default());
        let consuming = channel.basic_consume(queue, "".into(), options, none);
        let doing = format!("consuming {}", names.queue);
        let deliveries = shared.settings.call(doing, consuming).await?;
        Ok(DeliveryStream { channel, deliveries })
    }

    fn decode_delivery(
        &self,
        mut delivered: lapin::message::Delivery,
        session: &str,
    ) -> ReceivedDelivery {
        let now = self.context.shared.settings.clock.now();
        let decoded = decode(&self.context.topic, session, &mut delivered, now);
        let attempt =
            decoded.received.attempt.saturating_add(decoded.redeliveries).saturating_add(1);
        let message = Arc::new(decoded.received.message);
        let (context, acker) = (self.context.clone(), delivered.acker);
        let receipt = RabbitmqReceipt::new(context, acker, message.clone(), attempt);
        ReceivedDelivery { message, attempt, poison: decoded.received.poison, receipt }
    }

    /// Returns prefetched deliveries that `receive` did not return. The broker would count each as delivered
    /// once more, so it is published again with the count it had; what fails here goes back with the channel.
    async fn return_prefetched(&self, mut stream: DeliveryStream) -> Result<()> {
        let tag = stream.deliveries.tag();
        let cancelling = stream.channel.basic_cancel(tag.clone(), BasicCancelOptions::default());
        self.context.shared.settings.call("cancelling", cancelling).await?;
        let mut receipts = Vec::new();
        while let Some(Some(Ok(delivered))) = stream.deliveries.next().now_or_never() {
            let received = self.decode_delivery(delivered, tag.as_str());
            if received.poison.is_none() {
                receipts.push(received.receipt);
            }
        }
        let publications: Result<Vec<_>> =
            receipts.iter().map(RabbitmqReceipt::as_undelivered).collect();
        self.context.shared.send(publications?).await?;
        for receipt in &mut receipts {
            receipt.acknowledge().await?;
        }
        Ok(())
    }

    fn stream_error(&self, error: Option<lapin::Error>) -> Error {
        let ConsumerContext { shared, names, .. } = &*self.context;
        let doing = format!("consuming {}", names.queue);
        let endpoint = shared.settings.endpoint();
        match error {
            Some(error) => {
                // Whatever ended the stream, the next call opens it again.
                Error::unavailable(map_error(&endpoint, doing, error).to_string())
            }
            None => Error::unavailable(format!(
                "{doing}: RabbitMQ at {endpoint} ended the consumer; the queue may have been deleted, the next \
                call subscribes again"
            )),
        }
    }
}

#[async_trait]
impl Consumer for RabbitmqConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        if self.closed {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        if self.stream.is_none() {
            self.stream = Some(self.open_stream().await?);
        }
        let Some(stream) = &mut self.stream else { return Ok(Vec::new()) };
        let first = match stream.deliveries.next().await {
            Some(Ok(delivered)) => delivered,
            ended => {
                self.stream = None;
                return Err(self.stream_error(ended.and_then(lapin::Result::err)));
            }
        };
        // No waiting from here on: every delivery taken from the stream is returned.
        let mut delivered = vec![first];
        while delivered.len() < limit
            && let Some(Some(Ok(next))) = stream.deliveries.next().now_or_never()
        {
            delivered.push(next);
        }
        let session = stream.deliveries.tag().to_string();
        let received = delivered.into_iter().map(|one| self.decode_delivery(one, &session));
        Ok(received.map(Delivery::from).collect())
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.closed = true;
        let Some(stream) = self.stream.take() else { return Ok(()) };
        let (channel, clock) = (stream.channel.clone(), &*self.context.shared.settings.clock);
        let closing = async {
            let returned = self.return_prefetched(stream).await;
            // The broker requeues what is left; a broker that is gone has done so.
            let _ = channel.close(200, "closed".into()).await;
            returned
        };
        match within(clock, until, closing).await {
            Some(Err(error)) if !error.is_temporary() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Decoded delivery with its typed receipt.
struct ReceivedDelivery {
    message: Arc<Message>,
    attempt: u32,
    poison: Option<String>,
    receipt: RabbitmqReceipt,
}

impl From<ReceivedDelivery> for Delivery {
    fn from(received: ReceivedDelivery) -> Self {
        let ReceivedDelivery { message, attempt, poison, receipt } = received;
        Self { message, attempt, poison, receipt: Receipt::Broker(Box::new(receipt)) }
    }
}
