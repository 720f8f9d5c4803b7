//! The memory transport through a whole process: received, handled by a handler that does nothing, and
//! settled.

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

/// How many messages are handled at once.
const CONCURRENCY: usize = 1_024;
/// Messages in one call to publish.
const BATCH: usize = 1_000;
/// How often the number of handled messages is looked at.
const LOOK: Duration = Duration::from_millis(1);
/// No drain takes longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Messages handled per second, the median of several runs.
pub(super) fn measure(runtime: &Runtime, messages: usize) -> Result<Figure> {
    let (mut rates, mut processor) = (Rates::default(), Rates::default());
    for _ in 0..REPETITIONS {
        let (seconds, busy) = runtime.block_on(drain(messages))?;
        rates.push(float(messages) / seconds);
        processor.push(float(messages) / busy);
    }
    let how = format!(
        "{messages} messages published, then received for one group; no-op handler, {CONCURRENCY} slots, history recorded; {:.0} for each second of a processor",
        processor.median()
    );
    let figure = rates.figure("memory: received, handled and settled", &how);
    Ok(Figure { asked: "at least 500,000", ..figure })
}

/// Seconds by the clock, and seconds of a processor.
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
    // Kept for the default group, which subscribes when the process starts.
    let publisher = punctual.publisher();
    for first in (0..messages).step_by(BATCH) {
        let count = BATCH.min(messages - first);
        let batch = (0..count).map(|_| publisher.publish_body("tick", Body::empty()));
        publisher.publish_all(batch.collect()).await?;
    }
    let (start, busy) = (Instant::now(), cpu_seconds()?);
    punctual.start().await?;
    // Each attempt that was decided is settled, or waits in a bounded backlog.
    let wanted = u64::try_from(messages)?;
    while punctual.events().count("attempt.succeeded") < wanted {
        anyhow::ensure!(start.elapsed() < TIMEOUT, "not drained within {TIMEOUT:?}");
        tokio::time::sleep(LOOK).await;
    }
    let (seconds, busy) = (start.elapsed().as_secs_f64(), cpu_seconds()? - busy);
    let ran = handled.load(Ordering::Relaxed);
    anyhow::ensure!(ran == messages, "{ran} of {messages} messages were handled");
    punctual.shutdown().await;
    Ok((seconds, busy))
}
