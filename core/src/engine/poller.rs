//! Poller: the safety net under notifications. At an interval it reads from the storage when each wake source
//! of this process is due next, in one call, and notifies those with something to do. No other service polls,
//! so an idle process makes one call per poll, whatever the number of its queues.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Process, Service, Turn};
use crate::error::Result;
use crate::model::time::next_tick;
use crate::storage::{Notifier, WakeSource, Wakeup};

/// Largest number of sources that are polled, including those of waiting claims.
const LISTENED_MAX: usize = 10_000;

/// Wake sources that a process polls. The list only grows, so the index of a source never changes.
#[derive(Default)]
pub(crate) struct WatchList {
    sources: Mutex<Vec<Watch>>,
}

/// A source, its notifier, and the due time found by the last poll.
struct Watch {
    source: WakeSource,
    notifier: Notifier,
    last_due: Option<Timestamp>,
}

impl WatchList {
    /// Adds a source; the wakeup is notified when a poll finds something due on it.
    pub(crate) fn watch(&self, source: WakeSource) -> Wakeup {
        let (notifier, wakeup) = Wakeup::new();
        self.lock().push(Watch { source, notifier, last_due: None });
        wakeup
    }

    /// Adds a source for a waiting claim; claims that wait for the same source share its notifier. Beyond
    /// [`LISTENED_MAX`] the source is not polled, and only the storage's own notification remains.
    pub(crate) fn listen(&self, source: &WakeSource) -> Wakeup {
        let mut sources = self.lock();
        if let Some(watch) = sources.iter().find(|watch| watch.source == *source) {
            return watch.notifier.wakeup();
        }
        let (notifier, wakeup) = Wakeup::new();
        if sources.len() < LISTENED_MAX {
            sources.push(Watch { source: source.clone(), notifier, last_due: None });
        }
        wakeup
    }

    fn sources(&self) -> Vec<WakeSource> {
        self.lock().iter().map(|watch| watch.source.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Service that polls the sources of this process for the services that sleep.
pub(crate) struct Poller {
    process: Arc<Process>,
}

impl Poller {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// Returns when to poll again: at the next tick, or at the one after it while the storage notifies across
    /// processes.
    fn again_at(&self, now: Timestamp) -> Timestamp {
        let interval = self.process.env.options.poll_interval;
        let tick = next_tick(now, interval);
        if self.process.env.storage.notifies_across_processes() {
            next_tick(tick, interval)
        } else {
            tick
        }
    }
}

#[async_trait]
impl Service for Poller {
    fn name(&self) -> &'static str {
        "poller"
    }

    async fn turn(&mut self, _now: Timestamp) -> Result<Turn> {
        let sources = self.process.watch_list.sources();
        let due_times = self.process.env.storage.next_due_all(&sources).await?;
        let now = self.process.now();
        for (watch, due) in self.process.watch_list.lock().iter_mut().zip(due_times) {
            // A sleeping service knows the last due time; only a change, or something late, wakes it.
            if due.is_some_and(|due| due <= now || watch.last_due != Some(due)) {
                watch.notifier.notify();
            }
            watch.last_due = due;
        }
        Ok(Turn::At(self.again_at(now)))
    }
}
