//! The lookout: the safety net under the bells. Every so often it looks at the storage once for all
//! lines of this process, and rings for those that have something to do; nobody else polls, so an idle
//! process asks one question per look, whatever the number of its queues.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Process, Service, Turn};
use crate::clock::next_tick;
use crate::error::Result;
use crate::storage::{Notifier, WakeSource, Wakeup};

/// The most lines that are looked at for those who only wait.
const LISTENED_MAX: usize = 10_000;

/// The lines a process looks at. They only ever become more, so a place in the list is a line's for good.
#[derive(Default)]
pub(crate) struct Watched {
    lines: Mutex<Vec<Watch>>,
}

/// A line, who is told, and what they know already.
struct Watch {
    line: WakeSource,
    bell: Notifier,
    known: Option<Timestamp>,
}

impl Watched {
    /// A handle that rings when a look finds something to do on a line.
    pub(crate) fn watch(&self, line: WakeSource) -> Wakeup {
        let (bell, wakeup) = Wakeup::new();
        self.lock().push(Watch { line, bell, known: None });
        wakeup
    }

    /// The same for those who come and go: everybody who waits for a line hears the same bell. Beyond a
    /// bound nobody rings, and the storage's own bell is all there is.
    pub(crate) fn listen(&self, line: &WakeSource) -> Wakeup {
        let mut lines = self.lock();
        if let Some(watch) = lines.iter().find(|watch| watch.line == *line) {
            return watch.bell.wakeup();
        }
        let (bell, wakeup) = Wakeup::new();
        if lines.len() < LISTENED_MAX {
            lines.push(Watch { line: line.clone(), bell, known: None });
        }
        wakeup
    }

    fn lines(&self) -> Vec<WakeSource> {
        self.lock().iter().map(|watch| watch.line.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at this process's lines for the services that sleep.
pub(crate) struct Poller {
    process: Arc<Process>,
}

impl Poller {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process }
    }

    /// When to look again: at the next tick, or at the one after it while the storage's own bells ring
    /// for what other processes do.
    fn again_at(&self, now: Timestamp) -> Timestamp {
        let interval = self.process.options.poll_interval;
        let tick = next_tick(now, interval);
        if self.process.storage.notifies_across_processes() {
            next_tick(tick, interval)
        } else {
            tick
        }
    }
}

#[async_trait]
impl Service for Poller {
    fn name(&self) -> &'static str {
        "lookout"
    }

    async fn turn(&mut self, _now: Timestamp) -> Result<Turn> {
        let lines = self.process.watched.lines();
        let found = self.process.storage.next_due_all(&lines).await?;
        let now = self.process.now();
        for (watch, due) in self.process.watched.lock().iter_mut().zip(found) {
            // Whoever sleeps knows what was known; only something else, or something late, is news.
            if due.is_some_and(|due| due <= now || watch.known != Some(due)) {
                watch.bell.notify();
            }
            watch.known = due;
        }
        Ok(Turn::At(self.again_at(now)))
    }
}
