//! Receives one subscription: hands out what the reader has taken, and hands back what it has not handed
//! out when it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use punctual::transport::{Consumer, Delivery, Receipt};
use punctual::{Error, Result};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::hold::Holds;
use crate::reader::Taken;
use crate::receipt::Call;

/// A consumer of a topic for a group.
pub(crate) struct ServiceBusConsumer {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) taken: mpsc::UnboundedReceiver<Result<Taken>>,
    pub(crate) calls: mpsc::UnboundedSender<Call>,
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) stopped: Option<oneshot::Receiver<()>>,
    pub(crate) link: Arc<AtomicU64>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) prefetch: usize,
    /// The error behind deliveries that were received with it.
    pub(crate) trouble: Option<Error>,
    /// Whether the reader waits to be asked again.
    pub(crate) is_resting: bool,
}

impl ServiceBusConsumer {
    /// The deliveries among what was taken; of a link that is gone there are none, because they come again.
    fn deliveries(&mut self, taken: Vec<Result<Taken>>) -> Vec<Delivery> {
        let link = self.link.load(Ordering::Relaxed);
        let mut deliveries = Vec::with_capacity(taken.len());
        for one in taken {
            match one {
                Ok(taken) if taken.receipt.link == link => {
                    self.holds.given((link, taken.receipt.info.delivery_id()));
                    deliveries.push(delivery(taken));
                }
                Ok(_) => {}
                // The reader takes nothing more until it is asked again, so this is the last.
                Err(error) => self.trouble = Some(error),
            }
        }
        deliveries
    }

    async fn hand_back(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            // A reader that has ended has nothing in hand.
            let _ = stopped.await;
        }
        self.taken.close();
        // Dropping a delivery puts it back, without an attempt spent when nobody has seen it.
        while self.taken.try_recv().is_ok() {}
        let (answer, flushed) = oneshot::channel();
        if self.calls.send(Call::Flush(answer)).is_ok() {
            let _ = flushed.await;
        }
    }
}

#[async_trait]
impl Consumer for ServiceBusConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        if *self.stop.borrow() {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        let limit = limit.clamp(1, self.prefetch);
        loop {
            if let Some(error) = self.trouble.take() {
                self.is_resting = true;
                return Err(error.during("receive"));
            }
            if std::mem::take(&mut self.is_resting) {
                self.asked.notify_one();
            }
            let mut taken = Vec::with_capacity(limit);
            if self.taken.recv_many(&mut taken, limit).await == 0 {
                return Err(Error::internal(
                    "the reader of the consumer has ended; subscribe again",
                ));
            }
            let deliveries = self.deliveries(taken);
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.stop.send_replace(true);
        let clock = self.clock.clone();
        // What is not handed back in time is free when its lock has run out.
        let _ = clock::within(&*clock, until, self.hand_back()).await;
        Ok(())
    }
}

fn delivery(taken: Taken) -> Delivery {
    let Taken { poison, mut receipt } = taken;
    receipt.is_given = true;
    Delivery {
        message: receipt.message.clone(),
        attempt: receipt.attempt,
        poison,
        receipt: Receipt::Broker(Box::new(receipt)),
    }
}
