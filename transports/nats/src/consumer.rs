//! Receiving: what the pump has taken in becomes deliveries here. What is not for this group is passed
//! over, what cannot be read is poison.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::clock::within;
use punctual::jiff::Timestamp;
use punctual::transport::{Consumer, Delivery, Receipt, Subscription};
use punctual::{Error, Result};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::held::Held;
use crate::origin::Origin;
use crate::producer::Producer;
use crate::pump::{Outlet, Pump, Raw, Trouble};
use crate::receipt::{Lane, NatsReceipt};
use crate::topology::Topology;
use crate::wire;

/// The client keeps no more unread messages than this for one subscription.
const WINDOW_MAX: usize = 32_768;

/// Receives for one group.
pub(crate) struct NatsConsumer {
    lane: Arc<Lane>,
    held: Arc<Held>,
    deliveries: mpsc::Receiver<Raw>,
    trouble: watch::Receiver<Option<Trouble>>,
    pump: Option<JoinHandle<()>>,
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
        let held = Held::new(window);
        // Room for one window more than was asked for: after a reconnection an old request may be answered.
        let (sender, deliveries) = mpsc::channel(window * 2);
        let (teller, trouble) = watch::channel(None);
        let stream = consumer.stream.clone();
        let pump = Pump::new(
            topology,
            (topic.to_string(), group.clone()),
            consumer,
            Arc::clone(&held),
            Outlet { deliveries: sender, trouble: teller },
        );
        let pump = Some(tokio::spawn(pump.run()));
        let link = Arc::clone(&topology.link);
        let lane = Lane { link, producer: Arc::clone(producer), topic, group, stream };
        Ok(Self { lane: Arc::new(lane), held, deliveries, trouble, pump })
    }

    /// A delivery, unless it is for another group.
    fn delivery(&self, (message, hold): Raw) -> Option<Delivery> {
        let Some(origin) = Origin::parse(hold.reply()) else {
            // Not a delivery of JetStream, so there is nothing to settle.
            hold.settle();
            return None;
        };
        let received = wire::receive(&self.lane.topic, &self.lane.stream, &message, origin);
        if !received.is_for(&self.lane.group) {
            hold.pass_over();
            return None;
        }
        let message = Arc::new(received.message);
        let receipt = NatsReceipt {
            lane: Arc::clone(&self.lane),
            message: Arc::clone(&message),
            sequence: origin.sequence,
            hold,
        };
        Some(Delivery {
            message,
            attempt: received.attempt.saturating_add(origin.delivered),
            poison: received.poison,
            receipt: Receipt::Broker(Box::new(receipt)),
        })
    }

    fn closed(&self) -> Error {
        let Lane { topic, group, .. } = &*self.lane;
        Error::conflict(format!(
            "the consumer of the topic {topic:?} for {group:?} is closed; subscribe again"
        ))
    }
}

#[async_trait]
impl Consumer for NatsConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        let held = Arc::clone(&self.held);
        let _wanting = held.want();
        loop {
            let mut raw = Vec::new();
            let count = tokio::select! {
                biased;
                count = self.deliveries.recv_many(&mut raw, limit.max(1)) => count,
                trouble = in_trouble(&mut self.trouble) => match trouble {
                    Some(trouble) => return Err(trouble.error()),
                    None => return Err(self.closed()),
                },
            };
            if count == 0 {
                return Err(self.closed());
            }
            // Nothing is awaited from here on, so nothing that was taken out can get lost.
            let mut deliveries = Vec::with_capacity(count);
            deliveries.extend(raw.into_iter().filter_map(|raw| self.delivery(raw)));
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.held.close();
        self.deliveries.close();
        // Dropped unsettled: they go back to the broker.
        while self.deliveries.try_recv().is_ok() {}
        let Some(mut pump) = self.pump.take() else { return Ok(()) };
        let clock = Arc::clone(&self.lane.link.clock);
        if within(&*clock, until, &mut pump).await.is_none() {
            pump.abort();
            return Err(Error::unavailable(format!(
                "not everything of the topic {:?} was handed back in time; NATS delivers it again when \
                 ack_wait has passed",
                self.lane.topic
            )));
        }
        Ok(())
    }
}

impl Drop for NatsConsumer {
    fn drop(&mut self) {
        // The pump goes on until what is in other hands is settled, and ends then.
        self.held.close();
    }
}

/// Waits until there is trouble; nothing when the pump has ended.
async fn in_trouble(trouble: &mut watch::Receiver<Option<Trouble>>) -> Option<Trouble> {
    trouble.wait_for(Option::is_some).await.ok()?.clone()
}
