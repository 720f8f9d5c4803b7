//! Settler task: settles deliveries in batches, and regularly trims the topic's stream.

use std::sync::Arc;

use punctual::backend::transport::settler::{
    QueuedSettlement, SettlementBatch, Settlements, Settler, settler,
};
use punctual::model::MessageId;
use punctual::{Error, Result};
use redis::RedisError;

use crate::group_consumer::{GroupConsumer, RequeueEntry};
use crate::names::{EntryPosition, StreamKind};

/// Most settlements in one batch.
const BATCH_MAX: usize = 1_024;
/// Acknowledgements between two trims of the topic's stream.
const TRIM_EVERY: usize = 10_000;

/// How a delivery is settled.
#[derive(Debug)]
pub(crate) enum SettleAction {
    /// Acknowledge an entry.
    Acknowledge(EntryPosition),
    /// Requeue an entry.
    Requeue(RequeueEntry),
}

/// Starts the task. With `trims` it regularly removes entries that every group has handled.
pub(crate) fn start(group_consumer: Arc<GroupConsumer>, trims: bool) -> Settler<SettleAction> {
    let (settler, settlements) = settler();
    tokio::spawn(run(group_consumer, settlements, trims));
    settler
}

async fn run(
    group_consumer: Arc<GroupConsumer>,
    mut settlements: Settlements<SettleAction>,
    trims: bool,
) {
    let mut acknowledged = 0;
    while let Some(batch) = settlements.next_batch(BATCH_MAX).await {
        acknowledged += settle(&group_consumer, batch).await;
        if trims && acknowledged >= TRIM_EVERY {
            acknowledged = 0;
            if let Err(error) = group_consumer.trim(StreamKind::Shared).await {
                tracing::warn!(stream = group_consumer.streams.shared, %error, "a stream was not trimmed");
            }
        }
    }
}

/// Settles a batch; returns how many entries of the topic's stream were acknowledged.
async fn settle(group_consumer: &GroupConsumer, mut batch: SettlementBatch<SettleAction>) -> usize {
    let (mut acknowledged, mut acknowledged_results) = (Vec::new(), Vec::new());
    let (mut requeued, mut requeued_results) = (Vec::new(), Vec::new());
    for QueuedSettlement { action, result } in batch.settlements.drain(..) {
        match action {
            SettleAction::Acknowledge(position) => {
                acknowledged.push(position);
                acknowledged_results.push(result);
            }
            SettleAction::Requeue(entry) => {
                requeued.push(entry);
                requeued_results.push(result);
            }
        }
    }
    if !acknowledged.is_empty() {
        let outcome = group_consumer.acknowledge(&acknowledged).await;
        for result in acknowledged_results {
            let _ = result.send(result_of(group_consumer, outcome.as_ref().err()));
        }
    }
    if !requeued.is_empty() {
        let outcome = group_consumer.requeue(&requeued).await;
        for (entry, result) in requeued.iter().zip(requeued_results) {
            let _ = result.send(match &outcome {
                Ok(lost) if lost.contains(&entry.position) => Err(delivery_lost(entry.message)),
                outcome => result_of(group_consumer, outcome.as_ref().err()),
            });
        }
    }
    batch.finish();
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
