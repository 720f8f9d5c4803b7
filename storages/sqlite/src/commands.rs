//! What an operator asks of messages. Whether a state allows it is asked of the state table alone.

use std::sync::Arc;

use punctual::Message;
use punctual::jiff::Timestamp;
use punctual::model::{
    Assignment, Key, MessageId, MessageRecord, Priority, Queue, Source, State, StateChange, Topic,
};
use punctual::storage::{Command, Commanded};
use punctual::uuid::Uuid;
use punctual_rows::code::Code as _;
use punctual_rows::instant::micros_up;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::effects::Effects;
use crate::fault::Tried;
use crate::reading::message;
use crate::row::Table;
use crate::work::{cancel_pending, put, remove_finished, twin};

/// Does what is asked, or says which state does not allow it.
pub(crate) fn command(
    transaction: &Connection,
    command: &Command,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Commanded> {
    match command {
        Command::Cancel(id) => cancel(transaction, *id, now, effects),
        Command::CancelKey { topic, key } => {
            let about = pending_about(transaction, topic, key)?;
            for id in &about {
                cancel(transaction, *id, now, effects)?;
            }
            Ok(Commanded::Applied(about.len() as u64))
        }
        Command::Redrive { id, due_at } => redrive(transaction, (*id, *due_at), now, effects),
        Command::Reschedule { id, due_at } => reschedule(transaction, *id, *due_at, effects),
        Command::Reassign { id, to } => reassign(transaction, *id, to, effects),
        Command::Delete(id) => delete(transaction, *id, effects),
        Command::Discard(id) => match state_of(transaction, *id)? {
            Some(state) if state != State::Dead => Ok(Commanded::Refused(state)),
            _ => delete(transaction, *id, effects),
        },
    }
}

/// The state of a message, wherever it is.
pub(crate) fn state_of(transaction: &Connection, id: MessageId) -> Tried<Option<State>> {
    let sql = "SELECT state FROM punctual_message WHERE id = ?1 \
               UNION ALL SELECT 3 FROM punctual_dead WHERE id = ?1 \
               UNION ALL SELECT state FROM punctual_history WHERE message = ?1 AND state >= 0 LIMIT 1";
    let mut statement = transaction.prepare_cached(sql)?;
    let code: Option<i16> =
        statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0)).optional()?;
    Ok(code.map(State::from_code).transpose()?)
}

/// Stops a message: a pending one at once, a running one by a flag that its owner will see.
pub(crate) fn cancel(
    transaction: &Connection,
    id: MessageId,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Commanded> {
    let Some(state) = state_of(transaction, id)? else { return Ok(Commanded::Unknown) };
    if state == State::Running {
        let sql = "UPDATE punctual_message SET cancel_requested = 1 WHERE id = ?1";
        transaction.prepare_cached(sql)?.execute([id.as_uuid().as_bytes()])?;
        effects.leases_changed();
        return Ok(Commanded::Requested);
    }
    if state.after(StateChange::Cancel).is_none() {
        return Ok(Commanded::Refused(state));
    }
    cancel_pending(transaction, id, now, effects)?;
    Ok(Commanded::Applied(1))
}

/// Sends a finished message again, under its id, with every count at zero.
fn redrive(
    transaction: &Connection,
    (id, due_at): (MessageId, Timestamp),
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Commanded> {
    let Some(state) = state_of(transaction, id)? else { return Ok(Commanded::Unknown) };
    if state.after(StateChange::Redrive).is_none() {
        return Ok(Commanded::Refused(state));
    }
    let Some(ended) = message(transaction, id)? else { return Ok(Commanded::Unknown) };
    if twin(transaction, ended.message.dedupe.as_ref())?.is_some() {
        return Ok(Commanded::Refused(state));
    }
    if state == State::Dead {
        let sql = format!("DELETE FROM {}", Table::Dead.row());
        transaction.prepare_cached(&sql)?.execute([id.as_uuid().as_bytes()])?;
        effects.moved(&ended.message.queue, 1, Some(state), None);
    } else {
        remove_finished(transaction, id, effects)?;
    }
    let message = Message { source: Source::Redriven, ..(*ended.message).clone() };
    let fresh = MessageRecord { due_at, ..MessageRecord::new(Arc::new(message)) };
    put(transaction, &fresh, false, now)?;
    effects.is_due(&fresh.message.queue, micros_up(due_at));
    effects.moved(&fresh.message.queue, 1, None, Some(State::Pending));
    Ok(Commanded::Applied(1))
}

fn reschedule(
    transaction: &Connection,
    id: MessageId,
    due_at: Timestamp,
    effects: &mut Effects,
) -> Tried<Commanded> {
    match state_of(transaction, id)? {
        None => Ok(Commanded::Unknown),
        Some(State::Pending) => {
            let due_at = micros_up(due_at);
            let sql = "UPDATE punctual_message SET due_at = ?2 WHERE id = ?1";
            transaction.prepare_cached(sql)?.execute(params![id.as_uuid().as_bytes(), due_at])?;
            let queue = queue_of(transaction, id)?;
            effects.was_taken(&queue);
            effects.is_due(&queue, due_at);
            Ok(Commanded::Applied(1))
        }
        Some(state) => Ok(Commanded::Refused(state)),
    }
}

fn reassign(
    transaction: &Connection,
    id: MessageId,
    to: &Assignment,
    effects: &mut Effects,
) -> Tried<Commanded> {
    match state_of(transaction, id)? {
        None => Ok(Commanded::Unknown),
        Some(State::Pending) => {
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
            effects.moved(&before, 1, Some(State::Pending), None);
            effects.is_due(after, due_at);
            effects.moved(after, 1, None, Some(State::Pending));
            Ok(Commanded::Applied(1))
        }
        Some(state) => Ok(Commanded::Refused(state)),
    }
}

/// Removes a message that is not running, and what is known of its attempts.
fn delete(transaction: &Connection, id: MessageId, effects: &mut Effects) -> Tried<Commanded> {
    let Some(state) = state_of(transaction, id)? else { return Ok(Commanded::Unknown) };
    let table = match state {
        State::Running => return Ok(Commanded::Refused(state)),
        State::Pending => Table::Message,
        State::Dead => Table::Dead,
        State::Done | State::Cancelled => Table::Finished,
    };
    let uuid = id.as_uuid();
    let sql = format!("DELETE FROM {} RETURNING queue, batch", table.row());
    let mut statement = transaction.prepare_cached(&sql)?;
    let (queue, batch): (String, _) =
        statement.query_row([uuid.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let queue = Queue::from(queue);
    if state == State::Pending {
        effects.was_taken(&queue);
        effects.left_batch(batch);
    }
    effects.moved(&queue, 1, Some(state), None);
    let sql = "DELETE FROM punctual_history WHERE message = ?1";
    transaction.prepare_cached(sql)?.execute([uuid.as_bytes()])?;
    Ok(Commanded::Applied(1))
}

fn queue_of(transaction: &Connection, id: MessageId) -> Tried<Queue> {
    let sql = "SELECT queue FROM punctual_message WHERE id = ?1";
    let mut statement = transaction.prepare_cached(sql)?;
    let queue: String = statement.query_row([id.as_uuid().as_bytes()], |row| row.get(0))?;
    Ok(Queue::from(queue))
}

fn pending_about(transaction: &Connection, topic: &Topic, key: &Key) -> Tried<Vec<MessageId>> {
    let sql = "SELECT id FROM punctual_message WHERE topic = ?1 AND key = ?2 AND state = 0 \
               AND job IS NOT NULL ORDER BY id";
    let mut statement = transaction.prepare_cached(sql)?;
    let ids = statement.query_map(params![topic.as_str(), key.as_str()], |row| row.get(0))?;
    let ids: rusqlite::Result<Vec<[u8; 16]>> = ids.collect();
    Ok(ids?.into_iter().map(|id| MessageId::from_uuid(Uuid::from_bytes(id))).collect())
}
