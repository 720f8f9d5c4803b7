//! A message's row. All three tables are read in the same order of columns.

use std::sync::Arc;

use punctual::bytes::Bytes;
use punctual::model::{Lease, Message, MessageRecord};
use punctual::storage::Claimed;
use punctual_rows::instant::instant;
use punctual_rows::message::{Sent, Standing, count};
use rusqlite::Row;

use super::column::{id_at, maybe_id_at, maybe_text_at, text_at};
use crate::fault::Tried;

/// Where a message can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Message,
    Dead,
    Finished,
}

impl Table {
    pub(crate) const ALL: [Self; 3] = [Self::Message, Self::Dead, Self::Finished];

    /// The rows of the table that are messages.
    pub(crate) fn rows(self) -> &'static str {
        match self {
            Self::Message => "punctual_message WHERE true",
            Self::Dead => "punctual_dead WHERE true",
            Self::Finished => "punctual_history WHERE state >= 0",
        }
    }

    /// The column with the message's id.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Message | Self::Dead => "id",
            Self::Finished => "message",
        }
    }

    /// The row of one message, whose id is the first parameter.
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

macro_rules! columns {
    ($id:literal, $standing:literal) => {
        concat!(
            $id,
            ", queue, topic, priority, planned_at, created_at, source, key, dedupe, exclusive, ",
            "extra, due_at, attempt, crashes, snoozes, error, ",
            $standing,
            ", body"
        )
    };
}

/// The columns of a message that is alive.
pub(crate) const MESSAGE_COLUMNS: &str =
    columns!("id", "state, owner, token, lease_until, cancel_requested, NULL, NULL");
/// The same of a dead letter.
const DEAD_COLUMNS: &str = columns!("id", "3, NULL, NULL, NULL, 0, reason, ended_at");
/// The same of a finished one.
pub(crate) const FINISHED_COLUMNS: &str =
    columns!("message AS id", "state, NULL, NULL, NULL, 0, NULL, finished_at");

const BODY: usize = 23;

/// What was sent.
fn message_of(row: &Row<'_>) -> Tried<Message> {
    let sent = Sent {
        id: id_at(row, 0)?,
        queue: text_at(row, 1)?,
        topic: text_at(row, 2)?,
        priority: row.get(3)?,
        planned_at: row.get(4)?,
        created_at: row.get(5)?,
        source: row.get(6)?,
        key: maybe_text_at(row, 7)?,
        dedupe: maybe_text_at(row, 8)?,
        exclusive: row.get(9)?,
        extra: maybe_text_at(row, 10)?,
        body: Bytes::copy_from_slice(row.get_ref(BODY)?.as_blob()?),
    };
    Ok(sent.message()?)
}

/// A message and where it stands.
pub(crate) fn record_of(row: &Row<'_>) -> Tried<MessageRecord> {
    let lease = match (maybe_id_at(row, 17)?, row.get(18)?, row.get(19)?) {
        (Some(owner), Some(token), Some(until)) => Some((owner, token, until)),
        _ => None,
    };
    let standing = Standing {
        due_at: row.get(11)?,
        attempt: row.get(12)?,
        crashes: row.get(13)?,
        snoozes: row.get(14)?,
        error: maybe_text_at(row, 15)?,
        state: row.get(16)?,
        lease,
        cancel_requested: row.get(20)?,
        dead: row.get(21)?,
        ended_at: row.get(22)?,
    };
    Ok(standing.record(message_of(row)?)?)
}

/// A message for its owner; the attempt is as the row says.
pub(crate) fn claimed_of(row: &Row<'_>, lease: Lease) -> Tried<Claimed> {
    Ok(Claimed {
        lease,
        due_at: instant(row.get(11)?)?,
        attempt: count(row.get(12)?),
        crashes: count(row.get(13)?),
        snoozes: count(row.get(14)?),
        cancel_requested: row.get(20)?,
        message: Arc::new(message_of(row)?),
    })
}
