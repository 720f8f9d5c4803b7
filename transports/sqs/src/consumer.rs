//! Receives one subscription: hands out what the reader has taken, and hands back what it has not handed
//! out when it is closed.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _};
use punctual::Result;
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use punctual::transport::feed::{Feed, Intake, feed};
use punctual::transport::{Consumer, Delivery, Receipt};
use tokio::task::JoinHandle;

use crate::reader::{Reader, Taken};
use crate::receipt::Hand;

/// The most deliveries that are handed back at a time.
const BACK_MAX: usize = 16;

/// A consumer of a topic for a group.
pub(crate) struct SqsConsumer {
    hand: Arc<Hand>,
    clock: Arc<dyn Clock>,
    intake: Intake<Taken>,
    reader: Option<JoinHandle<()>>,
}

impl SqsConsumer {
    /// A consumer and the reader that feeds it.
    pub(crate) fn start(
        reader: impl FnOnce(Feed<Taken>) -> Reader,
        hand: Arc<Hand>,
        clock: Arc<dyn Clock>,
        prefetch: usize,
    ) -> Self {
        let (feed, intake) = feed(prefetch);
        let reader = tokio::spawn(reader(feed).run());
        Self { hand, clock, intake, reader: Some(reader) }
    }

    /// Waits for the polls that are under way and puts back what nobody has seen.
    async fn hand_back(&mut self) -> Result<()> {
        if let Some(reader) = &mut self.reader {
            let _ = reader.await;
            self.reader = None;
        }
        let back = self.intake.unseen().into_iter().map(|taken| async move {
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
        let taken = self.intake.receive(limit).await?;
        Ok(taken.into_iter().map(delivery).collect())
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.intake.stop();
        let clock = self.clock.clone();
        // The reader goes on until its polls have come back, and hands back what they bring.
        clock::within(&*clock, until, self.hand_back()).await.unwrap_or(Ok(()))
    }
}

impl Drop for SqsConsumer {
    fn drop(&mut self) {
        // It ends by itself, soon: a poll that is given up may bring a message to nobody.
        self.intake.stop();
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
