//! Drain: fills a storage, then a whole process empties it, with engine, handlers and history.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use punctual::model::Body;
use punctual::{Context, Inspect, Punctual, Storage};
use serde::de::IgnoredAny;

use super::{BODY, float};

/// Time between two reads of the number of handled messages.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Longest time of one drain.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Returns a process without handlers, for publishing.
pub(super) fn publisher<S: Storage + Inspect>(storage: &Arc<S>) -> Result<Punctual> {
    Ok(Punctual::builder().storage(storage.clone()).build()?)
}

/// Publishes messages in batches; returns the number per second.
pub(super) async fn fill<S: Storage + Inspect>(
    storage: &Arc<S>,
    messages: usize,
    batch: usize,
) -> Result<f64> {
    let publisher = publisher(storage)?.publisher();
    let body = Body::raw(&BODY[..], "application/json");
    let batches: Vec<Vec<_>> = (0..messages.div_ceil(batch))
        .map(|number| {
            let count = batch.min(messages - number * batch);
            (0..count).map(|_| publisher.publish_body("tick", body.clone())).collect()
        })
        .collect();
    let start = Instant::now();
    for batch in batches {
        publisher.publish_all(batch).await?;
    }
    Ok(float(messages) / start.elapsed().as_secs_f64())
}

/// Handles every message of the default queue with a no-op handler, until all are settled and the process has
/// stopped; returns the number per second.
pub(super) async fn drain<S: Storage + Inspect>(
    storage: &Arc<S>,
    messages: usize,
    slots: Option<usize>,
) -> Result<f64> {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = handled.clone();
    let builder = Punctual::builder().storage(storage.clone());
    let builder = match slots {
        Some(slots) => builder.queue("default", slots),
        None => builder,
    };
    let punctual = builder
        .handler("tick", move |_: IgnoredAny, _: Context| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(())
        })
        .build()?;
    let start = Instant::now();
    punctual.start().await?;
    while handled.load(Ordering::Relaxed) < messages && start.elapsed() < TIMEOUT {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    // Settlements are stored before this returns.
    let stopped = punctual.shutdown().await;
    let seconds = start.elapsed().as_secs_f64();
    let ran = handled.load(Ordering::Relaxed);
    anyhow::ensure!(ran == messages, "{ran} of {messages} messages were handled");
    anyhow::ensure!(stopped.abandoned == 0, "{} were not settled", stopped.abandoned);
    Ok(float(messages) / seconds)
}
