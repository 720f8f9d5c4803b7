//! Attempts that run elsewhere: a process in any language claims, works and reports by way of this one.
//! Nothing of them is kept here between the calls, so that the next call may come to another process: what
//! a settlement needs is in the record, and the ticket says when the attempt began. What a report leads to
//! is decided where every other attempt's is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::attempt::{By, begun, concluded, context_by, deadline, overdue};
use super::rates::{Rates, Ruled, has_rate};
use super::settle::{Extras, Started};
use super::worker::favoured;
use super::{Process, Settler, alive};
use crate::client::{AssignedMessage, AttemptTicket, HttpWorkerClaim, HttpWorkerReport};
use crate::clock::add;
use crate::compression::opened_message;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::handler::{Context, HandlerError, Outcome};
use crate::model::{ExecutionId, MessageRecord, MessageState, ProcessId};
use crate::policy;
use crate::storage::{Claim, ClaimedMessage, SettleResult, WakeSource};
use crate::transport::{Delivery, LeaseReceipt, Receipt};

/// What claims for others remember from one to the next.
#[derive(Default)]
pub(crate) struct Remotes {
    rates: Mutex<Rates>,
    /// How many claims in a row brought all that was asked for.
    full_claims: AtomicU32,
}

/// Claims for a worker elsewhere; nothing of a paused queue, and nothing before the scheduler's first round.
pub(crate) async fn claim(
    process: &Arc<Process>,
    settler: &Settler,
    ask: &HttpWorkerClaim,
) -> Result<Vec<AssignedMessage>> {
    let is_shut = || process.queues.is_paused(&ask.queue) || process.stop.is_requested();
    if is_shut() || process.queues.held_until(process.now()).is_some() {
        return Ok(Vec::new());
    }
    let now = alive(process, process.now()).await?;
    let topics = ask.filter();
    let line = WakeSource::Topics(ask.queue.clone(), topics.clone());
    let next = process.storage.next_due(&line).await?;
    if next.is_none_or(|next| next > now) {
        return Ok(Vec::new());
    }
    let until = add(now, ask.lease);
    // Before the claim: what a worker holds whose last word has run out is taken away at once.
    process.storage.heartbeat(ask.worker, until, now).await?;
    if is_shut() {
        return Ok(Vec::new());
    }
    let full_claims = &process.remotes.full_claims;
    let claim = Claim {
        running_max: process.queues.running_max(&ask.queue),
        first: favoured(full_claims.load(Ordering::Relaxed)),
        topics,
        ..Claim::new(ask.queue.clone(), ask.worker, ask.limit, until)
    };
    let claimed = process.storage.claim(claim, now).await?;
    if claimed.len() == ask.limit {
        full_claims.fetch_add(1, Ordering::Relaxed);
    } else {
        full_claims.store(0, Ordering::Relaxed);
    }
    let mut assigned = Vec::with_capacity(claimed.len());
    for (one, later) in ruled(process, claimed, now).await {
        assigned.extend(assign(process, settler, one, later).await);
    }
    Ok(assigned)
}

/// Which of the claimed may start now, and when the others may.
async fn ruled(process: &Process, claimed: Vec<ClaimedMessage>, now: Timestamp) -> Vec<Ruled> {
    if !claimed.iter().any(has_rate) {
        return claimed.into_iter().map(|one| (one, None)).collect();
    }
    let kept = || process.remotes.rates.lock().unwrap_or_else(PoisonError::into_inner);
    // Taken out while the storage is asked, because nobody waits under a lock.
    let mut rates = std::mem::take(&mut *kept());
    let ruled = rates.rule(process, claimed, now).await;
    kept().merge(rates);
    ruled
}

/// Hands a message out, unless it may start later only, or there is nothing left to start.
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
        settler.give_back(Box::new(started), due_at).await;
        return None;
    }
    if let Some(report) = begun(process, &started) {
        settler.settle(Box::new(started), report).await;
        return None;
    }
    let message = match opened_message(&claimed.message, process.options.payload_max) {
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

/// Ends an attempt as its worker reports, or gives it back without a report.
pub(crate) async fn settle(
    process: &Arc<Process>,
    settler: &Settler,
    (worker, ticket): (ProcessId, AttemptTicket),
    report: Option<HttpWorkerReport>,
) -> Result<SettleResult> {
    check(ticket)?;
    if let Some(result) = report.as_ref().and_then(|report| report.result.as_ref()) {
        result.check(process.options.payload_max)?;
    }
    let Some(record) = process.inspect.message(ticket.lease.message).await? else {
        return Ok(SettleResult::Lost);
    };
    let Some(claimed) = held(&record, worker, ticket) else {
        let (message, topic) = (record.message.id, record.message.topic.clone());
        process.events.emit(Event::LeaseLost { message, topic });
        return Ok(SettleResult::Lost);
    };
    let started = started(process, claimed, worker, ticket.execution);
    let report = match report {
        None => policy::AttemptEnd::Released,
        Some(report) => judged_by(process, &started, report),
    };
    settler.settled(Box::new(started), report).await
}

/// What a worker's report means to the policy: the same as what a handler here returns and says.
fn judged_by(process: &Process, started: &Started, report: HttpWorkerReport) -> policy::AttemptEnd {
    let Started { context, handler_options, .. } = started;
    let HttpWorkerReport { outcome, note, log, result } = report;
    for line in log {
        context.log(line);
    }
    if let Some(result) = result {
        let mut place = context.parts().result.lock().unwrap_or_else(PoisonError::into_inner);
        *place = Some(result);
    }
    say(context, &outcome, note);
    if let Some(late) = overdue(process, handler_options, context.started_at()) {
        return late;
    }
    let must_report =
        process.registry.get(context.topic()).is_some_and(|registration| registration.must_report);
    concluded(process, outcome.map_err(HandlerError::new), context, must_report)
}

/// Puts a note where people look for it.
fn say(context: &Context, outcome: &std::result::Result<Outcome, String>, note: Option<String>) {
    match (outcome, note) {
        (Ok(Outcome::Done), Some(note)) => context.report_success(note),
        (Ok(Outcome::RetryAfter(_)), Some(note)) => context.report_failure(note),
        (_, Some(note)) => context.log(note),
        (_, None) => {}
    }
}

/// Refuses a ticket that nobody was given, so that no execution is written down under a made-up name.
fn check(ticket: AttemptTicket) -> Result<()> {
    let expected = ExecutionId::of_lease(ticket.lease, ticket.execution.instant());
    if expected == ticket.execution {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the ticket {ticket} was not handed out; give back the one that came with the message"
    )))
}

/// The claim behind a ticket, while it is the current one.
fn held(
    record: &MessageRecord,
    worker: ProcessId,
    ticket: AttemptTicket,
) -> Option<ClaimedMessage> {
    let lease = record.lease.filter(|lease| {
        record.state == MessageState::Running
            && lease.owner == worker
            && lease.token == ticket.lease.token
    })?;
    Some(ClaimedMessage {
        message: record.message.clone(),
        lease,
        due_at: record.due_at,
        attempt: record.attempt,
        crashes: record.crashes,
        snoozes: record.snoozes,
        cancel_requested: record.cancel_requested,
        checkpoint: record.checkpoint.clone(),
    })
}

/// The attempt of a worker elsewhere, counted in for as long as it is in our hands.
fn started(
    process: &Arc<Process>,
    claimed: ClaimedMessage,
    worker: ProcessId,
    execution: ExecutionId,
) -> Started {
    let receipt = LeaseReceipt { storage: process.storage.clone(), claimed };
    let delivery = Delivery {
        message: receipt.claimed.message.clone(),
        attempt: receipt.claimed.attempt,
        poison: None,
        receipt: Receipt::Lease(Box::new(receipt)),
    };
    let handler_options = process.handler_options(&delivery.message);
    let by = By { process: worker, execution, started_at: execution.instant(), slots: None };
    let context = context_by(process, &delivery, &handler_options, by);
    let entered = process.in_flight.enter(&delivery.receipt, &context);
    Started { delivery, handler_options, context, entered, extras: Extras::default() }
}
