//! Batches: a message that waits for one is due at the end of time until none of the batch is alive. Nobody
//! counts: whoever takes a message of a batch out of the hot table looks whether it was the last.

use punctual::model::{BatchId, MessageId, Queue};
use punctual::storage::END_OF_TIME;
use punctual_rows::instant::micros;
use rusqlite::{Connection, params};

use crate::effects::Effects;
use crate::fault::Tried;

/// Notes that a message waits for a batch, if anything of that is alive.
pub(crate) const WAIT: &str = "INSERT INTO punctual_wait (batch, message) \
     SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM punctual_message WHERE batch = ?1) \
     ON CONFLICT DO UPDATE SET message = excluded.message";
/// The same for one that waited elsewhere, and whose batch may be still to come.
const WAIT_ANYWAY: &str =
    "INSERT INTO punctual_wait (batch, message) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
/// Puts a message at the end of time.
pub(crate) const POSTPONE: &str =
    "UPDATE punctual_message SET due_at = ?2 WHERE id = ?1 AND state = 0";
/// Makes those that waited for a batch due as they were planned, if nothing of it is alive.
pub(crate) const FREE_WAITING: &str = "UPDATE punctual_message SET due_at = planned_at \
     WHERE id IN (SELECT w.message FROM punctual_wait w WHERE w.batch = ?1) AND state = 0 AND due_at = ?2 \
     AND NOT EXISTS (SELECT 1 FROM punctual_message b WHERE b.batch = ?1) RETURNING queue, due_at";
/// Forgets who waited for a batch, if nothing of it is alive.
pub(crate) const FORGET_WAITING: &str = "DELETE FROM punctual_wait WHERE batch = ?1 \
     AND NOT EXISTS (SELECT 1 FROM punctual_message b WHERE b.batch = ?1)";

/// The end of time in a column.
pub(crate) fn end_of_time() -> i64 {
    micros(END_OF_TIME)
}

/// Has a message wait for a batch; answers whether it has to.
pub(crate) fn wait(transaction: &Connection, message: MessageId, batch: BatchId) -> Tried<bool> {
    let (message, batch) = (message.as_uuid(), batch.as_uuid());
    let waits = params![batch.as_bytes(), message.as_bytes()];
    let has_to = transaction.prepare_cached(WAIT)?.execute(waits)? == 1;
    if has_to {
        let at = params![message.as_bytes(), end_of_time()];
        transaction.prepare_cached(POSTPONE)?.execute(at)?;
    }
    Ok(has_to)
}

/// Has a message go on waiting that did so elsewhere. What it waits for may come after it.
pub(crate) fn wait_anyway(
    transaction: &Connection,
    message: MessageId,
    batch: BatchId,
) -> Tried<()> {
    let (message, batch) = (message.as_uuid(), batch.as_uuid());
    let waits = params![batch.as_bytes(), message.as_bytes()];
    transaction.prepare_cached(WAIT_ANYWAY)?.execute(waits)?;
    Ok(())
}

/// Messages of a batch have left the hot table; if they were the last, those that waited are due.
pub(crate) fn end_batch(
    transaction: &Connection,
    batch: [u8; 16],
    effects: &mut Effects,
) -> Tried<()> {
    let mut statement = transaction.prepare_cached(FREE_WAITING)?;
    let mut freed = statement.query(params![batch, end_of_time()])?;
    while let Some(row) = freed.next()? {
        effects.is_due(&Queue::from(row.get::<_, String>(0)?), row.get(1)?);
    }
    transaction.prepare_cached(FORGET_WAITING)?.execute([batch])?;
    Ok(())
}
