//! Receives one subscription: hands out what the reader has taken, and hands back what it has not handed
//! out when it is closed.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use punctual::transport::{Consumer, Delivery, Receipt};
use punctual::{Error, Result};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::reader::{Reader, Taken};
use crate::receipt::Hand;

/// The most deliveries that are handed back at a time.
const BACK_MAX: usize = 16;

/// A consumer of a topic for a group.
pub(crate) struct SqsConsumer {
    hand: Arc<Hand>,
    clock: Arc<dyn Clock>,
    taken: mpsc::UnboundedReceiver<Result<Taken>>,
    asked: Arc<Notify>,
    stop: watch::Sender<bool>,
    reader: Option<JoinHandle<()>>,
    prefetch: usize,
    /// The error behind deliveries that were received with it.
    trouble: Option<Error>,
    /// Whether the reader waits to be asked again.
    is_resting: bool,
}

/// What a reader and its consumer share.
pub(crate) struct Feed {
    pub(crate) taken: mpsc::UnboundedSender<Result<Taken>>,
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl SqsConsumer {
    /// A consumer and the reader that feeds it.
    pub(crate) fn start(
        reader: impl FnOnce(Feed) -> Reader,
        hand: Arc<Hand>,
        clock: Arc<dyn Clock>,
        prefetch: usize,
    ) -> Self {
        let (give, taken) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(false);
        let asked = Arc::new(Notify::new());
        let feed = Feed { taken: give, asked: asked.clone(), stop: stopped };
        let reader = tokio::spawn(reader(feed).run());
        let (reader, trouble, is_resting) = (Some(reader), None, false);
        Self { hand, clock, taken, asked, stop, reader, prefetch, trouble, is_resting }
    }

    /// Waits for the polls that are under way and puts back what nobody has seen.
    async fn hand_back(&mut self) -> Result<()> {
        if let Some(reader) = &mut self.reader {
            let _ = reader.await;
            self.reader = None;
        }
        self.taken.close();
        let mut unseen = Vec::new();
        while let Ok(taken) = self.taken.try_recv() {
            unseen.extend(taken);
        }
        let back = unseen.into_iter().map(|taken: Taken| async move {
            if let Err(error) = taken.hand_back().await {
                tracing::debug!(%error, "a delivery was put back with an attempt spent");
            }
        });
        stream::iter(back).buffer_unordered(BACK_MAX).for_each(|()| async {}).await;
        self.hand.settler.flush().await;
        Ok(())
    }
}

#[async_trait]
impl Consumer for SqsConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        if *self.stop.borrow() {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        if let Some(error) = self.trouble.take() {
            self.is_resting = true;
            return Err(error);
        }
        if std::mem::take(&mut self.is_resting) {
            self.asked.notify_one();
        }
        let limit = limit.clamp(1, self.prefetch);
        let mut taken = Vec::with_capacity(limit);
        if self.taken.recv_many(&mut taken, limit).await == 0 {
            return Err(Error::internal("the reader of the consumer has ended; subscribe again"));
        }
        let mut deliveries = Vec::with_capacity(taken.len());
        for one in taken {
            match one {
                Ok(taken) => deliveries.push(delivery(taken)),
                // The reader gives nothing more until it is asked again, so this is the last.
                Err(error) => self.trouble = Some(error),
            }
        }
        match self.trouble.take_if(|_| deliveries.is_empty()) {
            Some(error) => {
                self.is_resting = true;
                Err(error)
            }
            None => Ok(deliveries),
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.stop.send_replace(true);
        let clock = self.clock.clone();
        // The reader goes on until its polls have come back, and hands back what they bring.
        clock::within(&*clock, until, self.hand_back()).await.unwrap_or(Ok(()))
    }
}

impl Drop for SqsConsumer {
    fn drop(&mut self) {
        // It ends by itself, soon: a poll that is given up may bring a message to nobody.
        self.stop.send_replace(true);
    }
}

fn delivery(taken: Taken) -> Delivery {
    let Taken { poison, receipt } = taken;
    Delivery {
        message: receipt.message.clone(),
        attempt: receipt.attempt,
        poison,
        receipt: Receipt::Broker(Box::new(receipt)),
    }
}
