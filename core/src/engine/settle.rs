//! Settlement: stores what the end of an attempt leads to. This file decides and reports; the receipt of the
//! message (`receipt.rs`) settles. Leases are settled in batches (`writer.rs`), deliveries of brokers one by one.
//! A settlement has its own deadline (`deadline.rs`) and never uses the attempt's cancellation.

mod deadline;
mod inline_retry;
mod reporting;
mod writer;

use std::sync::Arc;

pub(super) use deadline::within_settle_timeout;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
pub(super) use reporting::emit_lease_lost;
use reporting::{emit_attempt_end, report_attempt};
use tokio::sync::oneshot;
pub(super) use writer::{PendingSettlement, SettlementWriter};

use super::Process;
use super::in_flight::InFlightGuard;
use super::receipt::{ReceivedMessage, UnstartedMessage};
use super::started_attempt::StartedAttempt;
use crate::error::{Error, Result};
use crate::handler::Context;
use crate::model::{Execution, Message, Recording};
use crate::policy::{
    AttemptDecision, AttemptEnd, AttemptFacts, EffectiveHandlerOptions, Verdict, judge,
};
use crate::storage::SettleResult;

/// Settles ended attempts. Every attempt has a copy, so a copy is only one reference count.
#[derive(Clone)]
pub(crate) struct Settler {
    shared: Arc<Shared>,
}

struct Shared {
    process: Arc<Process>,
    writer: SettlementWriter,
}

/// Channel to a caller that waits for the result of a settlement.
type ResultSender = oneshot::Sender<SettleResult>;

/// Decision about an attempt whose end is reported only when the storage has returned, and when it ended.
type UnreportedEnd = Box<(AttemptDecision, Arc<Execution>, Timestamp)>;

/// An attempt that has ended, for its receipt to settle.
pub(crate) struct EndedAttempt {
    pub(crate) message: Arc<Message>,
    pub(crate) decision: AttemptDecision,
    pub(crate) execution: Arc<Execution>,
    /// Whether the execution is recorded in the history.
    pub(crate) is_recorded: bool,
    /// Messages that follow it.
    pub(crate) then: Vec<Arc<Message>>,
    pub(crate) now: Timestamp,
    /// Number of inline retries before it.
    pub(crate) inline_retries: u32,
    pub(crate) context: Context,
    pub(crate) answer: Option<ResultSender>,
    pub(crate) unreported: Option<UnreportedEnd>,
    pub(crate) in_flight_guard: InFlightGuard,
}

impl Settler {
    /// Creates a settler and its writer loop; the loop ends when every copy of the settler is dropped.
    pub(crate) fn new(process: Arc<Process>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (writer, written) = SettlementWriter::new(process.clone());
        let shared = Shared { process, writer };
        (Self { shared: Arc::new(shared) }, written)
    }

    /// Returns the process it settles for.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.shared.process
    }

    /// Returns the writer of the settlements of leases.
    pub(super) fn writer(&self) -> &SettlementWriter {
        &self.shared.writer
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
        let report = started.received.receipt.possible_end(process, report);
        let (decision, is_released) = decide(process, &started, report, now);
        let StartedAttempt {
            received,
            handler_options,
            context,
            in_flight_guard,
            inline_retries,
            ..
        } = *started;
        let execution = Arc::new(context.execution(decision.ending, decision.note.clone(), now));
        // Nothing was attempted, so the history has no execution of it.
        let is_recorded = !is_released && is_recorded(&handler_options, &decision);
        let mut unreported = None;
        if is_released {
            emit_attempt_end(process, &context, &decision, now);
        } else if context.settles() && decision.verdict != Verdict::Done {
            // Only when the storage returns it is known whether the handler's own transaction was committed.
            unreported = Some(Box::new((decision.clone(), execution.clone(), now)));
        } else {
            report_attempt(process, &context, &decision, &execution, now);
        }
        let ended = EndedAttempt {
            then: context.follow_ups(&decision.verdict, &execution),
            message: received.message,
            decision,
            execution,
            is_recorded,
            now,
            inline_retries,
            context,
            answer,
            unreported,
            in_flight_guard,
        };
        received.receipt.settle(self, ended)
    }

    /// Releases a message that was not started, due at another instant.
    pub(crate) async fn release(&self, started: Box<StartedAttempt>, due_at: Timestamp) {
        let StartedAttempt { received, context, in_flight_guard, .. } = *started;
        let unstarted = UnstartedMessage { context, in_flight_guard, due_at };
        if let Some(rest) = received.receipt.release(self, unstarted) {
            rest.await;
        }
    }
}

/// Decides about an attempt that has ended; returns also whether its message is released because it has no handler.
fn decide(
    process: &Process,
    started: &StartedAttempt,
    report: AttemptEnd,
    now: Timestamp,
) -> (AttemptDecision, bool) {
    let is_unhandled = matches!(report, AttemptEnd::NoHandler { .. });
    let decision = judge(&attempt_facts(&started.received, &started.handler_options, now), report);
    let is_released = is_unhandled && decision.verdict.again_at().is_some();
    if is_unhandled {
        let note = decision.note.as_deref().filter(|_| is_released);
        process.runner.registry.unhandled.record(started.context.message_id(), note);
    }
    (decision, is_released)
}

fn is_recorded(handler_options: &EffectiveHandlerOptions, decision: &AttemptDecision) -> bool {
    match handler_options.recording {
        Recording::All => true,
        Recording::Failures => decision.ending.is_failure(),
        Recording::None => false,
    }
}

fn attempt_facts<'a>(
    received: &'a ReceivedMessage,
    handler_options: &'a EffectiveHandlerOptions,
    now: Timestamp,
) -> AttemptFacts<'a> {
    AttemptFacts {
        message: &received.message,
        attempt: received.attempt,
        crashes: received.crashes,
        snoozes: received.snoozes,
        handler_options,
        cancel_requested: received.cancel_requested,
        now,
    }
}
