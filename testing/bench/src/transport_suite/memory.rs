//! Memory transport through a whole process: messages are received, handled by a no-op handler and settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use punctual::builtin::memory_transport;
use punctual::model::{Body, IdSource as _, Ids, ProcessId};
use punctual::{Context, Punctual, Subscribe, SystemClock};
use tokio::runtime::Runtime;

use crate::figure::{Figure, cpu_seconds};
use crate::rates::{REPETITIONS, Rates, float};

/// Number of messages handled concurrently.
const CONCURRENCY: usize = 1_024;
/// Messages in one publish call.
const BATCH: usize = 1_000;
/// Time between two reads of the number of handled messages.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Longest time of one drain.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Measures messages handled per second, as the median of several runs.
pub(super) fn measure(runtime: &Runtime, messages: usize) -> Result<Figure> {
    let (mut rates, mut processor) = (Rates::default(), Rates::default());
    for _ in 0..REPETITIONS {
        let (seconds, busy) = runtime.block_on(drain(messages))?;
        rates.push(float(messages) / seconds);
        processor.push(float(messages) / busy);
    }
    let how = format!(
        "{messages} messages published, then received for one group; no-op handler, {CONCURRENCY} slots, history recorded; {:.0} per second of processor time",
        processor.median()
    );
    let figure = rates.figure("memory: received, handled and settled", &how);
    Ok(Figure { target: "at least 500,000", ..figure })
}

/// Drains all messages; returns the elapsed seconds and the seconds of processor time.
async fn drain(messages: usize) -> Result<(f64, f64)> {
    let handled = Arc::new(AtomicUsize::new(0));
    let count = handled.clone();
    let owner = ProcessId::from_uuid(Ids::random().next(Timestamp::now()));
    let transport = Arc::new(memory_transport(Arc::new(SystemClock), owner));
    let punctual = Punctual::builder()
        .transport("post", transport)
        .via_default("post")
        .handler("tick", move |(): (), _: Context| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(())
        })
        .subscription(Subscribe::queue("post", "tick").concurrency(CONCURRENCY))
        .build()?;
    // Stored for the default group, which subscribes when the process starts.
    let publisher = punctual.publisher();
    for first in (0..messages).step_by(BATCH) {
        let count = BATCH.min(messages - first);
        let batch = (0..count).map(|_| publisher.publish_body("tick", Body::empty()));
        publisher.publish_all(batch.collect()).await?;
    }
    let (start, busy) = (Instant::now(), cpu_seconds()?);
    punctual.start().await?;
    // Each decided attempt is settled or waits in a bounded buffer.
    let expected = u64::try_from(messages)?;
    while punctual.events().count("attempt.succeeded") < expected {
        anyhow::ensure!(start.elapsed() < TIMEOUT, "not drained within {TIMEOUT:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let (seconds, busy) = (start.elapsed().as_secs_f64(), cpu_seconds()? - busy);
    let ran = handled.load(Ordering::Relaxed);
    anyhow::ensure!(ran == messages, "{ran} of {messages} messages were handled");
    punctual.shutdown().await;
    Ok((seconds, busy))
}
