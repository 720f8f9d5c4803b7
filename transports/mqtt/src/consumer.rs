//! Consumer of one subscription: returns the deliveries that its reader has received, within the prefetch.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::backend::transport::{Consumer, Delivery, Receipt};
use punctual::clock::{Clock, within};
use punctual::jiff::Timestamp;
use punctual::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use crate::in_flight::{InFlight, InFlightDelivery};
use crate::receipt::MqttReceipt;

/// Receives deliveries of one topic for one group.
pub(crate) struct MqttConsumer {
    in_flight: Arc<InFlight>,
    clock: Arc<dyn Clock>,
    deliveries: mpsc::UnboundedReceiver<Result<InFlightDelivery>>,
    room: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    reader: Option<JoinHandle<()>>,
    abort: AbortHandle,
    /// An error received together with deliveries; returned by the next call.
    error: Option<Error>,
}

/// The reader of a consumer, and its channels.
pub(crate) struct ReaderHandle {
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) deliveries: mpsc::UnboundedReceiver<Result<InFlightDelivery>>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) reader: JoinHandle<()>,
}

impl MqttConsumer {
    pub(crate) fn new(handle: ReaderHandle, prefetch: usize) -> Self {
        let ReaderHandle { in_flight, clock, deliveries, stop, reader } = handle;
        let room = Arc::new(Semaphore::new(prefetch));
        let abort = reader.abort_handle();
        Self { in_flight, clock, deliveries, room, stop, reader: Some(reader), abort, error: None }
    }

    fn delivery(&self, delivery: InFlightDelivery, room: OwnedSemaphorePermit) -> Delivery {
        let (message, attempt) = (delivery.message.clone(), delivery.attempt);
        let poison = delivery.poison.clone();
        let in_flight = self.in_flight.clone();
        let receipt = MqttReceipt { in_flight, delivery: Some(delivery), _room: room };
        Delivery { message, attempt, poison, receipt: Receipt::Broker(Box::new(receipt)) }
    }
}

#[async_trait]
impl Consumer for MqttConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        if *self.stop.borrow() {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let ended = || Error::internal("the reader of the consumer has ended; subscribe again");
        let room = self.room.clone().acquire_owned().await.map_err(|_| ended())?;
        let first = self.deliveries.recv().await.ok_or_else(ended)?;
        let first = first.inspect_err(|_| self.in_flight.error_returned())?;
        let mut deliveries = vec![self.delivery(first, room)];
        while deliveries.len() < limit {
            let Ok(room) = self.room.clone().try_acquire_owned() else { break };
            match self.deliveries.try_recv() {
                Ok(Ok(delivery)) => deliveries.push(self.delivery(delivery, room)),
                Ok(Err(error)) => {
                    self.in_flight.error_returned();
                    self.error = Some(error);
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(deliveries)
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.stop.send_replace(true);
        let Some(reader) = self.reader.take() else { return Ok(()) };
        if within(&*self.clock, until, reader).await.is_none() {
            self.abort.abort();
            // The broker detects the lost connection and keeps the session; another consumer adopts it.
            tracing::debug!(
                group = self.in_flight.group,
                "a consumer was closed without DISCONNECT"
            );
        }
        self.in_flight.disconnected();
        Ok(())
    }
}

impl Drop for MqttConsumer {
    fn drop(&mut self) {
        self.abort.abort();
        self.in_flight.disconnected();
    }
}
