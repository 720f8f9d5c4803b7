//! Settler: settles deliveries in batches. During one call the next settlements queue up, so that many
//! acknowledgements cost one round trip. The channel is bounded by the prefetch: each delivery in flight sends
//! one settlement.
//!
//! The task ends with the last sender; senders are the consumer and its deliveries.

use std::sync::Arc;

use punctual::model::MessageId;
use punctual::{Error, Result};
use redis::RedisError;
use tokio::sync::{mpsc, oneshot};

use crate::group_consumer::{GroupConsumer, RequeueEntry};
use crate::streams::{EntryPosition, StreamKind};

/// Most settlements in one batch.
const BATCH_MAX: usize = 1_024;
/// Yields without a new settlement after which a batch is complete.
const IDLE_YIELDS_MAX: usize = 4;
/// Acknowledgements between two trims of the topic's stream.
const TRIM_EVERY: usize = 10_000;

/// Receiver of the result; none for a dropped delivery.
type ResultSender = Option<oneshot::Sender<Result<()>>>;

/// Settlement of a delivery.
pub(crate) enum Settlement {
    /// Acknowledge an entry.
    Acknowledge(EntryPosition, ResultSender),
    /// Requeue an entry.
    Requeue(RequeueEntry, ResultSender),
    /// Report when every earlier settlement is done.
    Flush(oneshot::Sender<()>),
}

/// Handle of the settler's task.
#[derive(Clone, Debug)]
pub(crate) struct Settler {
    settlements: mpsc::UnboundedSender<Settlement>,
}

impl Settler {
    /// Starts the task. With `trims` it regularly removes entries that every group has handled.
    pub(crate) fn start(group_consumer: Arc<GroupConsumer>, trims: bool) -> Self {
        let (settlements, receiver) = mpsc::unbounded_channel();
        tokio::spawn(run(group_consumer, receiver, trims));
        Self { settlements }
    }

    /// Sends a settlement without waiting for its result.
    pub(crate) fn send(&self, settlement: Settlement) {
        // Without a runtime nothing is settled; the visibility timeout ends and other consumers claim the entry.
        let _ = self.settlements.send(settlement);
    }

    /// Sends a settlement and waits for its result.
    pub(crate) async fn settle(
        &self,
        settlement: impl FnOnce(ResultSender) -> Settlement,
    ) -> Result<()> {
        let (sender, result) = oneshot::channel();
        self.send(settlement(Some(sender)));
        result.await.unwrap_or_else(|_| Err(settler_stopped()))
    }

    /// Waits until every earlier settlement is done.
    pub(crate) async fn flush(&self) {
        let (sender, result) = oneshot::channel();
        self.send(Settlement::Flush(sender));
        let _ = result.await;
    }
}

async fn run(
    group_consumer: Arc<GroupConsumer>,
    mut receiver: mpsc::UnboundedReceiver<Settlement>,
    trims: bool,
) {
    let mut settlements = Vec::new();
    let mut acknowledged = 0;
    while receiver.recv_many(&mut settlements, BATCH_MAX).await > 0 {
        collect_batch(&mut receiver, &mut settlements).await;
        acknowledged += settle(&group_consumer, settlements.drain(..)).await;
        if trims && acknowledged >= TRIM_EVERY {
            acknowledged = 0;
            if let Err(error) = group_consumer.trim(StreamKind::Shared).await {
                tracing::warn!(stream = group_consumer.streams.shared, %error, "a stream was not trimmed");
            }
        }
    }
}

/// Collects further settlements of tasks that are ready: one call for many instead of many for a few.
async fn collect_batch(
    receiver: &mut mpsc::UnboundedReceiver<Settlement>,
    settlements: &mut Vec<Settlement>,
) {
    let mut idle_yields = 0;
    while idle_yields < IDLE_YIELDS_MAX && settlements.len() < BATCH_MAX {
        tokio::task::yield_now().await;
        let before = settlements.len();
        while settlements.len() < BATCH_MAX
            && let Ok(settlement) = receiver.try_recv()
        {
            settlements.push(settlement);
        }
        idle_yields = if settlements.len() == before { idle_yields + 1 } else { 0 };
    }
}

/// Settles a batch; returns how many entries of the topic's stream were acknowledged.
async fn settle(
    group_consumer: &GroupConsumer,
    settlements: impl Iterator<Item = Settlement>,
) -> usize {
    let (mut acknowledged, mut acknowledged_senders) = (Vec::new(), Vec::new());
    let (mut requeued, mut requeued_senders) = (Vec::new(), Vec::new());
    let mut flushed = Vec::new();
    for settlement in settlements {
        match settlement {
            Settlement::Acknowledge(position, sender) => {
                acknowledged.push(position);
                acknowledged_senders.push(sender);
            }
            Settlement::Requeue(one, sender) => {
                requeued.push(one);
                requeued_senders.push(sender);
            }
            Settlement::Flush(sender) => flushed.push(sender),
        }
    }
    if !acknowledged.is_empty() {
        let outcome = group_consumer.acknowledge(&acknowledged).await;
        for sender in acknowledged_senders.into_iter().flatten() {
            let _ = sender.send(result_of(group_consumer, outcome.as_ref().err()));
        }
    }
    if !requeued.is_empty() {
        let outcome = group_consumer.requeue(&requeued).await;
        for (one, sender) in requeued.iter().zip(requeued_senders) {
            let Some(sender) = sender else { continue };
            let _ = sender.send(match &outcome {
                Ok(lost) if lost.contains(&one.position) => Err(delivery_lost(one.message)),
                outcome => result_of(group_consumer, outcome.as_ref().err()),
            });
        }
    }
    for sender in flushed {
        let _ = sender.send(());
    }
    acknowledged.iter().filter(|position| position.kind == StreamKind::Shared).count()
}

fn result_of(group_consumer: &GroupConsumer, error: Option<&RedisError>) -> Result<()> {
    error.map_or(Ok(()), |error| Err(group_consumer.connection.map_error(error).during("settle")))
}

/// Returns the error of a delivery whose visibility timeout ended before it was settled.
pub(crate) fn delivery_lost(message: MessageId) -> Error {
    Error::conflict(
    "the delivery is no longer ours: its visibility timeout ended and another consumer received it",
    )
    .with("message", message)
}

fn settler_stopped() -> Error {
    Error::unavailable(
        "the settler of the consumer has stopped; the message will be delivered again",
    )
}
