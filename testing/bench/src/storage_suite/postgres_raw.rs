//! Raw limit of PostgreSQL: the same rows in the same kind of table, claimed and deleted, or copied in, by plain
//! SQL with the same driver.

use std::time::Instant;

use anyhow::{Context, Result};
use futures_util::{SinkExt, future::try_join_all};
use tokio_postgres::{Client, NoTls};

use super::{BATCH, float};

/// Number of connections that claim concurrently, like a worker and its writer of settlements.
const CONNECTIONS: usize = 2;

/// Number of rows of a COPY passed to the driver at once.
const ROWS_SENT: usize = 500;

/// Opens a separate connection.
pub(super) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

/// Copies the messages to a table `raw` with the same columns, settings and indexes.
pub(super) async fn copy_of_messages(client: &Client, schema: &str) -> Result<()> {
    client
        .batch_execute(&format!(
            "DROP TABLE IF EXISTS {schema}.raw; \
             CREATE TABLE {schema}.raw (LIKE {schema}.message INCLUDING ALL); \
             INSERT INTO {schema}.raw SELECT * FROM {schema}.message ORDER BY id"
        ))
        .await
        .context("copy the messages")
}

/// Claims and deletes every row; returns the number per second.
pub(super) async fn drain(url: &str, schema: &str, messages: usize) -> Result<f64> {
    let claim = format!(
        "UPDATE {schema}.raw SET state = 1, attempt = attempt + 1, owner = gen_random_uuid(), \
         token = nextval('{schema}.token'), lease_until = now() + interval '5 minutes' \
         WHERE id = ANY(ARRAY(SELECT id FROM {schema}.raw WHERE state = 0 AND queue = 'default' \
         AND due_at <= now() ORDER BY priority DESC, due_at, id LIMIT {BATCH} FOR UPDATE SKIP LOCKED)) \
         RETURNING id, topic, priority, due_at, key, body, extra, attempt, token"
    );
    let delete = format!("DELETE FROM {schema}.raw WHERE id = ANY($1)");
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = connect(url).await?;
        let statements = (client.prepare(&claim).await?, client.prepare(&delete).await?);
        clients.push((client, statements));
    }
    let start = Instant::now();
    let counts = try_join_all(clients.iter().map(async |(client, (claim, delete))| {
        let mut count = 0;
        loop {
            let rows = client.query(claim, &[]).await?;
            if rows.is_empty() {
                return anyhow::Ok(count);
            }
            let ids: Vec<uuid::Uuid> = rows.iter().map(|row| row.get(0)).collect();
            count += usize::try_from(client.execute(delete, &[&ids]).await?)?;
        }
    }))
    .await?;
    let seconds = start.elapsed().as_secs_f64();
    let drained: usize = counts.iter().sum();
    anyhow::ensure!(drained == messages, "{drained} of {messages} rows were drained");
    Ok(float(messages) / seconds)
}

/// Inserts the same rows with binary COPY from prepared bytes; returns the number per second.
pub(super) async fn copy_in(client: &Client, schema: &str, messages: usize) -> Result<f64> {
    use futures_util::TryStreamExt;
    copy_of_messages(client, schema).await?;
    let out = client.copy_out(&format!("COPY {schema}.raw TO STDOUT (FORMAT binary)")).await?;
    let rows: Vec<bytes::Bytes> = out.try_collect().await?;
    // A row at a time would measure the driver's channel, not the server.
    let chunks: Vec<bytes::Bytes> =
        rows.chunks(ROWS_SENT).map(|some| bytes::Bytes::from(some.concat())).collect();
    client.batch_execute(&format!("TRUNCATE {schema}.raw")).await?;
    let start = Instant::now();
    let sink = client.copy_in(&format!("COPY {schema}.raw FROM STDIN (FORMAT binary)")).await?;
    let mut sink = std::pin::pin!(sink);
    for chunk in chunks {
        sink.send(chunk).await?;
    }
    let copied = usize::try_from(sink.finish().await?)?;
    let seconds = start.elapsed().as_secs_f64();
    anyhow::ensure!(copied == messages, "{copied} of {messages} rows were copied");
    Ok(float(messages) / seconds)
}
