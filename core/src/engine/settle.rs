//! Settlement: stores what the end of an attempt leads to. Claimed messages are settled at their storage in
//! batches, each verdict with its execution in one step; broker deliveries are settled one by one in
//! `broker.rs`. A settlement has its own deadline (`deadline.rs`) and never uses the attempt's cancellation.

mod broker;
mod deadline;
mod inline_retry;
mod packing;

pub(crate) use broker::SubscriptionOrigin;
pub(crate) use deadline::within_settle_timeout;
pub(crate) use packing::unpack;

use std::sync::Arc;
use std::time::Duration;

use broker::BrokerSettlement;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use packing::snoozes_of;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::Process;
use super::dead_message::DeadMessage;
use super::in_flight::InFlightGuard;
use super::started_attempt::StartedAttempt;
use crate::clock::{Clock, within};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::{Cause, Context};
use crate::model::time::{add, between};
use crate::model::{Ending, Execution, Recording};
use crate::policy::{
    AgainReason, AttemptDecision, AttemptEnd, AttemptFacts, EffectiveHandlerOptions, Verdict,
    backoff, judge,
};
use crate::storage::{SettleResult, Settlement, Storage};
use crate::transport::{Acknowledge, Delivery, LeaseReceipt, Receipt};

/// Largest number of settlements in one call of a storage.
const BATCH_MAX: usize = 1_024;
/// Largest number of waiting settlements; beyond it attempts wait, and with them the claims.
const BACKLOG_MAX: usize = 4 * BATCH_MAX;

/// Settles ended attempts. Every attempt has a copy, so a copy is only one reference count.
#[derive(Clone)]
pub(crate) struct Settler {
    shared: Arc<Shared>,
}

struct Shared {
    process: Arc<Process>,
    backlog: mpsc::Sender<PendingSettlement>,
    origin: Option<SubscriptionOrigin>,
}

/// A settlement that waits for its storage.
struct PendingSettlement {
    settlement: Settlement,
    storage: Arc<dyn Storage>,
    context: Context,
    /// Channel to a caller that waits for the result.
    answer: Option<ResultSender>,
    /// End of the attempt and its instant, reported only when the storage has returned.
    unreported: Option<Box<(AttemptDecision, Arc<Execution>, Timestamp)>>,
    _in_flight_guard: InFlightGuard,
}

type ResultSender = oneshot::Sender<SettleResult>;

impl Settler {
    /// Creates a settler and its writer loop; the loop ends when every copy of the settler is dropped.
    pub(crate) fn new(process: Arc<Process>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (backlog, pending) = mpsc::channel(BACKLOG_MAX);
        let writer = write(process.clone(), pending);
        let shared = Shared { process, backlog, origin: None };
        (Self { shared: Arc::new(shared) }, writer)
    }

    /// Returns a settler for the deliveries of a subscription.
    pub(crate) fn of(&self, origin: SubscriptionOrigin) -> Self {
        let (process, backlog) = (self.process().clone(), self.shared.backlog.clone());
        Self { shared: Arc::new(Shared { process, backlog, origin: Some(origin) }) }
    }

    /// Returns the process it settles for.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.shared.process
    }

    /// Settles one attempt. Waits for a broker, and while the backlog is full.
    pub(crate) async fn settle(&self, started: Box<StartedAttempt>, report: AttemptEnd) {
        if let Some(rest) = self.begin_settling(started, report, None) {
            rest.await;
        }
    }

    /// Settles an attempt of a claimed message, waits until it is stored, and returns the result.
    pub(crate) async fn settle_and_wait(
        &self,
        started: Box<StartedAttempt>,
        report: AttemptEnd,
    ) -> Result<SettleResult> {
        let message = started.context.message_id();
        let (answer, result) = oneshot::channel();
        if let Some(rest) = self.begin_settling(started, report, Some(answer)) {
            rest.await;
        }
        result.await.map_err(|_| {
            Error::unavailable(format!(
                "the settlement of the message {message} could not be stored; try again"
            ))
        })
    }

    /// Settles one attempt as far as possible without waiting; returns a future for the rest. Not asynchronous
    /// itself, so that the task of an attempt reserves no space for the locals of this function.
    fn begin_settling(
        &self,
        started: Box<StartedAttempt>,
        report: AttemptEnd,
        answer: Option<ResultSender>,
    ) -> Option<BoxFuture<'_, ()>> {
        let process = &**self.process();
        let now = process.now();
        let report =
            if started.extras.acknowledged { self.without_requeue(report) } else { report };
        let (decision, is_released) = decide(process, &started, report, now);
        let StartedAttempt { delivery, handler_options, context, in_flight_guard, extras } =
            *started;
        let execution = Arc::new(context.execution(decision.ending, decision.note.clone(), now));
        // Nothing was attempted, so the history has no execution of it.
        let recorded = !is_released && is_recorded(&handler_options, &decision);
        let mut unreported = None;
        if is_released {
            emit_attempt_end(process, &context, &decision, now);
        } else if context.settles() && decision.verdict != Verdict::Done {
            // Only when the storage returns it is known whether the handler's own transaction was committed.
            unreported = Some(Box::new((decision.clone(), execution.clone(), now)));
        } else {
            report_attempt(process, &context, &decision, &execution, now);
        }
        match delivery.receipt {
            Receipt::Lease(receipt) => {
                let LeaseReceipt { claimed, storage } = *receipt;
                let (lease, verdict) = (claimed.lease_ref(), decision.verdict);
                let then = context.follow_ups(&verdict, &execution);
                let settlement = Settlement {
                    then,
                    ..Settlement::new(lease, verdict, recorded.then_some(execution))
                };
                self.write_later(PendingSettlement {
                    settlement,
                    storage,
                    context,
                    answer,
                    unreported,
                    _in_flight_guard: in_flight_guard,
                })
            }
            Receipt::Broker(receipt) => {
                let message = delivery.message;
                let origin = self.shared.origin.as_ref();
                let then = context.follow_ups(&decision.verdict, &execution);
                let storing_until = add(now, process.env.options.settle_timeout / 2);
                let broker = BrokerSettlement {
                    process,
                    origin,
                    message,
                    recorded,
                    then,
                    extras,
                    storing_until,
                };
                Some(Box::pin(async move {
                    settle_with_broker(&broker, receipt, &decision, execution, now).await;
                    // In flight until here.
                    drop((context, in_flight_guard));
                }))
            }
        }
    }

    /// Releases a message that was claimed and not started, due at another instant.
    pub(crate) async fn release(&self, started: Box<StartedAttempt>, due_at: Timestamp) {
        let StartedAttempt { delivery, context, in_flight_guard, .. } = *started;
        let Receipt::Lease(receipt) = delivery.receipt else { return };
        let LeaseReceipt { claimed, storage } = *receipt;
        let verdict = Verdict::Again {
            due_at,
            attempt: claimed.attempt.saturating_sub(1),
            crashes: claimed.crashes,
            snoozes: claimed.snoozes,
            error: None,
            why: AgainReason::Release,
        };
        let settlement = Settlement::new(claimed.lease_ref(), verdict, None);
        let pending = PendingSettlement {
            settlement,
            storage,
            context,
            answer: None,
            unreported: None,
            _in_flight_guard: in_flight_guard,
        };
        if let Some(rest) = self.write_later(pending) {
            rest.await;
        }
    }

    /// Sends a settlement to the writer; returns a future when the backlog is full. The writer is gone only when
    /// the process has ended; the lease then expires and the rescuer takes over.
    fn write_later(&self, pending: PendingSettlement) -> Option<BoxFuture<'_, ()>> {
        let backlog = &self.shared.backlog;
        match backlog.try_send(pending) {
            Err(TrySendError::Full(pending)) => {
                Some(Box::pin(async move { drop(backlog.send(pending).await) }))
            }
            Ok(()) | Err(TrySendError::Closed(_)) => None,
        }
    }
}

/// Decides about an attempt that has ended; returns also whether its message is released for want of a handler.
fn decide(
    process: &Process,
    started: &StartedAttempt,
    report: AttemptEnd,
    now: Timestamp,
) -> (AttemptDecision, bool) {
    let is_unhandled = matches!(report, AttemptEnd::NoHandler { .. });
    let decision = judge(&attempt_facts(&started.delivery, &started.handler_options, now), report);
    let is_released = is_unhandled && decision.verdict.again_at().is_some();
    if is_unhandled {
        let note = decision.note.as_deref().filter(|_| is_released);
        process.runner.registry.unhandled.record(started.context.message_id(), note);
    }
    (decision, is_released)
}

/// Settles with the broker; a message that stays unsettled is delivered again by it.
async fn settle_with_broker(
    broker: &BrokerSettlement<'_>,
    receipt: Box<dyn Acknowledge>,
    decision: &AttemptDecision,
    execution: Arc<Execution>,
    now: Timestamp,
) {
    let process = broker.process;
    let settling = broker.settle(receipt, decision, execution, now);
    if let Err(error) = within_settle_timeout(process, broker.message.id, settling).await {
        process.env.events.emit(Event::ServiceFailed {
            service: "settle".to_owned(),
            error: error.to_string(),
            again_at: now,
        });
    }
}

fn is_recorded(handler_options: &EffectiveHandlerOptions, decision: &AttemptDecision) -> bool {
    match handler_options.recording {
        Recording::All => true,
        Recording::Failures => decision.ending.is_failure(),
        Recording::None => false,
    }
}

fn attempt_facts<'a>(
    delivery: &'a Delivery,
    handler_options: &'a EffectiveHandlerOptions,
    now: Timestamp,
) -> AttemptFacts<'a> {
    let (crashes, snoozes, cancel_requested) = match &delivery.receipt {
        Receipt::Lease(receipt) => {
            (receipt.claimed.crashes, receipt.claimed.snoozes, receipt.claimed.cancel_requested)
        }
        Receipt::Broker(_) => (0, snoozes_of(&delivery.message), false),
    };
    AttemptFacts {
        message: &delivery.message,
        attempt: delivery.attempt,
        crashes,
        snoozes,
        handler_options,
        cancel_requested,
        now,
    }
}

/// Emits the end of an attempt, calls the hooks, and adds it to the recent runs.
fn report_attempt(
    process: &Process,
    context: &Context,
    decision: &AttemptDecision,
    execution: &Arc<Execution>,
    now: Timestamp,
) {
    emit_attempt_end(process, context, decision, now);
    if decision.ending.is_failure() {
        let again_at = decision.verdict.again_at();
        process.runner.hooks.failed(&context.parts().message, execution, again_at);
    }
    process.runner.recent_runs.push(execution);
}

/// Reports an attempt that its handler has settled itself: it succeeded, and a later failure is an event of its
/// own.
fn report_settled_by_handler(process: &Process, pending: &mut PendingSettlement) {
    let Some(unreported) = pending.unreported.take() else { return };
    let context = &pending.context;
    if context.cancel_cause() == Some(Cause::LeaseLost) {
        return emit_lease_lost(process, context);
    }
    let (late, execution, now) = *unreported;
    let done = AttemptDecision { verdict: Verdict::Done, ending: Ending::Succeeded, note: None };
    let execution = Arc::new(Execution {
        ending: done.ending,
        note: done.note.clone(),
        ..Execution::clone(&execution)
    });
    report_attempt(process, context, &done, &execution, now);
    process.env.events.emit(Event::AttemptErrorAfterSettle {
        message: context.message_id(),
        execution: context.execution_id(),
        topic: context.topic().clone(),
        job: context.job().cloned(),
        attempt: context.attempt(),
        error: late.note,
    });
}

/// Emits the end of an attempt.
fn emit_attempt_end(
    process: &Process,
    context: &Context,
    decision: &AttemptDecision,
    now: Timestamp,
) {
    let (message, execution, topic) =
        (context.message_id(), context.execution_id(), context.topic().clone());
    let (job, nominal) = (context.job().cloned(), context.nominal());
    let (attempt, took) = (context.attempt(), between(context.started_at(), now));
    let again_at = decision.verdict.again_at();
    process.env.events.emit(match decision.ending {
        Ending::Succeeded => {
            Event::AttemptSucceeded { message, execution, topic, job, nominal, attempt, took }
        }
        Ending::TimedOut => Event::AttemptTimedOut {
            message,
            execution,
            topic,
            job,
            nominal,
            attempt,
            took,
            again_at,
        },
        ending if ending.is_failure() => Event::AttemptFailed {
            message,
            execution,
            topic,
            job,
            nominal,
            attempt,
            took,
            ending: ending.as_str(),
            error: decision.note.clone(),
            again_at,
        },
        ending => {
            let ending = ending.as_str();
            Event::AttemptYielded { message, execution, topic, job, nominal, attempt, took, ending }
        }
    });
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

fn emit_lease_lost(process: &Process, context: &Context) {
    process
        .env
        .events
        .emit(Event::LeaseLost { message: context.message_id(), topic: context.topic().clone() });
}
