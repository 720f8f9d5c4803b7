//! Fire: inserts the messages of due occurrences and moves the cursor of their job, in one step.

use punctual::backend::storage::{Entry, FireResult, Firing};
use punctual::jiff::Timestamp;
use punctual::model::{JobName, JobRecord, MessageId};
use punctual::uuid::Uuid;
use punctual_columns::instant::micros;
use rusqlite::{Connection, params};

use super::commands::cancel;
use super::enqueue::enqueue;
use super::jobs::{job, put};
use crate::driver::at_once;
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::row::HistoryWriter;

/// Selects the messages of a job that keep its occurrences from running.
const ALIVE: &str = "SELECT id FROM punctual_message WHERE job = ?1 AND (state = 1 \
     OR due_at <= ?2 \
     OR (due_at < 253402207200000000 AND (attempt > 0 OR snoozes > 0 OR crashes > 0))) ORDER BY id";

/// Fires occurrences; each firing is decided separately.
pub(crate) fn fire(
    transaction: &Connection,
    firings: &[Firing],
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<Vec<FireResult>> {
    firings.iter().map(|firing| fire_one(transaction, firing, now, effects)).collect()
}

fn fire_one(
    transaction: &Connection,
    firing: &Firing,
    now: Timestamp,
    effects: &mut Effects,
) -> StorageResult<FireResult> {
    let known = job(transaction, &firing.job)?.filter(|known| known.version == firing.seen);
    let Some(known) = known else { return Ok(FireResult::AlreadyMoved) };
    let alive = alive(transaction, &firing.job, now)?;
    let count = u32::try_from(alive.len()).unwrap_or(u32::MAX);
    if firing.alive_max.is_some_and(|alive_max| count > alive_max) {
        return Ok(FireResult::Overlapping(count));
    }
    if firing.cancel_alive {
        for id in alive {
            cancel(transaction, id, now, effects)?;
        }
    }
    // An occurrence that is alive already, after its job was moved back, is a duplicate.
    let entries = firing.messages.iter().cloned();
    let entries: Vec<Entry> = entries.map(|message| Entry { message, replace: false }).collect();
    at_once(enqueue(&transaction, &entries, now, effects))?;
    let mut history = HistoryWriter::new(&transaction)?;
    for execution in &firing.skipped {
        at_once(history.append(execution))?;
    }
    let after = JobRecord { version: firing.seen + 1, ..(*firing.after).clone() };
    put(transaction, &after, Some(&known), effects)?;
    Ok(FireResult::Fired)
}

/// Returns the alive messages of a job that are not planned for later, oldest id first.
fn alive(
    transaction: &Connection,
    name: &JobName,
    now: Timestamp,
) -> StorageResult<Vec<MessageId>> {
    let mut statement = transaction.prepare_cached(ALIVE)?;
    let ids = statement.query_map(params![name.as_str(), micros(now)], |row| row.get(0))?;
    let ids: rusqlite::Result<Vec<[u8; 16]>> = ids.collect();
    Ok(ids?.into_iter().map(|id| MessageId::from_uuid(Uuid::from_bytes(id))).collect())
}
