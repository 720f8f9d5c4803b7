//! Receiving: a channel with a queue's messages flowing in, as many as the prefetch allows. When the
//! connection is gone, `receive` says so once and opens everything again when it is called the next time.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::Channel;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use punctual::clock::within;
use punctual::jiff::Timestamp;
use punctual::model::{Message, Topic};
use punctual::transport::{Consumer, Delivery, Receipt, Subscription};
use punctual::{Error, Result};

use crate::Shared;
use crate::fault::fault;
use crate::receipt::RabbitmqReceipt;
use crate::topology::Names;
use crate::wire::read;

/// Where deliveries come from, and go back to.
pub(crate) struct Origin {
    pub(crate) shared: Arc<Shared>,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) names: Names,
}

pub(crate) struct RabbitmqConsumer {
    origin: Arc<Origin>,
    prefetch: u16,
    flow: Option<Flow>,
    closed: bool,
}

/// What flows in, on the channel it is settled on.
struct Flow {
    channel: Channel,
    stream: lapin::Consumer,
}

impl RabbitmqConsumer {
    /// Subscribes; fails when that is not possible now.
    pub(crate) async fn open(shared: Arc<Shared>, wanted: Subscription) -> Result<Self> {
        let Subscription { topic, group, prefetch } = wanted;
        let names = Names::new(&shared.settings.prefix, &topic, &group)?;
        let origin = Arc::new(Origin { shared, topic, group, names });
        // Zero would mean "without a limit" to the broker.
        let prefetch = u16::try_from(prefetch.max(1)).unwrap_or(u16::MAX);
        let mut consumer = Self { origin, prefetch, flow: None, closed: false };
        consumer.flow = Some(consumer.begin().await?);
        Ok(consumer)
    }

    async fn begin(&self) -> Result<Flow> {
        let Origin { shared, names, .. } = &*self.origin;
        let channel = shared.consuming.channel().await?;
        shared.topology.declare_group(&channel, names).await?;
        let (qos, none) = (BasicQosOptions::default(), FieldTable::default());
        let limiting = channel.basic_qos(self.prefetch, qos);
        shared.settings.talk("setting the prefetch", limiting).await?;
        let (queue, options) = (names.queue.clone(), BasicConsumeOptions::default());
        let consuming = channel.basic_consume(queue, "".into(), options, none);
        let doing = format!("consuming {}", names.queue);
        let stream = shared.settings.talk(doing, consuming).await?;
        Ok(Flow { channel, stream })
    }

    fn accept(&self, mut delivered: lapin::message::Delivery, session: &str) -> Accepted {
        let now = self.origin.shared.settings.clock.now();
        let read = read(&self.origin.topic, session, &mut delivered, now);
        let attempt = read.received.attempt.saturating_add(read.redeliveries).saturating_add(1);
        let message = Arc::new(read.received.message);
        let (origin, acker) = (self.origin.clone(), delivered.acker);
        let receipt = RabbitmqReceipt::new(origin, acker, message.clone(), attempt);
        Accepted { message, attempt, poison: read.received.poison, receipt }
    }

    /// Puts back what came and was never returned. The broker would count it as delivered once more, so
    /// it is sent again with the count it had; what fails of this goes back with the channel.
    async fn hand_back(&self, mut flow: Flow) -> Result<()> {
        let tag = flow.stream.tag();
        let cancelling = flow.channel.basic_cancel(tag.clone(), BasicCancelOptions::default());
        self.origin.shared.settings.talk("cancelling", cancelling).await?;
        let mut receipts = Vec::new();
        while let Some(Some(Ok(delivered))) = flow.stream.next().now_or_never() {
            let accepted = self.accept(delivered, tag.as_str());
            if accepted.poison.is_none() {
                receipts.push(accepted.receipt);
            }
        }
        let parcels: Result<Vec<_>> = receipts.iter().map(RabbitmqReceipt::unspent).collect();
        self.origin.shared.send(parcels?).await?;
        for receipt in &mut receipts {
            receipt.acknowledge().await?;
        }
        Ok(())
    }

    fn interrupted(&self, error: Option<lapin::Error>) -> Error {
        let Origin { shared, names, .. } = &*self.origin;
        let doing = format!("consuming {}", names.queue);
        let place = shared.settings.place();
        match error {
            Some(error) => {
                // Whatever ended it, the next call looks again.
                Error::unavailable(fault(&place, doing, error).to_string())
            }
            None => Error::unavailable(format!(
                "{doing}: RabbitMQ at {place} has ended it; the queue may have been deleted, and is \
                 taken up again"
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
        if self.flow.is_none() {
            self.flow = Some(self.begin().await?);
        }
        let Some(flow) = &mut self.flow else { return Ok(Vec::new()) };
        let first = match flow.stream.next().await {
            Some(Ok(delivered)) => delivered,
            ended => {
                self.flow = None;
                return Err(self.interrupted(ended.and_then(lapin::Result::err)));
            }
        };
        // No waiting from here on: what was taken from the stream is returned.
        let mut delivered = vec![first];
        while delivered.len() < limit
            && let Some(Some(Ok(next))) = flow.stream.next().now_or_never()
        {
            delivered.push(next);
        }
        let session = flow.stream.tag().to_string();
        let accepted = delivered.into_iter().map(|one| self.accept(one, &session));
        Ok(accepted.map(Delivery::from).collect())
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.closed = true;
        let Some(flow) = self.flow.take() else { return Ok(()) };
        let (channel, clock) = (flow.channel.clone(), &*self.origin.shared.settings.clock);
        let closing = async {
            let handed_back = self.hand_back(flow).await;
            // The broker takes back what is left; one that is gone has done so.
            let _ = channel.close(200, "closed".into()).await;
            handed_back
        };
        match within(clock, until, closing).await {
            Some(Err(error)) if !error.is_temporary() => Err(error),
            _ => Ok(()),
        }
    }
}

/// A delivery before it is everybody's.
struct Accepted {
    message: Arc<Message>,
    attempt: u32,
    poison: Option<String>,
    receipt: RabbitmqReceipt,
}

impl From<Accepted> for Delivery {
    fn from(accepted: Accepted) -> Self {
        let Accepted { message, attempt, poison, receipt } = accepted;
        Self { message, attempt, poison, receipt: Receipt::Broker(Box::new(receipt)) }
    }
}
