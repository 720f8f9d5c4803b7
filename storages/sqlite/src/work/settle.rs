//! Settle: finished decisions, each behind its fence. A message that is done, dead or cancelled leaves
//! the hot table for the one it belongs to.

use punctual::jiff::Timestamp;
use punctual::model::{DeadReason, LeaseRef, MessageId, Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Settled, Settlement};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::put::{DEAD, FINISHED, JOB, QUEUE, TAKE, TAKE_FENCED, put_row};
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::Appending;

pub(crate) const AGAIN_FENCED: &str = "UPDATE punctual_message SET state = 0, due_at = ?3, attempt = ?4, \
     crashes = ?5, snoozes = ?6, error = coalesce(?7, error), owner = NULL, token = NULL, \
     lease_until = NULL \
     WHERE id = ?1 AND token = ?2 AND state = 1 AND cancel_requested = 0 RETURNING queue, job";

/// Whether a lease is the current one.
pub(crate) const IS_CURRENT: &str =
    "SELECT 1 FROM punctual_message WHERE id = ?1 AND token = ?2 AND state = 1";

/// Applies decisions and appends their executions.
pub(crate) fn settle(
    transaction: &Connection,
    settlements: &[Settlement],
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Vec<Settled>> {
    let mut settling = Settling::new(transaction, now, effects)?;
    settlements.iter().map(|settlement| settling.settle(settlement)).collect()
}

/// Stops a message that is pending.
pub(crate) fn cancel_pending(
    transaction: &Connection,
    id: MessageId,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<()> {
    let mut take = transaction.prepare_cached(TAKE)?;
    let mut rows = take.query([id.as_uuid().as_bytes()])?;
    if let Some(row) = rows.next()? {
        let mut insert = transaction.prepare_cached(FINISHED)?;
        put_row(&mut insert, row, (micros(now), State::Cancelled.code()), None)?;
        let queue = queue_at(row)?;
        effects.was_taken(&queue);
        effects.moved(&queue, 1, Some(State::Pending), Some(State::Cancelled));
        turn_is_free(transaction, row.get_ref(JOB)?.as_str_or_null()?, effects)?;
    }
    Ok(())
}

/// What many settlements share: prepared once for all of them.
struct Settling<'a> {
    transaction: &'a Connection,
    take: CachedStatement<'a>,
    finish: CachedStatement<'a>,
    append: Appending<'a>,
    now: i64,
    effects: &'a mut Effects,
}

impl<'a> Settling<'a> {
    fn new(transaction: &'a Connection, now: Timestamp, effects: &'a mut Effects) -> Tried<Self> {
        Ok(Self {
            transaction,
            take: transaction.prepare_cached(TAKE_FENCED)?,
            finish: transaction.prepare_cached(FINISHED)?,
            append: Appending::new(transaction)?,
            now: micros(now),
            effects,
        })
    }

    fn settle(&mut self, settlement: &Settlement) -> Tried<Settled> {
        let lease = settlement.lease;
        let settled = match &settlement.verdict {
            Verdict::Done => self.finish(lease, State::Done)?,
            Verdict::Cancelled => self.finish(lease, State::Cancelled)?,
            Verdict::Dead { reason, error } => self.bury(lease, *reason, error.as_deref())?,
            again @ Verdict::Again { .. } => self.again(lease, again)?,
        };
        if let (Settled::Applied, Some(execution)) = (settled, &settlement.execution) {
            self.append.append(execution)?;
        }
        Ok(settled)
    }

    fn finish(&mut self, lease: LeaseRef, state: State) -> Tried<Settled> {
        let mut rows =
            self.take.query(params![lease.message.as_uuid().as_bytes(), token(lease)])?;
        let Some(row) = rows.next()? else { return Ok(Settled::Lost) };
        put_row(&mut self.finish, row, (self.now, state.code()), None)?;
        self.effects.moved(&queue_at(row)?, 1, Some(State::Running), Some(state));
        turn_is_free(self.transaction, row.get_ref(JOB)?.as_str_or_null()?, self.effects)?;
        Ok(Settled::Applied)
    }

    fn bury(&mut self, lease: LeaseRef, reason: DeadReason, error: Option<&str>) -> Tried<Settled> {
        let mut rows =
            self.take.query(params![lease.message.as_uuid().as_bytes(), token(lease)])?;
        let Some(row) = rows.next()? else { return Ok(Settled::Lost) };
        let mut insert = self.transaction.prepare_cached(DEAD)?;
        let error = error.map(without_nul);
        put_row(&mut insert, row, (self.now, reason.code()), error.as_deref())?;
        self.effects.moved(&queue_at(row)?, 1, Some(State::Running), Some(State::Dead));
        turn_is_free(self.transaction, row.get_ref(JOB)?.as_str_or_null()?, self.effects)?;
        Ok(Settled::Applied)
    }

    fn again(&mut self, lease: LeaseRef, verdict: &Verdict) -> Tried<Settled> {
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
        let mut statement = self.transaction.prepare_cached(AGAIN_FENCED)?;
        let moved: Option<(String, Option<String>)> =
            statement.query_row(row, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        if let Some((queue, job)) = moved {
            let queue = Queue::from(queue);
            self.effects.is_due(&queue, due_at);
            self.effects.moved(&queue, 1, Some(State::Running), Some(State::Pending));
            turn_is_free(self.transaction, job.as_deref(), self.effects)?;
            return Ok(Settled::Applied);
        }
        let mut statement = self.transaction.prepare_cached(IS_CURRENT)?;
        let is_current = statement.exists(params![id.as_bytes(), token(lease)])?;
        Ok(if is_current { Settled::CancelRequested } else { Settled::Lost })
    }
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
        let queue = Queue::from(row.get::<_, String>(0)?);
        // Whoever was told of it when it came may have found that it had to wait: it is news again.
        effects.was_taken(&queue);
        effects.is_due(&queue, row.get(1)?);
    }
    Ok(())
}

fn queue_at(row: &Row<'_>) -> Tried<Queue> {
    Ok(Queue::from(row.get_ref(QUEUE)?.as_str()?.to_owned()))
}

pub(crate) fn token(lease: LeaseRef) -> i64 {
    i64::try_from(lease.token).unwrap_or(i64::MAX)
}
