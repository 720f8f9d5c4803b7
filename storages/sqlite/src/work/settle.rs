//! Settle: finished decisions, each behind its fence. A message that is done, dead or cancelled leaves
//! the hot table for the one it belongs to; nothing is copied through this process.

use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, LeaseRef, MessageId, Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Settled, Settlement};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::append;

const FINISH: &str = "INSERT OR REPLACE INTO punctual_finished (id, queue, topic, priority, due_at, \
     planned_at, created_at, source, key, dedupe, exclusive, job, attempt, crashes, snoozes, state, \
     ended_at, error, extra, body) \
     SELECT id, queue, topic, priority, due_at, planned_at, created_at, source, key, dedupe, exclusive, \
     job, attempt, crashes, snoozes, ?2, ?3, error, extra, body FROM punctual_message WHERE id = ?1";

const FINISH_FENCED: &str = "INSERT OR REPLACE INTO punctual_finished (id, queue, topic, priority, \
     due_at, planned_at, created_at, source, key, dedupe, exclusive, job, attempt, crashes, snoozes, \
     state, ended_at, error, extra, body) \
     SELECT id, queue, topic, priority, due_at, planned_at, created_at, source, key, dedupe, exclusive, \
     job, attempt, crashes, snoozes, ?2, ?3, error, extra, body FROM punctual_message \
     WHERE id = ?1 AND token = ?4 AND state = 1";

const BURY_FENCED: &str = "INSERT OR REPLACE INTO punctual_dead (id, queue, topic, priority, due_at, \
     planned_at, created_at, source, key, dedupe, exclusive, job, attempt, crashes, snoozes, reason, \
     ended_at, error, extra, body) \
     SELECT id, queue, topic, priority, due_at, planned_at, created_at, source, key, dedupe, exclusive, \
     job, attempt, crashes, snoozes, ?2, ?3, coalesce(?5, error), extra, body FROM punctual_message \
     WHERE id = ?1 AND token = ?4 AND state = 1";

const AGAIN_FENCED: &str = "UPDATE punctual_message SET state = 0, due_at = ?3, attempt = ?4, \
     crashes = ?5, snoozes = ?6, error = coalesce(?7, error), owner = NULL, token = NULL, \
     lease_until = NULL \
     WHERE id = ?1 AND token = ?2 AND state = 1 AND cancel_requested = 0 RETURNING queue, job";

/// Applies decisions and appends their executions.
pub(crate) fn settle(
    transaction: &Connection,
    settlements: &[Settlement],
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Vec<Settled>> {
    let mut settled = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let answer = settle_one(transaction, settlement, micros(now), effects)?;
        if let (Settled::Applied, Some(execution)) = (answer, &settlement.execution) {
            append(transaction, execution)?;
        }
        settled.push(answer);
    }
    Ok(settled)
}

fn settle_one(
    transaction: &Connection,
    settlement: &Settlement,
    now: i64,
    effects: &mut Effects,
) -> Tried<Settled> {
    let lease = settlement.lease;
    let id = lease.message.as_uuid();
    let is_current = match &settlement.verdict {
        Verdict::Again { .. } => return again(transaction, lease, &settlement.verdict, effects),
        Verdict::Done | Verdict::Cancelled => {
            let done = settlement.verdict == Verdict::Done;
            let state = if done { State::Done } else { State::Cancelled };
            let row = params![id.as_bytes(), state.code(), now, token(lease)];
            transaction.prepare_cached(FINISH_FENCED)?.execute(row)? == 1
        }
        Verdict::Dead { reason, error } => {
            let error = error.as_deref().map(without_nul);
            let reason = DeadReason::code(*reason);
            let row = params![id.as_bytes(), reason, now, token(lease), error];
            transaction.prepare_cached(BURY_FENCED)?.execute(row)? == 1
        }
    };
    if !is_current {
        return Ok(Settled::Lost);
    }
    remove(transaction, lease.message, effects)?;
    Ok(Settled::Applied)
}

fn again(
    transaction: &Connection,
    lease: LeaseRef,
    verdict: &Verdict,
    effects: &mut Effects,
) -> Tried<Settled> {
    let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = verdict else {
        return Ok(Settled::Lost);
    };
    let (id, due_at) = (lease.message.as_uuid(), micros_up(*due_at));
    let row = params![
        id.as_bytes(),
        token(lease),
        due_at,
        column(*attempt),
        column(*crashes),
        column(*snoozes),
        error.as_deref().map(without_nul)
    ];
    let mut statement = transaction.prepare_cached(AGAIN_FENCED)?;
    let moved: Option<(String, Option<String>)> =
        statement.query_row(row, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((queue, job)) = moved {
        effects.is_due(&Queue::from(queue), due_at);
        turn_is_free(transaction, job.as_deref(), effects)?;
        return Ok(Settled::Applied);
    }
    let sql = "SELECT 1 FROM punctual_message WHERE id = ?1 AND token = ?2 AND state = 1";
    let mut statement = transaction.prepare_cached(sql)?;
    let is_current = statement.exists(params![id.as_bytes(), token(lease)])?;
    Ok(if is_current { Settled::CancelRequested } else { Settled::Lost })
}

/// Moves a message that is alive to the finished ones.
pub(crate) fn finish(
    transaction: &Connection,
    id: MessageId,
    state: State,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<()> {
    let uuid = id.as_uuid();
    let row = params![uuid.as_bytes(), state.code(), micros(now)];
    transaction.prepare_cached(FINISH)?.execute(row)?;
    remove(transaction, id, effects)
}

/// Takes a message out of the hot table, and lets those of its job try.
fn remove(transaction: &Connection, id: MessageId, effects: &mut Effects) -> Tried<()> {
    let sql = "DELETE FROM punctual_message WHERE id = ?1 RETURNING job";
    let mut statement = transaction.prepare_cached(sql)?;
    let job: Option<Option<String>> =
        statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0)).optional()?;
    turn_is_free(transaction, job.flatten().as_deref(), effects)
}

/// Those of a job that may have waited can be claimed now: the queues they are in hear of it.
pub(crate) fn turn_is_free(
    transaction: &Connection,
    job: Option<&str>,
    effects: &mut Effects,
) -> Tried<()> {
    let Some(job) = job else { return Ok(()) };
    let sql = "SELECT queue, min(due_at) FROM punctual_message WHERE job = ?1 AND state = 0 \
               GROUP BY queue";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([job])?;
    while let Some(row) = rows.next()? {
        effects.is_due(&Queue::from(row.get::<_, String>(0)?), row.get(1)?);
    }
    Ok(())
}

fn token(lease: LeaseRef) -> i64 {
    i64::try_from(lease.token).unwrap_or(i64::MAX)
}
