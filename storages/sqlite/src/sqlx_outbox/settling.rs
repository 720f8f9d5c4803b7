//! Settle by way of sqlx: behind the same fence, into the same tables.

use punctual::jiff::Timestamp;
use punctual::model::{Execution, JobName, Key, LeaseRef, MessageId, ProcessId, Queue, State};
use punctual::policy::Verdict;
use punctual::storage::{Settled, Settlement};
use punctual_rows::code::Code as _;
use punctual_rows::instant::{micros, micros_up};
use punctual_rows::message::column;
use punctual_rows::without_nul;
use sqlx::{AssertSqlSafe, Row as _};

use super::{Driver, Statement, blob, fault};
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::APPEND;
use crate::work::{AGAIN_FENCED, COMMON_COLUMNS, IS_CURRENT, token};

const REMOVE_FENCED: &str =
    "DELETE FROM punctual_message WHERE id = ?1 AND token = ?2 AND state = 1 RETURNING queue";
const LAST_ERROR: &str = "UPDATE punctual_dead SET error = ?2 WHERE id = ?1";

/// Applies a decision and appends its execution.
pub(super) async fn settle(
    driver: &mut Driver<'_>,
    settlement: &Settlement,
    now: Timestamp,
) -> Tried<Settled> {
    let (lease, now) = (settlement.lease, micros(now));
    let moved = match &settlement.verdict {
        Verdict::Done => leave(driver, lease, (State::Done, State::Done.code()), now).await?,
        Verdict::Cancelled => {
            leave(driver, lease, (State::Cancelled, State::Cancelled.code()), now).await?
        }
        Verdict::Dead { reason, error } => {
            let left = leave(driver, lease, (State::Dead, reason.code()), now).await?;
            if let (Some(_), Some(error)) = (&left, error) {
                let told = sqlx::query(LAST_ERROR).bind(blob(lease.message));
                driver.execute(told.bind(without_nul(error).into_owned())).await?;
            }
            left
        }
        again @ Verdict::Again { .. } => match go_back(driver, lease, again).await? {
            Ok(queue) => Some((queue, State::Pending)),
            Err(settled) => return Ok(settled),
        },
    };
    let Some((queue, state)) = moved else { return Ok(Settled::Lost) };
    let mut effects = Effects::default();
    effects.moved(&queue, 1, Some(State::Running), Some(state));
    driver.count(&effects).await?;
    if let Some(execution) = &settlement.execution {
        driver.execute(appending(execution)).await?;
    }
    Ok(Settled::Applied)
}

/// From the hot table into the one its state belongs to; nothing when the lease is not the current one.
async fn leave(
    driver: &mut Driver<'_>,
    lease: LeaseRef,
    (state, code): (State, i16),
    now: i64,
) -> Tried<Option<(Queue, State)>> {
    let (table, kind) = match state {
        State::Dead => ("punctual_dead", "reason"),
        _ => ("punctual_finished", "state"),
    };
    let sql = format!(
        "INSERT INTO {table} ({COMMON_COLUMNS}, ended_at, {kind}) SELECT {COMMON_COLUMNS}, ?3, ?4 \
         FROM punctual_message WHERE id = ?1 AND token = ?2 AND state = 1"
    );
    let keep = sqlx::query(AssertSqlSafe(sql)).bind(blob(lease.message)).bind(token(lease));
    if driver.execute(keep.bind(now).bind(code)).await? == 0 {
        return Ok(None);
    }
    let remove = sqlx::query(REMOVE_FENCED).bind(blob(lease.message)).bind(token(lease));
    let removed = driver.row(remove).await?;
    removed
        .map(|row| Ok((Queue::from(row.try_get::<String, _>(0).map_err(fault)?), state)))
        .transpose()
}

/// Due again; answers its queue, or why not.
async fn go_back(
    driver: &mut Driver<'_>,
    lease: LeaseRef,
    verdict: &Verdict,
) -> Tried<Result<Queue, Settled>> {
    let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = verdict else {
        return Ok(Err(Settled::Lost));
    };
    let statement = sqlx::query(AGAIN_FENCED)
        .bind(blob(lease.message))
        .bind(token(lease))
        .bind(micros_up(*due_at))
        .bind(column(*attempt))
        .bind(column(*crashes))
        .bind(column(*snoozes))
        .bind(error.as_deref().map(|error| without_nul(error).into_owned()));
    if let Some(row) = driver.row(statement).await? {
        return Ok(Ok(Queue::from(row.try_get::<String, _>(0).map_err(fault)?)));
    }
    let current = sqlx::query(IS_CURRENT).bind(blob(lease.message)).bind(token(lease));
    let is_current = driver.row(current).await?.is_some();
    Ok(Err(if is_current { Settled::CancelRequested } else { Settled::Lost }))
}

fn appending(execution: &Execution) -> Statement<'static> {
    let process = execution.process.map(|id| ProcessId::as_uuid(id).into_bytes().to_vec());
    sqlx::query(APPEND)
        .bind(execution.id.as_uuid().into_bytes().to_vec())
        .bind(execution.message.map(|id: MessageId| blob(id)))
        .bind(execution.topic.as_str().to_owned())
        .bind(execution.queue.as_str().to_owned())
        .bind(execution.key.as_ref().map(|key| Key::as_str(key).to_owned()))
        .bind(execution.job.as_ref().map(|job| JobName::as_str(job).to_owned()))
        .bind(execution.nominal.map(micros))
        .bind(execution.source.code())
        .bind(column(execution.attempt))
        .bind(execution.attempts_max.map(column))
        .bind(process)
        .bind(micros_up(execution.due_at))
        .bind(micros(execution.started_at))
        .bind(micros(execution.ended_at))
        .bind(execution.ending.code())
        .bind(execution.note.as_deref().map(|note| without_nul(note).into_owned()))
}
