//! Batches: a message that waits for a batch is due at the end of time until no message of the batch is alive.
//! There is no counter: a transaction that takes a message of a batch out of the hot table checks whether it
//! was the last.

use punctual::backend::storage::END_OF_TIME;
use punctual::model::{BatchId, MessageId, Queue};
use punctual_columns::instant::micros;
use rusqlite::{Connection, params};

use crate::driver::{Cells as _, Driver};
use crate::effects::Effects;
use crate::error::StorageResult;
use crate::value::values;

/// Records that a message waits for a batch, if any message of it is alive.
pub(crate) const WAIT: &str = "INSERT INTO punctual_wait (batch, message) \
     SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM punctual_message WHERE batch = ?1) \
     ON CONFLICT DO UPDATE SET message = excluded.message";
/// Records the same for an imported message, whose batch may be imported later.
const WAIT_FOR_IMPORTED_BATCH: &str =
    "INSERT INTO punctual_wait (batch, message) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
/// Makes a message due at the end of time.
const POSTPONE: &str = "UPDATE punctual_message SET due_at = ?2 WHERE id = ?1 AND state = 0";
/// Makes the messages that waited for a batch due at their planned time, if no message of it is alive.
pub(crate) const FREE_WAITING: &str = "UPDATE punctual_message SET due_at = planned_at \
     WHERE id IN (SELECT w.message FROM punctual_wait w WHERE w.batch = ?1) AND state = 0 AND due_at = ?2 \
     AND NOT EXISTS (SELECT 1 FROM punctual_message b WHERE b.batch = ?1) RETURNING queue, due_at";
/// Deletes the records of waiting messages of a batch, if no message of it is alive.
pub(crate) const FORGET_WAITING: &str = "DELETE FROM punctual_wait WHERE batch = ?1 \
     AND NOT EXISTS (SELECT 1 FROM punctual_message b WHERE b.batch = ?1)";

/// Returns the end of time for a column.
fn end_of_time() -> i64 {
    micros(END_OF_TIME)
}

/// Makes a message wait for a batch; returns whether it has to.
pub(crate) async fn wait(
    driver: &impl Driver,
    message: MessageId,
    batch: BatchId,
) -> StorageResult<bool> {
    let waits = values![batch.as_uuid(), message.as_uuid()];
    let has_to = driver.run(WAIT, &waits).await? == 1;
    if has_to {
        driver.run(POSTPONE, &values![message.as_uuid(), end_of_time()]).await?;
    }
    Ok(has_to)
}

/// Makes an imported message wait again. The batch it waits for may be imported later.
pub(crate) fn wait_for_imported_batch(
    transaction: &Connection,
    message: MessageId,
    batch: BatchId,
) -> StorageResult<()> {
    let (message, batch) = (message.as_uuid(), batch.as_uuid());
    let waits = params![batch.as_bytes(), message.as_bytes()];
    transaction.prepare_cached(WAIT_FOR_IMPORTED_BATCH)?.execute(waits)?;
    Ok(())
}

/// Makes waiting messages due after messages of a batch have left the hot table, if those were the last.
pub(crate) async fn end_batch(
    driver: &impl Driver,
    batch: [u8; 16],
    effects: &mut Effects,
) -> StorageResult<()> {
    for row in driver.rows(FREE_WAITING, &values![batch, end_of_time()]).await? {
        effects.is_due(&Queue::from(row.get::<String>(0)?), row.get(1)?);
    }
    driver.run(FORGET_WAITING, &values![batch]).await?;
    Ok(())
}
