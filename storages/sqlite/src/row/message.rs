//! Rows of messages. All three tables are read in the same order of columns.

use std::sync::Arc;

use punctual::backend::storage::ClaimedMessage;
use punctual::bytes::Bytes;
use punctual::model::{Lease, Message, MessageRecord, MessageState};
use punctual_columns::instant::instant;
use punctual_columns::message::{
    MessageColumns, NameCache, StateColumns, count_from_column, progress_from_json,
};
use rusqlite::Row;

use super::column::{id_at, maybe_id_at, maybe_text_at, text_at};
use crate::driver::Cells;
use crate::error::StorageResult;

/// Table that can contain a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Message,
    Dead,
    Finished,
}

impl Table {
    pub(crate) const ALL: [Self; 3] = [Self::Message, Self::Dead, Self::Finished];

    /// Returns the states of its messages.
    pub(crate) fn states(self) -> &'static [MessageState] {
        match self {
            Self::Message => &[MessageState::Pending, MessageState::Running],
            Self::Dead => &[MessageState::Dead],
            Self::Finished => &[MessageState::Done, MessageState::Cancelled],
        }
    }

    /// Returns the table and the condition for rows that are messages.
    pub(crate) fn rows(self) -> &'static str {
        match self {
            Self::Message => "punctual_message WHERE true",
            Self::Dead => "punctual_dead WHERE true",
            Self::Finished => "punctual_history WHERE state >= 0",
        }
    }

    /// Returns the column with the message's id.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Message | Self::Dead => "id",
            Self::Finished => "message",
        }
    }

    /// Returns the table and the condition for one message, whose id is the first parameter.
    pub(crate) fn row(self) -> String {
        format!("{} AND {} = ?1", self.rows(), self.id())
    }

    pub(crate) fn columns(self) -> &'static str {
        match self {
            Self::Message => MESSAGE_COLUMNS,
            Self::Dead => DEAD_COLUMNS,
            Self::Finished => FINISHED_COLUMNS,
        }
    }
}

macro_rules! sent {
    ($id:literal) => {
        concat!(
            $id,
            ", topic, planned_at, created_at, source, key, dedupe, exclusive, extra, body, ",
            "due_at, attempt, crashes, snoozes, checkpoint"
        )
    };
}

macro_rules! columns {
    ($id:literal, $standing:literal) => {
        concat!(sent!($id), ", queue, priority, error, progress, ", $standing)
    };
}

/// Columns that a claim reads; queue and priority are known.
pub(crate) const CLAIM_COLUMNS: &str = sent!("id");
/// Columns of an alive message.
pub(crate) const MESSAGE_COLUMNS: &str =
    columns!("id", "state, owner, token, lease_until, cancel_requested, NULL, NULL");
/// Columns of a dead letter.
const DEAD_COLUMNS: &str = columns!("id", "3, NULL, NULL, NULL, 0, reason, ended_at");
/// Columns of a finished message.
pub(crate) const FINISHED_COLUMNS: &str =
    columns!("message AS id", "state, NULL, NULL, NULL, 0, NULL, finished_at");

/// Decodes a finished message from [`FINISHED_COLUMNS`], without its state.
pub(crate) fn finished_of(row: &impl Cells) -> StorageResult<Message> {
    message_of(row, queue_and_priority(row)?, &mut NameCache::default())
}

/// Decodes a message with a given queue and priority.
fn message_of(
    row: &impl Cells,
    (queue, priority): (&str, i16),
    names: &mut NameCache,
) -> StorageResult<Message> {
    let sent = MessageColumns {
        id: id_at(row, 0)?,
        queue,
        topic: text_at(row, 1)?,
        priority,
        planned_at: row.get(2)?,
        created_at: row.get(3)?,
        source: row.get(4)?,
        key: maybe_text_at(row, 5)?,
        dedupe: maybe_text_at(row, 6)?,
        exclusive: row.get(7)?,
        extra: maybe_text_at(row, 8)?,
        body: Bytes::copy_from_slice(row.cell(9)?.as_blob()?),
    };
    Ok(sent.message_with(names)?)
}

/// Decodes queue and priority of a row with all columns.
fn queue_and_priority(row: &impl Cells) -> StorageResult<(&str, i16)> {
    Ok((text_at(row, 15)?, row.get(16)?))
}

/// Decodes a message with its state.
pub(crate) fn record_of(row: &Row<'_>) -> StorageResult<MessageRecord> {
    let lease = match (maybe_id_at(row, 20)?, row.get(21)?, row.get(22)?) {
        (Some(owner), Some(token), Some(until)) => Some((owner, token, until)),
        _ => None,
    };
    let standing = StateColumns {
        due_at: row.get(10)?,
        extra: maybe_text_at(row, 8)?,
        attempt: row.get(11)?,
        crashes: row.get(12)?,
        snoozes: row.get(13)?,
        checkpoint: maybe_text_at(row, 14)?,
        error: maybe_text_at(row, 17)?,
        progress: maybe_text_at(row, 18)?,
        state: row.get(19)?,
        lease,
        cancel_requested: row.get(23)?,
        dead: row.get(24)?,
        ended_at: row.get(25)?,
    };
    Ok(standing.record(message_of(row, queue_and_priority(row)?, &mut NameCache::default())?)?)
}

/// Decodes a claimed message from [`CLAIM_COLUMNS`]; the attempt is that of the row.
pub(crate) fn claimed_of(
    row: &Row<'_>,
    queue: (&str, i16),
    names: &mut NameCache,
    lease: Lease,
) -> StorageResult<ClaimedMessage> {
    Ok(ClaimedMessage {
        lease,
        due_at: instant(row.get(10)?)?,
        attempt: count_from_column(row.get(11)?),
        crashes: count_from_column(row.get(12)?),
        snoozes: count_from_column(row.get(13)?),
        cancel_requested: false,
        checkpoint: maybe_text_at(row, 14)?.map(progress_from_json).transpose()?,
        message: Arc::new(message_of(row, queue, names)?),
    })
}

/// Decodes a reclaimed message from [`MESSAGE_COLUMNS`].
pub(crate) fn reclaimed_of(row: &Row<'_>, lease: Lease) -> StorageResult<ClaimedMessage> {
    let claimed = claimed_of(row, queue_and_priority(row)?, &mut NameCache::default(), lease)?;
    Ok(ClaimedMessage { cancel_requested: row.get(23)?, ..claimed })
}
