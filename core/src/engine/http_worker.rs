//! HTTP worker: attempts of processes in any language, which claim, work and report through this process.
//! No attempt is kept here between the calls, so that the next call may reach another process: a settlement
//! needs only the stored record and the ticket, which contains when the attempt started. The same policy as for
//! local attempts decides what a report leads to.

mod assignment;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

pub use self::assignment::{
    AssignedMessage, AttemptTicket, HTTP_WORKER_BATCH_MAX, HTTP_WORKER_LEASE_MAX,
    HTTP_WORKER_TOPICS_MAX, HTTP_WORKER_WAIT_MAX, HttpWorkerClaim, HttpWorkerReport,
};
use super::attempt::{
    AttemptIdentity, deadline, end_of_attempt, start_attempt, timeout_if_overdue,
};
use super::rates::{ClaimRates, RatedClaim, has_rate};
use super::receipt::ReceivedMessage;
use super::started_attempt::StartedAttempt;
use super::worker::first_priority;
use super::{Process, Settler, ensure_alive};
use crate::compression::decompressed_message;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::{Context, HandlerError, Outcome};
use crate::model::time::add;
use crate::model::{ExecutionId, MessageRecord, MessageState, ProcessId};
use crate::policy;
use crate::storage::{Claim, ClaimedMessage, SettleResult, WakeSource};
use crate::transport::LeaseReceipt;

/// State that claims for HTTP workers keep from one to the next.
#[derive(Default)]
pub(crate) struct HttpWorkerState {
    rates: Mutex<ClaimRates>,
    /// Number of claims in a row that returned as many messages as requested.
    full_claims: AtomicU32,
}

/// Claims messages for an HTTP worker; none of a paused queue, and none before the scheduler's first round.
pub(crate) async fn claim(
    process: &Arc<Process>,
    settler: &Settler,
    request: &HttpWorkerClaim,
) -> Result<Vec<AssignedMessage>> {
    let takes_no_claims =
        || process.queues.is_paused(&request.queue) || process.env.stop.is_requested();
    if takes_no_claims() || process.queues.claims_blocked_until(process.now()).is_some() {
        return Ok(Vec::new());
    }
    let now = ensure_alive(process, process.now()).await?;
    let topics = request.filter();
    let source = WakeSource::Topics(request.queue.clone(), topics.clone());
    let next = process.env.storage.next_due(&source).await?;
    if next.is_none_or(|next| next > now) {
        return Ok(Vec::new());
    }
    let until = add(now, request.lease);
    // Before the claim: messages of a worker whose heartbeat has expired are freed at once.
    process.env.storage.heartbeat(request.worker, until, now).await?;
    if takes_no_claims() {
        return Ok(Vec::new());
    }
    let full_claims = &process.http_workers.full_claims;
    let claim = Claim {
        running_max: process.queues.running_max(&request.queue),
        first: first_priority(full_claims.load(Ordering::Relaxed)),
        topics,
        ..Claim::new(request.queue.clone(), request.worker, request.limit, until)
    };
    let claimed = process.env.storage.claim(claim, now).await?;
    if claimed.len() == request.limit {
        full_claims.fetch_add(1, Ordering::Relaxed);
    } else {
        full_claims.store(0, Ordering::Relaxed);
    }
    let mut assigned = Vec::with_capacity(claimed.len());
    for (one, later) in apply_rates(process, claimed, now).await {
        assigned.extend(assign(process, settler, one, later).await);
    }
    Ok(assigned)
}

/// Returns the claimed messages, each with the instant at which it may start when that is not now.
async fn apply_rates(
    process: &Process,
    claimed: Vec<ClaimedMessage>,
    now: Timestamp,
) -> Vec<RatedClaim> {
    if !claimed.iter().any(has_rate) {
        return claimed.into_iter().map(|one| (one, None)).collect();
    }
    let shared = || process.http_workers.rates.lock().unwrap_or_else(PoisonError::into_inner);
    // Taken out during the call of the storage, because no lock is held across an await.
    let mut rates = std::mem::take(&mut *shared());
    let rated = rates.apply(process, claimed, now).await;
    shared().merge(rates);
    rated
}

/// Returns a message as assigned, unless it may start only later or has ended already.
async fn assign(
    process: &Arc<Process>,
    settler: &Settler,
    claimed: ClaimedMessage,
    later: Option<Timestamp>,
) -> Option<AssignedMessage> {
    let (lease, worker, now) = (claimed.lease_ref(), claimed.lease.owner, process.now());
    let execution = ExecutionId::of_lease(lease, now);
    let started = started(process, claimed.clone(), worker, execution);
    if let Some(due_at) = later {
        settler.release(Box::new(started), due_at).await;
        return None;
    }
    if let Some(report) = start_attempt(process, &started) {
        settler.settle(Box::new(started), report).await;
        return None;
    }
    let message = match decompressed_message(&claimed.message, process.env.options.payload_max) {
        Ok(message) => message,
        Err(error) => {
            let report = policy::AttemptEnd::Poison { error: Arc::from(error.to_string()) };
            settler.settle(Box::new(started), report).await;
            return None;
        }
    };
    let started_at = started.context.started_at();
    Some(AssignedMessage {
        ticket: AttemptTicket { lease, execution },
        started_at,
        attempts_max: started.handler_options.retry.attempts_max,
        deadline: deadline(process, &started.handler_options, started_at).map(|(_, at)| at),
        claimed: ClaimedMessage { message, ..claimed },
    })
}

/// Ends an attempt by its worker's report, or releases the message without one.
pub(crate) async fn settle(
    process: &Arc<Process>,
    settler: &Settler,
    (worker, ticket): (ProcessId, AttemptTicket),
    report: Option<HttpWorkerReport>,
) -> Result<SettleResult> {
    check_ticket(ticket)?;
    if let Some(result) = report.as_ref().and_then(|report| report.result.as_ref()) {
        result.check(process.env.options.payload_max)?;
    }
    let Some(record) = process.env.inspect.message(ticket.lease.message).await? else {
        return Ok(SettleResult::Lost);
    };
    let Some(claimed) = current_claim(&record, worker, ticket) else {
        let (message, topic) = (record.message.id, record.message.topic.clone());
        process.env.events.emit(Event::LeaseLost { message, topic });
        return Ok(SettleResult::Lost);
    };
    let started = started(process, claimed, worker, ticket.execution);
    let report = match report {
        None => policy::AttemptEnd::Released,
        Some(report) => end_of_report(process, &started, report),
    };
    settler.settle_and_wait(Box::new(started), report).await
}

/// Returns the end of an attempt from a worker's report, as for a local handler's result and report.
fn end_of_report(
    process: &Process,
    started: &StartedAttempt,
    report: HttpWorkerReport,
) -> policy::AttemptEnd {
    let StartedAttempt { context, handler_options, .. } = started;
    let HttpWorkerReport { outcome, note, log, result } = report;
    for line in log {
        context.log(line);
    }
    if let Some(result) = result {
        let mut slot = context.parts().result.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(result);
    }
    record_note(context, &outcome, note);
    if let Some(late) = timeout_if_overdue(process, handler_options, context.started_at()) {
        return late;
    }
    let must_report = process
        .runner
        .registry
        .get(context.topic())
        .is_some_and(|registration| registration.must_report);
    end_of_attempt(process, outcome.map_err(HandlerError::new), context, must_report)
}

/// Stores the note of a report: in the success or failure report, else in the log.
fn record_note(
    context: &Context,
    outcome: &std::result::Result<Outcome, String>,
    note: Option<String>,
) {
    match (outcome, note) {
        (Ok(Outcome::Done), Some(note)) => context.report_success(note),
        (Ok(Outcome::RetryAfter(_)), Some(note)) => context.report_failure(note),
        (_, Some(note)) => context.log(note),
        (_, None) => {}
    }
}

/// Refuses a ticket that was never handed out, so that no execution is stored under an invented identity.
fn check_ticket(ticket: AttemptTicket) -> Result<()> {
    let expected = ExecutionId::of_lease(ticket.lease, ticket.execution.instant());
    if expected == ticket.execution {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the ticket {ticket} was not handed out; give back the one that came with the message"
    )))
}

/// Returns the claim of a ticket while its lease is the current one.
fn current_claim(
    record: &MessageRecord,
    worker: ProcessId,
    ticket: AttemptTicket,
) -> Option<ClaimedMessage> {
    let lease = record.lease.filter(|lease| {
        record.state == MessageState::Running
            && lease.owner == worker
            && lease.token == ticket.lease.token
    })?;
    Some(ClaimedMessage::of_record(record, lease))
}

/// Builds the attempt of an HTTP worker; it counts as in flight while this process handles the call.
fn started(
    process: &Arc<Process>,
    claimed: ClaimedMessage,
    worker: ProcessId,
    execution: ExecutionId,
) -> StartedAttempt {
    let storage = process.env.storage.clone();
    let received = ReceivedMessage::claimed(Box::new(LeaseReceipt { claimed, storage }));
    let handler_options = process.handler_options(&received.message);
    let identity = AttemptIdentity {
        process: worker,
        execution,
        started_at: execution.instant(),
        slots: None,
    };
    StartedAttempt::new(process, received, handler_options, identity)
}
