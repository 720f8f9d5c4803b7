//! What an operator asks of messages, and the moves between the tables that follow from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::{
    Assignment, Key, Message, MessageId, MessageRecord, Queue, Source, State, Topic,
};
use punctual::storage::{Command, Commanded, Line};
use punctual_rows::code::Code;
use punctual_rows::instant::{micros, micros_up};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::batches::Freed;
use crate::columns::record;
use crate::failure::Failure;
use crate::inner::{Inner, attempt};
use crate::session::Session;
use crate::value::{Micros, Param};

/// What a command came to, and what has to be told.
struct Outcome {
    answer: Commanded,
    due: Freed,
}

impl From<Commanded> for Outcome {
    fn from(answer: Commanded) -> Self {
        Self { answer, due: Vec::new() }
    }
}

/// What stopping messages has led to.
#[derive(Default)]
pub(crate) struct Stopped {
    /// Whether a handler was asked.
    pub(crate) asked: bool,
    /// What no longer waits for a batch.
    pub(crate) freed: Freed,
}

impl Inner {
    pub(crate) async fn command(
        self: &Arc<Self>,
        command: &Command,
        now: Timestamp,
    ) -> Result<Commanded> {
        let outcome: Outcome = attempt!(self, |held| async {
            held.begin().await?;
            let outcome = self.command_within(held, command, now).await?;
            held.commit().await?;
            Ok(outcome)
        })?;
        if outcome.answer == Commanded::Requested {
            self.tell(Line::Leases, Micros::MIN.0);
        }
        self.tell_all(outcome.due);
        Ok(outcome.answer)
    }

    async fn command_within(
        &self,
        held: &Session<'_>,
        command: &Command,
        now: Timestamp,
    ) -> Result<Outcome, Failure> {
        match command {
            Command::Cancel(id) => self.cancel(held, *id, now).await,
            Command::CancelKey { topic, key } => self.cancel_key(held, topic, key, now).await,
            Command::Redrive { id, due_at } => self.redrive(held, *id, *due_at, now).await,
            Command::Reschedule { id, due_at } => self.reschedule(held, *id, *due_at).await,
            Command::Reassign { id, to } => self.reassign(held, *id, to).await,
            Command::Delete(id) => self.delete(held, *id, false).await,
            Command::Discard(id) => self.delete(held, *id, true).await,
        }
    }

    async fn cancel(
        &self,
        held: &Session<'_>,
        id: MessageId,
        now: Timestamp,
    ) -> Result<Outcome, Failure> {
        let answer = match self.state_of(held, id).await? {
            None => return Ok(Commanded::Unknown.into()),
            Some(State::Running) => (State::Running, Commanded::Requested),
            Some(State::Pending) => (State::Pending, Commanded::Applied(1)),
            Some(state) => return Ok(Commanded::Refused(state).into()),
        };
        let (state, answer) = answer;
        let stopped = self.stop(held, &[(id.as_uuid(), state.code())], now).await?;
        Ok(Outcome { answer, due: stopped.freed })
    }

    /// Stops alive messages that were locked before: pending ones at once, running ones by asking.
    pub(crate) async fn stop(
        &self,
        held: &Session<'_>,
        alive: &[(Uuid, i16)],
        now: Timestamp,
    ) -> Result<Stopped, Failure> {
        let mut stopped = Stopped::default();
        let of = |state: State| -> Vec<Uuid> {
            let those = alive.iter().filter(|(_, code)| *code == state.code());
            those.map(|(id, _)| *id).collect()
        };
        let (pending, running) = (of(State::Pending), of(State::Running));
        if !pending.is_empty() {
            let params: [Param<'_>; 2] =
                [(&pending, Type::UUID_ARRAY), (&Micros(micros(now)), Type::TIMESTAMPTZ)];
            let left = held.query(&self.sql.cancel_pending, &params).await?;
            let left =
                left.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<_, Failure>>()?;
            stopped.freed = self.end_batches(held, &left).await?;
        }
        if running.is_empty() {
            return Ok(stopped);
        }
        let ask = format!(
            "UPDATE {}.message SET cancel_requested = true WHERE id = ANY($1) AND state = 1",
            self.schema.quoted
        );
        stopped.asked = held.tell(&ask, &[(&running, Type::UUID_ARRAY)]).await? > 0;
        Ok(stopped)
    }

    async fn cancel_key(
        &self,
        held: &Session<'_>,
        topic: &Topic,
        key: &Key,
        now: Timestamp,
    ) -> Result<Outcome, Failure> {
        let about = format!(
            "SELECT id FROM {}.message WHERE topic = $1 AND key = $2 AND state = 0 \
             AND job IS NOT NULL ORDER BY id FOR UPDATE",
            self.schema.quoted
        );
        let params: [Param<'_>; 2] = [(&topic.as_str(), Type::TEXT), (&key.as_str(), Type::TEXT)];
        let mut ids: Vec<(Uuid, i16)> = Vec::new();
        for row in held.ask(&about, &params).await? {
            ids.push((row.try_get(0)?, State::Pending.code()));
        }
        let stopped = self.stop(held, &ids, now).await?;
        Ok(Outcome { answer: Commanded::Applied(ids.len() as u64), due: stopped.freed })
    }

    async fn redrive(
        &self,
        held: &Session<'_>,
        id: MessageId,
        due_at: Timestamp,
        now: Timestamp,
    ) -> Result<Outcome, Failure> {
        let state = match self.state_of(held, id).await? {
            None => return Ok(Commanded::Unknown.into()),
            Some(state) if state.is_alive() => return Ok(Commanded::Refused(state).into()),
            Some(state) => state,
        };
        let rows = held.query(&self.sql.ended, &[(&vec![id.as_uuid()], Type::UUID_ARRAY)]).await?;
        let Some(row) = rows.first() else { return Err(Failure::Raced) };
        let kept = record(row)?;
        let message = Message { source: Source::Redriven, ..(*kept.message).clone() };
        if let Some(dedupe) = &message.dedupe {
            let twin = format!(
                "SELECT 1 FROM {}.message WHERE dedupe = $1 AND released IS NOT TRUE",
                self.schema.quoted
            );
            if !held.ask(&twin, &[(&dedupe.as_str(), Type::TEXT)]).await?.is_empty() {
                return Ok(Commanded::Refused(state).into());
            }
        }
        let ids = vec![id.as_uuid()];
        held.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
        let queue = message.queue.clone();
        let fresh = MessageRecord { due_at, ..MessageRecord::new(Arc::new(message)) };
        self.put(held, &[&fresh], now).await?;
        Ok(Outcome { answer: Commanded::Applied(1), due: vec![(queue, micros_up(due_at))] })
    }

    async fn reschedule(
        &self,
        held: &Session<'_>,
        id: MessageId,
        due_at: Timestamp,
    ) -> Result<Outcome, Failure> {
        let due = Micros(micros_up(due_at));
        self.edit_pending(held, id, "due_at = $2", &[(&due, Type::TIMESTAMPTZ)]).await
    }

    async fn reassign(
        &self,
        held: &Session<'_>,
        id: MessageId,
        to: &Assignment,
    ) -> Result<Outcome, Failure> {
        let queue = to.queue.as_ref().map(Queue::as_str);
        let priority = to.priority.map(|priority| i16::from(priority.level()));
        let edit = "queue = coalesce($2, queue), priority = coalesce($3, priority)";
        self.edit_pending(held, id, edit, &[(&queue, Type::TEXT), (&priority, Type::INT2)]).await
    }

    /// Changes where a pending message stands; `$1` is the message.
    async fn edit_pending(
        &self,
        held: &Session<'_>,
        id: MessageId,
        edit: &str,
        to: &[Param<'_>],
    ) -> Result<Outcome, Failure> {
        let text = format!(
            "UPDATE {}.message SET {edit} WHERE id = $1 AND state = 0 RETURNING queue, due_at",
            self.schema.quoted
        );
        let uuid = id.as_uuid();
        let params: Vec<Param<'_>> =
            [(&uuid as _, Type::UUID)].into_iter().chain(to.iter().cloned()).collect();
        if let Some(row) = held.ask(&text, &params).await?.first() {
            let queue = Queue::from(row.try_get::<_, String>(0)?);
            let due_at: Micros = row.try_get(1)?;
            return Ok(Outcome { answer: Commanded::Applied(1), due: vec![(queue, due_at.0)] });
        }
        match self.state_of(held, id).await? {
            None => Ok(Commanded::Unknown.into()),
            // It came back between the two looks.
            Some(State::Pending) => Err(Failure::Raced),
            Some(state) => Ok(Commanded::Refused(state).into()),
        }
    }

    /// Removes a message that is not running, or only one that is dead.
    async fn delete(
        &self,
        held: &Session<'_>,
        id: MessageId,
        only_dead: bool,
    ) -> Result<Outcome, Failure> {
        match self.state_of(held, id).await? {
            None => return Ok(Commanded::Unknown.into()),
            Some(state) if state == State::Running || (only_dead && state != State::Dead) => {
                return Ok(Commanded::Refused(state).into());
            }
            Some(_) => {}
        }
        let ids = vec![id.as_uuid()];
        let due = self.remove_alive(held, &ids).await?;
        held.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
        let attempts = format!(
            "DELETE FROM {}.history WHERE message = $1 AND state IS NULL",
            self.schema.quoted
        );
        held.tell(&attempts, &[(&id.as_uuid(), Type::UUID)]).await?;
        Ok(Outcome { answer: Commanded::Applied(1), due })
    }

    /// Removes pending messages without a trace; answers what no longer waits for their batches.
    pub(crate) async fn remove_alive(
        &self,
        held: &Session<'_>,
        ids: &[Uuid],
    ) -> Result<Freed, Failure> {
        let mut left = BTreeSet::new();
        for row in held.query(&self.sql.remove_alive, &[(&ids, Type::UUID_ARRAY)]).await? {
            left.extend(row.try_get::<_, Option<Uuid>>(0)?);
        }
        self.end_batches(held, &left).await
    }

    /// The state of a message, locked where it is found.
    async fn state_of(&self, held: &Session<'_>, id: MessageId) -> Result<Option<State>, Failure> {
        let schema = &self.schema.quoted;
        for text in [
            format!("SELECT state FROM {schema}.message WHERE id = $1 FOR UPDATE"),
            format!("SELECT 3::int2 FROM {schema}.dead WHERE id = $1 FOR UPDATE"),
            format!(
                "SELECT state FROM {schema}.history WHERE message = $1 AND state IS NOT NULL FOR UPDATE"
            ),
            // Sent again between the looks.
            format!("SELECT state FROM {schema}.message WHERE id = $1 FOR UPDATE"),
        ] {
            if let Some(row) = held.ask(&text, &[(&id.as_uuid(), Type::UUID)]).await?.first() {
                return Ok(Some(State::from_code(row.try_get(0)?)?));
            }
        }
        Ok(None)
    }

    /// Keeps dead letters of a broker, unless the same message is alive here or dead already.
    pub(crate) async fn keep_letters(
        &self,
        held: &Session<'_>,
        letters: Vec<&MessageRecord>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        for letter in letters {
            let id = letter.message.id;
            let state = self.state_of(held, id).await?;
            if state.is_some_and(|state| state.is_alive() || state == State::Dead) {
                continue;
            }
            if state.is_some() {
                let ids = vec![id.as_uuid()];
                held.execute(&self.sql.remove_ended, &[(&ids, Type::UUID_ARRAY)]).await?;
            }
            let kept = MessageRecord {
                state: State::Dead,
                lease: None,
                cancel_requested: false,
                ended_at: letter.ended_at.or(Some(now)),
                ..letter.clone()
            };
            self.put(held, &[&kept], now).await?;
        }
        Ok(())
    }
}
