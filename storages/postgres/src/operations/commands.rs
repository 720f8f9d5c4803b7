//! Commands of an operator on messages, and the moves between the tables that follow from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::backend::storage::{Command, CommandResult};
use punctual::jiff::Timestamp;
use punctual::model::{
    Assignment, DueTime, Key, Message, MessageId, MessageRecord, MessageState, Queue, Source, Topic,
};
use punctual_columns::code::Code;
use punctual_columns::instant::{micros, micros_up};
use punctual_columns::message::{due_time, with_pause};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::error::StorageError;
use crate::inner::Inner;
use crate::operations::batches::DueQueues;
use crate::pending_notifications::PendingNotifications;
use crate::row::record;
use crate::session::Session;
use crate::value::{Micros, Param};

/// Result of a command, and the notifications that follow from it.
struct Outcome {
    result: CommandResult,
    due: DueQueues,
}

impl From<CommandResult> for Outcome {
    fn from(result: CommandResult) -> Self {
        Self { result, due: Vec::new() }
    }
}

/// Result of stopping messages.
#[derive(Default)]
pub(crate) struct StopResult {
    /// Whether a running handler was requested to cancel.
    pub(crate) has_requested: bool,
    /// Messages that no longer wait for a batch.
    pub(crate) freed: DueQueues,
}

impl Inner {
    /// Applies a command; returns also the notifications that follow from it.
    pub(crate) async fn command(
        &self,
        session: &Session<'_>,
        command: &Command,
        now: Timestamp,
    ) -> Result<(CommandResult, PendingNotifications), StorageError> {
        let Outcome { result, due } = match command {
            Command::Cancel(id) => self.cancel(session, *id, now).await,
            Command::CancelKey { topic, key } => self.cancel_key(session, topic, key, now).await,
            Command::Redrive { id, due_at } => self.redrive(session, *id, *due_at, now).await,
            Command::Pause { id, pause } => {
                self.edit_due(session, *id, |due| due.paused_by(pause.clone())).await
            }
            Command::Resume { id, due_at } => {
                self.edit_due(session, *id, |due| due.resumed(*due_at, now)).await
            }
            Command::Reschedule { id, due_at } => {
                self.edit_due(session, *id, |due| Some(due.rescheduled(*due_at))).await
            }
            Command::Reassign { id, to } => self.reassign(session, *id, to).await,
            Command::Delete(id) => self.delete(session, *id, false).await,
            Command::Discard(id) => self.delete(session, *id, true).await,
        }?;
        let mut notifications = PendingNotifications::default();
        notifications.leases = result == CommandResult::Requested;
        notifications.add_due_queues(due);
        Ok((result, notifications))
    }

    async fn cancel(
        &self,
        session: &Session<'_>,
        id: MessageId,
        now: Timestamp,
    ) -> Result<Outcome, StorageError> {
        let result = match self.state_of(session, id).await? {
            None => return Ok(CommandResult::Unknown.into()),
            Some(MessageState::Running) => (MessageState::Running, CommandResult::Requested),
            Some(MessageState::Pending) => (MessageState::Pending, CommandResult::Applied(1)),
            Some(state) => return Ok(CommandResult::Refused(state).into()),
        };
        let (state, result) = result;
        let stopped = self.stop(session, &[(id.as_uuid(), state.code())], now).await?;
        Ok(Outcome { result, due: stopped.freed })
    }

    /// Stops alive messages that are locked already: cancels pending ones, requests the cancellation of running
    /// ones.
    pub(crate) async fn stop(
        &self,
        session: &Session<'_>,
        alive: &[(Uuid, i16)],
        now: Timestamp,
    ) -> Result<StopResult, StorageError> {
        let mut stopped = StopResult::default();
        let of = |state: MessageState| -> Vec<Uuid> {
            let those = alive.iter().filter(|(_, code)| *code == state.code());
            those.map(|(id, _)| *id).collect()
        };
        let (pending, running) = (of(MessageState::Pending), of(MessageState::Running));
        if !pending.is_empty() {
            let params: [Param<'_>; 2] =
                [(&pending, Type::UUID_ARRAY), (&Micros(micros(now)), Type::TIMESTAMPTZ)];
            let left = session.query(&self.sql.cancel_pending, &params).await?;
            let left =
                left.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<_, StorageError>>()?;
            stopped.freed = self.end_batches(session, &left).await?;
        }
        if running.is_empty() {
            return Ok(stopped);
        }
        let request = format!(
            "UPDATE {}.message SET cancel_requested = true WHERE id = ANY($1) AND state = 1",
            self.schema.quoted
        );
        stopped.has_requested =
            session.execute_text(&request, &[(&running, Type::UUID_ARRAY)]).await? > 0;
        Ok(stopped)
    }

    async fn cancel_key(
        &self,
        session: &Session<'_>,
        topic: &Topic,
        key: &Key,
        now: Timestamp,
    ) -> Result<Outcome, StorageError> {
        let about = format!(
            "SELECT id FROM {}.message WHERE topic = $1 AND key = $2 AND state = 0 \
             AND job IS NOT NULL ORDER BY id FOR UPDATE",
            self.schema.quoted
        );
        let params: [Param<'_>; 2] = [(&topic.as_str(), Type::TEXT), (&key.as_str(), Type::TEXT)];
        let mut ids: Vec<(Uuid, i16)> = Vec::new();
        for row in session.query_text(&about, &params).await? {
            ids.push((row.try_get(0)?, MessageState::Pending.code()));
        }
        let stopped = self.stop(session, &ids, now).await?;
        Ok(Outcome { result: CommandResult::Applied(ids.len() as u64), due: stopped.freed })
    }

    async fn redrive(
        &self,
        session: &Session<'_>,
        id: MessageId,
        due_at: Timestamp,
        now: Timestamp,
    ) -> Result<Outcome, StorageError> {
        let state = match self.state_of(session, id).await? {
            None => return Ok(CommandResult::Unknown.into()),
            Some(state) if state.is_alive() => return Ok(CommandResult::Refused(state).into()),
            Some(state) => state,
        };
        let rows =
            session.query(&self.sql.ended, &[(&vec![id.as_uuid()], Type::UUID_ARRAY)]).await?;
        let Some(row) = rows.first() else { return Err(StorageError::Raced) };
        let kept = record(row)?;
        let message = Message { source: Source::Redriven, ..(*kept.message).clone() };
        if let Some(dedupe) = &message.dedupe {
            let same_key = format!(
                "SELECT 1 FROM {}.message WHERE dedupe = $1 AND released IS NOT TRUE",
                self.schema.quoted
            );
            if !session.query_text(&same_key, &[(&dedupe.as_str(), Type::TEXT)]).await?.is_empty() {
                return Ok(CommandResult::Refused(state).into());
            }
        }
        let ids = vec![id.as_uuid()];
        session.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
        let queue = message.queue.clone();
        let fresh = MessageRecord { due_at, ..MessageRecord::new(Arc::new(message)) };
        self.put(session, &[&fresh], now).await?;
        Ok(Outcome { result: CommandResult::Applied(1), due: vec![(queue, micros_up(due_at))] })
    }

    /// Changes when a pending message is due; does nothing when `change` returns none.
    async fn edit_due(
        &self,
        session: &Session<'_>,
        id: MessageId,
        change: impl FnOnce(DueTime) -> Option<DueTime>,
    ) -> Result<Outcome, StorageError> {
        match self.state_of(session, id).await? {
            None => return Ok(CommandResult::Unknown.into()),
            Some(MessageState::Pending) => {}
            Some(state) => return Ok(CommandResult::Refused(state).into()),
        }
        let stands =
            format!("SELECT due_at, extra FROM {}.message WHERE id = $1", self.schema.quoted);
        let rows = session.query_text(&stands, &[(&id.as_uuid(), Type::UUID)]).await?;
        let Some(row) = rows.first() else { return Err(StorageError::Raced) };
        let extra: Option<&str> = row.try_get(1)?;
        let before = due_time(row.try_get::<_, Micros>(0)?.0, extra)?;
        let was_paused = before.paused.is_some();
        let Some(after) = change(before) else { return Ok(CommandResult::Applied(0).into()) };
        let due = Micros(micros_up(after.due_at));
        if !was_paused && after.paused.is_none() {
            return self
                .edit_pending(session, id, "due_at = $2", &[(&due, Type::TIMESTAMPTZ)])
                .await;
        }
        let extra = with_pause(extra, after.paused.as_ref())?;
        let to: [Param<'_>; 2] = [(&due, Type::TIMESTAMPTZ), (&extra, Type::TEXT)];
        self.edit_pending(session, id, "due_at = $2, extra = $3", &to).await
    }

    async fn reassign(
        &self,
        session: &Session<'_>,
        id: MessageId,
        to: &Assignment,
    ) -> Result<Outcome, StorageError> {
        let queue = to.queue.as_ref().map(Queue::as_str);
        let priority = to.priority.map(|priority| i16::from(priority.level()));
        let edit = "queue = coalesce($2, queue), priority = coalesce($3, priority)";
        self.edit_pending(session, id, edit, &[(&queue, Type::TEXT), (&priority, Type::INT2)]).await
    }

    /// Changes columns of a pending message; `$1` is its id.
    async fn edit_pending(
        &self,
        session: &Session<'_>,
        id: MessageId,
        edit: &str,
        to: &[Param<'_>],
    ) -> Result<Outcome, StorageError> {
        let text = format!(
            "UPDATE {}.message SET {edit} WHERE id = $1 AND state = 0 RETURNING queue, due_at",
            self.schema.quoted
        );
        let uuid = id.as_uuid();
        let params: Vec<Param<'_>> =
            [(&uuid as _, Type::UUID)].into_iter().chain(to.iter().cloned()).collect();
        if let Some(row) = session.query_text(&text, &params).await?.first() {
            let queue = Queue::from(row.try_get::<_, String>(0)?);
            let due_at: Micros = row.try_get(1)?;
            return Ok(Outcome { result: CommandResult::Applied(1), due: vec![(queue, due_at.0)] });
        }
        match self.state_of(session, id).await? {
            None => Ok(CommandResult::Unknown.into()),
            // The message became pending again between the two statements.
            Some(MessageState::Pending) => Err(StorageError::Raced),
            Some(state) => Ok(CommandResult::Refused(state).into()),
        }
    }

    /// Deletes a message that is not running; with `only_dead`, only a dead letter.
    async fn delete(
        &self,
        session: &Session<'_>,
        id: MessageId,
        only_dead: bool,
    ) -> Result<Outcome, StorageError> {
        match self.state_of(session, id).await? {
            None => return Ok(CommandResult::Unknown.into()),
            Some(state)
                if state == MessageState::Running || (only_dead && state != MessageState::Dead) =>
            {
                return Ok(CommandResult::Refused(state).into());
            }
            Some(_) => {}
        }
        let ids = vec![id.as_uuid()];
        let due = self.remove_alive(session, &ids).await?;
        session.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
        let attempts = format!(
            "DELETE FROM {}.history WHERE message = $1 AND state IS NULL",
            self.schema.quoted
        );
        session.execute_text(&attempts, &[(&id.as_uuid(), Type::UUID)]).await?;
        Ok(Outcome { result: CommandResult::Applied(1), due })
    }

    /// Deletes pending messages without history; returns the messages that no longer wait for their batches.
    pub(crate) async fn remove_alive(
        &self,
        session: &Session<'_>,
        ids: &[Uuid],
    ) -> Result<DueQueues, StorageError> {
        let mut left = BTreeSet::new();
        for row in session.query(&self.sql.remove_alive, &[(&ids, Type::UUID_ARRAY)]).await? {
            left.extend(row.try_get::<_, Option<Uuid>>(0)?);
        }
        self.end_batches(session, &left).await
    }

    /// Returns the state of a message and locks its row.
    async fn state_of(
        &self,
        session: &Session<'_>,
        id: MessageId,
    ) -> Result<Option<MessageState>, StorageError> {
        let schema = &self.schema.quoted;
        for text in [
            format!("SELECT state FROM {schema}.message WHERE id = $1 FOR UPDATE"),
            format!("SELECT 3::int2 FROM {schema}.dead WHERE id = $1 FOR UPDATE"),
            format!(
                "SELECT state FROM {schema}.history WHERE message = $1 AND state IS NOT NULL FOR UPDATE"
            ),
            // The message was redriven between the statements.
            format!("SELECT state FROM {schema}.message WHERE id = $1 FOR UPDATE"),
        ] {
            if let Some(row) =
                session.query_text(&text, &[(&id.as_uuid(), Type::UUID)]).await?.first()
            {
                return Ok(Some(MessageState::from_code(row.try_get(0)?)?));
            }
        }
        Ok(None)
    }

    /// Stores dead letters of a broker, unless the same message is alive here or dead already.
    pub(crate) async fn store_dead_letters(
        &self,
        session: &Session<'_>,
        letters: Vec<&MessageRecord>,
        now: Timestamp,
    ) -> Result<(), StorageError> {
        for letter in letters {
            let id = letter.message.id;
            let state = self.state_of(session, id).await?;
            if state.is_some_and(|state| state.is_alive() || state == MessageState::Dead) {
                continue;
            }
            if state.is_some() {
                let ids = vec![id.as_uuid()];
                session.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
            }
            let kept = MessageRecord {
                state: MessageState::Dead,
                lease: None,
                cancel_requested: false,
                ended_at: letter.ended_at.or(Some(now)),
                ..letter.clone()
            };
            self.put(session, &[&kept], now).await?;
        }
        Ok(())
    }
}
