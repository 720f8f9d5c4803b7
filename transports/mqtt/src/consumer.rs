//! Receives one subscription: hands out what its feeder has taken, no more at once than was asked for.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::clock::{Clock, within};
use punctual::jiff::Timestamp;
use punctual::transport::{Consumer, Delivery, Receipt};
use punctual::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use crate::hand::{Hand, Taken};
use crate::receipt::MqttReceipt;

/// A consumer of a topic for a group.
pub(crate) struct MqttConsumer {
    hand: Arc<Hand>,
    clock: Arc<dyn Clock>,
    taken: mpsc::UnboundedReceiver<Result<Taken>>,
    room: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    feeder: Option<JoinHandle<()>>,
    ends: AbortHandle,
    /// The error behind deliveries that were received with it.
    trouble: Option<Error>,
}

/// What a consumer is fed by.
pub(crate) struct Feed {
    pub(crate) hand: Arc<Hand>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) taken: mpsc::UnboundedReceiver<Result<Taken>>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) feeder: JoinHandle<()>,
}

impl MqttConsumer {
    pub(crate) fn new(feed: Feed, prefetch: usize) -> Self {
        let Feed { hand, clock, taken, stop, feeder } = feed;
        let room = Arc::new(Semaphore::new(prefetch));
        let ends = feeder.abort_handle();
        Self { hand, clock, taken, room, stop, feeder: Some(feeder), ends, trouble: None }
    }

    fn delivery(&self, taken: Taken, room: OwnedSemaphorePermit) -> Delivery {
        let (message, attempt) = (taken.message.clone(), taken.attempt);
        let poison = taken.poison.clone();
        let hand = self.hand.clone();
        let receipt = MqttReceipt { hand, taken: Some(taken), _room: room };
        Delivery { message, attempt, poison, receipt: Receipt::Broker(Box::new(receipt)) }
    }
}

#[async_trait]
impl Consumer for MqttConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        if *self.stop.borrow() {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        if let Some(error) = self.trouble.take() {
            return Err(error);
        }
        let ended = || Error::internal("the feeder of the consumer has ended; subscribe again");
        let room = self.room.clone().acquire_owned().await.map_err(|_| ended())?;
        let first = self.taken.recv().await.ok_or_else(ended)?;
        let first = first.inspect_err(|_| self.hand.heard())?;
        let mut deliveries = vec![self.delivery(first, room)];
        while deliveries.len() < limit {
            let Ok(room) = self.room.clone().try_acquire_owned() else { break };
            match self.taken.try_recv() {
                Ok(Ok(taken)) => deliveries.push(self.delivery(taken, room)),
                Ok(Err(error)) => {
                    self.hand.heard();
                    self.trouble = Some(error);
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(deliveries)
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.stop.send_replace(true);
        let Some(feeder) = self.feeder.take() else { return Ok(()) };
        if within(&*self.clock, until, feeder).await.is_none() {
            self.ends.abort();
            // The broker notices that we are gone and keeps the session; others adopt it.
            tracing::debug!(group = self.hand.group, "a consumer was closed without a goodbye");
        }
        self.hand.disconnected();
        Ok(())
    }
}

impl Drop for MqttConsumer {
    fn drop(&mut self) {
        self.ends.abort();
        self.hand.disconnected();
    }
}
