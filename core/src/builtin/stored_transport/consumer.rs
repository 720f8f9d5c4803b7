//! Consumer of a stored transport: receives one group's copies of a topic by claiming them from their queue. A
//! claim that was begun is finished by the next call even if the call that began it was dropped, so no claimed
//! message is lost.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::Shared;
use crate::clock;
use crate::error::{Error, Result};
use crate::model::Queue;
use crate::storage::{Claim, ClaimedMessage, WakeSource, Wakeup};
use crate::transport::{Consumer, Delivery, LeaseReceipt, Receipt};

/// Longest sleep, for storages where another process may enqueue without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

type Claiming = Pin<Box<dyn Future<Output = Result<Vec<ClaimedMessage>>> + Send>>;

/// Claims from the queue of a topic and a group.
pub(super) struct StoredConsumer {
    shared: Shared,
    source: WakeSource,
    queue: Queue,
    wakeup: Wakeup,
    prefetch: usize,
    claiming: Option<Claiming>,
    received: Vec<ClaimedMessage>,
    closed: bool,
}

impl StoredConsumer {
    pub(super) fn new(shared: Shared, queue: Queue, prefetch: usize) -> Self {
        let source = WakeSource::Queue(queue.clone());
        let wakeup = shared.storage.wakeup(&source);
        let prefetch = prefetch.max(1);
        Self {
            shared,
            source,
            queue,
            wakeup,
            prefetch,
            claiming: None,
            received: Vec::new(),
            closed: false,
        }
    }

    /// Begins a claim, or continues the one that is under way.
    async fn claim(&mut self, limit: usize) -> Result<()> {
        if self.claiming.is_none() {
            let now = self.shared.clock.now();
            let until = clock::add(now, self.shared.lease_duration);
            let claim = Claim::new(self.queue.clone(), self.shared.owner, limit, until);
            let storage = Arc::clone(&self.shared.storage);
            self.claiming = Some(Box::pin(async move { storage.claim(claim, now).await }));
        }
        if let Some(claiming) = &mut self.claiming {
            let claimed = claiming.await;
            self.claiming = None;
            self.received = claimed?;
        }
        Ok(())
    }

    /// Returns at most `limit` of the claimed messages; a call that was dropped may have claimed more.
    fn take(&mut self, limit: usize) -> Vec<Delivery> {
        let count = limit.min(self.received.len());
        let claimed = self.received.drain(..count);
        claimed.map(|claimed| delivery(claimed, &self.shared)).collect()
    }

    /// Releases the messages that were claimed and never received.
    async fn give_back(&mut self) -> Result<()> {
        if self.claiming.is_some() {
            self.claim(0).await?;
        }
        if self.received.is_empty() {
            return Ok(());
        }
        let released =
            self.received.drain(..).map(|claimed| claimed.release(claimed.due_at)).collect();
        let now = self.shared.clock.now();
        self.shared.storage.settle(released, now).await.map(|_| ())
    }
}

#[async_trait]
impl Consumer for StoredConsumer {
    async fn receive(&mut self, limit: usize) -> Result<Vec<Delivery>> {
        if self.closed {
            return Err(Error::conflict("the consumer is closed; subscribe again to receive more"));
        }
        let limit = limit.clamp(1, self.prefetch);
        loop {
            if self.received.is_empty() {
                self.claim(limit).await?;
            }
            if !self.received.is_empty() {
                return Ok(self.take(limit));
            }
            let poll_at = clock::add(self.shared.clock.now(), POLL_INTERVAL);
            let next = self.shared.storage.next_due(&self.source).await?;
            let until = next.map_or(poll_at, |due_at| due_at.min(poll_at));
            tokio::select! {
                biased;
                () = self.wakeup.notified() => {}
                () = self.shared.clock.sleep_until(until) => {}
            }
        }
    }

    async fn close(&mut self, until: Timestamp) -> Result<()> {
        self.closed = true;
        let clock = Arc::clone(&self.shared.clock);
        // A message that is not released in time can be claimed when its lease has expired.
        clock::within(&*clock, until, self.give_back()).await.unwrap_or(Ok(()))
    }
}

fn delivery(claimed: ClaimedMessage, shared: &Shared) -> Delivery {
    let storage = Arc::clone(&shared.storage);
    Delivery {
        message: Arc::clone(&claimed.message),
        attempt: claimed.attempt,
        poison: None,
        receipt: Receipt::Lease(Box::new(LeaseReceipt { claimed, storage })),
    }
}
