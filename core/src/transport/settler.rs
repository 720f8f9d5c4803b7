//! Settler: settles deliveries in batches. During one call to the broker the next settlements queue up, so that many
//! acknowledgements cost one round trip. The channel is bounded by the prefetch: each delivery in flight sends one
//! settlement.
//!
//! The consumer and its deliveries hold the [`Settler`]; one task receives from [`Settlements`] and ends with the last
//! settler.

use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};

/// Yields without a new settlement after which a batch is complete.
const IDLE_YIELDS_MAX: usize = 4;

/// Creates a settler and the task's end of it.
pub fn settler<S>() -> (Settler<S>, Settlements<S>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Settler { sender }, Settlements { receiver, received: Vec::new() })
}

/// Sends settlements to the task that makes them.
#[derive(Debug)]
pub struct Settler<S> {
    sender: mpsc::UnboundedSender<Command<S>>,
}

#[derive(Debug)]
enum Command<S> {
    Settle(QueuedSettlement<S>),
    /// Report when every earlier settlement is done.
    Flush(oneshot::Sender<()>),
}

/// Queued settlement of one delivery, and where its result goes.
#[derive(Debug)]
pub struct QueuedSettlement<S> {
    /// Action for the delivery.
    pub action: S,
    /// Receiver of the result.
    pub result: ResultSender,
}

/// Receiver of a result; a dropped delivery has none.
#[derive(Debug)]
pub struct ResultSender(Option<oneshot::Sender<Result<()>>>);

impl ResultSender {
    /// Sends the result; returns it when no caller waits for it.
    pub fn send(self, result: Result<()>) -> Option<Result<()>> {
        match self.0 {
            Some(sender) => sender.send(result).err(),
            None => Some(result),
        }
    }
}

impl<S> Clone for Settler<S> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

impl<S> Settler<S> {
    /// Sends a settlement without waiting for its result. Without a runtime nothing is settled, and the broker delivers
    /// the message again.
    pub fn send(&self, action: S) {
        let _ = self
            .sender
            .send(Command::Settle(QueuedSettlement { action, result: ResultSender(None) }));
    }

    /// Sends a settlement and waits for its result.
    pub async fn settle(&self, action: S) -> Result<()> {
        let (sender, result) = oneshot::channel();
        let settlement = QueuedSettlement { action, result: ResultSender(Some(sender)) };
        let _ = self.sender.send(Command::Settle(settlement));
        result.await.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the settler of the consumer has stopped; the message will be delivered again",
            ))
        })
    }

    /// Waits until every earlier settlement is done.
    pub async fn flush(&self) {
        let (sender, result) = oneshot::channel();
        let _ = self.sender.send(Command::Flush(sender));
        let _ = result.await;
    }
}

/// The task's end of a settler.
#[derive(Debug)]
pub struct Settlements<S> {
    receiver: mpsc::UnboundedReceiver<Command<S>>,
    /// Received, and not returned because a call of [`Settlements::next_batch`] was dropped.
    received: Vec<Command<S>>,
}

/// Settlements to make together.
#[derive(Debug)]
pub struct SettlementBatch<S> {
    /// Settlements, in the order they were sent.
    pub settlements: Vec<QueuedSettlement<S>>,
    flushes: Vec<oneshot::Sender<()>>,
}

impl<S> SettlementBatch<S> {
    /// Returns whether a caller waits until the batch is done.
    pub fn is_flush(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// Reports that the batch is done. Dropping it reports the same.
    pub fn finish(self) {
        for flush in self.flushes {
            let _ = flush.send(());
        }
    }
}

impl<S> Settlements<S> {
    /// Waits for settlements and returns up to `max` of them; `None` when the last settler is dropped. It
    /// yields a few times to tasks that are ready to settle, for one call with many instead of many with a few.
    /// Cancel-safe.
    pub async fn next_batch(&mut self, max: usize) -> Option<SettlementBatch<S>> {
        if self.received.is_empty() && self.receiver.recv_many(&mut self.received, max).await == 0 {
            return None;
        }
        let mut idle_yields = 0;
        while idle_yields < IDLE_YIELDS_MAX && self.received.len() < max {
            tokio::task::yield_now().await;
            let before = self.received.len();
            while self.received.len() < max
                && let Ok(command) = self.receiver.try_recv()
            {
                self.received.push(command);
            }
            idle_yields = if self.received.len() == before { idle_yields + 1 } else { 0 };
        }
        let mut batch = SettlementBatch { settlements: Vec::new(), flushes: Vec::new() };
        for command in self.received.drain(..) {
            match command {
                Command::Settle(settlement) => batch.settlements.push(settlement),
                Command::Flush(flush) => batch.flushes.push(flush),
            }
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn settlements_are_made_together_and_each_has_its_result() {
        let (settler, mut settlements) = settler::<u8>();
        let task = tokio::spawn(async move {
            let mut sizes = Vec::new();
            while let Some(mut batch) = settlements.next_batch(3).await {
                sizes.push(batch.settlements.len());
                for QueuedSettlement { action, result } in batch.settlements.drain(..) {
                    let refused = (action == 2).then(|| Error::conflict("lost"));
                    let _ = result.send(refused.map_or(Ok(()), Err));
                }
                batch.finish();
            }
            sizes
        });
        let results = futures_util::future::join_all([1, 2].map(|number| settler.settle(number)));
        let results: Vec<bool> = results.await.iter().map(Result::is_ok).collect();
        assert_eq!(results, [true, false]);
        settler.send(3);
        settler.flush().await;
        drop(settler);
        assert_eq!(task.await.unwrap().iter().sum::<usize>(), 3);
    }

    #[tokio::test]
    async fn a_dropped_call_loses_no_settlement() {
        let (settler, mut settlements) = settler::<u8>();
        settler.send(1);
        assert!(settlements.next_batch(9).now_or_never().is_none(), "it yields first");
        settler.send(2);
        let batch = settlements.next_batch(9).await.unwrap();
        let actions: Vec<u8> = batch.settlements.iter().map(|one| one.action).collect();
        assert_eq!(actions, [1, 2]);
        drop(settler);
        assert!(settlements.next_batch(9).await.is_none());
    }

    #[tokio::test]
    async fn a_settler_without_its_task_fails() {
        let (settler, settlements) = settler::<u8>();
        drop(settlements);
        assert!(settler.settle(1).await.unwrap_err().is_temporary());
        settler.flush().await;
    }
}
