//! Import: stores records of another storage in their current state.

use punctual::backend::storage::{END_OF_TIME, EnqueueResult};
use punctual::jiff::Timestamp;
use punctual::model::MessageRecord;
use punctual_columns::instant::micros_up;
use rusqlite::Connection;

use super::batches::wait_for_imported_batch;
use super::enqueue::alive_with_key;
use super::message_rows::insert_record;
use super::reserved_keys::was_key_released;
use crate::driver::at_once;
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::operations::commands::state_of;

/// Stores records whose ids and keys are new here.
pub(crate) fn import_messages(
    transaction: &Connection,
    records: &[MessageRecord],
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<Vec<EnqueueResult>> {
    let mut results = Vec::with_capacity(records.len());
    for record in records {
        results.push(import_one(transaction, record, now, effects)?);
    }
    Ok(results)
}

fn import_one(
    transaction: &Connection,
    record: &MessageRecord,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<EnqueueResult> {
    let is_free = was_key_released(record);
    let record = record.clone().moved(now);
    let message = &record.message;
    if state_of(transaction, message.id)?.is_some() {
        return Ok(EnqueueResult::Duplicate(message.id));
    }
    if record.state.is_alive() {
        let key = message.dedupe.as_ref().filter(|_| !is_free);
        if let Some((twin, _)) = at_once(alive_with_key(&transaction, key))? {
            return Ok(EnqueueResult::Duplicate(twin));
        }
        match message.waits_for() {
            Some(batch) if record.due_at == END_OF_TIME => {
                wait_for_imported_batch(transaction, message.id, batch)?;
            }
            _ => effects.is_due(&message.queue, micros_up(record.due_at)),
        }
    }
    effects.moved(&message.queue, 1, None, Some(record.state));
    insert_record(transaction, &record, is_free, now)?;
    Ok(EnqueueResult::Stored)
}
