//! Receives one subscription: hands out what the reader has taken, and hands back what it has not handed
//! out when it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use punctual::Result;
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use punctual::transport::feed::{Feed, Intake, feed};
use punctual::transport::{Consumer, Delivery, Receipt};
use redis::cmd;
use tokio::task::{AbortHandle, JoinHandle};

use crate::fault;
use crate::hand::Hand;
use crate::reader::{Reader, Taken};

/// Between two tries to end a read that waits.
const NUDGE_EVERY: Duration = Duration::from_millis(20);

/// A consumer of a topic for a group.
pub(crate) struct RedisConsumer {
    hand: Arc<Hand>,
    clock: Arc<dyn Clock>,
    intake: Intake<Taken>,
    client: Arc<AtomicI64>,
    reader: Option<JoinHandle<()>>,
    ends: AbortHandle,
}

impl RedisConsumer {
    /// A consumer and the reader that feeds it.
    pub(crate) fn start(
        reader: impl FnOnce(Feed<Taken>) -> Reader,
        hand: Arc<Hand>,
        clock: Arc<dyn Clock>,
        prefetch: usize,
    ) -> Self {
        let (feed, intake) = feed(prefetch);
        let reader = reader(feed);
        let client = reader.client.clone();
        let reader = tokio::spawn(reader.run());
        let ends = reader.abort_handle();
        Self { hand, clock, intake, client, reader: Some(reader), ends }
    }

    /// Waits for the reader's end, ending the read it may be waiting in.
    async fn end_reader(&mut self) {
        let Some(mut reader) = self.reader.take() else { return };
        loop {
            let client = self.client.load(Ordering::Relaxed);
            if client > 0 {
                let mut unblock = cmd("CLIENT");
                unblock.arg("UNBLOCK").arg(client);
                let _ = self.hand.desk.link.query::<i64>(&unblock).await;
            }
            let next = clock::add(self.clock.now(), NUDGE_EVERY);
            if clock::within(&*self.clock, next, &mut reader).await.is_some() {
                return;
            }
        }
    }

    async fn hand_back(&mut self) -> Result<()> {
        self.end_reader().await;
        // Dropping a delivery puts it back, without an attempt spent when nobody has seen it.
        drop(self.intake.unseen());
        self.hand.settler.flush().await;
        let desk = &self.hand.desk;
        match desk.leave().await {
            Err(error) if fault::is_lost(&error) => Err(desk.link.told(&error).during("close")),
            Err(error) => {
                // Without the group or its stream there is nothing to leave.
                tracing::debug!(group = desk.group, %error, "a consumer stays in its group");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

#[async_trait]
impl Consumer for RedisConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        let taken = self.intake.receive(limit).await?;
        Ok(taken.into_iter().map(delivery).collect())
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.intake.stop();
        let clock = self.clock.clone();
        // What is not handed back in time is free when its hold has run out.
        let ended = clock::within(&*clock, until, self.hand_back()).await;
        self.ends.abort();
        ended.unwrap_or(Ok(()))
    }
}

impl Drop for RedisConsumer {
    fn drop(&mut self) {
        self.ends.abort();
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
