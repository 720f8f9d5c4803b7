//! Commands of an operator on messages. The state table alone decides whether a state allows a command.

use std::sync::Arc;

use punctual::Message;
use punctual::backend::storage::{Command, CommandResult};
use punctual::jiff::Timestamp;
use punctual::model::{
    Assignment, DueTime, Key, MessageId, MessageRecord, MessageState, Priority, Queue, Source,
    StateChange, Topic,
};
use punctual::uuid::Uuid;
use punctual_columns::code::Code as _;
use punctual_columns::instant::micros_up;
use punctual_columns::message::{due_time, with_pause};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::driver::at_once;
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::operations::{alive_with_key, cancel_pending, insert_record, remove_finished};
use crate::queries::message;
use crate::row::Table;

/// Applies a command, or returns the state that does not allow it.
pub(crate) fn command(
    transaction: &Connection,
    command: &Command,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<CommandResult> {
    match command {
        Command::Cancel(id) => cancel(transaction, *id, now, effects),
        Command::CancelKey { topic, key } => {
            let about = pending_about(transaction, topic, key)?;
            for id in &about {
                cancel(transaction, *id, now, effects)?;
            }
            Ok(CommandResult::Applied(about.len() as u64))
        }
        Command::Redrive { id, due_at } => redrive(transaction, (*id, *due_at), now, effects),
        Command::Pause { id, pause } => {
            edit_due(transaction, *id, effects, |due| due.paused_by(pause.clone()))
        }
        Command::Resume { id, due_at } => {
            edit_due(transaction, *id, effects, |due| due.resumed(*due_at, now))
        }
        Command::Reschedule { id, due_at } => {
            edit_due(transaction, *id, effects, |due| Some(due.rescheduled(*due_at)))
        }
        Command::Reassign { id, to } => reassign(transaction, *id, to, effects),
        Command::Delete(id) => delete(transaction, *id, effects),
        Command::Discard(id) => match state_of(transaction, *id)? {
            Some(state) if state != MessageState::Dead => Ok(CommandResult::Refused(state)),
            _ => delete(transaction, *id, effects),
        },
    }
}

/// Returns the state of a message, from any table.
pub(crate) fn state_of(
    transaction: &Connection,
    id: MessageId,
) -> StorageResult<Option<MessageState>> {
    let sql = "SELECT state FROM punctual_message WHERE id = ?1 \
               UNION ALL SELECT 3 FROM punctual_dead WHERE id = ?1 \
               UNION ALL SELECT state FROM punctual_history WHERE message = ?1 AND state >= 0 LIMIT 1";
    let mut statement = transaction.prepare_cached(sql)?;
    let code: Option<i16> =
        statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0)).optional()?;
    Ok(code.map(MessageState::from_code).transpose()?)
}

/// Cancels a message: a pending one at once, a running one by a flag that its owner reads.
pub(crate) fn cancel(
    transaction: &Connection,
    id: MessageId,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<CommandResult> {
    let Some(state) = state_of(transaction, id)? else { return Ok(CommandResult::Unknown) };
    if state == MessageState::Running {
        let sql = "UPDATE punctual_message SET cancel_requested = 1 WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute([id.as_uuid().as_bytes()])?;
        effects.leases_changed();
        return Ok(CommandResult::Requested);
    }
    if state.after(StateChange::Cancel).is_none() {
        return Ok(CommandResult::Refused(state));
    }
    cancel_pending(transaction, id, now, effects)?;
    Ok(CommandResult::Applied(1))
}

/// Sends an ended message again, with the same id and all counts at zero.
fn redrive(
    transaction: &Connection,
    (id, due_at): (MessageId, Timestamp),
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<CommandResult> {
    let Some(state) = state_of(transaction, id)? else { return Ok(CommandResult::Unknown) };
    if state.after(StateChange::Redrive).is_none() {
        return Ok(CommandResult::Refused(state));
    }
    let Some(ended) = message(transaction, id)? else { return Ok(CommandResult::Unknown) };
    if at_once(alive_with_key(&transaction, ended.message.dedupe.as_ref()))?.is_some() {
        return Ok(CommandResult::Refused(state));
    }
    if state == MessageState::Dead {
        let sql = format!("DELETE FROM {}", Table::Dead.row());
        transaction.prepare_cached(&sql)?.execute([id.as_uuid().as_bytes()])?;
        effects.moved(&ended.message.queue, 1, Some(state), None);
    } else {
        at_once(remove_finished(&transaction, id, effects))?;
    }
    let message = Message { source: Source::Redriven, ..(*ended.message).clone() };
    let fresh = MessageRecord { due_at, ..MessageRecord::new(Arc::new(message)) };
    insert_record(transaction, &fresh, false, now)?;
    effects.is_due(&fresh.message.queue, micros_up(due_at));
    effects.moved(&fresh.message.queue, 1, None, Some(MessageState::Pending));
    Ok(CommandResult::Applied(1))
}

/// Changes when a pending message is due; does nothing when `change` returns none.
fn edit_due(
    transaction: &Connection,
    id: MessageId,
    effects: &mut Effects,
    change: impl FnOnce(DueTime) -> Option<DueTime>,
) -> StorageResult<CommandResult> {
    match state_of(transaction, id)? {
        None => Ok(CommandResult::Unknown),
        Some(MessageState::Pending) => {
            let uuid = id.as_uuid();
            let sql = "SELECT due_at, extra, queue FROM punctual_message WHERE id = ?1";
            let (due_at, extra, queue): (i64, Option<String>, String) = transaction
                .prepare_cached(sql)?
                .query_row([uuid.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let before = due_time(due_at, extra.as_deref())?;
            let was_paused = before.paused.is_some();
            let Some(after) = change(before) else { return Ok(CommandResult::Applied(0)) };
            let extra = if was_paused || after.paused.is_some() {
                with_pause(extra.as_deref(), after.paused.as_ref())?
            } else {
                extra
            };
            let due_at = micros_up(after.due_at);
            let sql = "UPDATE punctual_message SET due_at = ?2, extra = ?3 WHERE id = ?1";
            transaction.prepare_cached(sql)?.execute(params![uuid.as_bytes(), due_at, extra])?;
            let queue = Queue::from(queue);
            effects.was_taken(&queue);
            effects.is_due(&queue, due_at);
            Ok(CommandResult::Applied(1))
        }
        Some(state) => Ok(CommandResult::Refused(state)),
    }
}

fn reassign(
    transaction: &Connection,
    id: MessageId,
    to: &Assignment,
    effects: &mut Effects,
) -> StorageResult<CommandResult> {
    match state_of(transaction, id)? {
        None => Ok(CommandResult::Unknown),
        Some(MessageState::Pending) => {
            let before = queue_of(transaction, id)?;
            let queue = to.queue.as_ref().map(Queue::as_str);
            let priority = to.priority.map(Priority::level);
            let sql = "UPDATE punctual_message SET queue = coalesce(?2, queue), \
                       priority = coalesce(?3, priority) WHERE id = ?1 RETURNING due_at";
            let mut statement = transaction.prepare_cached(sql)?;
            let due_at: i64 = statement
                .query_row(params![id.as_uuid().as_bytes(), queue, priority], |row| row.get(0))?;
            let after = to.queue.as_ref().unwrap_or(&before);
            effects.was_taken(&before);
            effects.moved(&before, 1, Some(MessageState::Pending), None);
            effects.is_due(after, due_at);
            effects.moved(after, 1, None, Some(MessageState::Pending));
            Ok(CommandResult::Applied(1))
        }
        Some(state) => Ok(CommandResult::Refused(state)),
    }
}

/// Deletes a message that is not running, and its attempts.
fn delete(
    transaction: &Connection,
    id: MessageId,
    effects: &mut Effects,
) -> StorageResult<CommandResult> {
    let Some(state) = state_of(transaction, id)? else { return Ok(CommandResult::Unknown) };
    let table = match state {
        MessageState::Running => return Ok(CommandResult::Refused(state)),
        MessageState::Pending => Table::Message,
        MessageState::Dead => Table::Dead,
        MessageState::Done | MessageState::Cancelled => Table::Finished,
    };
    let uuid = id.as_uuid();
    let sql = format!("DELETE FROM {} RETURNING queue, batch", table.row());
    let mut statement = transaction.prepare_cached(&sql)?;
    let (queue, batch): (String, _) =
        statement.query_row([uuid.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let queue = Queue::from(queue);
    if state == MessageState::Pending {
        effects.was_taken(&queue);
        effects.left_batch(batch);
    }
    effects.moved(&queue, 1, Some(state), None);
    let sql = "DELETE FROM punctual_history WHERE message = ?1";
    transaction.prepare_cached(sql)?.execute([uuid.as_bytes()])?;
    Ok(CommandResult::Applied(1))
}

fn queue_of(transaction: &Connection, id: MessageId) -> StorageResult<Queue> {
    let sql = "SELECT queue FROM punctual_message WHERE id = ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let queue: String = statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0))?;
    Ok(Queue::from(queue))
}

fn pending_about(
    transaction: &Connection,
    topic: &Topic,
    key: &Key,
) -> StorageResult<Vec<MessageId>> {
    let sql = "SELECT id FROM punctual_message WHERE topic = ?1 AND key = ?2 AND state = 0 \
               AND job IS NOT NULL ORDER BY id";
    let mut statement = transaction.prepare_cached(sql)?;
    let ids = statement.query_map(params![topic.as_str(), key.as_str()], |row| row.get(0))?;
    let ids: rusqlite::Result<Vec<[u8; 16]>> = ids.collect();
    Ok(ids?.into_iter().map(|id| MessageId::from_uuid(Uuid::from_bytes(id))).collect())
}
