//! Queues of a process: which ones it serves, with what concurrency, and which are paused. All of it applies
//! to this process and ends with it; a pause on every process, or after a restart, is set there again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::worker::ServedQueue;
use crate::error::{Error, Result};
use crate::handler::Slots;
use crate::model::Queue;
use crate::model::time::{add, between};
use crate::storage::{Notifier, Wakeup};

/// Largest number of paused queues.
const PAUSED_MAX: usize = 10_000;

/// Longest time for which claims wait until the scheduler has decided about everything due at the start.
const CLAIM_BLOCK_MAX: Duration = Duration::from_secs(10);

/// Status of a queue in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Name of the queue.
    pub queue: Queue,
    /// Number of its messages that this process handles at once; 0 when the process does not serve it.
    pub concurrency: usize,
    /// Number of its messages that are handled now.
    pub running: usize,
    /// Whether this process claims no messages of it.
    pub paused: bool,
}

/// Controls of every queue: slots, pauses and the block of claims at the start.
pub(crate) struct QueueControls {
    queues: Mutex<QueueTable>,
    changed: Notifier,
}

#[derive(Default)]
struct QueueTable {
    served: BTreeMap<Queue, Arc<Slots>>,
    /// Largest number of a queue's messages that all processes together handle at once.
    running_max: BTreeMap<Queue, usize>,
    paused: BTreeSet<Queue>,
    /// When claims were blocked for the first round of the scheduler; none while they are not.
    claims_blocked_since: Option<Timestamp>,
}

impl QueueControls {
    pub(crate) fn new() -> Self {
        Self { queues: Mutex::default(), changed: Wakeup::new().0 }
    }

    /// Stores how many of a queue's messages all processes together may handle at once.
    pub(crate) fn limit(&self, served: &ServedQueue) {
        if let Some(running_max) = served.running_max {
            self.lock().running_max.insert(served.queue.clone(), running_max);
        }
    }

    /// Returns the slots of a queue that this process serves, the same ones every time.
    pub(crate) fn serve(&self, served: &ServedQueue) -> Arc<Slots> {
        let mut queues = self.lock();
        let slots = queues.served.entry(served.queue.clone());
        slots.or_insert_with(|| Slots::new(served.concurrency)).clone()
    }

    /// Returns whether this process serves a queue.
    pub(crate) fn serves(&self, queue: &Queue) -> bool {
        self.lock().served.contains_key(queue)
    }

    /// Returns how many of a queue's messages all processes together may handle at once.
    pub(crate) fn running_max(&self, queue: &Queue) -> Option<usize> {
        self.lock().running_max.get(queue).copied()
    }

    /// Returns whether a queue is paused.
    pub(crate) fn is_paused(&self, queue: &Queue) -> bool {
        self.lock().paused.contains(queue)
    }

    /// Pauses or resumes a queue; returns whether that changed anything.
    pub(crate) fn set_paused(&self, queue: &Queue, paused: bool) -> Result<bool> {
        let mut queues = self.lock();
        if paused && queues.paused.len() >= PAUSED_MAX {
            return Err(Error::conflict(format!(
                "the queue {queue:?} is one too many: {PAUSED_MAX} are paused; resume some"
            )));
        }
        let changed =
            if paused { queues.paused.insert(queue.clone()) } else { queues.paused.remove(queue) };
        drop(queues);
        if changed {
            self.changed.notify();
        }
        Ok(changed)
    }

    /// Blocks the claims of every queue until [`QueueControls::unblock_claims`], for [`CLAIM_BLOCK_MAX`] at most.
    pub(crate) fn block_claims(&self, now: Timestamp) {
        self.lock().claims_blocked_since = Some(now);
    }

    /// Ends the block.
    pub(crate) fn unblock_claims(&self) {
        if self.lock().claims_blocked_since.take().is_some() {
            self.changed.notify();
        }
    }

    /// Returns the end of the block, if there is one. A clock that was set back behind its start ends it.
    pub(crate) fn claims_blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.lock().claims_blocked_since?;
        (since <= now && between(since, now) < CLAIM_BLOCK_MAX).then(|| add(since, CLAIM_BLOCK_MAX))
    }

    /// Changes the concurrency of a queue; attempts that run continue.
    pub(crate) fn set_concurrency(&self, queue: &Queue, concurrency: usize) -> Result<()> {
        if concurrency == 0 {
            return Err(Error::invalid(format!(
                "the queue {queue:?} cannot have concurrency 0; pause it instead"
            )));
        }
        let slots = self.lock().served.get(queue).cloned().ok_or_else(|| {
            Error::not_found(format!(
                "this process does not work on the queue {queue:?}; list() returns those it works on"
            ))
        })?;
        slots.resize(concurrency);
        Ok(())
    }

    /// Returns the status of every served or paused queue, by name.
    pub(crate) fn all(&self) -> Vec<QueueStatus> {
        let queues = self.lock();
        let names: BTreeSet<&Queue> = queues.served.keys().chain(&queues.paused).collect();
        let status = |queue: &Queue| {
            let slots = queues.served.get(queue);
            QueueStatus {
                queue: queue.clone(),
                concurrency: slots.map_or(0, |slots| slots.capacity()),
                running: slots.map_or(0, |slots| slots.used()),
                paused: queues.paused.contains(queue),
            }
        };
        names.into_iter().map(status).collect()
    }

    /// Returns the wakeup for pauses, resumes and the end of the block.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.changed.wakeup()
    }

    fn lock(&self) -> MutexGuard<'_, QueueTable> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
