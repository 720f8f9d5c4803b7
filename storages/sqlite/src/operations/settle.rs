//! Settle: applies decisions, each only with the current token. A message that is done, dead or cancelled moves
//! from the hot table to the table of its state.

use std::sync::Arc;

use punctual::Message;
use punctual::jiff::Timestamp;
use punctual::model::{Execution, JobName, LeaseRef, MessageId, MessageState, Queue};
use punctual::policy::Verdict;
use punctual::storage::{Entry, SettleResult, Settlement};
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::enqueue::Enqueuer;
use super::finish::{Finish, Finisher, Rows, TOGETHER};
use super::message_rows::{FinalState, move_out};
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::row::HistoryWriter;

pub(crate) const AGAIN_FENCED: &str = "UPDATE punctual_message SET state = 0, due_at = ?3, attempt = ?4, \
     crashes = ?5, snoozes = ?6, error = coalesce(?7, error), owner = NULL, token = NULL, \
     lease_until = NULL \
     WHERE id = ?1 AND token = ?2 AND state = 1 AND cancel_requested = 0 RETURNING queue, job, lane, batch";

/// Relations of a running message, if the lease is the current one.
pub(crate) const CURRENT: &str = "SELECT queue, job, lane, batch FROM punctual_message \
     WHERE id = ?1 AND token = ?2 AND state = 1";

/// Applies decisions and inserts their executions.
pub(crate) fn settle(
    transaction: &Connection,
    settlements: &[Settlement],
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<Vec<SettleResult>> {
    let mut settler = Settler::new(transaction, now, effects)?;
    let mut results = Vec::with_capacity(settlements.len());
    for some in settlements.chunks(TOGETHER) {
        if settler.finish_together(some)? {
            results.resize(results.len() + some.len(), SettleResult::Applied);
            continue;
        }
        for settlement in some {
            results.push(settler.settle(settlement)?);
        }
    }
    Ok(results)
}

/// Cancels a pending message.
pub(crate) fn cancel_pending(
    transaction: &Connection,
    id: MessageId,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<()> {
    let sql = "SELECT queue, job, lane, batch FROM punctual_message WHERE id = ?1 AND state = 0";
    let mut statement = transaction.prepare_cached(sql)?;
    let pending =
        statement.query_row([id.as_uuid().as_bytes()], MessageRelations::read).optional()?;
    let Some(MessageRelations { queue, job, batch, .. }) = pending else { return Ok(()) };
    move_out(transaction, id, FinalState::Finished(MessageState::Cancelled), micros(now))?;
    effects.was_taken(&queue);
    effects.moved(&queue, 1, Some(MessageState::Pending), Some(MessageState::Cancelled));
    effects.left_batch(batch);
    notify_job_queues(transaction, job.as_deref(), effects)
}

/// Relations of a message.
struct MessageRelations {
    queue: Queue,
    job: Option<String>,
    lane: Option<String>,
    batch: Option<[u8; 16]>,
}

impl MessageRelations {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let queue = Queue::from(row.get::<_, String>(0)?);
        Ok(Self { queue, job: row.get(1)?, lane: row.get(2)?, batch: row.get(3)? })
    }
}

/// State shared by the settlements of a call: prepared statements.
struct Settler<'a> {
    transaction: &'a Connection,
    single: Finisher<'a>,
    together: Option<Finisher<'a>>,
    append: HistoryWriter<'a>,
    now: i64,
    effects: &'a mut Effects,
}

impl<'a> Settler<'a> {
    fn new(
        transaction: &'a Connection,
        now: Timestamp,
        effects: &'a mut Effects,
    ) -> StorageResult<Self> {
        Ok(Self {
            transaction,
            single: Finisher::new(transaction, Rows::Plain(1))?,
            together: None,
            append: HistoryWriter::new(transaction)?,
            now: micros(now),
            effects,
        })
    }

    /// Finishes the settlements of a group together, all or none.
    fn finish_together(&mut self, settlements: &[Settlement]) -> StorageResult<bool> {
        let alone = settlements.iter().take_while(|one| one.then.is_empty());
        let finishes = alone.map_while(|one| Finish::of(one, self.now));
        let finishes: Vec<Finish<'_>> = finishes.collect();
        if finishes.len() < TOGETHER || has_repeated_message(settlements) {
            return Ok(false);
        }
        let together = match &mut self.together {
            Some(together) => together,
            none => none.insert(Finisher::new(self.transaction, Rows::Plain(TOGETHER))?),
        };
        let is_finished = together.finish(&finishes, self.now)?;
        for finish in finishes.iter().filter(|_| is_finished) {
            self.finished(finish)?;
        }
        Ok(is_finished)
    }

    fn settle(&mut self, settlement: &Settlement) -> StorageResult<SettleResult> {
        let settled = self.decide(settlement)?;
        if settled == SettleResult::Applied && !settlement.then.is_empty() {
            self.follow(&settlement.then)?;
        }
        Ok(settled)
    }

    fn decide(&mut self, settlement: &Settlement) -> StorageResult<SettleResult> {
        if let Some(finish) = Finish::of(settlement, self.now) {
            return self.finish(&finish);
        }
        let (lease, execution) = (settlement.lease, settlement.execution.as_deref());
        let final_state = match &settlement.verdict {
            Verdict::Done => FinalState::Finished(MessageState::Done),
            Verdict::Cancelled => FinalState::Finished(MessageState::Cancelled),
            Verdict::Dead { reason, error } => FinalState::Dead(*reason, error.as_deref()),
            again @ Verdict::Again { .. } => return self.again(lease, again, execution),
        };
        self.move_out(lease, final_state, execution)
    }

    /// Stores follow-up messages, unless they are stored already.
    fn follow(&mut self, then: &[Arc<Message>]) -> StorageResult<()> {
        let mut enqueuer = Enqueuer::new(self.transaction, self.now, self.effects)?;
        for message in then {
            enqueuer.enqueue(&Entry { message: Arc::clone(message), replace: false })?;
        }
        enqueuer.finish()
    }

    /// Moves a message from the hot table into one row with the attempt that ended it; into two rows where they
    /// cannot share one.
    fn finish(&mut self, finish: &Finish<'_>) -> StorageResult<SettleResult> {
        let one = std::slice::from_ref(finish);
        if self.single.finish(one, self.now)? {
            return self.finished(finish);
        }
        let Some(relations) = self.current(finish.lease)? else { return Ok(SettleResult::Lost) };
        if !Finisher::new(self.transaction, Rows::Any)?.finish(one, self.now)? {
            let final_state = FinalState::Finished(finish.state);
            move_out(self.transaction, finish.lease.message, final_state, self.now)?;
            self.append.append(finish.execution)?;
        }
        self.count_moved(relations, finish.state)
    }

    /// Counts a finished message for which no other message waits.
    fn finished(&mut self, finish: &Finish<'_>) -> StorageResult<SettleResult> {
        let Execution { queue, job, .. } = finish.execution;
        self.effects.moved(queue, 1, Some(MessageState::Running), Some(finish.state));
        notify_job_queues(self.transaction, job.as_ref().map(JobName::as_str), self.effects)?;
        Ok(SettleResult::Applied)
    }

    /// Moves a message from the hot table, and inserts the attempt as a row of its own.
    fn move_out(
        &mut self,
        lease: LeaseRef,
        final_state: FinalState<'_>,
        execution: Option<&Execution>,
    ) -> StorageResult<SettleResult> {
        let Some(relations) = self.current(lease)? else { return Ok(SettleResult::Lost) };
        move_out(self.transaction, lease.message, final_state, self.now)?;
        if let Some(execution) = execution {
            self.append.append(execution)?;
        }
        self.count_moved(relations, final_state.state())
    }

    fn current(&self, lease: LeaseRef) -> StorageResult<Option<MessageRelations>> {
        let mut statement = self.transaction.prepare_cached(CURRENT)?;
        let id = lease.message.as_uuid();
        Ok(statement
            .query_row(params![id.as_bytes(), token(lease)], MessageRelations::read)
            .optional()?)
    }

    fn count_moved(
        &mut self,
        relations: MessageRelations,
        state: MessageState,
    ) -> StorageResult<SettleResult> {
        self.effects.moved(&relations.queue, 1, Some(MessageState::Running), Some(state));
        self.effects.left_lane(relations.lane);
        if !state.is_alive() {
            self.effects.left_batch(relations.batch);
        }
        notify_job_queues(self.transaction, relations.job.as_deref(), self.effects)?;
        Ok(SettleResult::Applied)
    }

    fn again(
        &mut self,
        lease: LeaseRef,
        verdict: &Verdict,
        execution: Option<&Execution>,
    ) -> StorageResult<SettleResult> {
        let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = verdict else {
            return Ok(SettleResult::Lost);
        };
        let (id, due_at) = (lease.message.as_uuid(), micros_up(*due_at));
        let row = params![
            id.as_bytes(),
            token(lease),
            due_at,
            count_to_column(*attempt),
            count_to_column(*crashes),
            count_to_column(*snoozes),
            error.as_deref().map(without_nul)
        ];
        let mut statement = self.transaction.prepare_cached(AGAIN_FENCED)?;
        let Some(relations) = statement.query_row(row, MessageRelations::read).optional()? else {
            let is_current = self.current(lease)?.is_some();
            return Ok(if is_current { SettleResult::CancelRequested } else { SettleResult::Lost });
        };
        self.effects.is_due(&relations.queue, due_at);
        if let Some(execution) = execution {
            self.append.append(execution)?;
        }
        self.count_moved(relations, MessageState::Pending)
    }
}

/// Notifies the queues of pending messages of a job, which may run now.
pub(crate) fn notify_job_queues(
    transaction: &Connection,
    job: Option<&str>,
    effects: &mut Effects,
) -> StorageResult<()> {
    let Some(job) = job else { return Ok(()) };
    let sql = "SELECT queue, min(due_at) FROM punctual_message WHERE job = ?1 AND state = 0 \
               GROUP BY queue";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query([job])?;
    while let Some(row) = rows.next()? {
        let queue = Queue::from(row.get::<_, String>(0)?);
        // A process that was notified when the message was stored may have found it blocked, so it is notified
        // again.
        effects.was_taken(&queue);
        effects.is_due(&queue, row.get(1)?);
    }
    Ok(())
}

/// Returns whether a message is settled twice.
fn has_repeated_message(settlements: &[Settlement]) -> bool {
    let id = |settlement: &Settlement| settlement.lease.message;
    let mut rest = settlements.iter();
    std::iter::from_fn(|| rest.next().map(|one| (one, rest.clone())))
        .any(|(one, mut later)| later.any(|other| id(other) == id(one)))
}

pub(crate) fn token(lease: LeaseRef) -> i64 {
    i64::try_from(lease.token).unwrap_or(i64::MAX)
}
