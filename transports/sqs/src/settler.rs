//! Settler: settles deliveries in batches. During running calls the next settlements queue up, so that ten cost
//! one round trip. The same task extends the visibility timeout of in-flight deliveries, and requeues nothing
//! meanwhile: an extension that overtook a settlement would undo it.
//!
//! The channel is bounded by the prefetch: each delivery in flight sends one settlement. The task ends with the
//! last sender; senders are the consumer and its deliveries.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use punctual::clock::{Clock, add};
use punctual::{Error, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::connection::BrokerConnection;
use crate::error::CallError;
use crate::in_flight::{InFlight, ReceiptHandle};
use crate::producer::{CALL_MAX, seconds};

/// Most concurrent calls, beyond which settlements queue up.
const CALLS_MAX: usize = 16;
/// Most settlements in one batch.
const BATCH_MAX: usize = CALL_MAX * CALLS_MAX;
/// Most yields in which more settlements may arrive.
const YIELDS_MAX: usize = 4;
/// Extensions per visibility timeout.
const EXTENSIONS_PER_TIMEOUT: u32 = 3;

/// Receiver of the result; none for a dropped delivery.
type ResultSender = Option<oneshot::Sender<Result<()>>>;

/// Settlement of a delivery.
pub(crate) enum Settlement {
    /// Delete the message.
    Delete(ReceiptHandle, ResultSender),
    /// Make the message visible to consumers after so many seconds.
    ChangeVisibility(ReceiptHandle, i32, ResultSender),
    /// Report when every earlier settlement is done.
    Flush(oneshot::Sender<()>),
}

/// Handle of the settler's task.
#[derive(Debug)]
pub(crate) struct Settler {
    settlements: mpsc::UnboundedSender<Settlement>,
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

impl Settler {
    pub(crate) fn start(task: SettlerTask) -> Self {
        let (settlements, receiver) = mpsc::unbounded_channel();
        tokio::spawn(Arc::new(task).run(receiver));
        Self { settlements }
    }

    /// Sends a settlement without waiting for its result.
    pub(crate) fn send(&self, settlement: Settlement) {
        // Without a runtime nothing is settled; the visibility timeout ends and other consumers receive the
        // message.
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

impl SettlerTask {
    async fn run(self: Arc<Self>, mut receiver: mpsc::UnboundedReceiver<Settlement>) {
        let mut calls = JoinSet::new();
        let mut settlements = Vec::new();
        let mut extend_at = self.next_extension();
        loop {
            tokio::select! {
                count = receiver.recv_many(&mut settlements, BATCH_MAX), if calls.len() < CALLS_MAX => {
                    if count == 0 {
                        break;
                    }
                    collect_batch(&mut receiver, &mut settlements).await;
                    self.start_calls(settlements.drain(..), &mut calls).await;
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
        settlements: impl Iterator<Item = Settlement>,
        calls: &mut JoinSet<()>,
    ) {
        let (mut deleted, mut changed, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
        for settlement in settlements {
            match settlement {
                Settlement::Delete(handle, sender) => deleted.push((handle, sender)),
                Settlement::ChangeVisibility(handle, after, sender) => {
                    changed.push(((handle, after), sender));
                }
                Settlement::Flush(sender) => flushed.push(sender),
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
        if !flushed.is_empty() {
            while calls.join_next().await.is_some() {}
        }
        for sender in flushed {
            let _ = sender.send(());
        }
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
            match sender {
                Some(sender) => _ = sender.send(settled),
                None => {
                    if let Err(error) = settled {
                        tracing::debug!(queue = self.queue, %error, "a dropped delivery was not requeued");
                    }
                }
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

/// Collects further settlements of tasks that are ready: one call for ten instead of many for a few.
async fn collect_batch(
    receiver: &mut mpsc::UnboundedReceiver<Settlement>,
    settlements: &mut Vec<Settlement>,
) {
    for _ in 0..YIELDS_MAX {
        tokio::task::yield_now().await;
        let before = settlements.len();
        while settlements.len() < BATCH_MAX
            && let Ok(settlement) = receiver.try_recv()
        {
            settlements.push(settlement);
        }
        if settlements.len() == before {
            return;
        }
    }
}

fn settler_stopped() -> Error {
    Error::unavailable(
        "the settler of the consumer has stopped; the message will be delivered again",
    )
}
