//! Consumer of one subscription: returns what its reader has prefetched, and requeues the unreturned rest when
//! it is closed.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use punctual::Result;
use punctual::backend::transport::prefetch::{PrefetchReceiver, PrefetchSender, prefetch_channel};
use punctual::backend::transport::{Consumer, Delivery, Receipt};
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use tokio::task::JoinHandle;

use crate::reader::{PrefetchedDelivery, Reader};
use crate::receipt::ConsumerContext;

/// Most deliveries that are requeued concurrently.
const REQUEUE_CONCURRENCY: usize = 16;

/// Consumer of a topic for a group.
pub(crate) struct SqsConsumer {
    context: Arc<ConsumerContext>,
    clock: Arc<dyn Clock>,
    prefetched: PrefetchReceiver<PrefetchedDelivery>,
    reader: Option<JoinHandle<()>>,
}

impl SqsConsumer {
    /// Starts a consumer with its reader.
    pub(crate) fn start(
        reader: impl FnOnce(PrefetchSender<PrefetchedDelivery>) -> Reader,
        context: Arc<ConsumerContext>,
        clock: Arc<dyn Clock>,
        prefetch: usize,
    ) -> Self {
        let (deliveries, prefetched) = prefetch_channel(prefetch);
        let reader = tokio::spawn(reader(deliveries).run());
        Self { context, clock, prefetched, reader: Some(reader) }
    }

    /// Waits for running polls and requeues the deliveries that `receive` did not return.
    async fn requeue_prefetched(&mut self) -> Result<()> {
        if let Some(reader) = &mut self.reader {
            let _ = reader.await;
            self.reader = None;
        }
        let requeuing = self.prefetched.close().into_iter().map(|prefetched| async move {
            if let Err(error) = prefetched.requeue_unattempted().await {
                tracing::debug!(%error, "a delivery was requeued with an attempt counted");
            }
        });
        stream::iter(requeuing).buffer_unordered(REQUEUE_CONCURRENCY).for_each(|()| async {}).await;
        self.context.settler.flush().await;
        Ok(())
    }
}

#[async_trait]
impl Consumer for SqsConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        let prefetched = self.prefetched.receive(limit).await?;
        Ok(prefetched.into_iter().map(delivery).collect())
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.prefetched.stop();
        let clock = self.clock.clone();
        // The reader runs until its polls have returned, and requeues their deliveries.
        clock::within(&*clock, until, self.requeue_prefetched()).await.unwrap_or(Ok(()))
    }
}

impl Drop for SqsConsumer {
    fn drop(&mut self) {
        // The reader ends soon by itself: SQS may still answer an aborted poll with a message, which would be
        // lost until its visibility timeout ends.
        self.prefetched.stop();
    }
}

fn delivery(prefetched: PrefetchedDelivery) -> Delivery {
    let PrefetchedDelivery { poison, receipt } = prefetched;
    Delivery {
        message: receipt.message.clone(),
        attempt: receipt.attempt,
        poison,
        receipt: Receipt::Broker(Box::new(receipt)),
    }
}
