//! The publisher: messages all the time, each written down after its publish has returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use punctual::clock::add;
use punctual::model::MessageState;
use punctual::{Clock, Inspect, Punctual, SystemClock};
use tokio::task::JoinHandle;

use crate::dice::Dice;
use crate::ledger::{Ledger, Line};
use crate::watched::Watched;
use crate::worker::{self, TOPIC, Work};

/// Between two batches.
const REST: Duration = Duration::from_millis(25);
/// Messages in one batch.
const BATCH: u64 = 8;
/// How many messages may wait; beyond it the publisher lets the workers catch up.
const WAITING_MAX: u64 = 400;
/// Every so many batches it looks at how many wait.
const LOOK_EVERY: u64 = 10;

/// A publisher at work.
pub(super) struct Publishing {
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Publishing {
    pub(super) fn start(watched: Arc<Watched>, ledger: Arc<Ledger>, dice: Dice) -> Result<Self> {
        let punctual = worker::process(watched.clone()).build()?;
        let stop = Arc::new(AtomicBool::new(false));
        let task =
            tokio::spawn(publish(Publisher { punctual, watched, ledger, dice }, stop.clone()));
        Ok(Self { stop, task })
    }

    pub(super) async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.context("the publisher broke off")
    }
}

struct Publisher {
    punctual: Punctual,
    watched: Arc<Watched>,
    ledger: Arc<Ledger>,
    dice: Dice,
}

async fn publish(mut publisher: Publisher, stop: Arc<AtomicBool>) {
    let mut full = false;
    for batch in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if batch.is_multiple_of(LOOK_EVERY) {
            full = publisher.waiting().await > WAITING_MAX;
        }
        if !full {
            publisher.publish().await;
        }
        SystemClock.sleep_until(add(SystemClock.now(), REST)).await;
    }
}

impl Publisher {
    /// A publish that fails was not acknowledged, so nobody may rely on it.
    async fn publish(&mut self) {
        let publisher = self.punctual.publisher();
        let count = 1 + self.dice.below(BATCH);
        let works: Vec<Work> = (0..count).map(|_| self.work()).collect();
        let batch = works.iter().map(|work| publisher.publish(TOPIC, work)).collect();
        if let Ok(published) = publisher.publish_all(batch).await {
            self.ledger.write(published.iter().map(|one| Line::Acknowledged(one.id)));
        }
    }

    /// Most work is short, some takes a while, a little takes longer than a lease.
    fn work(&mut self) -> Work {
        let milliseconds = match self.dice.below(1_000) {
            0..5 => 2_500,
            5..100 => 100 + self.dice.below(400),
            _ => self.dice.below(20),
        };
        (milliseconds, u32::from(self.dice.percent(10)))
    }

    async fn waiting(&self) -> u64 {
        let counts = self.watched.counts(SystemClock.now()).await;
        counts.map_or(u64::MAX, |counts| counts.total(MessageState::Pending))
    }
}
