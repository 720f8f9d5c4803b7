//! The lookout: the safety net under the bells. Every so often it looks at the storage once for all
//! lines of this process, and rings for those that have something to do; nobody else polls, so an idle
//! process asks one question per look, whatever the number of its queues.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Process, Service, Turn};
use crate::clock::next_tick;
use crate::error::Result;
use crate::storage::{Bell, Line, Wakeup};

/// Looks at this process's lines for the services that sleep.
pub(crate) struct Lookout {
    process: Arc<Process>,
    lines: Vec<Line>,
    bells: Vec<Bell>,
    known: Vec<Option<Timestamp>>,
}

impl Lookout {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        Self { process, lines: Vec::new(), bells: Vec::new(), known: Vec::new() }
    }

    /// A handle that rings when a look finds something to do on a line.
    pub(crate) fn watch(&mut self, line: Line) -> Wakeup {
        let (bell, wakeup) = Wakeup::new();
        self.lines.push(line);
        self.bells.push(bell);
        self.known.push(None);
        wakeup
    }

    /// When to look again: at the next tick, or at the one after it while the storage's own bells ring
    /// for what other processes do.
    fn again_at(&self, now: Timestamp) -> Timestamp {
        let interval = self.process.options.poll_interval;
        let tick = next_tick(now, interval);
        if self.process.storage.hears_others() { next_tick(tick, interval) } else { tick }
    }
}

#[async_trait]
impl Service for Lookout {
    fn name(&self) -> &'static str {
        "lookout"
    }

    async fn turn(&mut self, _now: Timestamp) -> Result<Turn> {
        let due = self.process.storage.look(&self.lines).await?;
        let now = self.process.now();
        for ((bell, known), due) in self.bells.iter().zip(&mut self.known).zip(due) {
            // Whoever sleeps knows what was known; only something else, or something late, is news.
            if due.is_some_and(|due| due <= now || *known != Some(due)) {
                bell.ring();
            }
            *known = due;
        }
        Ok(Turn::At(self.again_at(now)))
    }
}
