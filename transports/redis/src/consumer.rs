//! Consumer of one subscription: returns what its reader has prefetched, and requeues the unreturned rest when
//! it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::backend::transport::prefetch::{PrefetchReceiver, PrefetchSender, prefetch_channel};
use punctual::backend::transport::{Consumer, Delivery, Receipt};
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use redis::cmd;
use tokio::task::{AbortHandle, JoinHandle};

use crate::error;
use crate::reader::{PrefetchedDelivery, Reader};
use crate::receipt::ConsumerContext;

/// Interval between attempts to end a blocking read.
const UNBLOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Consumer of a topic for a group.
pub(crate) struct RedisConsumer {
    context: Arc<ConsumerContext>,
    clock: Arc<dyn Clock>,
    prefetched: PrefetchReceiver<PrefetchedDelivery>,
    client: Arc<AtomicI64>,
    reader: Option<JoinHandle<()>>,
    reader_abort: AbortHandle,
}

impl RedisConsumer {
    /// Starts a consumer with its reader.
    pub(crate) fn start(
        reader: impl FnOnce(PrefetchSender<PrefetchedDelivery>) -> Reader,
        context: Arc<ConsumerContext>,
        clock: Arc<dyn Clock>,
        prefetch: usize,
    ) -> Self {
        let (deliveries, prefetched) = prefetch_channel(prefetch);
        let reader = reader(deliveries);
        let client = reader.client.clone();
        let reader = tokio::spawn(reader.run());
        let reader_abort = reader.abort_handle();
        Self { context, clock, prefetched, client, reader: Some(reader), reader_abort }
    }

    /// Waits until the reader has ended, and unblocks the read it may be waiting in.
    async fn end_reader(&mut self) {
        let Some(mut reader) = self.reader.take() else { return };
        loop {
            let client = self.client.load(Ordering::Relaxed);
            if client > 0 {
                let mut unblock = cmd("CLIENT");
                unblock.arg("UNBLOCK").arg(client);
                let _ = self.context.group_consumer.connection.query::<i64>(&unblock).await;
            }
            let next = clock::add(self.clock.now(), UNBLOCK_INTERVAL);
            if clock::within(&*self.clock, next, &mut reader).await.is_some() {
                return;
            }
        }
    }

    async fn requeue_prefetched(&mut self) -> Result<()> {
        self.end_reader().await;
        // A dropped delivery is requeued, without counting an attempt if `receive` did not return it.
        drop(self.prefetched.close());
        self.context.settler.flush().await;
        let group_consumer = &self.context.group_consumer;
        match group_consumer.remove_from_group().await {
            Err(error) if error::is_lost(&error) => {
                Err(group_consumer.connection.map_error(&error).during("close"))
            }
            Err(error) => {
                // The group or its stream is gone, and the consumer with it.
                tracing::debug!(group = group_consumer.group, %error, "the consumer was not removed from its group");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

#[async_trait]
impl Consumer for RedisConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        let prefetched = self.prefetched.receive(limit).await?;
        Ok(prefetched.into_iter().map(delivery).collect())
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.prefetched.stop();
        let clock = self.clock.clone();
        // What is not requeued in time becomes available when its visibility timeout ends.
        let closed = clock::within(&*clock, until, self.requeue_prefetched()).await;
        self.reader_abort.abort();
        closed.unwrap_or(Ok(()))
    }
}

impl Drop for RedisConsumer {
    fn drop(&mut self) {
        self.reader_abort.abort();
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
