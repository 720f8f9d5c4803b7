//! Restore: records as they stood in another storage.

use punctual::jiff::Timestamp;
use punctual::model::MessageRecord;
use punctual::storage::{END_OF_TIME, Enqueued};
use punctual_rows::instant::micros_up;
use rusqlite::Connection;

use super::batch::wait_anyway;
use super::enqueue::twin;
use super::hold::was_freed;
use super::put::put;
use crate::commands::state_of;
use crate::effects::Effects;
use crate::fault::Tried;

/// Stores records that are not known here.
pub(crate) fn restore(
    transaction: &Connection,
    records: &[MessageRecord],
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Vec<Enqueued>> {
    let mut answers = Vec::with_capacity(records.len());
    for record in records {
        answers.push(restore_one(transaction, record, now, effects)?);
    }
    Ok(answers)
}

fn restore_one(
    transaction: &Connection,
    record: &MessageRecord,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<Enqueued> {
    let is_free = was_freed(record);
    let record = record.clone().moved(now);
    let message = &record.message;
    if state_of(transaction, message.id)?.is_some() {
        return Ok(Enqueued::Duplicate(message.id));
    }
    if record.state.is_alive() {
        let key = message.dedupe.as_ref().filter(|_| !is_free);
        if let Some(twin) = twin(transaction, key)? {
            return Ok(Enqueued::Duplicate(twin));
        }
        match message.waits_for() {
            Some(batch) if record.due_at == END_OF_TIME => {
                wait_anyway(transaction, message.id, batch)?;
            }
            _ => effects.is_due(&message.queue, micros_up(record.due_at)),
        }
    }
    effects.moved(&message.queue, 1, None, Some(record.state));
    put(transaction, &record, is_free, now)?;
    Ok(Enqueued::Stored)
}
