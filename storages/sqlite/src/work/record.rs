//! Record: the executions of messages that a broker delivered, and their dead letters.

use punctual::jiff::Timestamp;
use punctual::model::{MessageRecord, State};
use punctual::storage::BrokerRecord;
use rusqlite::Connection;

use super::put::put;
use crate::effects::Effects;
use crate::fault::Tried;
use crate::row::Appending;

/// Appends executions and keeps dead letters.
pub(crate) fn record(
    transaction: &Connection,
    records: &[BrokerRecord],
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<()> {
    let mut history = Appending::new(transaction)?;
    for record in records {
        history.append(&record.execution)?;
        if let Some(letter) = &record.dead {
            keep_letter(transaction, letter, now, effects)?;
        }
    }
    Ok(())
}

/// Keeps a dead letter, unless the same message is alive here or dead already.
fn keep_letter(
    transaction: &Connection,
    letter: &MessageRecord,
    now: Timestamp,
    effects: &mut Effects,
) -> Tried<()> {
    let id = letter.message.id;
    if super::enqueue::is_kept(transaction, id)? {
        return Ok(());
    }
    super::enqueue::remove_finished(transaction, id, effects)?;
    let letter = MessageRecord {
        state: State::Dead,
        lease: None,
        cancel_requested: false,
        ..letter.clone()
    };
    effects.moved(&letter.message.queue, 1, None, Some(State::Dead));
    put(transaction, &letter, false, now)
}
