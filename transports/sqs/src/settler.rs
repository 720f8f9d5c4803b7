//! Settler task: settles deliveries in batches of ten, with several calls at once. It requeues nothing while visibility
//! timeouts are renewed: a renewal that overtook a requeue would undo it.

use std::sync::Arc;

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use punctual::backend::transport::in_flight::InFlight;
use punctual::backend::transport::settler::{
    QueuedSettlement, ResultSender, SettlementBatch, Settlements, Settler, settler,
};
use punctual::{Error, Result};
use tokio::task::JoinSet;

use crate::connection::BrokerConnection;
use crate::error::CallError;
use crate::producer::CALL_MAX;
use crate::receipt::ReceiptHandle;

/// Most concurrent calls, beyond which settlements queue up.
const CALLS_MAX: usize = 16;
/// Most settlements in one batch.
pub(crate) const BATCH_MAX: usize = CALL_MAX * CALLS_MAX;

/// Most attempts to delete a message whose copy is stored.
const DELETE_ATTEMPTS_MAX: usize = 3;

/// How a delivery is settled.
#[derive(Debug)]
pub(crate) enum SettleAction {
    /// Delete the message.
    Delete(ReceiptHandle),
    /// Make the message visible to consumers after so many seconds.
    ChangeVisibility(ReceiptHandle, i32),
}

/// Queue of a group, and the calls that settle its deliveries.
pub(crate) struct QueueClient {
    pub(crate) connection: BrokerConnection,
    pub(crate) url: String,
}

/// State of the settler's task.
struct SettlerTask {
    queue: Arc<QueueClient>,
    in_flight: Arc<InFlight<u64, ReceiptHandle>>,
}

/// Starts the settler's task.
pub(crate) fn start(
    queue: Arc<QueueClient>,
    in_flight: Arc<InFlight<u64, ReceiptHandle>>,
) -> Settler<SettleAction> {
    let (settler, settlements) = settler();
    tokio::spawn(SettlerTask { queue, in_flight }.run(settlements));
    settler
}

/// Deletes a message whose copy is stored: with a few attempts, because it would be delivered and copied again.
pub(crate) async fn delete_copied(
    settler: &Settler<SettleAction>,
    handle: &ReceiptHandle,
) -> Result<()> {
    for _ in 1..DELETE_ATTEMPTS_MAX {
        let deleted = settler.settle(SettleAction::Delete(handle.clone())).await;
        if !deleted.as_ref().is_err_and(Error::is_temporary) {
            return deleted;
        }
    }
    settler.settle(SettleAction::Delete(handle.clone())).await
}

impl SettlerTask {
    async fn run(self, mut settlements: Settlements<SettleAction>) {
        let mut calls = JoinSet::new();
        loop {
            tokio::select! {
                batch = settlements.next_batch(BATCH_MAX), if calls.len() < CALLS_MAX => {
                    let Some(batch) = batch else { break };
                    self.start_calls(batch, &mut calls).await;
                }
                Some(_) = calls.join_next() => {}
            }
        }
        while calls.join_next().await.is_some() {}
    }

    /// Starts the calls of a batch of settlements, in order where the order matters.
    async fn start_calls(&self, mut batch: SettlementBatch<SettleAction>, calls: &mut JoinSet<()>) {
        let (mut deleted, mut changed) = (Vec::new(), Vec::new());
        for QueuedSettlement { action, result } in batch.settlements.drain(..) {
            match action {
                SettleAction::Delete(handle) => deleted.push((handle, result)),
                SettleAction::ChangeVisibility(handle, after) => {
                    changed.push(((handle, after), result));
                }
            }
        }
        while !deleted.is_empty() {
            let rest = deleted.split_off(deleted.len().min(CALL_MAX));
            let (queue, chunk) = (self.queue.clone(), std::mem::replace(&mut deleted, rest));
            calls.spawn(async move {
                let (handles, senders): (Vec<_>, Vec<_>) = chunk.into_iter().unzip();
                queue.send_results(queue.delete(&handles).await, senders);
            });
        }
        if !changed.is_empty() {
            self.in_flight.renewal_ended().await;
        }
        while !changed.is_empty() {
            let rest = changed.split_off(changed.len().min(CALL_MAX));
            let (queue, chunk) = (self.queue.clone(), std::mem::replace(&mut changed, rest));
            calls.spawn(async move {
                let (changes, senders): (Vec<_>, Vec<_>) = chunk.into_iter().unzip();
                queue.send_results(queue.change_visibility(&changes).await, senders);
            });
        }
        if batch.is_flush() {
            while calls.join_next().await.is_some() {}
        }
        batch.finish();
    }
}

impl QueueClient {
    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchOutcome {
        let entries = handles.iter().enumerate().map(|(number, handle)| {
            let entry = DeleteMessageBatchRequestEntry::builder();
            entry.id(number.to_string()).receipt_handle(&**handle).build()
        });
        let entries = entries.collect::<std::result::Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| Error::internal(error.to_string()))?;
        let call = self.connection.calls.delete_message_batch().queue_url(&self.url);
        let response = call.set_entries(Some(entries)).send().await;
        Ok(response.map_err(|error| CallError::map_error(error, &self.connection.endpoint))?.failed)
    }

    /// Makes messages visible to consumers after so many seconds each.
    pub(crate) async fn change_visibility(&self, changes: &[(ReceiptHandle, i32)]) -> BatchOutcome {
        let entries = changes.iter().enumerate().map(|(number, (handle, after))| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(number.to_string());
            entry.receipt_handle(&**handle).visibility_timeout(*after).build()
        });
        let entries = entries.collect::<std::result::Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| Error::internal(error.to_string()))?;
        let call = self.connection.calls.change_message_visibility_batch().queue_url(&self.url);
        let response = call.set_entries(Some(entries)).send().await;
        Ok(response.map_err(|error| CallError::map_error(error, &self.connection.endpoint))?.failed)
    }

    /// Sends the results.
    fn send_results(&self, outcome: BatchOutcome, senders: Vec<ResultSender>) {
        let copy = |error: &Error| Error::new(error.kind(), error.to_string()).during("settle");
        for (number, sender) in senders.into_iter().enumerate() {
            let settled = match &outcome {
                Err(error) => Err(copy(error)),
                Ok(failed) => failed
                    .iter()
                    .find(|entry| entry.id() == number.to_string())
                    .map_or(Ok(()), |entry| {
                        Err(CallError::map_entry(entry, &self.connection.endpoint).into())
                    }),
            };
            if let Some(Err(error)) = sender.send(settled) {
                tracing::debug!(queue = self.url, %error, "a dropped delivery was not requeued");
            }
        }
    }
}

/// Failed entries of a batch, or the error of the whole batch.
type BatchOutcome = Result<Vec<BatchResultErrorEntry>>;
