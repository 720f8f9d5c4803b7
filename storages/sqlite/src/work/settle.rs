//! Settle: finished decisions, each behind its fence. A message that is done, dead or cancelled leaves
//! the hot table for the one it belongs to.

use std::sync::Arc;

use punctual::Message;
use punctual::jiff::Timestamp;
use punctual::model::{Execution, JobName, LeaseRef, MessageId, Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Entry, Settled, Settlement};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, Statement, params};

use super::enqueue::Enqueueing;
use super::put::{Leaving, leave};
use super::remove::Removing;
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::{Appending, FINISH, FINISH_ALL, NEAR, bind};

pub(crate) const AGAIN_FENCED: &str = "UPDATE punctual_message SET state = 0, due_at = ?3, attempt = ?4, \
     crashes = ?5, snoozes = ?6, error = coalesce(?7, error), owner = NULL, token = NULL, \
     lease_until = NULL \
     WHERE id = ?1 AND token = ?2 AND state = 1 AND cancel_requested = 0 RETURNING queue, job, lane, batch";

/// What a running message has to do with others, if its lease is the current one.
pub(crate) const CURRENT: &str = "SELECT queue, job, lane, batch FROM punctual_message \
     WHERE id = ?1 AND token = ?2 AND state = 1";

/// Applies decisions and appends their executions.
pub(crate) fn settle(
    transaction: &Connection,
    settlements: &[Settlement],
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Vec<Settled>> {
    let mut settling = Settling::new(transaction, now, effects)?;
    let settled: Tried<Vec<Settled>> =
        settlements.iter().map(|settlement| settling.settle(settlement)).collect();
    settling.removing.finish()?;
    settled
}

/// Stops a message that is pending.
pub(crate) fn cancel_pending(
    transaction: &Connection,
    id: MessageId,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<()> {
    let sql = "SELECT queue, job, lane, batch FROM punctual_message WHERE id = ?1 AND state = 0";
    let mut statement = transaction.prepare_cached(sql)?;
    let pending = statement.query_row([id.as_uuid().as_bytes()], Tied::read).optional()?;
    let Some(Tied { queue, job, batch, .. }) = pending else { return Ok(()) };
    leave(transaction, id, Leaving::Finished(State::Cancelled), micros(now))?;
    effects.was_taken(&queue);
    effects.moved(&queue, 1, Some(State::Pending), Some(State::Cancelled));
    effects.left_batch(batch);
    turn_is_free(transaction, job.as_deref(), effects)
}

/// What a message has to do with others.
struct Tied {
    queue: Queue,
    job: Option<String>,
    lane: Option<String>,
    batch: Option<[u8; 16]>,
}

impl Tied {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let queue = Queue::from(row.get::<_, String>(0)?);
        Ok(Self { queue, job: row.get(1)?, lane: row.get(2)?, batch: row.get(3)? })
    }
}

/// What many settlements share: prepared once for all of them.
struct Settling<'a> {
    transaction: &'a Connection,
    finish: CachedStatement<'a>,
    bound: Option<&'a Execution>,
    removing: Removing<'a>,
    append: Appending<'a>,
    now: i64,
    effects: &'a mut Effects,
}

impl<'a> Settling<'a> {
    fn new(transaction: &'a Connection, now: Timestamp, effects: &'a mut Effects) -> Tried<Self> {
        Ok(Self {
            transaction,
            finish: transaction.prepare_cached(FINISH)?,
            bound: None,
            removing: Removing::new(transaction),
            append: Appending::new(transaction)?,
            now: micros(now),
            effects,
        })
    }

    fn settle(&mut self, settlement: &'a Settlement) -> Tried<Settled> {
        let (lease, execution) = (settlement.lease, settlement.execution.as_deref());
        self.removing.settle_down(lease.message)?;
        let settled = match &settlement.verdict {
            Verdict::Done => self.finish(lease, State::Done, execution),
            Verdict::Cancelled => self.finish(lease, State::Cancelled, execution),
            Verdict::Dead { reason, error } => {
                self.leave(lease, Leaving::Dead(*reason, error.as_deref()), execution)
            }
            again @ Verdict::Again { .. } => self.again(lease, again, execution),
        }?;
        if settled == Settled::Applied && !settlement.then.is_empty() {
            self.follow(&settlement.then)?;
        }
        Ok(settled)
    }

    /// Stores what follows, unless it is here.
    fn follow(&mut self, then: &[Arc<Message>]) -> Tried<()> {
        self.removing.finish()?;
        let mut enqueueing = Enqueueing::new(self.transaction, self.now, self.effects)?;
        for message in then {
            enqueueing.enqueue(&Entry { message: Arc::clone(message), replace: false })?;
        }
        enqueueing.finish()
    }

    /// Out of the hot table, into a row with the attempt that finished it; where they cannot share one,
    /// into two.
    fn finish(
        &mut self,
        lease: LeaseRef,
        state: State,
        execution: Option<&'a Execution>,
    ) -> Tried<Settled> {
        let Some(execution) = execution.filter(|one| may_share(one, lease, self.now)) else {
            return self.leave(lease, Leaving::Finished(state), execution);
        };
        bind(&mut self.finish, execution, self.now, self.bound)?;
        self.bound = Some(execution);
        bind_end(&mut self.finish, lease, self.now, state)?;
        if self.finish.raw_execute()? == 0 {
            return self.finish_tied(lease, state, execution);
        }
        self.removing.remove(lease.message)?;
        self.effects.moved(&execution.queue, 1, Some(State::Running), Some(state));
        let job = execution.job.as_ref().map(JobName::as_str);
        turn_is_free(self.transaction, job, self.effects)?;
        Ok(Settled::Applied)
    }

    /// The same for one that others may wait for.
    fn finish_tied(
        &mut self,
        lease: LeaseRef,
        state: State,
        execution: &Execution,
    ) -> Tried<Settled> {
        let Some(tied) = self.current(lease)? else { return Ok(Settled::Lost) };
        let mut finish = self.transaction.prepare_cached(FINISH_ALL)?;
        bind(&mut finish, execution, self.now, None)?;
        bind_end(&mut finish, lease, self.now, state)?;
        if finish.raw_execute()? == 1 {
            self.removing.remove(lease.message)?;
        } else {
            leave(self.transaction, lease.message, Leaving::Finished(state), self.now)?;
            self.append.append(execution)?;
        }
        self.left(tied, state)
    }

    /// Out of the hot table, and the attempt into a row for itself.
    fn leave(
        &mut self,
        lease: LeaseRef,
        leaving: Leaving<'_>,
        execution: Option<&Execution>,
    ) -> Tried<Settled> {
        let Some(tied) = self.current(lease)? else { return Ok(Settled::Lost) };
        leave(self.transaction, lease.message, leaving, self.now)?;
        if let Some(execution) = execution {
            self.append.append(execution)?;
        }
        self.left(tied, leaving.state())
    }

    fn current(&self, lease: LeaseRef) -> Tried<Option<Tied>> {
        let mut statement = self.transaction.prepare_cached(CURRENT)?;
        let id = lease.message.as_uuid();
        Ok(statement.query_row(params![id.as_bytes(), token(lease)], Tied::read).optional()?)
    }

    fn left(&mut self, tied: Tied, state: State) -> Tried<Settled> {
        self.effects.moved(&tied.queue, 1, Some(State::Running), Some(state));
        self.effects.left_lane(tied.lane);
        if !state.is_alive() {
            self.effects.left_batch(tied.batch);
        }
        turn_is_free(self.transaction, tied.job.as_deref(), self.effects)?;
        Ok(Settled::Applied)
    }

    fn again(
        &mut self,
        lease: LeaseRef,
        verdict: &Verdict,
        execution: Option<&Execution>,
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
        let mut statement = self.transaction.prepare_cached(AGAIN_FENCED)?;
        let Some(tied) = statement.query_row(row, Tied::read).optional()? else {
            let is_current = self.current(lease)?.is_some();
            return Ok(if is_current { Settled::CancelRequested } else { Settled::Lost });
        };
        self.effects.is_due(&tied.queue, due_at);
        if let Some(execution) = execution {
            self.append.append(execution)?;
        }
        self.left(tied, State::Pending)
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

/// Binds what [`FINISH`] has beside the execution.
fn bind_end(
    statement: &mut Statement<'_>,
    lease: LeaseRef,
    now: i64,
    state: State,
) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(19, token(lease))?;
    statement.raw_bind_parameter(20, now)?;
    statement.raw_bind_parameter(21, state.code())
}

/// Whether an execution may share a row with the message that it finished: it is of that message, and it
/// ended just before.
pub(crate) fn may_share(execution: &Execution, lease: LeaseRef, now: i64) -> bool {
    execution.message == Some(lease.message)
        && (0..NEAR).contains(&now.saturating_sub(micros(execution.ended_at)))
}

pub(crate) fn token(lease: LeaseRef) -> i64 {
    i64::try_from(lease.token).unwrap_or(i64::MAX)
}
