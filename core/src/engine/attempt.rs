//! Attempt: finds the handler, reads the body, runs the middleware chain under a timeout and a panic guard,
//! and returns how it ended. A handler that is asked to stop gets the grace period and is then dropped.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use tracing::Instrument;

use super::job_lock::with_job_lock;
use super::receipt::ReceivedMessage;
use super::started_attempt::StartedAttempt;
use super::unhandled::waited;
use super::{Process, Registration};
use crate::clock::{Clock, within};
use crate::event::Event;
use crate::handler::{
    AttemptReports, CancelCause, Context, ContextParts, HandlerError, HandlerResult, Outcome,
    Signal, Slots, conclude,
};
use crate::middleware::NextHandle;
use crate::model::time::{add, between};
use crate::model::{ExecutionId, Message, ProcessId};
use crate::policy::{AttemptEnd, EffectiveHandlerOptions, is_expired, timeout};
use crate::sending::Publisher;

/// Process and execution of an attempt, and when it started.
pub(crate) struct AttemptIdentity {
    pub(crate) process: ProcessId,
    pub(crate) execution: ExecutionId,
    pub(crate) started_at: Timestamp,
    /// The pool of its slot, when this process runs the handler.
    pub(crate) slots: Option<Arc<Slots>>,
}

impl AttemptIdentity {
    /// Returns the identity of an attempt that this process starts now.
    pub(super) fn local(process: &Process, slots: &Arc<Slots>) -> Self {
        let now = process.now();
        let (execution, slots) = (process.env.execution_id(now), Some(slots.clone()));
        Self { process: process.env.id, execution, started_at: now, slots }
    }
}

/// Builds the handler context of a message.
pub(super) fn context(
    process: &Process,
    received: &ReceivedMessage,
    handler_options: &EffectiveHandlerOptions,
    identity: AttemptIdentity,
) -> Context {
    let lease = received.lease.as_ref();
    Context::new(ContextParts {
        message: received.message.clone(),
        execution: identity.execution,
        attempt: received.attempt,
        attempts_max: handler_options.retry.attempts_max,
        crashes: received.crashes,
        started_at: identity.started_at,
        due_at: received.due_at,
        process: identity.process,
        lease: lease.map(|lease| lease.lease_ref),
        lease_until: Mutex::new(lease.map(|lease| lease.granted_until)),
        recording: handler_options.recording,
        settles: AtomicBool::new(false),
        cancellation: Signal::default(),
        publisher: Publisher::new(process.sender.clone()),
        events: process.env.events.clone(),
        published: AtomicU32::new(0),
        checkpoint: received.checkpoint.clone(),
        result: Mutex::new(None),
        reports: AttemptReports::default(),
        slots: identity.slots,
    })
}

/// Runs the handler once, inside its own span. Returns `None` when the lease was lost meanwhile.
pub(crate) async fn attempt(process: &Process, started: &StartedAttempt) -> Option<AttemptEnd> {
    let span = span(started);
    let report = run(process, started).instrument(span.clone()).await;
    if let Some(report) = &report {
        span.record("success", *report == AttemptEnd::Done);
    }
    report
}

/// Creates the span of an attempt. Its field names are stable; without a subscriber no field is evaluated.
fn span(started: &StartedAttempt) -> tracing::Span {
    let StartedAttempt { received, context, .. } = started;
    let job = context.job();
    tracing::info_span!(
        target: "punctual",
        "attempt",
        topic = %received.message.topic,
        job = job.map(tracing::field::display),
        message = %received.message.id,
        execution = %context.execution_id(),
        attempt = received.attempt,
        attempts_max = context.attempts_max(),
        nominal = context.nominal().map(tracing::field::display),
        due_at = %received.due_at,
        correlation = %context.correlation(),
        success = tracing::field::Empty,
    )
}

async fn run(process: &Process, started: &StartedAttempt) -> Option<AttemptEnd> {
    let StartedAttempt { received, handler_options, context, .. } = started;
    let message = &received.message;
    if let Some(report) = start_attempt(process, started) {
        return Some(report);
    }
    let own = started.registration.as_deref();
    match own.or_else(|| process.runner.registry.get(&message.topic)) {
        Some(registration) => {
            handle_with(process, registration, message, handler_options, context).await
        }
        // Boxed, so that attempts with a handler do not carry the space for it.
        None => Some(AttemptEnd::NoHandler { waited: Box::pin(waited(process, received)).await }),
    }
}

/// Emits that an attempt started. Returns its end when no handler may run: expired, unreadable, or too many
/// deliveries.
pub(super) fn start_attempt(process: &Process, started: &StartedAttempt) -> Option<AttemptEnd> {
    let StartedAttempt { received, handler_options, context, .. } = started;
    let message = &received.message;
    process.env.events.emit(Event::AttemptStarted {
        message: message.id,
        execution: context.execution_id(),
        topic: message.topic.clone(),
        job: context.job().cloned(),
        nominal: context.nominal(),
        attempt: received.attempt,
        late: between(received.due_at, context.started_at()),
    });
    if is_expired(message, handler_options, context.started_at()) {
        return Some(AttemptEnd::Expired);
    }
    if let Some(error) = &received.poison {
        return Some(AttemptEnd::Poison { error: Arc::from(error.as_str()) });
    }
    is_spent(received, handler_options).then_some(AttemptEnd::Spent)
}

/// Returns whether a message is delivered once more than it may be handled, because the process that had it
/// last was lost. For messages with a lease the rescuer decides that.
fn is_spent(received: &ReceivedMessage, handler_options: &EffectiveHandlerOptions) -> bool {
    let before = received.attempt.saturating_sub(1);
    received.lease.is_none() && before > 0 && handler_options.retry.is_exhausted(before)
}

/// Finds the handler of a message that was not put off before, and runs it under its guards.
pub(crate) async fn handle(
    process: &Process,
    message: &Message,
    handler_options: &EffectiveHandlerOptions,
    context: &Context,
) -> Option<AttemptEnd> {
    let Some(registration) = process.runner.registry.get(&message.topic) else {
        return Some(AttemptEnd::NoHandler { waited: Duration::ZERO });
    };
    handle_with(process, registration, message, handler_options, context).await
}

/// Runs a handler under its guards: panic, timeout, cancellation and job lock.
async fn handle_with(
    process: &Process,
    registration: &Registration,
    message: &Message,
    handler_options: &EffectiveHandlerOptions,
    context: &Context,
) -> Option<AttemptEnd> {
    // Reading a body runs the payload type's own code, which may panic like any other.
    let prepared =
        std::panic::catch_unwind(AssertUnwindSafe(|| registration.handler.prepare(message)));
    let prepared = match prepared {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(error)) => return Some(AttemptEnd::Poison { error: Arc::from(error.to_string()) }),
        Err(panic) => return Some(AttemptEnd::Panicked { error: panic_text(&*panic) }),
    };
    let chain = NextHandle::new(&process.sender.middleware, prepared).run(context.clone());
    let guarded = AssertUnwindSafe(chain).catch_unwind().map(|caught| match caught {
        Ok(result) => end_of_attempt(process, result, context, registration.must_report),
        Err(panic) => AttemptEnd::Panicked { error: panic_text(&*panic) },
    });
    // Pinned here and lent, so that the task carries its space once.
    let guarded = std::pin::pin!(guarded);
    let supervised = std::pin::pin!(supervise(process, handler_options, context, guarded));
    if process.runner.locks.is_none() {
        return supervised.await;
    }
    // Boxed, so that attempts without a lock do not carry the space for one.
    Box::pin(with_job_lock(process, context, handler_options, supervised)).await
}

/// Returns the end of an attempt from what the handler returned and reported.
pub(super) fn end_of_attempt(
    process: &Process,
    result: HandlerResult,
    context: &Context,
    must_report: bool,
) -> AttemptEnd {
    let by_outcome = result.as_ref().err().and_then(|error| {
        let outcome = process.runner.rules.outcome(error)?;
        Some(end_of_outcome(outcome, error))
    });
    by_outcome.unwrap_or_else(|| conclude(result, context.reported(), must_report))
}

/// Returns the end of an attempt whose error carries an outcome, by itself or by a rule.
fn end_of_outcome(outcome: Outcome, error: &HandlerError) -> AttemptEnd {
    let text = error.text();
    match outcome {
        Outcome::Done => AttemptEnd::Done,
        Outcome::RetryAfter(wait) => AttemptEnd::RetryAfter { wait, note: Some(text.clone()) },
        Outcome::Snooze(wait) => AttemptEnd::Snooze { wait },
        Outcome::Discard(reason) if reason.is_empty() => {
            AttemptEnd::Discard { reason: text.clone() }
        }
        Outcome::Discard(reason) => AttemptEnd::Discard { reason: Arc::from(reason) },
        Outcome::Cancel => AttemptEnd::Cancel,
    }
}

/// Runs the handler until it is done, or until the grace period after a request to stop is over.
async fn supervise(
    process: &Process,
    handler_options: &EffectiveHandlerOptions,
    context: &Context,
    mut work: Pin<&mut impl Future<Output = AttemptEnd>>,
) -> Option<AttemptEnd> {
    let clock: &dyn Clock = &*process.env.clock;
    let (limit, deadline) = deadline(process, handler_options, context.started_at()).unzip();
    let cause = tokio::select! {
        biased;
        report = &mut work => return match context.cancel_cause() {
            None => Some(report),
            // The handler saw the cancellation before this task did.
            Some(cause) => end_after_cancel(cause, limit, Some(report)),
        },
        cause = context.cancelled() => cause,
        () = deadline_passed(clock, deadline) => {
            context.parts().cancellation.cancel(CancelCause::Timeout);
            CancelCause::Timeout
        }
    };
    let finished = within(clock, add(clock.now(), process.env.options.cancel_timeout), work).await;
    end_after_cancel(cause, limit, finished)
}

/// Returns the timeout and the deadline of an attempt, if it has any.
pub(super) fn deadline(
    process: &Process,
    handler_options: &EffectiveHandlerOptions,
    started_at: Timestamp,
) -> Option<(Duration, Timestamp)> {
    let limit = timeout(handler_options.timeout, process.env.options.timeout)?;
    Some((limit, add(started_at, limit)))
}

/// Returns a timeout as the end of an HTTP worker's attempt whose deadline has passed.
pub(super) fn timeout_if_overdue(
    process: &Process,
    handler_options: &EffectiveHandlerOptions,
    started_at: Timestamp,
) -> Option<AttemptEnd> {
    let (limit, deadline) = deadline(process, handler_options, started_at)?;
    let is_late = process.now() > deadline;
    is_late.then(|| end_after_cancel(CancelCause::Timeout, Some(limit), None)).flatten()
}

/// Returns the end of an attempt that was asked to stop, from the cause and from what the handler returned
/// within the grace period.
fn end_after_cancel(
    cause: CancelCause,
    limit: Option<Duration>,
    finished: Option<AttemptEnd>,
) -> Option<AttemptEnd> {
    match (cause, finished) {
        (CancelCause::LeaseLost, _) => None,
        (CancelCause::Timeout, _) => {
            Some(AttemptEnd::TimedOut { timeout: limit.unwrap_or_default() })
        }
        // Work that was finished counts; work that was broken off does not.
        (_, Some(AttemptEnd::Done)) => Some(AttemptEnd::Done),
        (
            CancelCause::Shutdown,
            None | Some(AttemptEnd::Failed { .. } | AttemptEnd::Panicked { .. }),
        ) => Some(AttemptEnd::Interrupted),
        (CancelCause::Shutdown, end) => end,
        (CancelCause::Cancelled, _) => Some(AttemptEnd::CancelledByOperator),
    }
}

async fn deadline_passed(clock: &dyn Clock, deadline: Option<Timestamp>) {
    match deadline {
        Some(instant) => clock.sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is not text");
    Arc::from(format!("the handler panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Trap 6.
    // spec: H-28
    #[test]
    fn timeout_is_a_failure_shutdown_is_not_and_cancel_is_neither() {
        let limit = Some(Duration::from_secs(9));
        let timed_out = Some(AttemptEnd::TimedOut { timeout: Duration::from_secs(9) });
        let failed = || Some(AttemptEnd::Failed { error: Arc::from("stopped") });
        assert_eq!(
            end_after_cancel(CancelCause::Timeout, limit, Some(AttemptEnd::Done)),
            timed_out
        );
        assert_eq!(end_after_cancel(CancelCause::Timeout, limit, None), timed_out);
        assert_eq!(
            end_after_cancel(CancelCause::Shutdown, limit, failed()),
            Some(AttemptEnd::Interrupted)
        );
        assert_eq!(
            end_after_cancel(CancelCause::Shutdown, limit, None),
            Some(AttemptEnd::Interrupted)
        );
        assert_eq!(
            end_after_cancel(CancelCause::Shutdown, limit, Some(AttemptEnd::Done)),
            Some(AttemptEnd::Done)
        );
        assert_eq!(
            end_after_cancel(CancelCause::Cancelled, limit, failed()),
            Some(AttemptEnd::CancelledByOperator)
        );
        assert_eq!(end_after_cancel(CancelCause::LeaseLost, limit, Some(AttemptEnd::Done)), None);
    }
}
