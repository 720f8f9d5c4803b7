//! Receives one subscription: hands out what the reader has taken, and hands back what it has not handed
//! out when it is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use punctual::clock::{self, Clock};
use punctual::jiff::Timestamp;
use punctual::transport::{Consumer, Delivery, Receipt};
use punctual::{Error, Result};
use redis::cmd;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use crate::fault;
use crate::hand::Hand;
use crate::reader::{Reader, Taken};

/// Between two tries to end a read that waits.
const NUDGE_EVERY: Duration = Duration::from_millis(20);

/// A consumer of a topic for a group.
pub(crate) struct RedisConsumer {
    pub(crate) hand: Arc<Hand>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) taken: mpsc::UnboundedReceiver<Result<Taken>>,
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) client: Arc<AtomicI64>,
    pub(crate) reader: Option<JoinHandle<()>>,
    pub(crate) ends: AbortHandle,
    pub(crate) prefetch: usize,
    /// The error behind deliveries that were received with it.
    pub(crate) trouble: Option<Error>,
    /// Whether the reader waits to be asked again.
    pub(crate) is_resting: bool,
}

impl RedisConsumer {
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
        let client = Arc::new(AtomicI64::new(0));
        let (feed_asked, feed_client) = (asked.clone(), client.clone());
        let feed = Feed { taken: give, asked: feed_asked, stop: stopped, client: feed_client };
        let reader = tokio::spawn(reader(feed).run());
        let ends = reader.abort_handle();
        Self {
            hand,
            clock,
            taken,
            asked,
            stop,
            client,
            reader: Some(reader),
            ends,
            prefetch,
            trouble: None,
            is_resting: false,
        }
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
        self.taken.close();
        // Dropping a delivery puts it back, without an attempt spent when nobody has seen it.
        while self.taken.try_recv().is_ok() {}
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

/// What a reader and its consumer share.
pub(crate) struct Feed {
    pub(crate) taken: mpsc::UnboundedSender<Result<Taken>>,
    pub(crate) asked: Arc<Notify>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) client: Arc<AtomicI64>,
}

#[async_trait]
impl Consumer for RedisConsumer {
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
                // The reader reads nothing more until it is asked again, so this is the last.
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
