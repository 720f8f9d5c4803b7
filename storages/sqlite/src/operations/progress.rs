//! Progress: saves progress and checkpoints of running handlers, from the current owner only.

use punctual::backend::storage::{ExtendResult, ProgressUpdate};
use punctual_columns::message::progress_to_json;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::extend::extended;
use super::settle::token;
use crate::error::StorageResult;

const SAVE_PROGRESS: &str = "UPDATE punctual_message SET progress = coalesce(?3, progress), \
     checkpoint = coalesce(?4, checkpoint) \
     WHERE id = ?1 AND token = ?2 AND state = 1 RETURNING cancel_requested";

/// Saves progress and checkpoint of each update; a missing value leaves the stored one.
pub(crate) fn save_progress(
    transaction: &Connection,
    updates: &[ProgressUpdate],
) -> StorageResult<Vec<ExtendResult>> {
    let mut statement = transaction.prepare_cached(SAVE_PROGRESS)?;
    let mut results = Vec::with_capacity(updates.len());
    for update in updates {
        let id = update.lease.message.as_uuid();
        let values = params![
            id.as_bytes(),
            token(update.lease),
            update.progress.as_ref().map(progress_to_json).transpose()?,
            update.checkpoint.as_ref().map(progress_to_json).transpose()?,
        ];
        results.push(extended(statement.query_row(values, |row| row.get(0)).optional()?));
    }
    Ok(results)
}
