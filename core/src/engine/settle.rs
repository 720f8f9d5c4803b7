//! Settling: what a report leads to, written down. Lease receipts go to their storage in batches,
//! each verdict with its execution in one step; broker deliveries are settled one by one in
//! `broker.rs`. Settling has its own deadline (`deadline.rs`) and never uses the attempt's cancellation.

mod at_once;
mod broker;
mod deadline;
mod packed;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use broker::Broker;
pub(crate) use broker::SubscribedTo;
pub(crate) use deadline::in_time;
use packed::snoozes_of;
pub(crate) use packed::unpack;

use super::given_up::GivenUp;
use super::in_flight::Entered;
use super::{Process, Registration, backoff};
use crate::clock::{Clock, add, between, within};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::{Cause, Context};
use crate::model::{Ending, Execution, Recording};
use crate::policy::{
    AgainReason, AttemptDecision, AttemptEnd, AttemptFacts, EffectiveHandlerOptions, Verdict, judge,
};
use crate::storage::{SettleResult, Settlement, Storage};
use crate::transport::{Delivery, LeaseReceipt, Receipt};

/// The most settlements in one call of a storage.
const BATCH_MAX: usize = 1_024;
/// The most settlements that wait; beyond it attempts wait, and with them the claims.
const BACKLOG_MAX: usize = 4 * BATCH_MAX;

/// An attempt that was started and is not settled yet.
pub(crate) struct Started {
    pub(crate) delivery: Delivery,
    pub(crate) handler_options: Arc<EffectiveHandlerOptions>,
    pub(crate) context: Context,
    pub(crate) entered: Entered,
    pub(crate) extras: Extras,
}

/// What a subscription adds to an attempt.
#[derive(Default)]
pub(crate) struct Extras {
    /// The subscription's own handler.
    pub(crate) registration: Option<Arc<Registration>>,
    /// How often it was tried again on the spot.
    pub(crate) inline: u32,
    /// Whether it was acknowledged before it was handled, so that there is no way back.
    pub(crate) acknowledged: bool,
}

/// Takes ended attempts and settles them. Every attempt has one, so a copy costs one count and no more.
#[derive(Clone)]
pub(crate) struct Settler {
    shared: Arc<Shared>,
}

struct Shared {
    process: Arc<Process>,
    backlog: mpsc::Sender<Waiting>,
    subscribed: Option<SubscribedTo>,
}

/// A settlement on its way to its storage.
struct Waiting {
    settlement: Settlement,
    storage: Arc<dyn Storage>,
    context: Context,
    /// Who wants to know what became of it.
    answer: Option<Answer>,
    /// What is told when the storage has returned: how the attempt ended, and when.
    untold: Option<Box<(AttemptDecision, Arc<Execution>, Timestamp)>>,
    _entered: Entered,
}

type Answer = oneshot::Sender<SettleResult>;

impl Settler {
    /// A settler and the loop that does the writing; the loop ends when every settler is gone.
    pub(crate) fn new(process: Arc<Process>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (backlog, waiting) = mpsc::channel(BACKLOG_MAX);
        let writer = write(process.clone(), waiting);
        let shared = Shared { process, backlog, subscribed: None };
        (Self { shared: Arc::new(shared) }, writer)
    }

    /// The same for the deliveries of a subscription.
    pub(crate) fn of(&self, subscribed: SubscribedTo) -> Self {
        let (process, backlog) = (self.process().clone(), self.shared.backlog.clone());
        Self { shared: Arc::new(Shared { process, backlog, subscribed: Some(subscribed) }) }
    }

    /// The process it settles for.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.shared.process
    }

    /// Settles one attempt. Waits for brokers, and when the backlog is full.
    pub(crate) async fn settle(&self, started: Box<Started>, report: AttemptEnd) {
        if let Some(rest) = self.settle_now(started, report, None) {
            rest.await;
        }
    }

    /// The same for an attempt of a claimed message, and waits until it is written down.
    pub(crate) async fn settled(
        &self,
        started: Box<Started>,
        report: AttemptEnd,
    ) -> Result<SettleResult> {
        let message = started.context.message_id();
        let (answer, told) = oneshot::channel();
        if let Some(rest) = self.settle_now(started, report, Some(answer)) {
            rest.await;
        }
        told.await.map_err(|_| {
            Error::unavailable(format!(
                "what became of the message {message} could not be stored; try again"
            ))
        })
    }

    /// Settles one attempt as far as that goes without waiting; answers what is left. Not asynchronous
    /// itself, so that the task of an attempt carries no space for what is put together here.
    #[expect(
        clippy::boxed_local,
        reason = "it comes boxed, and unboxed here it is not carried by the task"
    )]
    fn settle_now(
        &self,
        started: Box<Started>,
        report: AttemptEnd,
        answer: Option<Answer>,
    ) -> Option<BoxFuture<'_, ()>> {
        let process = &**self.process();
        let now = process.now();
        let report = if started.extras.acknowledged { self.without_return(report) } else { report };
        let is_unhandled = matches!(report, AttemptEnd::NoHandler { .. });
        let judged = judge(&case(&started.delivery, &started.handler_options, now), report);
        let is_given_back = is_unhandled && judged.verdict.again_at().is_some();
        if is_unhandled {
            let note = judged.note.as_deref().filter(|_| is_given_back);
            process.registry.unhandled.judged(started.context.message_id(), note);
        }
        let Started { delivery, handler_options, context, entered, extras } = *started;
        let execution = Arc::new(context.execution(judged.ending, judged.note.clone(), now));
        // Nothing was attempted, so nothing of it goes into the history.
        let recorded = !is_given_back && is_recorded(&handler_options, &judged);
        let mut untold = None;
        if is_given_back {
            tell(process, &context, &judged, now);
        } else if context.settles() && judged.verdict != Verdict::Done {
            // Whether its own transaction was committed is known when the storage returns.
            untold = Some(Box::new((judged.clone(), execution.clone(), now)));
        } else {
            tell_all(process, &context, &judged, &execution, now);
        }
        match delivery.receipt {
            Receipt::Lease(receipt) => {
                let LeaseReceipt { claimed, storage } = *receipt;
                let (lease, verdict) = (claimed.lease_ref(), judged.verdict);
                let then = context.follow(&verdict, &execution);
                let settlement = Settlement {
                    then,
                    ..Settlement::new(lease, verdict, recorded.then_some(execution))
                };
                self.write_later(Waiting {
                    settlement,
                    storage,
                    context,
                    answer,
                    untold,
                    _entered: entered,
                })
            }
            Receipt::Broker(receipt) => {
                let message = delivery.message;
                let subscribed = self.shared.subscribed.as_ref();
                let then = context.follow(&judged.verdict, &execution);
                let storing_until = add(now, process.options.settle_timeout / 2);
                let broker =
                    Broker { process, subscribed, message, recorded, then, extras, storing_until };
                Some(Box::pin(async move {
                    let settling = broker.settle(receipt, &judged, execution, now);
                    if let Err(error) = in_time(process, broker.message.id, settling).await {
                        // Unsettled means redelivered: the broker still has it.
                        process.events.emit(Event::ServiceFailed {
                            service: "settle".to_owned(),
                            error: error.to_string(),
                            again_at: now,
                        });
                    }
                    // Counted in until here.
                    drop((context, entered));
                }))
            }
        }
    }

    /// Gives a message back that was claimed and not started, due at another instant.
    pub(crate) async fn give_back(&self, started: Box<Started>, due_at: Timestamp) {
        let Started { delivery, context, entered, .. } = *started;
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
        let waiting =
            Waiting { settlement, storage, context, answer: None, untold: None, _entered: entered };
        if let Some(rest) = self.write_later(waiting) {
            rest.await;
        }
    }

    /// Hands a settlement to the writer; answers what to wait for when the backlog is full. The writer is
    /// gone only when the process has ended; the lease then expires and the rescuer takes over.
    fn write_later(&self, waiting: Waiting) -> Option<BoxFuture<'_, ()>> {
        let backlog = &self.shared.backlog;
        match backlog.try_send(waiting) {
            Err(TrySendError::Full(waiting)) => {
                Some(Box::pin(async move { drop(backlog.send(waiting).await) }))
            }
            Ok(()) | Err(TrySendError::Closed(_)) => None,
        }
    }
}

fn is_recorded(handler_options: &EffectiveHandlerOptions, judged: &AttemptDecision) -> bool {
    match handler_options.recording {
        Recording::All => true,
        Recording::Failures => judged.ending.is_failure(),
        Recording::None => false,
    }
}

fn case<'a>(
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

/// Emits what an attempt came to, calls the hooks, and remembers it.
fn tell_all(
    process: &Process,
    context: &Context,
    judged: &AttemptDecision,
    execution: &Arc<Execution>,
    now: Timestamp,
) {
    tell(process, context, judged, now);
    if judged.ending.is_failure() {
        let again_at = judged.verdict.again_at();
        process.hooks.failed(&context.parts().message, execution, again_at);
    }
    process.recent.push(execution);
}

/// Tells of an attempt that its handler has settled itself: it succeeded, and what went wrong afterwards is an
/// event of its own.
fn settled_before(process: &Process, waiting: &mut Waiting) {
    let Some(untold) = waiting.untold.take() else { return };
    let context = &waiting.context;
    if context.cancel_cause() == Some(Cause::LeaseLost) {
        return lost(process, context);
    }
    let (late, execution, now) = *untold;
    let done = AttemptDecision { verdict: Verdict::Done, ending: Ending::Succeeded, note: None };
    let execution = Arc::new(Execution {
        ending: done.ending,
        note: done.note.clone(),
        ..Execution::clone(&execution)
    });
    tell_all(process, context, &done, &execution, now);
    process.events.emit(Event::AttemptErrorAfterSettle {
        message: context.message_id(),
        execution: context.execution_id(),
        topic: context.topic().clone(),
        job: context.job().cloned(),
        attempt: context.attempt(),
        error: late.note,
    });
}

/// Emits what an attempt came to.
fn tell(process: &Process, context: &Context, judged: &AttemptDecision, now: Timestamp) {
    let (message, execution, topic) =
        (context.message_id(), context.execution_id(), context.topic().clone());
    let (job, nominal) = (context.job().cloned(), context.nominal());
    let (attempt, took) = (context.attempt(), between(context.started_at(), now));
    let again_at = judged.verdict.again_at();
    process.events.emit(match judged.ending {
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
            error: judged.note.clone(),
            again_at,
        },
        ending => {
            let ending = ending.as_str();
            Event::AttemptYielded { message, execution, topic, job, nominal, attempt, took, ending }
        }
    });
}

/// Writes settlements in batches until every settler is gone.
async fn write(process: Arc<Process>, mut waiting: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(first) = waiting.recv().await {
        batch.push(first);
        // Whoever wakes us would otherwise have us run at once, for one settlement. Letting the
        // attempts that are ready go first makes one write of many; when there are none it costs nothing.
        tokio::task::yield_now().await;
        while batch.len() < BATCH_MAX
            && let Ok(next) = waiting.try_recv()
        {
            batch.push(next);
        }
        while let Some(first) = batch.first() {
            let storage = first.storage.clone();
            let same = |waiting: &Waiting| Arc::ptr_eq(&waiting.storage, &storage);
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

/// Retries until the storage returns, for `settle_timeout`, which also bounds each call. A requested cancel
/// is decided again.
async fn write_batch(process: &Process, storage: &dyn Storage, mut batch: Vec<Waiting>) {
    let timeout = process.options.settle_timeout;
    let give_up_at = add(process.now(), timeout);
    let mut failures = 0;
    while !batch.is_empty() {
        let now = process.now();
        let settlements = batch.iter().map(|waiting| waiting.settlement.clone()).collect();
        let settling = storage.settle(settlements, now);
        match within(&*process.clock, add(now, timeout), settling).await {
            Some(Ok(answers)) => batch = answered(process, batch, &answers),
            Some(Err(_)) if now >= give_up_at => return give_up(process, &batch),
            None => {
                process.events.emit(Event::ServiceFailed {
                    service: "settle".to_owned(),
                    error: silent(timeout).to_string(),
                    again_at: process.now(),
                });
                return give_up(process, &batch);
            }
            Some(Err(error)) => {
                failures += 1;
                let again_at = add(now, backoff(failures));
                process.events.emit(Event::ServiceFailed {
                    service: "settle".to_owned(),
                    error: error.to_string(),
                    again_at,
                });
                process.clock.sleep_until(again_at).await;
            }
        }
    }
}

/// Leaves settlements to the rescuer: their leases run out, nothing is lost, at most run again.
fn give_up(process: &Process, batch: &[Waiting]) {
    for waiting in batch {
        lost(process, &waiting.context);
    }
}

/// The error of a storage that does not return.
fn silent(timeout: Duration) -> Error {
    Error::unavailable(format!(
        "the storage did not settle within settle_timeout ({timeout:?}); the messages are handled again \
         when their leases end"
    ))
}

/// What is left to settle after the storage answered.
fn answered(process: &Process, batch: Vec<Waiting>, answers: &[SettleResult]) -> Vec<Waiting> {
    let mut left = Vec::new();
    for (mut waiting, answer) in batch.into_iter().zip(answers) {
        match answer {
            SettleResult::Applied => {
                if let Some(untold) = waiting.untold.take() {
                    let (judged, execution, now) = *untold;
                    tell_all(process, &waiting.context, &judged, &execution, now);
                }
                applied(process, &waiting);
            }
            // Gone because the handler's own transaction took it with it: that is what was wanted.
            SettleResult::Lost if waiting.context.settles() => {
                settled_before(process, &mut waiting);
            }
            SettleResult::Lost => lost(process, &waiting.context),
            SettleResult::CancelRequested => {
                waiting.settlement.verdict = Verdict::Cancelled;
                if let Some(execution) = &mut waiting.settlement.execution {
                    Arc::make_mut(execution).ending = Ending::Cancelled;
                }
                left.push(waiting);
                continue;
            }
        }
        if let Some(waits) = waiting.answer.take() {
            // Whoever asked may have left.
            let _ = waits.send(*answer);
        }
    }
    left
}

fn applied(process: &Process, waiting: &Waiting) {
    if let Verdict::Dead { reason, error } = &waiting.settlement.verdict {
        let execution = waiting.settlement.execution.as_deref();
        process.tell_given_up(GivenUp {
            message: &waiting.context.parts().message,
            attempts: waiting.context.attempt(),
            reason: *reason,
            error: error.clone(),
            log: execution.and_then(|execution| execution.log.as_deref()),
        });
    }
}

fn lost(process: &Process, context: &Context) {
    process
        .events
        .emit(Event::LeaseLost { message: context.message_id(), topic: context.topic().clone() });
}
