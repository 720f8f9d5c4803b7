//! Broker records: the executions of messages that a broker delivered, and their dead letters.

use punctual::backend::storage::BrokerRecord;
use punctual::jiff::Timestamp;
use punctual::model::{MessageRecord, MessageState};
use rusqlite::Connection;

use super::enqueue::{is_alive_or_dead, remove_finished};
use super::message_rows::insert_record;
use crate::driver::at_once;
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::row::HistoryWriter;

/// Inserts executions and dead letters.
pub(crate) fn record(
    transaction: &Connection,
    records: &[BrokerRecord],
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<()> {
    let mut history = HistoryWriter::new(&transaction)?;
    for record in records {
        at_once(history.append(&record.execution))?;
        if let Some(letter) = &record.dead {
            store_dead_letter(transaction, letter, now, effects)?;
        }
    }
    Ok(())
}

/// Stores a dead letter, unless the same message is alive here or dead already.
fn store_dead_letter(
    transaction: &Connection,
    letter: &MessageRecord,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<()> {
    let id = letter.message.id;
    if at_once(is_alive_or_dead(&transaction, id))? {
        return Ok(());
    }
    at_once(remove_finished(&transaction, id, effects))?;
    let letter = MessageRecord {
        state: MessageState::Dead,
        lease: None,
        cancel_requested: false,
        ..letter.clone()
    };
    effects.moved(&letter.message.queue, 1, None, Some(MessageState::Dead));
    insert_record(transaction, &letter, false, now)
}
