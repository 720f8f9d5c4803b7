//! Raw limit of SQLite: the same rows in the same table, inserted, or claimed and deleted, by a plain loop over one
//! connection with the same settings.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use rusqlite::{Connection, params};

use super::{BATCH, BODY, float};

/// Opens a connection with the settings of the storage.
pub(super) fn connect(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Inserts rows, a batch per commit; returns the number per second.
pub(super) fn fill(connection: &mut Connection, messages: usize) -> Result<f64> {
    let start = Instant::now();
    for first in (0..messages).step_by(BATCH) {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, \
                 created_at, source, exclusive, body) VALUES (?1, 'default', 'tick', 5, 0, 0, 0, 0, 0, ?2)",
            )?;
            for number in first..messages.min(first + BATCH) {
                let id = u128::try_from(number)?.to_be_bytes();
                insert.execute(params![id, BODY])?;
            }
        }
        transaction.commit()?;
    }
    Ok(float(messages) / start.elapsed().as_secs_f64())
}

/// Claims and deletes every row, a batch per commit; returns the number per second.
pub(super) fn drain(connection: &mut Connection, messages: usize) -> Result<f64> {
    let mut drained = 0;
    let start = Instant::now();
    loop {
        let ids = claim(connection)?;
        if ids.is_empty() {
            break;
        }
        let transaction = connection.transaction()?;
        {
            let mut delete =
                transaction.prepare_cached("DELETE FROM punctual_message WHERE id = ?1")?;
            for id in &ids {
                drained += delete.execute([id])?;
            }
        }
        transaction.commit()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    anyhow::ensure!(drained == messages, "{drained} of {messages} rows were drained");
    Ok(float(messages) / seconds)
}

fn claim(connection: &mut Connection) -> Result<Vec<Vec<u8>>> {
    let transaction = connection.transaction()?;
    let mut ids = Vec::with_capacity(BATCH);
    {
        let mut claim = transaction.prepare_cached(
            "UPDATE punctual_message SET state = 1, attempt = attempt + 1, owner = ?1, token = 1, \
             lease_until = 1 WHERE id IN (SELECT id FROM punctual_message WHERE state = 0 \
             AND queue = 'default' AND priority = 5 AND lane IS NULL AND lane_max IS NULL AND due_at <= 0 ORDER BY due_at, id LIMIT ?2) \
             RETURNING id, topic, priority, due_at, key, body, extra, attempt",
        )?;
        let mut rows = claim.query(params![[0_u8; 16], i64::try_from(BATCH)?])?;
        while let Some(row) = rows.next()? {
            ids.push(row.get(0)?);
        }
    }
    transaction.commit()?;
    Ok(ids)
}
