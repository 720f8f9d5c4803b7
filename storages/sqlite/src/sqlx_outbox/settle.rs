//! Settle by way of sqlx: with the same check of the lease, into the same tables.

use punctual::jiff::Timestamp;
use punctual::model::{
    Execution, JobName, Key, LeaseRef, MessageId, MessageState, ProcessId, Queue,
};
use punctual::policy::Verdict;
use punctual::storage::{Entry, SettleResult, Settlement};
use punctual_columns::code::Code as _;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::count_to_column;
use punctual_columns::without_nul;
use sqlx::{AssertSqlSafe, Row as _};

use super::enqueue::enqueue;
use super::{Driver, Statement, batch, blob, from_sqlx};
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::operations::{
    AGAIN_FENCED, COPY_TO_DEAD, COPY_TO_HISTORY, CURRENT, Finish, REMOVE, Rows, finish_statement,
    token,
};
use crate::row::{APPEND, id_of_finished, strayed};

/// Applies a decision and inserts its execution.
pub(super) async fn settle(
    driver: &mut Driver<'_>,
    settlement: &Settlement,
    now: Timestamp,
) -> StorageResult<SettleResult> {
    let (lease, ended_at) = (settlement.lease, micros(now));
    let current = sqlx::query(CURRENT).bind(blob(lease.message)).bind(token(lease));
    let Some(current) = driver.row(current).await? else { return Ok(SettleResult::Lost) };
    let queue = Queue::from(current.try_get::<String, _>(0).map_err(from_sqlx)?);
    let mut execution = settlement.execution.as_deref();
    let state = match &settlement.verdict {
        Verdict::Done | Verdict::Cancelled => {
            let state = if settlement.verdict == Verdict::Done {
                MessageState::Done
            } else {
                MessageState::Cancelled
            };
            if finish(driver, settlement, ended_at).await? {
                execution = None;
            } else {
                copy_to_history(driver, lease, state, ended_at).await?;
            }
            state
        }
        Verdict::Dead { reason, error } => {
            let error = error.as_deref().map(|error| without_nul(error).into_owned());
            let copy = sqlx::query(COPY_TO_DEAD)
                .bind(blob(lease.message))
                .bind(ended_at)
                .bind(reason.code());
            driver.execute(copy.bind(error)).await?;
            MessageState::Dead
        }
        again @ Verdict::Again { .. } => {
            if !make_due_again(driver, lease, again).await? {
                return Ok(SettleResult::CancelRequested);
            }
            MessageState::Pending
        }
    };
    if state != MessageState::Pending {
        driver.execute(sqlx::query(REMOVE).bind(blob(lease.message))).await?;
    }
    if let Some(execution) = execution {
        let append = bind_execution(sqlx::query(APPEND), execution, micros(execution.ended_at));
        driver.execute(append).await?;
    }
    let mut effects = Effects::default();
    effects.moved(&queue, 1, Some(MessageState::Running), Some(state));
    if state != MessageState::Pending {
        effects.left_batch(batch(&current, 3)?);
    }
    driver.conclude(effects).await?;
    if !settlement.then.is_empty() {
        let then = settlement.then.iter().cloned();
        let then: Vec<Entry> = then.map(|message| Entry { message, replace: false }).collect();
        enqueue(driver, &then, now).await?;
    }
    Ok(SettleResult::Applied)
}

/// Copies a message into the history, into one row with its execution; returns whether that was possible.
async fn finish(driver: &mut Driver<'_>, settlement: &Settlement, now: i64) -> StorageResult<bool> {
    let Some(finish) = Finish::of(settlement, now) else { return Ok(false) };
    let sql = AssertSqlSafe(finish_statement(Rows::Any));
    let statement = bind_execution(sqlx::query(sql), finish.execution, now);
    let statement = statement.bind(token(finish.lease)).bind(finish.state.code()).bind(now);
    Ok(driver.execute(statement).await? == 1)
}

/// Copies a message into the history, into a row of its own.
async fn copy_to_history(
    driver: &mut Driver<'_>,
    lease: LeaseRef,
    state: MessageState,
    now: i64,
) -> StorageResult<()> {
    let place = id_of_finished(lease.message, now);
    let copy = sqlx::query(COPY_TO_HISTORY).bind(blob(lease.message)).bind(now).bind(state.code());
    let copy = copy.bind(place.into_bytes().to_vec()).bind(strayed(place, now));
    driver.execute(copy).await?;
    Ok(())
}

/// Makes a message due again, unless cancellation was requested.
async fn make_due_again(
    driver: &mut Driver<'_>,
    lease: LeaseRef,
    verdict: &Verdict,
) -> StorageResult<bool> {
    let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = verdict else {
        return Ok(false);
    };
    let statement = sqlx::query(AGAIN_FENCED)
        .bind(blob(lease.message))
        .bind(token(lease))
        .bind(micros_up(*due_at))
        .bind(count_to_column(*attempt))
        .bind(count_to_column(*crashes))
        .bind(count_to_column(*snoozes))
        .bind(error.as_deref().map(|error| without_nul(error).into_owned()));
    Ok(driver.row(statement).await?.is_some())
}

/// Binds an execution in the order of [`APPEND`]; `last` is the last instant of its row.
fn bind_execution(
    statement: Statement<'static>,
    execution: &Execution,
    last: i64,
) -> Statement<'static> {
    let process = execution.process.map(|id| ProcessId::as_uuid(id).into_bytes().to_vec());
    statement
        .bind(execution.id.as_uuid().into_bytes().to_vec())
        .bind(execution.message.map(|id: MessageId| blob(id)))
        .bind(execution.topic.as_str().to_owned())
        .bind(execution.queue.as_str().to_owned())
        .bind(execution.key.as_ref().map(|key| Key::as_str(key).to_owned()))
        .bind(execution.job.as_ref().map(|job| JobName::as_str(job).to_owned()))
        .bind(execution.nominal.map(micros))
        .bind(execution.source.code())
        .bind(count_to_column(execution.attempt))
        .bind(execution.attempts_max.map(count_to_column))
        .bind(process)
        .bind(micros_up(execution.due_at))
        .bind(micros(execution.started_at))
        .bind(micros(execution.ended_at))
        .bind(execution.ending.code())
        .bind(execution.note.as_deref().map(|note| without_nul(note).into_owned()))
        .bind(execution.log.as_deref().map(|log| without_nul(log).into_owned()))
        .bind(strayed(execution.id.as_uuid(), last))
}
