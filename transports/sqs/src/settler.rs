//! Settler task: settles deliveries in batches of ten, with several calls at once. The same task extends the visibility
//! timeout of in-flight deliveries, and requeues nothing meanwhile: an extension that overtook a settlement would undo it.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use punctual::clock::{Clock, add};
use punctual::transport::settler::{
    QueuedSettlement, ResultSender, SettlementBatch, Settlements, Settler, settler,
};
use punctual::{Error, Result};
use tokio::task::JoinSet;

use crate::connection::BrokerConnection;
use crate::error::CallError;
use crate::in_flight::{InFlight, ReceiptHandle};
use crate::producer::{CALL_MAX, seconds};

/// Most concurrent calls, beyond which settlements queue up.
const CALLS_MAX: usize = 16;
/// Most settlements in one batch.
const BATCH_MAX: usize = CALL_MAX * CALLS_MAX;
/// Extensions per visibility timeout.
const EXTENSIONS_PER_TIMEOUT: u32 = 3;

/// How a delivery is settled.
#[derive(Debug)]
pub(crate) enum Settling {
    /// Delete the message.
    Delete(ReceiptHandle),
    /// Make the message visible to consumers after so many seconds.
    ChangeVisibility(ReceiptHandle, i32),
}

/// State of the settler's task.
pub(crate) struct SettlerTask {
    pub(crate) connection: BrokerConnection,
    pub(crate) queue: String,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Time without an extension after which other consumers receive a delivery.
    pub(crate) visibility_timeout: Duration,
}

/// Starts the settler's task.
pub(crate) fn start(task: SettlerTask) -> Settler<Settling> {
    let (settler, settlements) = settler();
    tokio::spawn(Arc::new(task).run(settlements));
    settler
}

impl SettlerTask {
    async fn run(self: Arc<Self>, mut settlements: Settlements<Settling>) {
        let mut calls = JoinSet::new();
        let mut extend_at = self.next_extension();
        loop {
            tokio::select! {
                batch = settlements.next_batch(BATCH_MAX), if calls.len() < CALLS_MAX => {
                    let Some(batch) = batch else { break };
                    self.start_calls(batch, &mut calls).await;
                }
                Some(_) = calls.join_next() => {}
                () = self.clock.sleep_until(extend_at) => {
                    self.extend().await;
                    extend_at = self.next_extension();
                }
            }
        }
        while calls.join_next().await.is_some() {}
    }

    fn next_extension(&self) -> punctual::jiff::Timestamp {
        add(self.clock.now(), self.visibility_timeout / EXTENSIONS_PER_TIMEOUT)
    }

    /// Starts the calls of a batch of settlements, in order where the order matters.
    async fn start_calls(
        self: &Arc<Self>,
        mut batch: SettlementBatch<Settling>,
        calls: &mut JoinSet<()>,
    ) {
        let (mut deleted, mut changed) = (Vec::new(), Vec::new());
        for QueuedSettlement { action, result } in batch.settlements.drain(..) {
            match action {
                Settling::Delete(handle) => deleted.push((handle, result)),
                Settling::ChangeVisibility(handle, after) => {
                    changed.push(((handle, after), result));
                }
            }
        }
        while !deleted.is_empty() {
            let rest = deleted.split_off(deleted.len().min(CALL_MAX));
            let (task, chunk) = (self.clone(), std::mem::replace(&mut deleted, rest));
            calls.spawn(async move {
                let (handles, senders): (Vec<_>, Vec<_>) = chunk.into_iter().unzip();
                task.send_results(task.delete(&handles).await, senders);
            });
        }
        while !changed.is_empty() {
            let rest = changed.split_off(changed.len().min(CALL_MAX));
            let (task, chunk) = (self.clone(), std::mem::replace(&mut changed, rest));
            calls.spawn(async move {
                let (changes, senders): (Vec<_>, Vec<_>) = chunk.into_iter().unzip();
                task.send_results(task.change_visibility(&changes).await, senders);
            });
        }
        if batch.is_flush() {
            while calls.join_next().await.is_some() {}
        }
        batch.finish();
    }

    async fn delete(&self, handles: &[ReceiptHandle]) -> BatchOutcome {
        let entries = handles.iter().enumerate().map(|(number, handle)| {
            let entry = DeleteMessageBatchRequestEntry::builder();
            entry.id(number.to_string()).receipt_handle(&**handle).build()
        });
        let entries = entries.collect::<std::result::Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| Error::internal(error.to_string()))?;
        let call = self.connection.calls.delete_message_batch().queue_url(&self.queue);
        let response = call.set_entries(Some(entries)).send().await;
        Ok(response.map_err(|error| CallError::map_error(error, &self.connection.endpoint))?.failed)
    }

    /// Makes messages visible to consumers after so many seconds each.
    async fn change_visibility(&self, changes: &[(ReceiptHandle, i32)]) -> BatchOutcome {
        let entries = changes.iter().enumerate().map(|(number, (handle, after))| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(number.to_string());
            entry.receipt_handle(&**handle).visibility_timeout(*after).build()
        });
        let entries = entries.collect::<std::result::Result<Vec<_>, _>>();
        let entries = entries.map_err(|error| Error::internal(error.to_string()))?;
        let call = self.connection.calls.change_message_visibility_batch().queue_url(&self.queue);
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
                tracing::debug!(queue = self.queue, %error, "a dropped delivery was not requeued");
            }
        }
    }

    /// Extends the visibility timeout of all in-flight deliveries.
    async fn extend(&self) {
        let timeout = seconds(self.visibility_timeout);
        let in_flight = self.in_flight.handles().into_iter().map(|handle| (handle, timeout));
        let in_flight: Vec<_> = in_flight.collect();
        for batch in in_flight.chunks(BATCH_MAX) {
            let mut calls = FuturesUnordered::new();
            for chunk in batch.chunks(CALL_MAX) {
                calls.push(self.change_visibility(chunk));
            }
            while let Some(outcome) = calls.next().await {
                self.log_extension(outcome);
            }
        }
    }

    fn log_extension(&self, extended: BatchOutcome) {
        match extended {
            Ok(failed) if failed.is_empty() => {}
            // Some may have been settled during the call.
            Ok(failed) => {
                let count = failed.len();
                tracing::debug!(
                    queue = self.queue,
                    count,
                    "the visibility timeout of deliveries was not extended"
                );
            }
            Err(error) => {
                tracing::warn!(queue = self.queue, %error, "the visibility timeout of deliveries was not extended");
            }
        }
    }
}

/// Failed entries of a batch, or the error of the whole batch.
type BatchOutcome = Result<Vec<BatchResultErrorEntry>>;
