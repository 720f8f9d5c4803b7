//! Settle: applies decisions, each only with the current token. A message that is done, dead or cancelled moves
//! from the hot table to the table of its state.

use std::sync::Arc;

use punctual::Message;
use punctual::backend::policy::Verdict;
use punctual::backend::storage::{Entry, SettleResult, Settlement};
use punctual::jiff::Timestamp;
use punctual::model::{Execution, JobName, LeaseRef, MessageId, MessageState, Queue};
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::enqueue::Enqueuer;
use super::finish::{Finish, Finisher, Rows, TOGETHER};
use super::message_rows::{FinalState, move_out};
use crate::driver::{Cells as _, Driver, at_once};
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::row::HistoryWriter;
use crate::value::values;

const AGAIN_FENCED: &str = "UPDATE punctual_message SET state = 0, due_at = ?3, attempt = ?4, \
     crashes = ?5, snoozes = ?6, error = coalesce(?7, error), owner = NULL, token = NULL, \
     lease_until = NULL \
     WHERE id = ?1 AND token = ?2 AND state = 1 AND cancel_requested = 0 RETURNING queue, job, lane, batch";

/// Relations of a running message, if the lease is the current one.
const CURRENT: &str = "SELECT queue, job, lane, batch FROM punctual_message \
     WHERE id = ?1 AND token = ?2 AND state = 1";

/// Applies decisions and inserts their executions.
pub(crate) async fn settle(
    driver: &impl Driver,
    settlements: &[Settlement],
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<Vec<SettleResult>> {
    let mut settler = Settler::new(driver, now, effects)?;
    let mut results = Vec::with_capacity(settlements.len());
    for some in settlements.chunks(TOGETHER) {
        if settler.finish_together(some).await? {
            results.resize(results.len() + some.len(), SettleResult::Applied);
            continue;
        }
        for settlement in some {
            results.push(settler.settle(settlement).await?);
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
    let Some(row) = at_once(transaction.row(sql, &values![id.as_uuid()]))? else { return Ok(()) };
    let MessageRelations { queue, job, batch, .. } = MessageRelations::read(&row)?;
    let cancelled = FinalState::Finished(MessageState::Cancelled);
    at_once(move_out(&transaction, id, cancelled, micros(now)))?;
    effects.was_taken(&queue);
    effects.moved(&queue, 1, Some(MessageState::Pending), Some(MessageState::Cancelled));
    effects.left_batch(batch);
    effects.unblock_job(job.as_deref());
    Ok(())
}

/// Relations of a message.
struct MessageRelations {
    queue: Queue,
    job: Option<String>,
    lane: Option<String>,
    batch: Option<[u8; 16]>,
}

impl MessageRelations {
    fn read(row: &Vec<Value>) -> rusqlite::Result<Self> {
        let queue = Queue::from(row.get::<String>(0)?);
        Ok(Self { queue, job: row.get(1)?, lane: row.get(2)?, batch: row.get(3)? })
    }
}

/// State shared by the settlements of a call: prepared statements.
struct Settler<'a, D: Driver> {
    driver: &'a D,
    single: Finisher<'a, D>,
    together: Option<Finisher<'a, D>>,
    append: HistoryWriter<'a, D>,
    now: i64,
    effects: &'a mut Effects,
}

impl<'a, D: Driver> Settler<'a, D> {
    fn new(driver: &'a D, now: Timestamp, effects: &'a mut Effects) -> StorageResult<Self> {
        Ok(Self {
            driver,
            single: Finisher::new(driver, Rows::Plain(1))?,
            together: None,
            append: HistoryWriter::new(driver)?,
            now: micros(now),
            effects,
        })
    }

    /// Finishes the settlements of a group together, all or none.
    async fn finish_together(&mut self, settlements: &[Settlement]) -> StorageResult<bool> {
        let alone = settlements.iter().take_while(|one| one.then.is_empty());
        let finishes = alone.map_while(|one| Finish::of(one, self.now));
        let finishes: Vec<Finish<'_>> = finishes.collect();
        if finishes.len() < TOGETHER || has_repeated_message(settlements) {
            return Ok(false);
        }
        let together = match &mut self.together {
            Some(together) => together,
            none => none.insert(Finisher::new(self.driver, Rows::Plain(TOGETHER))?),
        };
        let is_finished = together.finish(&finishes, self.now).await?;
        for finish in finishes.iter().filter(|_| is_finished) {
            self.finished(finish);
        }
        Ok(is_finished)
    }

    async fn settle(&mut self, settlement: &Settlement) -> StorageResult<SettleResult> {
        let settled = self.decide(settlement).await?;
        if settled == SettleResult::Applied && !settlement.then.is_empty() {
            self.follow(&settlement.then).await?;
        }
        Ok(settled)
    }

    async fn decide(&mut self, settlement: &Settlement) -> StorageResult<SettleResult> {
        if let Some(finish) = Finish::of(settlement, self.now) {
            return self.finish(&finish).await;
        }
        let (lease, execution) = (settlement.lease, settlement.execution.as_deref());
        let final_state = match &settlement.verdict {
            Verdict::Done => FinalState::Finished(MessageState::Done),
            Verdict::Cancelled => FinalState::Finished(MessageState::Cancelled),
            Verdict::Dead { reason, error } => FinalState::Dead(*reason, error.as_deref()),
            again @ Verdict::Again { .. } => return self.again(lease, again, execution).await,
        };
        self.move_out(lease, final_state, execution).await
    }

    /// Stores follow-up messages, unless they are stored already.
    async fn follow(&mut self, then: &[Arc<Message>]) -> StorageResult<()> {
        let mut enqueuer = Enqueuer::new(self.driver, self.now, self.effects).await?;
        for message in then {
            enqueuer.enqueue(&Entry { message: Arc::clone(message), replace: false }).await?;
        }
        enqueuer.finish().await
    }

    /// Moves a message from the hot table into one row with the attempt that ended it; into two rows where they
    /// cannot share one.
    async fn finish(&mut self, finish: &Finish<'_>) -> StorageResult<SettleResult> {
        let one = std::slice::from_ref(finish);
        if self.single.finish(one, self.now).await? {
            return Ok(self.finished(finish));
        }
        let Some(relations) = self.current(finish.lease).await? else {
            return Ok(SettleResult::Lost);
        };
        if !Finisher::new(self.driver, Rows::Any)?.finish(one, self.now).await? {
            let final_state = FinalState::Finished(finish.state);
            move_out(self.driver, finish.lease.message, final_state, self.now).await?;
            self.append.append(finish.execution).await?;
        }
        Ok(self.count_moved(relations, finish.state))
    }

    /// Counts a finished message for which no other message waits.
    fn finished(&mut self, finish: &Finish<'_>) -> SettleResult {
        let Execution { queue, job, .. } = finish.execution;
        self.effects.moved(queue, 1, Some(MessageState::Running), Some(finish.state));
        self.effects.unblock_job(job.as_ref().map(JobName::as_str));
        SettleResult::Applied
    }

    /// Moves a message from the hot table, and inserts the attempt as a row of its own.
    async fn move_out(
        &mut self,
        lease: LeaseRef,
        final_state: FinalState<'_>,
        execution: Option<&Execution>,
    ) -> StorageResult<SettleResult> {
        let Some(relations) = self.current(lease).await? else { return Ok(SettleResult::Lost) };
        move_out(self.driver, lease.message, final_state, self.now).await?;
        if let Some(execution) = execution {
            self.append.append(execution).await?;
        }
        Ok(self.count_moved(relations, final_state.state()))
    }

    async fn current(&self, lease: LeaseRef) -> StorageResult<Option<MessageRelations>> {
        let row = self.driver.row(CURRENT, &values![lease.message.as_uuid(), token(lease)]).await?;
        Ok(row.as_ref().map(MessageRelations::read).transpose()?)
    }

    fn count_moved(&mut self, relations: MessageRelations, state: MessageState) -> SettleResult {
        self.effects.moved(&relations.queue, 1, Some(MessageState::Running), Some(state));
        self.effects.left_limit(relations.lane);
        if !state.is_alive() {
            self.effects.left_batch(relations.batch);
        }
        self.effects.unblock_job(relations.job.as_deref());
        SettleResult::Applied
    }

    async fn again(
        &mut self,
        lease: LeaseRef,
        verdict: &Verdict,
        execution: Option<&Execution>,
    ) -> StorageResult<SettleResult> {
        let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = verdict else {
            return Ok(SettleResult::Lost);
        };
        let due_at = micros_up(*due_at);
        let row = values![
            lease.message.as_uuid(),
            token(lease),
            due_at,
            count_to_column(*attempt),
            count_to_column(*crashes),
            count_to_column(*snoozes),
            error.as_deref().map(without_nul),
        ];
        let Some(row) = self.driver.row(AGAIN_FENCED, &row).await? else {
            let is_current = self.current(lease).await?.is_some();
            return Ok(if is_current { SettleResult::CancelRequested } else { SettleResult::Lost });
        };
        let relations = MessageRelations::read(&row)?;
        self.effects.is_due(&relations.queue, due_at);
        if let Some(execution) = execution {
            self.append.append(execution).await?;
        }
        Ok(self.count_moved(relations, MessageState::Pending))
    }
}

/// Notifies the queues of pending messages of a job, which may run now.
pub(crate) fn notify_job_queues(
    transaction: &Connection,
    job: &str,
    effects: &mut Effects,
) -> StorageResult<()> {
    let sql = "SELECT queue, min(due_at) FROM punctual_message WHERE job = ?1 AND state = 0 \
               GROUP BY queue";
    let mut statement = transaction.prepare_cached(sql)?;
    let mut rows = statement.query(params![job])?;
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

pub(super) fn token(lease: LeaseRef) -> i64 {
    i64::try_from(lease.token).unwrap_or(i64::MAX)
}
