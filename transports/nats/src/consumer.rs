//! Consumer of one subscription: turns the messages that its reader has received into deliveries. Messages for other
//! groups are skipped, unreadable ones are poison.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::backend::transport::{Consumer, Delivery, Receipt, Subscription};
use punctual::clock::within;
use punctual::jiff::Timestamp;
use punctual::{Error, Result};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::in_flight::InFlight;
use crate::origin::Origin;
use crate::producer::Producer;
use crate::reader::{RawDelivery, Reader, ReaderError, ReaderOutput};
use crate::receipt::{ConsumerContext, NatsReceipt};
use crate::topology::Topology;
use crate::wire;

/// The client buffers at most this many unread messages per subscription.
const WINDOW_MAX: usize = 32_768;

/// Receives deliveries of one topic for one group.
pub(crate) struct NatsConsumer {
    context: Arc<ConsumerContext>,
    in_flight: Arc<InFlight>,
    deliveries: mpsc::Receiver<RawDelivery>,
    error: watch::Receiver<Option<ReaderError>>,
    reader: Option<JoinHandle<()>>,
}

impl NatsConsumer {
    pub(crate) async fn open(
        topology: &Arc<Topology>,
        producer: &Arc<Producer>,
        subscription: Subscription,
    ) -> Result<Self> {
        let Subscription { topic, group, prefetch } = subscription;
        let consumer = topology.group(topic.as_str(), &group).await?;
        let window = prefetch.clamp(1, WINDOW_MAX);
        let in_flight = InFlight::new(window);
        // Room for a second window: after a reconnection the broker may still serve an old request.
        let (sender, deliveries) = mpsc::channel(window * 2);
        let (error_sender, error) = watch::channel(None);
        let stream = consumer.stream.clone();
        let reader = Reader::new(
            topology,
            (topic.to_string(), group.clone()),
            consumer,
            Arc::clone(&in_flight),
            ReaderOutput { deliveries: sender, error: error_sender },
        );
        let reader = Some(tokio::spawn(reader.run()));
        let connection = Arc::clone(&topology.connection);
        let context =
            ConsumerContext { connection, producer: Arc::clone(producer), topic, group, stream };
        Ok(Self { context: Arc::new(context), in_flight, deliveries, error, reader })
    }

    /// Returns the delivery, unless it is for another group.
    fn delivery(&self, (message, in_flight): RawDelivery) -> Option<Delivery> {
        let Some(origin) = Origin::parse(in_flight.reply()) else {
            // Not a delivery of JetStream, so there is nothing to settle.
            in_flight.settle();
            return None;
        };
        let received = wire::receive(&self.context.topic, &self.context.stream, &message, origin);
        if !received.is_for(&self.context.group) {
            in_flight.skip();
            return None;
        }
        let message = Arc::new(received.message);
        let receipt = NatsReceipt {
            context: Arc::clone(&self.context),
            message: Arc::clone(&message),
            sequence: origin.sequence,
            delivery: in_flight,
        };
        Some(Delivery {
            message,
            attempt: received.attempt.saturating_add(origin.delivered),
            poison: received.poison,
            receipt: Receipt::Broker(Box::new(receipt)),
        })
    }

    fn closed(&self) -> Error {
        let ConsumerContext { topic, group, .. } = &*self.context;
        Error::conflict(format!(
            "the consumer of the topic {topic:?} for {group:?} is closed; subscribe again"
        ))
    }
}

#[async_trait]
impl Consumer for NatsConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        let in_flight = Arc::clone(&self.in_flight);
        let _receiving = in_flight.begin_receive();
        loop {
            let mut received = Vec::new();
            let count = tokio::select! {
                biased;
                count = self.deliveries.recv_many(&mut received, limit.max(1)) => count,
                error = reader_error(&mut self.error) => match error {
                    Some(error) => return Err(error.to_error()),
                    None => return Err(self.closed()),
                },
            };
            if count == 0 {
                return Err(self.closed());
            }
            // There is no await from here on, so nothing taken from the channel can be lost.
            let mut deliveries = Vec::with_capacity(count);
            deliveries.extend(received.into_iter().filter_map(|received| self.delivery(received)));
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.in_flight.close();
        self.deliveries.close();
        // Dropped unsettled, so they are returned to the broker.
        while self.deliveries.try_recv().is_ok() {}
        let Some(mut reader) = self.reader.take() else { return Ok(()) };
        let clock = Arc::clone(&self.context.connection.clock);
        if within(&*clock, until, &mut reader).await.is_none() {
            reader.abort();
            return Err(Error::unavailable(format!(
                "not all messages of the topic {:?} were returned before the deadline; NATS delivers them \
                 again when the visibility timeout has passed",
                self.context.topic
            )));
        }
        Ok(())
    }
}

impl Drop for NatsConsumer {
    fn drop(&mut self) {
        // The reader continues until the deliveries in flight are settled, and ends then.
        self.in_flight.close();
    }
}

/// Waits for an error of the reader; returns none when the reader has ended.
async fn reader_error(error: &mut watch::Receiver<Option<ReaderError>>) -> Option<ReaderError> {
    error.wait_for(Option::is_some).await.ok()?.clone()
}
