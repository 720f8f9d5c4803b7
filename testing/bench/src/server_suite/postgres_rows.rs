//! Rows for PostgreSQL, inserted by plain SQL; the same as those for SQLite.

use anyhow::{Context as _, Result};
use tokio_postgres::{Client, NoTls};

use super::filled_storage::Rows;

/// Schema of the tables of this measurement.
const SCHEMA: &str = "punctual_bench_server";

/// Common part of the statements; `{count}`, `{first}` and `{step}` are replaced by numbers.
const ROWS: &str = "WITH timed AS (SELECT n, {first} + n * {step} / 1000 AS ms FROM generate_series(0::int8, {count} - 1) n),
    made AS (SELECT n, ms, to_timestamp(ms / 1000.0) AS at, to_timestamp((ms + 1500) / 1000.0) AS ended_at,
      to_timestamp((ms + 1000) / 1000.0) AS started_at,
      (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid AS id,
      (lpad(to_hex(ms + 1000), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '9' || lpad(to_hex(n), 15, '0'))::uuid
        AS execution,
      'queue-' || (n / 10 % 10) AS queue,
      CASE WHEN n % 99991 = 7 THEN 'rare' ELSE 'topic-' || (n / 10 % 20) END AS topic,
      'customer-' || (n % 9973) AS key,
      CASE WHEN n % 7 = 3 THEN 'job-' || lpad((n / 7 % 997)::text, 4, '0') END AS job,
      convert_to('\"' || lpad(n::text, 98, '0') || '\"', 'UTF8') AS body FROM timed)";

const FINISHED: &str = "INSERT INTO {schema}.history (id, message, state, ending, ended_at, queue, topic, key, job, nominal,
      source, attempt, attempts_max, due_at, started_at, priority, planned_at, created_at, exclusive, crashes, snoozes, body)
    SELECT execution, id, CASE n % 50 WHEN 3 THEN 4 ELSE 2 END, CASE n % 50 WHEN 3 THEN 8 ELSE 0 END, ended_at, queue, topic,
      key, job, CASE WHEN job IS NOT NULL THEN at END, (job IS NOT NULL)::int, 1, 5, at, started_at, 5, at, at, false, 0, 0,
      body FROM made WHERE n % 10 > 2";

const WAITING: &str = "INSERT INTO {schema}.message (id, queue, topic, priority, source, due_at, planned_at, created_at, key, body)
    SELECT id, queue, topic, 5, 0, at + (n % 10 - 1) * (1 + n % 30) * interval '1 day', at, at, key, body
    FROM made WHERE n % 10 IN (1, 2)";

const DEAD: &str = "INSERT INTO {schema}.dead (id, queue, topic, priority, source, exclusive, due_at, planned_at, created_at,
      ended_at, attempt, crashes, snoozes, reason, key, error, body)
    SELECT id, queue, topic, 5, 0, false, at, at, at, ended_at, 1, 0, 0, 0, key,
      'cannot reach host-' || chr((97 + n / 10 % 12)::int) || ': order ' || n || ' refused', body FROM made WHERE n % 10 = 0";

const FAILED: &str = "INSERT INTO {schema}.history (id, message, ending, ended_at, queue, topic, key, source, attempt,
      attempts_max, due_at, started_at, note)
    SELECT execution, id, 1, ended_at, queue, topic, key, 0, 1, 1, at, started_at, 'order ' || n || ' refused'
    FROM made WHERE n % 10 = 0";

/// Returns the storage address with the schema of this measurement.
pub(super) fn address(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}schema={SCHEMA}")
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connect")?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

/// Drops the schema of an earlier measurement.
pub(super) async fn clear(url: &str) -> Result<()> {
    let drop = format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE");
    connect(url).await?.batch_execute(&drop).await.context("drop the schema")
}

/// Fills existing tables and analyzes them, as autovacuum would do later.
pub(super) async fn fill(url: &str, rows: Rows) -> Result<()> {
    let client = connect(url).await?;
    client.batch_execute("SET synchronous_commit = off; SET work_mem = '64MB'").await?;
    let numbers = ROWS
        .replace("{count}", &rows.count.to_string())
        .replace("{first}", &rows.first_ms.to_string())
        .replace("{step}", &rows.step_us.to_string());
    for statement in [FINISHED, WAITING, DEAD, FAILED] {
        let statement = statement.replace("{schema}", SCHEMA);
        client.batch_execute(&format!("{numbers} {statement}")).await.context("fill a table")?;
    }
    for table in ["message", "dead", "history"] {
        client.batch_execute(&format!("VACUUM (ANALYZE) {SCHEMA}.{table}")).await?;
    }
    Ok(())
}
