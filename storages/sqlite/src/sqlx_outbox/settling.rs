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
use crate::row::{APPEND, id_of_finished, strayed};
use crate::work::{AGAIN_FENCED, BURY, CURRENT, Finish, KEEP, REMOVE, finish_statement, token};

/// Applies a decision and appends its execution.
pub(super) async fn settle(
    driver: &mut Driver<'_>,
    settlement: &Settlement,
    now: Timestamp,
) -> Tried<Settled> {
    let (lease, now) = (settlement.lease, micros(now));
    let current = sqlx::query(CURRENT).bind(blob(lease.message)).bind(token(lease));
    let Some(current) = driver.row(current).await? else { return Ok(Settled::Lost) };
    let queue = Queue::from(current.try_get::<String, _>(0).map_err(fault)?);
    let mut execution = settlement.execution.as_deref();
    let state = match &settlement.verdict {
        Verdict::Done | Verdict::Cancelled => {
            let state =
                if settlement.verdict == Verdict::Done { State::Done } else { State::Cancelled };
            if finish(driver, settlement, now).await? {
                execution = None;
            } else {
                keep(driver, lease, state, now).await?;
            }
            state
        }
        Verdict::Dead { reason, error } => {
            let error = error.as_deref().map(|error| without_nul(error).into_owned());
            let bury = sqlx::query(BURY).bind(blob(lease.message)).bind(now).bind(reason.code());
            driver.execute(bury.bind(error)).await?;
            State::Dead
        }
        again @ Verdict::Again { .. } => {
            if !go_back(driver, lease, again).await? {
                return Ok(Settled::CancelRequested);
            }
            State::Pending
        }
    };
    if state != State::Pending {
        driver.execute(sqlx::query(REMOVE).bind(blob(lease.message))).await?;
    }
    if let Some(execution) = execution {
        let append = executed(sqlx::query(APPEND), execution, micros(execution.ended_at));
        driver.execute(append).await?;
    }
    let mut effects = Effects::default();
    effects.moved(&queue, 1, Some(State::Running), Some(state));
    driver.count(&effects).await?;
    Ok(Settled::Applied)
}

/// Copies a message into the history, into one row with its execution; answers whether it could.
async fn finish(driver: &mut Driver<'_>, settlement: &Settlement, now: i64) -> Tried<bool> {
    let Some(finish) = Finish::of(settlement, now) else { return Ok(false) };
    let sql = AssertSqlSafe(finish_statement(1));
    let statement = executed(sqlx::query(sql), finish.execution, now);
    let statement = statement.bind(token(finish.lease)).bind(finish.state.code()).bind(now);
    Ok(driver.execute(statement).await? == 1)
}

/// Copies a message into the history, into a row for itself.
async fn keep(driver: &mut Driver<'_>, lease: LeaseRef, state: State, now: i64) -> Tried<()> {
    let place = id_of_finished(lease.message, now);
    let keep = sqlx::query(KEEP).bind(blob(lease.message)).bind(now).bind(state.code());
    let keep = keep.bind(place.into_bytes().to_vec()).bind(strayed(place, now));
    driver.execute(keep).await?;
    Ok(())
}

/// Due again, unless a cancel was asked for.
async fn go_back(driver: &mut Driver<'_>, lease: LeaseRef, verdict: &Verdict) -> Tried<bool> {
    let Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } = verdict else {
        return Ok(false);
    };
    let statement = sqlx::query(AGAIN_FENCED)
        .bind(blob(lease.message))
        .bind(token(lease))
        .bind(micros_up(*due_at))
        .bind(column(*attempt))
        .bind(column(*crashes))
        .bind(column(*snoozes))
        .bind(error.as_deref().map(|error| without_nul(error).into_owned()));
    Ok(driver.row(statement).await?.is_some())
}

/// Binds an execution in the order of [`APPEND`]; `last` is the last instant of its row.
fn executed(statement: Statement<'static>, execution: &Execution, last: i64) -> Statement<'static> {
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
        .bind(column(execution.attempt))
        .bind(execution.attempts_max.map(column))
        .bind(process)
        .bind(micros_up(execution.due_at))
        .bind(micros(execution.started_at))
        .bind(micros(execution.ended_at))
        .bind(execution.ending.code())
        .bind(execution.note.as_deref().map(|note| without_nul(note).into_owned()))
        .bind(strayed(execution.id.as_uuid(), last))
}
