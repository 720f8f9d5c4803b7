//! Settle: finished decisions, each behind its fence. A message that is done, dead or cancelled leaves
//! the hot table for the one it belongs to.

use punctual::jiff::Timestamp;
use punctual::model::{Execution, JobName, LeaseRef, MessageId, Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Settled, Settlement};
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::finish::{Finish, Finishing, TOGETHER};
use super::put::{Leaving, leave};
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::Appending;

pub(crate) const AGAIN_FENCED: &str = "UPDATE punctual_message SET state = 0, due_at = ?3, attempt = ?4, \
     crashes = ?5, snoozes = ?6, error = coalesce(?7, error), owner = NULL, token = NULL, \
     lease_until = NULL \
     WHERE id = ?1 AND token = ?2 AND state = 1 AND cancel_requested = 0 RETURNING queue, job";

/// The queue and the job of a running message, if its lease is the current one.
pub(crate) const CURRENT: &str =
    "SELECT queue, job FROM punctual_message WHERE id = ?1 AND token = ?2 AND state = 1";

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
    let sql = "SELECT queue, job FROM punctual_message WHERE id = ?1 AND state = 0";
    let mut statement = transaction.prepare_cached(sql)?;
    let pending = statement.query_row([id.as_uuid().as_bytes()], queue_and_job).optional()?;
    let Some((queue, job)) = pending else { return Ok(()) };
    leave(transaction, id, Leaving::Finished(State::Cancelled), micros(now))?;
    effects.was_taken(&queue);
    effects.moved(&queue, 1, Some(State::Pending), Some(State::Cancelled));
    turn_is_free(transaction, job.as_deref(), effects)
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
            finishing: Finishing::new(transaction, 1)?,
            together: None,
            append: Appending::new(transaction)?,
            now: micros(now),
            effects,
        })
    }

    /// Finishes as many as are finished together, all or none.
    fn finish_together(&mut self, settlements: &[Settlement]) -> Tried<bool> {
        let finishes = settlements.iter().map_while(|one| Finish::of(one, self.now));
        let finishes: Vec<Finish<'_>> = finishes.collect();
        if finishes.len() < TOGETHER || has_twins(settlements) {
            return Ok(false);
        }
        let together = match &mut self.together {
            Some(together) => together,
            none => none.insert(Finishing::new(self.transaction, TOGETHER)?),
        };
        let is_finished = together.finish(&finishes, self.now)?;
        for finish in finishes.iter().filter(|_| is_finished) {
            self.finished(finish)?;
        }
        Ok(is_finished)
    }

    fn settle(&mut self, settlement: &Settlement) -> Tried<Settled> {
        if let Some(finish) = Finish::of(settlement, self.now)
            && self.finishing.finish(std::slice::from_ref(&finish), self.now)?
        {
            return self.finished(&finish);
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

    fn finished(&mut self, finish: &Finish<'_>) -> Tried<Settled> {
        let Execution { queue, job, .. } = finish.execution;
        self.left(queue, job.as_ref().map(JobName::as_str), finish.state)
    }

    /// Out of the hot table, and the attempt into a row for itself.
    fn leave(
        &mut self,
        lease: LeaseRef,
        leaving: Leaving<'_>,
        execution: Option<&Execution>,
    ) -> Tried<Settled> {
        let mut statement = self.transaction.prepare_cached(CURRENT)?;
        let id = lease.message.as_uuid();
        let shown = params![id.as_bytes(), token(lease)];
        let current = statement.query_row(shown, queue_and_job).optional()?;
        let Some((queue, job)) = current else { return Ok(Settled::Lost) };
        leave(self.transaction, lease.message, leaving, self.now)?;
        if let Some(execution) = execution {
            self.append.append(execution)?;
        }
        self.left(&queue, job.as_deref(), leaving.state())
    }

    fn left(&mut self, queue: &Queue, job: Option<&str>, state: State) -> Tried<Settled> {
        self.effects.moved(queue, 1, Some(State::Running), Some(state));
        turn_is_free(self.transaction, job, self.effects)?;
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
        if let Some((queue, job)) = statement.query_row(row, queue_and_job).optional()? {
            self.effects.is_due(&queue, due_at);
            self.effects.moved(&queue, 1, Some(State::Running), Some(State::Pending));
            turn_is_free(self.transaction, job.as_deref(), self.effects)?;
            if let Some(execution) = execution {
                self.append.append(execution)?;
            }
            return Ok(Settled::Applied);
        }
        let mut statement = self.transaction.prepare_cached(CURRENT)?;
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

fn queue_and_job(row: &Row<'_>) -> rusqlite::Result<(Queue, Option<String>)> {
    Ok((Queue::from(row.get::<_, String>(0)?), row.get(1)?))
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
