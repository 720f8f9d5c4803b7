//! Keep: what handlers say while they work, from the current owner only.

use punctual::storage::{Extended, Keep};
use punctual_rows::message::kept;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::extend::extended;
use super::settle::token;
use crate::fault::Tried;

const SAY: &str = "UPDATE punctual_message SET progress = coalesce(?3, progress), \
     checkpoint = coalesce(?4, checkpoint) \
     WHERE id = ?1 AND token = ?2 AND state = 1 RETURNING cancel_requested";

/// Keeps what each says; what is not said again stays as it was.
pub(crate) fn keep(transaction: &Connection, keeps: &[Keep]) -> Tried<Vec<Extended>> {
    let mut statement = transaction.prepare_cached(SAY)?;
    let mut answers = Vec::with_capacity(keeps.len());
    for keep in keeps {
        let id = keep.lease.message.as_uuid();
        let said = params![
            id.as_bytes(),
            token(keep.lease),
            keep.progress.as_ref().map(kept).transpose()?,
            keep.checkpoint.as_ref().map(kept).transpose()?,
        ];
        answers.push(extended(statement.query_row(said, |row| row.get(0)).optional()?));
    }
    Ok(answers)
}
