//! Reporting of attempts: events, hooks and recent runs when an attempt has ended.

use std::sync::Arc;

use jiff::Timestamp;

use super::PendingSettlement;
use crate::engine::Process;
use crate::event::Event;
use crate::handler::{CancelCause, Context};
use crate::model::time::between;
use crate::model::{Ending, Execution};
use crate::policy::{AttemptDecision, Verdict};

/// Emits the end of an attempt, calls the hooks, and adds it to the recent runs.
pub(super) fn report_attempt(
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
pub(super) fn report_settled_by_handler(process: &Process, pending: &mut PendingSettlement) {
    let Some(unreported) = pending.unreported.take() else { return };
    let context = &pending.context;
    if context.cancel_cause() == Some(CancelCause::LeaseLost) {
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
pub(super) fn emit_attempt_end(
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
            Event::AttemptEndedEarly {
                message,
                execution,
                topic,
                job,
                nominal,
                attempt,
                took,
                ending,
            }
        }
    });
}

/// Emits that the lease of an attempt was lost.
pub(in crate::engine) fn emit_lease_lost(process: &Process, context: &Context) {
    process
        .env
        .events
        .emit(Event::LeaseLost { message: context.message_id(), topic: context.topic().clone() });
}
