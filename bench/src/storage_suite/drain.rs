//! Filling a storage, and letting a whole process empty it: engine, handlers and history included.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use punctual::model::Body;
use punctual::{Context, Inspect, Punctual, Storage};
use serde::de::IgnoredAny;

use super::{BODY, float};

/// How often the number of handled messages is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// No drain takes longer.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A process without handlers, for publishing.
pub(super) fn publisher<S: Storage + Inspect>(storage: &Arc<S>) -> Result<Punctual> {
    Ok(Punctual::builder().storage(storage.clone()).build()?)
}

/// Publishes messages in calls of a size; answers how many per second.
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

/// Handles every message of the default queue with a handler that does nothing, until all are settled
/// and the process has stopped; answers how many per second.
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
        tokio::time::sleep(LOOK).await;
    }
    // What was handled is stored before this returns.
    let stopped = punctual.shutdown().await;
    let seconds = start.elapsed().as_secs_f64();
    let ran = handled.load(Ordering::Relaxed);
    anyhow::ensure!(ran == messages, "{ran} of {messages} messages were handled");
    anyhow::ensure!(stopped.abandoned == 0, "{} were not settled", stopped.abandoned);
    Ok(float(messages) / seconds)
}
