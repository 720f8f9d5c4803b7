//! Publisher of a run: publishes batches continuously and records each acknowledged message in the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::add;
use punctual::model::MessageState;
use punctual::{Clock, Inspect, Punctual, SystemClock};
use tokio::task::JoinHandle;

use crate::ledger::{Ledger, LedgerEvent};
use crate::random::SeededRandom;
use crate::recording_storage::RecordingStorage;
use crate::worker::{self, TOPIC, Work};

/// Time between two batches.
const BATCH_INTERVAL: Duration = Duration::from_millis(25);
/// Largest number of messages in a batch.
const BATCH: u64 = 8;
/// Number of pending messages above which the publisher waits for the workers.
const PENDING_MAX: u64 = 400;
/// Number of batches between two counts of pending messages.
const COUNT_EVERY: u64 = 10;

/// Handle of the publishing task.
pub(super) struct RunningPublisher {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl RunningPublisher {
    pub(super) fn start(
        recording: Arc<RecordingStorage>,
        ledger: Arc<Ledger>,
        random: SeededRandom,
    ) -> Result<Self> {
        let punctual = worker::builder(recording.clone()).build()?;
        let stop = Arc::new(AtomicBool::new(false));
        let task =
            tokio::spawn(publish(Publisher { punctual, recording, ledger, random }, stop.clone()));
        Ok(Self { stop, task })
    }

    pub(super) async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.context("the publisher panicked")
    }
}

struct Publisher {
    punctual: Punctual,
    recording: Arc<RecordingStorage>,
    ledger: Arc<Ledger>,
    random: SeededRandom,
}

async fn publish(mut publisher: Publisher, stop: Arc<AtomicBool>) {
    let mut full = false;
    for batch in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if batch.is_multiple_of(COUNT_EVERY) {
            full = publisher.pending().await > PENDING_MAX;
        }
        if !full {
            publisher.publish().await;
        }
        SystemClock.sleep_until(add(SystemClock.now(), BATCH_INTERVAL)).await;
    }
}

impl Publisher {
    /// Publishes one batch. Messages of a failed publish are not acknowledged and may be missing.
    async fn publish(&mut self) {
        let publisher = self.punctual.publisher();
        let count = 1 + self.random.below(BATCH);
        let works: Vec<Work> = (0..count).map(|_| self.work()).collect();
        let batch = works.iter().map(|work| publisher.publish(TOPIC, work)).collect();
        if let Ok(published) = publisher.publish_all(batch).await {
            self.ledger.write(published.iter().map(|one| LedgerEvent::Acknowledged(one.id)));
        }
    }

    /// Returns random work: mostly short, some longer, little longer than a lease.
    fn work(&mut self) -> Work {
        let milliseconds = match self.random.below(1_000) {
            0..5 => 2_500,
            5..100 => 100 + self.random.below(400),
            _ => self.random.below(20),
        };
        (milliseconds, u32::from(self.random.percent(10)))
    }

    async fn pending(&self) -> u64 {
        let counts = self.recording.counts(SystemClock.now()).await;
        counts.map_or(u64::MAX, |counts| counts.total(MessageState::Pending))
    }
}
