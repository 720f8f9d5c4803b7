//! Consumer of one subscription: returns what its reader has prefetched, and releases the unreturned rest when
//! it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::prefetch::PrefetchReceiver;
use punctual::backend::transport::{Consumer, Delivery, Receipt};
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::in_flight::InFlight;
use crate::reader::PrefetchedDelivery;
use crate::receipt::ReaderCommand;

/// Consumer of a topic for a group.
pub(crate) struct ServiceBusConsumer {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) prefetched: PrefetchReceiver<PrefetchedDelivery>,
    pub(crate) commands: mpsc::UnboundedSender<ReaderCommand>,
    pub(crate) stopped: Option<oneshot::Receiver<()>>,
    pub(crate) link_number: Arc<AtomicU64>,
    pub(crate) in_flight: InFlight,
}

impl ServiceBusConsumer {
    /// Returns the prefetched deliveries of the present link; those of a lost link are dropped, because the
    /// broker delivers them again.
    fn deliveries(&self, prefetched: Vec<PrefetchedDelivery>) -> Vec<Delivery> {
        let link = self.link_number.load(Ordering::Relaxed);
        let mut deliveries = Vec::with_capacity(prefetched.len());
        for one in prefetched.into_iter().filter(|one| one.receipt.link_number == link) {
            self.in_flight.mark_returned((link, one.receipt.info.delivery_id()));
            deliveries.push(delivery(one));
        }
        deliveries
    }

    async fn release_prefetched(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            // A reader that has ended has nothing in flight.
            let _ = stopped.await;
        }
        // A dropped delivery is requeued, without counting an attempt if `receive` did not return it.
        drop(self.prefetched.close());
        let (flush, flushed) = oneshot::channel();
        if self.commands.send(ReaderCommand::Flush(flush)).is_ok() {
            let _ = flushed.await;
        }
    }
}

#[async_trait]
impl Consumer for ServiceBusConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        loop {
            let prefetched = self.prefetched.receive(limit).await;
            let deliveries = self.deliveries(prefetched.map_err(|error| error.during("receive"))?);
            if !deliveries.is_empty() {
                return Ok(deliveries);
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.prefetched.stop();
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
