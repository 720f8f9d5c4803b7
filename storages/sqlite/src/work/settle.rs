//! Settle: finished decisions, each behind its fence. A message that is done, dead or cancelled leaves
//! the hot table for the one it belongs to.

use std::sync::Arc;

use punctual::Message;
use punctual::jiff::Timestamp;
use punctual::model::{Execution, JobName, LeaseRef, MessageId, Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Entry, Settled, Settlement};
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::enqueue::Enqueueing;
use super::finish::{Finish, Finishing, Rows, TOGETHER};
use super::put::{Leaving, leave};
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::Appending;

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
    let mut answers = Vec::with_capacity(settlements.len());
    for some in settlements.chunks(TOGETHER) {
        if settling.finish_together(some)? {
            answers.resize(answers.len() + some.len(), Settled::Applied);
            continue;
        }
        for settlement in some {
            answers.push(settling.settle(settlement)?);
        }
    }
    Ok(answers)
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
    finishing: Finishing<'a>,
    together: Option<Finishing<'a>>,
    append: Appending<'a>,
    now: i64,
    effects: &'a mut Effects,
}

impl<'a> Settling<'a> {
    fn new(transaction: &'a Connection, now: Timestamp, effects: &'a mut Effects) -> Tried<Self> {
        Ok(Self {
            transaction,
            finishing: Finishing::new(transaction, Rows::Untied(1))?,
            together: None,
            append: Appending::new(transaction)?,
            now: micros(now),
            effects,
        })
    }

    /// Finishes as many as are finished together, all or none.
    fn finish_together(&mut self, settlements: &[Settlement]) -> Tried<bool> {
        let alone = settlements.iter().take_while(|one| one.then.is_empty());
        let finishes = alone.map_while(|one| Finish::of(one, self.now));
        let finishes: Vec<Finish<'_>> = finishes.collect();
        if finishes.len() < TOGETHER || has_twins(settlements) {
            return Ok(false);
        }
        let together = match &mut self.together {
            Some(together) => together,
            none => none.insert(Finishing::new(self.transaction, Rows::Untied(TOGETHER))?),
        };
        let is_finished = together.finish(&finishes, self.now)?;
        for finish in finishes.iter().filter(|_| is_finished) {
            self.finished(finish)?;
        }
        Ok(is_finished)
    }

    fn settle(&mut self, settlement: &Settlement) -> Tried<Settled> {
        let settled = self.decide(settlement)?;
        if settled == Settled::Applied && !settlement.then.is_empty() {
            self.follow(&settlement.then)?;
        }
        Ok(settled)
    }

    fn decide(&mut self, settlement: &Settlement) -> Tried<Settled> {
        if let Some(finish) = Finish::of(settlement, self.now) {
            return self.finish(&finish);
        }
        let (lease, execution) = (settlement.lease, settlement.execution.as_deref());
        let leaving = match &settlement.verdict {
            Verdict::Done => Leaving::Finished(State::Done),
            Verdict::Cancelled => Leaving::Finished(State::Cancelled),
            Verdict::Dead { reason, error } => Leaving::Dead(*reason, error.as_deref()),
            again @ Verdict::Again { .. } => return self.again(lease, again, execution),
        };
        self.leave(lease, leaving, execution)
    }

    /// Stores what follows, unless it is here.
    fn follow(&mut self, then: &[Arc<Message>]) -> Tried<()> {
        let mut enqueueing = Enqueueing::new(self.transaction, self.now, self.effects)?;
        for message in then {
            enqueueing.enqueue(&Entry { message: Arc::clone(message), replace: false })?;
        }
        enqueueing.finish()
    }

    /// Out of the hot table, into a row with the attempt that finished it; where they cannot share one,
    /// into two.
    fn finish(&mut self, finish: &Finish<'_>) -> Tried<Settled> {
        let one = std::slice::from_ref(finish);
        if self.finishing.finish(one, self.now)? {
            return self.finished(finish);
        }
        let Some(tied) = self.current(finish.lease)? else { return Ok(Settled::Lost) };
        if !Finishing::new(self.transaction, Rows::Tied)?.finish(one, self.now)? {
            let leaving = Leaving::Finished(finish.state);
            leave(self.transaction, finish.lease.message, leaving, self.now)?;
            self.append.append(finish.execution)?;
        }
        self.left(tied, finish.state)
    }

    /// One that nobody waits for is finished.
    fn finished(&mut self, finish: &Finish<'_>) -> Tried<Settled> {
        let Execution { queue, job, .. } = finish.execution;
        self.effects.moved(queue, 1, Some(State::Running), Some(finish.state));
        turn_is_free(self.transaction, job.as_ref().map(JobName::as_str), self.effects)?;
        Ok(Settled::Applied)
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

/// Whether a message is settled twice.
fn has_twins(settlements: &[Settlement]) -> bool {
    let id = |settlement: &Settlement| settlement.lease.message;
    let mut rest = settlements.iter();
    std::iter::from_fn(|| rest.next().map(|one| (one, rest.clone())))
        .any(|(one, mut later)| later.any(|other| id(other) == id(one)))
}

pub(crate) fn token(lease: LeaseRef) -> i64 {
    i64::try_from(lease.token).unwrap_or(i64::MAX)
}
