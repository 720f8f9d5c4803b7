//! Rows for SQLite, inserted by plain SQL; state numbers are those of the crate `punctual-columns`.

use std::path::Path;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, params};

use super::filled_storage::Rows;

/// Common part of the statements: every row by its number. `?1` is the count, `?2` the first instant in
/// milliseconds, `?3` the microseconds between two rows.
const ROWS: &str =
    "WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < ?1 - 1),
    timed AS (SELECT n, ?2 + n * ?3 / 1000 AS ms FROM number),
    made AS (SELECT n, ms, unhex(printf('%012x7%03x8%015x', ms, n % 4096, n)) AS id,
      'queue-' || (n / 10 % 10) AS queue,
      CASE WHEN n % 99991 = 7 THEN 'rare' ELSE 'topic-' || (n / 10 % 20) END AS topic,
      'customer-' || (n % 9973) AS key,
      CASE WHEN n % 7 = 3 THEN printf('job-%04d', n / 7 % 997) END AS job,
      CAST('\"' || printf('%098d', n) || '\"' AS BLOB) AS body FROM timed)";

const FINISHED: &str = "INSERT INTO punctual_history (id, message, state, ending, ended_at, finished_at, queue, topic, key,
      job, nominal, source, attempt, attempts_max, due_at, started_at, priority, planned_at, created_at, exclusive,
      crashes, snoozes, body)
    SELECT unhex(printf('%012x7%03x9%015x', ms + 1000, n % 4096, n)), id, CASE n % 50 WHEN 3 THEN 4 ELSE 2 END,
      CASE n % 50 WHEN 3 THEN 8 ELSE 0 END, (ms + 1500) * 1000, (ms + 1500) * 1000, queue, topic, key, job,
      CASE WHEN job IS NOT NULL THEN ms * 1000 END, job IS NOT NULL, 1, 5, ms * 1000, (ms + 1000) * 1000, 5, ms * 1000,
      ms * 1000, 0, 0, 0, body FROM made WHERE n % 10 > 2";

const WAITING: &str = "INSERT INTO punctual_message (id, queue, topic, priority, due_at, planned_at, created_at, source, key,
      exclusive, body)
    SELECT id, queue, topic, 5, (ms + (n % 10 - 1) * 86400000 * (1 + n % 30)) * 1000, ms * 1000, ms * 1000, 0, key, 0, body
    FROM made WHERE n % 10 IN (1, 2)";

const DEAD: &str = "INSERT INTO punctual_dead (id, queue, topic, priority, due_at, planned_at, created_at, source, key,
      exclusive, attempt, crashes, snoozes, reason, ended_at, error, body)
    SELECT id, queue, topic, 5, ms * 1000, ms * 1000, ms * 1000, 0, key, 0, 1, 0, 0, 0, (ms + 1500) * 1000,
      'cannot reach host-' || char(97 + n / 10 % 12) || ': order ' || n || ' refused', body
    FROM made WHERE n % 10 = 0";

const FAILED: &str = "INSERT INTO punctual_history (id, message, ending, ended_at, queue, topic, key, source, attempt,
      attempts_max, due_at, started_at, note)
    SELECT unhex(printf('%012x7%03x9%015x', ms + 1000, n % 4096, n)), id, 1, (ms + 1500) * 1000, queue, topic, key, 0, 1, 1,
      ms * 1000, (ms + 1000) * 1000, 'order ' || n || ' refused' FROM made WHERE n % 10 = 0";

const COUNTS: &str = "INSERT INTO punctual_count (queue, state, count)
    SELECT queue, state, count(*) FROM (SELECT queue, state FROM punctual_message
      UNION ALL SELECT queue, 3 FROM punctual_dead
      UNION ALL SELECT queue, state FROM punctual_history WHERE state >= 0) GROUP BY queue, state
    ON CONFLICT DO UPDATE SET count = excluded.count";

/// Fills a file whose tables exist.
pub(super) fn fill(file: &Path, rows: Rows) -> Result<()> {
    let mut connection = Connection::open(file).context("open the file to fill it")?;
    // Durability is not needed: the file is deleted if this fails.
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")?;
    let transaction = connection.transaction()?;
    let count = i64::try_from(rows.count)?;
    for statement in [FINISHED, WAITING, DEAD, FAILED] {
        let statement = with_rows(statement);
        transaction.execute(&statement, params![count, rows.first_ms, rows.step_us])?;
    }
    transaction.execute(COUNTS, [])?;
    transaction.commit()?;
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}

/// Prepends the common part to an INSERT statement.
fn with_rows(statement: &str) -> String {
    format!("{ROWS} {statement}")
}
