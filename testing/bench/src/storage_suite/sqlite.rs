//! SQLite with full durability: enqueue and drain compared with a raw loop of the same batch size.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use punctual_sqlite::SqliteStorage;

use super::drain::{drain, fill};
use super::{BATCH, REPETITIONS, Rates, float, ratio, sqlite_raw};
use crate::figure::Figure;

pub(super) async fn measure(messages: usize) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let [mut raw_fill, mut enqueue, mut raw, mut ours, mut defaults] =
        std::array::from_fn(|_| Rates::default());
    let mut commits = 0.0;
    for run in 0..REPETITIONS {
        let path = |name: &str| folder.path().join(format!("{name}-{run}.db"));
        let (fill_rate, drain_rate) = raw_loop(&path("raw"), messages).await?;
        raw_fill.push(fill_rate);
        raw.push(drain_rate);
        let storage = Arc::new(SqliteStorage::open(path("ours")).await?);
        enqueue.push(fill(&storage, messages, BATCH).await?);
        let before = storage.commits();
        ours.push(drain(&storage, messages, Some(BATCH)).await?);
        let drained = usize::try_from(storage.commits() - before)?;
        commits = float(drained) / float(messages);
        storage.close().await?;
        let storage = Arc::new(SqliteStorage::open(path("defaults")).await?);
        fill(&storage, messages, BATCH).await?;
        defaults.push(drain(&storage, messages, None).await?);
        storage.close().await?;
    }
    let how = format!("{messages} messages, {BATCH} at once, synchronous FULL");
    Ok(vec![
        raw_fill.figure("sqlite: raw insert", &how),
        enqueue.figure("sqlite: enqueue", &how),
        ratio("sqlite: enqueue of raw", &enqueue, &raw_fill, "at least 60"),
        raw.figure("sqlite: raw claim and delete", &how),
        ours.figure("sqlite: drain", &format!("{how}, no-op handler, history recorded")),
        ratio("sqlite: drain of raw", &ours, &raw, "at least 60"),
        defaults.figure("sqlite: drain with defaults", &format!("{messages} messages, defaults")),
        Figure {
            name: "sqlite: commits per message while draining".to_owned(),
            value: commits,
            unit: "commits",
            target: "at most 0.1",
            how: format!("{how}, last run"),
        },
    ])
}

/// Runs the raw loop on a file with our tables; returns the rates of insert and drain.
async fn raw_loop(path: &Path, messages: usize) -> Result<(f64, f64)> {
    SqliteStorage::open(path).await?.close().await?;
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || {
        let mut connection = sqlite_raw::connect(&path)?;
        let filled = sqlite_raw::fill(&mut connection, messages)?;
        Ok((filled, sqlite_raw::drain(&mut connection, messages)?))
    })
    .await?
}
