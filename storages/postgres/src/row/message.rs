//! Rows of messages: records as arrays for statements that take many rows at once, and rows decoded to records.

use std::borrow::Cow;
use std::sync::Arc;

use punctual::backend::storage::ClaimedMessage;
use punctual::bytes::Bytes;
use punctual::model::{Key, Message, MessageRecord, Queue};
use punctual_columns::code::Code;
use punctual_columns::instant::{instant, micros, micros_up};
use punctual_columns::message::{
    MessageColumns, NameCache, StateColumns, count_from_column, count_to_column, extra, extra_of,
    lease, progress_from_json, progress_to_json,
};
use punctual_columns::without_nul;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::driver::Cells;
use crate::error::StorageError;
use crate::operations::relations::RelationColumns;
use crate::value::{Micros, Param};

/// Messages, one array for each column that is written at publishing.
#[derive(Default)]
pub(crate) struct MessageArrays<'a> {
    pub(crate) ids: Vec<Uuid>,
    queues: Vec<&'a str>,
    topics: Vec<&'a str>,
    priorities: Vec<i16>,
    sources: Vec<i16>,
    exclusives: Vec<bool>,
    due: Vec<Micros>,
    planned: Vec<Micros>,
    created: Vec<Micros>,
    keys: Vec<Option<&'a str>>,
    dedupes: Vec<Option<&'a str>>,
    jobs: Vec<Option<&'a str>>,
    bodies: Vec<&'a [u8]>,
    extras: Vec<Option<String>>,
    relations: RelationColumns<'a>,
}

impl<'a> MessageArrays<'a> {
    pub(crate) fn of(messages: impl IntoIterator<Item = &'a Message>) -> punctual::Result<Self> {
        let mut columns = Self::default();
        for message in messages {
            columns.push(message, micros_up(message.due_at))?;
        }
        Ok(columns)
    }

    /// Adds a message with its own due time.
    pub(crate) fn push(&mut self, message: &'a Message, due_at: i64) -> punctual::Result<()> {
        self.ids.push(message.id.as_uuid());
        self.queues.push(message.queue.as_str());
        self.topics.push(message.topic.as_str());
        self.priorities.push(i16::from(message.priority.level()));
        self.sources.push(message.source.code());
        self.exclusives.push(message.exclusive);
        self.due.push(Micros(due_at));
        self.planned.push(Micros(micros(message.due_at)));
        self.created.push(Micros(micros(message.created_at)));
        self.keys.push(message.key.as_ref().map(Key::as_str));
        self.dedupes.push(message.dedupe.as_ref().map(Key::as_str));
        self.jobs.push(job_of(message));
        self.bodies.push(&message.body.bytes);
        self.extras.push(extra(message)?);
        self.relations.push(message);
        Ok(())
    }

    /// Adds a message in its current state, with its pause.
    pub(crate) fn push_record(&mut self, record: &'a MessageRecord) -> punctual::Result<()> {
        self.push(&record.message, micros_up(record.due_at))?;
        if let (Some(_), Some(extra)) = (&record.paused, self.extras.last_mut()) {
            *extra = extra_of(record)?;
        }
        Ok(())
    }

    /// Returns the fourteen parameters, in the order of the statements.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        vec![
            (&self.ids, Type::UUID_ARRAY),
            (&self.queues, Type::TEXT_ARRAY),
            (&self.topics, Type::TEXT_ARRAY),
            (&self.priorities, Type::INT2_ARRAY),
            (&self.sources, Type::INT2_ARRAY),
            (&self.exclusives, Type::BOOL_ARRAY),
            (&self.due, Type::TIMESTAMPTZ_ARRAY),
            (&self.planned, Type::TIMESTAMPTZ_ARRAY),
            (&self.created, Type::TIMESTAMPTZ_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.dedupes, Type::TEXT_ARRAY),
            (&self.jobs, Type::TEXT_ARRAY),
            (&self.bodies, Type::BYTEA_ARRAY),
            (&self.extras, Type::TEXT_ARRAY),
        ]
    }

    /// Returns the five parameters of the relations; empty arrays when no message has any.
    pub(crate) fn relations(&self) -> [Param<'_>; 5] {
        self.relations.params()
    }

    /// Returns the batches alone.
    pub(crate) fn batches(&self) -> Param<'_> {
        (&self.relations.batches, Type::UUID_ARRAY)
    }
}

/// Returns the job of which a message is an occurrence.
pub(crate) fn job_of(message: &Message) -> Option<&str> {
    message.occurrence.as_ref().map(|occurrence| occurrence.job.as_str())
}

/// States of messages, one array for each column.
#[derive(Default)]
pub(crate) struct StateArrays<'a> {
    attempts: Vec<i32>,
    crashes: Vec<i32>,
    snoozes: Vec<i32>,
    errors: Vec<Option<Cow<'a, str>>>,
    progress: Vec<Option<String>>,
    checkpoints: Vec<Option<String>>,
    /// Reason of a dead letter or state of a finished message.
    pub(crate) codes: Vec<Option<i16>>,
    pub(crate) ended: Vec<Micros>,
}

impl<'a> StateArrays<'a> {
    /// Creates the states of messages that were never attempted.
    pub(crate) fn new(count: usize) -> Self {
        let zeros = vec![0; count];
        Self { attempts: zeros.clone(), crashes: zeros.clone(), snoozes: zeros, ..Self::default() }
    }

    pub(crate) fn push(&mut self, record: &'a MessageRecord) -> punctual::Result<()> {
        self.attempts.push(count_to_column(record.attempt));
        self.crashes.push(count_to_column(record.crashes));
        self.snoozes.push(count_to_column(record.snoozes));
        self.errors.push(record.error.as_deref().map(without_nul));
        self.progress.push(record.progress.as_ref().map(progress_to_json).transpose()?);
        self.checkpoints.push(record.checkpoint.as_ref().map(progress_to_json).transpose()?);
        Ok(())
    }

    /// Returns attempts, crashes, snoozes, errors, progress and checkpoints.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        vec![
            (&self.attempts, Type::INT4_ARRAY),
            (&self.crashes, Type::INT4_ARRAY),
            (&self.snoozes, Type::INT4_ARRAY),
            (&self.errors, Type::TEXT_ARRAY),
            (&self.progress, Type::TEXT_ARRAY),
            (&self.checkpoints, Type::TEXT_ARRAY),
        ]
    }
}

/// Decodes a row of a claim; the queue is given by the caller or is the last column.
pub(crate) fn claimed_message(
    row: &Row,
    queue: Option<&Queue>,
    names: &mut NameCache,
    (owner, until): (Uuid, i64),
) -> Result<ClaimedMessage, StorageError> {
    let queue = match queue {
        Some(queue) => queue.as_str(),
        None => row.try_get(18)?,
    };
    let body: &[u8] = row.try_get(9)?;
    let message = MessageColumns {
        id: row.try_get(0)?,
        topic: row.try_get(1)?,
        queue,
        priority: row.try_get(2)?,
        planned_at: row.try_get::<_, Micros>(3)?.0,
        created_at: row.try_get::<_, Micros>(4)?.0,
        source: row.try_get(5)?,
        key: row.try_get(6)?,
        dedupe: row.try_get(7)?,
        exclusive: row.try_get(8)?,
        body: Bytes::copy_from_slice(body),
        extra: row.try_get(10)?,
    };
    Ok(ClaimedMessage {
        message: Arc::new(message.message_with(names)?),
        lease: lease(owner, row.try_get(15)?, until)?,
        due_at: instant(row.try_get::<_, Micros>(11)?.0)?,
        attempt: count_from_column(row.try_get(12)?),
        crashes: count_from_column(row.try_get(13)?),
        snoozes: count_from_column(row.try_get(14)?),
        cancel_requested: row.try_get(16)?,
        checkpoint: row.try_get::<_, Option<&str>>(17)?.map(progress_from_json).transpose()?,
    })
}

/// Decodes a message with its state, from the columns of `ended.sql` and of the pages.
pub(crate) fn record(row: &impl Cells) -> Result<MessageRecord, StorageError> {
    let body: &[u8] = row.named("body")?;
    let message = MessageColumns {
        id: row.named("id")?,
        topic: row.named("topic")?,
        queue: row.named("queue")?,
        priority: row.named("priority")?,
        planned_at: row.named::<Micros>("planned_at")?.0,
        created_at: row.named::<Micros>("created_at")?.0,
        source: row.named("source")?,
        key: row.named("key")?,
        dedupe: row.named("dedupe")?,
        exclusive: row.named("exclusive")?,
        body: Bytes::copy_from_slice(body),
        extra: row.named("extra")?,
    };
    let owner: Option<Uuid> = row.named("owner")?;
    let token: Option<i64> = row.named("token")?;
    let until: Option<Micros> = row.named("lease_until")?;
    let standing = StateColumns {
        state: row.named("state")?,
        due_at: row.named::<Micros>("due_at")?.0,
        extra: row.named("extra")?,
        attempt: row.named("attempt")?,
        crashes: row.named("crashes")?,
        snoozes: row.named("snoozes")?,
        lease: owner.zip(token).zip(until).map(|((owner, token), until)| (owner, token, until.0)),
        cancel_requested: row.named("cancel_requested")?,
        error: row.named("error")?,
        dead: row.named("reason")?,
        ended_at: row.named::<Option<Micros>>("ended_at")?.map(|at| at.0),
        progress: row.named("progress")?,
        checkpoint: row.named("checkpoint")?,
    };
    Ok(standing.record(message.message()?)?)
}
