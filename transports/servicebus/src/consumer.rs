//! Consumer of one subscription: returns what its reader has prefetched, and releases the unreturned rest when
//! it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use punctual::transport::{Consumer, Delivery, Receipt};
use punctual::{Error, Result};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::in_flight::InFlight;
use crate::reader::PrefetchedDelivery;
use crate::receipt::ReaderCommand;

/// Consumer of a topic for a group.
pub(crate) struct ServiceBusConsumer {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) prefetched: mpsc::UnboundedReceiver<Result<PrefetchedDelivery>>,
    pub(crate) commands: mpsc::UnboundedSender<ReaderCommand>,
    pub(crate) resume: Arc<Notify>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) stopped: Option<oneshot::Receiver<()>>,
    pub(crate) link_number: Arc<AtomicU64>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) prefetch: usize,
    /// Error to return after the deliveries that were received before it.
    pub(crate) pending_error: Option<Error>,
    /// Whether the reader waits for `resume` after an error.
    pub(crate) is_paused: bool,
}

impl ServiceBusConsumer {
    /// Returns the prefetched deliveries of the present link; those of a lost link are dropped, because the
    /// broker delivers them again.
    fn deliveries(&mut self, prefetched: Vec<Result<PrefetchedDelivery>>) -> Vec<Delivery> {
        let link = self.link_number.load(Ordering::Relaxed);
        let mut deliveries = Vec::with_capacity(prefetched.len());
        for one in prefetched {
            match one {
                Ok(prefetched) if prefetched.receipt.link_number == link => {
                    self.in_flight.mark_returned((link, prefetched.receipt.info.delivery_id()));
                    deliveries.push(delivery(prefetched));
                }
                Ok(_) => {}
                // The reader reads nothing more until it is resumed, so this is the last.
                Err(error) => self.pending_error = Some(error),
            }
        }
        deliveries
    }

    async fn release_prefetched(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            // A reader that has ended has nothing in flight.
            let _ = stopped.await;
        }
        self.prefetched.close();
        // A dropped delivery is requeued, without counting an attempt if `receive` did not return it.
        while self.prefetched.try_recv().is_ok() {}
        let (flush, flushed) = oneshot::channel();
        if self.commands.send(ReaderCommand::Flush(flush)).is_ok() {
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
            if let Some(error) = self.pending_error.take() {
                self.is_paused = true;
                return Err(error.during("receive"));
            }
            if std::mem::take(&mut self.is_paused) {
                self.resume.notify_one();
            }
            let mut prefetched = Vec::with_capacity(limit);
            if self.prefetched.recv_many(&mut prefetched, limit).await == 0 {
                return Err(Error::internal(
                    "the reader of the consumer has ended; subscribe again",
                ));
            }
            let deliveries = self.deliveries(prefetched);
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.stop.send_replace(true);
        let clock = self.clock.clone();
        // What is not released in time becomes available when its lock expires.
        let _ = clock::within(&*clock, until, self.release_prefetched()).await;
        Ok(())
    }
}

fn delivery(prefetched: PrefetchedDelivery) -> Delivery {
    let PrefetchedDelivery { poison, mut receipt } = prefetched;
    receipt.is_returned = true;
    Delivery {
        message: receipt.message.clone(),
        attempt: receipt.attempt,
        poison,
        receipt: Receipt::Broker(Box::new(receipt)),
    }
}
