//! Settlement writer: settles leases at their storages in batches, each verdict with its execution in one step.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::reporting::{emit_lease_lost, report_attempt, report_settled_by_handler};
use super::{ResultSender, UnreportedEnd};
use crate::clock::{Clock, within};
use crate::engine::Process;
use crate::engine::dead_message::DeadMessage;
use crate::engine::in_flight::InFlightGuard;
use crate::error::Error;
use crate::event::Event;
use crate::handler::Context;
use crate::model::Ending;
use crate::model::time::add;
use crate::policy::{Verdict, backoff};
use crate::storage::{SettleResult, Settlement, Storage};

/// Largest number of settlements in one call of a storage.
const BATCH_MAX: usize = 1_024;
/// Largest number of waiting settlements; beyond it attempts wait, and with them the claims.
const BACKLOG_MAX: usize = 4 * BATCH_MAX;

/// Writer of the settlements of one process.
pub(in crate::engine) struct SettlementWriter {
    backlog: mpsc::Sender<PendingSettlement>,
}

impl SettlementWriter {
    /// Creates a writer and its loop; the loop ends when the writer is dropped.
    pub(super) fn new(process: Arc<Process>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (backlog, pending) = mpsc::channel(BACKLOG_MAX);
        (Self { backlog }, write(process, pending))
    }

    /// Writes a settlement with the next batch; returns a future when the backlog is full. The loop is gone only
    /// when the process has ended; the lease then expires and the rescuer takes over.
    pub(in crate::engine) fn write_later(
        &self,
        pending: PendingSettlement,
    ) -> Option<BoxFuture<'_, ()>> {
        match self.backlog.try_send(pending) {
            Err(TrySendError::Full(pending)) => {
                Some(Box::pin(async move { drop(self.backlog.send(pending).await) }))
            }
            Ok(()) | Err(TrySendError::Closed(_)) => None,
        }
    }
}

/// A settlement that waits for its storage.
pub(in crate::engine) struct PendingSettlement {
    pub(in crate::engine) settlement: Settlement,
    pub(in crate::engine) storage: Arc<dyn Storage>,
    pub(in crate::engine) context: Context,
    pub(in crate::engine) answer: Option<ResultSender>,
    /// End of the attempt and its instant, reported only when the storage has returned.
    pub(in crate::engine) unreported: Option<UnreportedEnd>,
    pub(in crate::engine) _in_flight_guard: InFlightGuard,
}

/// Writes settlements in batches until every settler is gone.
async fn write(process: Arc<Process>, mut pending: mpsc::Receiver<PendingSettlement>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(first) = pending.recv().await {
        batch.push(first);
        // The sender would otherwise wake this task at once, for one settlement. Letting the attempts that are
        // ready run first makes one write of many; when there are none it costs nothing.
        tokio::task::yield_now().await;
        while batch.len() < BATCH_MAX
            && let Ok(next) = pending.try_recv()
        {
            batch.push(next);
        }
        while let Some(first) = batch.first() {
            let storage = first.storage.clone();
            let same = |pending: &PendingSettlement| Arc::ptr_eq(&pending.storage, &storage);
            // Nearly always one storage; a stored transport may bring its own.
            let (now, later) = if batch.iter().all(same) {
                (std::mem::take(&mut batch), Vec::new())
            } else {
                batch.drain(..).partition(same)
            };
            batch = later;
            write_batch(&process, &*storage, now).await;
        }
    }
}

/// Settles a batch; retries failed calls for `settle_timeout`, which also limits each call. Where a cancel was
/// requested meanwhile, the message is settled as cancelled.
async fn write_batch(process: &Process, storage: &dyn Storage, mut batch: Vec<PendingSettlement>) {
    let timeout = process.env.options.settle_timeout;
    let give_up_at = add(process.now(), timeout);
    let mut failures = 0;
    while !batch.is_empty() {
        let now = process.now();
        let settlements = batch.iter().map(|pending| pending.settlement.clone()).collect();
        let settling = storage.settle(settlements, now);
        match within(&*process.env.clock, add(now, timeout), settling).await {
            Some(Ok(answers)) => batch = handle_results(process, batch, &answers),
            Some(Err(_)) if now >= give_up_at => return give_up(process, &batch),
            None => {
                process.env.events.emit(Event::ServiceFailed {
                    service: "settle".to_owned(),
                    error: settle_timeout_error(timeout).to_string(),
                    again_at: process.now(),
                });
                return give_up(process, &batch);
            }
            Some(Err(error)) => {
                failures += 1;
                let again_at = add(now, backoff(failures));
                process.env.events.emit(Event::ServiceFailed {
                    service: "settle".to_owned(),
                    error: error.to_string(),
                    again_at,
                });
                process.env.clock.sleep_until(again_at).await;
            }
        }
    }
}

/// Leaves settlements to the rescuer: their leases run out, and the messages may run again.
fn give_up(process: &Process, batch: &[PendingSettlement]) {
    for pending in batch {
        emit_lease_lost(process, &pending.context);
    }
}

/// Returns the error of a storage that does not return.
fn settle_timeout_error(timeout: Duration) -> Error {
    Error::unavailable(format!(
        "the storage did not settle within settle_timeout ({timeout:?}); the messages are handled again \
         when their leases end"
    ))
}

/// Handles the results of the storage; returns the settlements that have to be sent again.
fn handle_results(
    process: &Process,
    batch: Vec<PendingSettlement>,
    answers: &[SettleResult],
) -> Vec<PendingSettlement> {
    let mut unsettled = Vec::new();
    for (mut pending, answer) in batch.into_iter().zip(answers) {
        match answer {
            SettleResult::Applied => {
                if let Some(unreported) = pending.unreported.take() {
                    let (decision, execution, now) = *unreported;
                    report_attempt(process, &pending.context, &decision, &execution, now);
                }
                report_if_dead(process, &pending);
            }
            // The handler's own transaction has settled the message, as intended.
            SettleResult::Lost if pending.context.settles() => {
                report_settled_by_handler(process, &mut pending);
            }
            SettleResult::Lost => emit_lease_lost(process, &pending.context),
            SettleResult::CancelRequested => {
                pending.settlement.verdict = Verdict::Cancelled;
                if let Some(execution) = &mut pending.settlement.execution {
                    Arc::make_mut(execution).ending = Ending::Cancelled;
                }
                unsettled.push(pending);
                continue;
            }
        }
        if let Some(sender) = pending.answer.take() {
            // The caller may be gone.
            let _ = sender.send(*answer);
        }
    }
    unsettled
}

fn report_if_dead(process: &Process, pending: &PendingSettlement) {
    if let Verdict::Dead { reason, error } = &pending.settlement.verdict {
        let execution = pending.settlement.execution.as_deref();
        process.report_dead_message(DeadMessage {
            message: &pending.context.parts().message,
            attempts: pending.context.attempt(),
            reason: *reason,
            error: error.clone(),
            log: execution.and_then(|execution| execution.log.as_deref()),
        });
    }
}
