//! The queues of a process: which it works on, how many messages of each at once, and which are paused.
//! All of it is about this process and forgotten with it; whoever wants a pause on every process, or after
//! a restart, says so there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::in_flight::Slots;
use super::worker::Worked;
use crate::clock::{add, between};
use crate::error::{Error, Result};
use crate::model::Queue;
use crate::storage::{Notifier, Wakeup};

/// The most queues that are paused at once.
const PAUSED_MAX: usize = 10_000;

/// The longest time for which nothing is claimed because the scheduler has not decided yet about everything due.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// How a queue stands in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Its name.
    pub queue: Queue,
    /// How many of its messages this process handles at once; 0 when it does not work on it.
    pub concurrency: usize,
    /// How many it handles now.
    pub running: usize,
    /// Whether nothing of it is claimed by way of this process.
    pub paused: bool,
}

/// The switches of every queue.
pub(crate) struct QueueBoard {
    queues: Mutex<Queues>,
    changed: Notifier,
}

#[derive(Default)]
struct Queues {
    served: BTreeMap<Queue, Arc<Slots>>,
    /// How many of a queue's messages may be handled at once on all processes together.
    running_max: BTreeMap<Queue, usize>,
    paused: BTreeSet<Queue>,
    /// Since when every queue waits for the first round of the scheduler; none without one, and after it.
    held_since: Option<Timestamp>,
}

impl QueueBoard {
    pub(crate) fn new() -> Self {
        Self { queues: Mutex::default(), changed: Wakeup::new().0 }
    }

    /// Notes how many of a queue's messages may be handled at once on all processes together.
    pub(crate) fn limit(&self, worked: &Worked) {
        if let Some(running_max) = worked.running_max {
            self.lock().running_max.insert(worked.queue.clone(), running_max);
        }
    }

    /// The slots of a queue that this process works on, the same ones every time.
    pub(crate) fn serve(&self, worked: &Worked) -> Arc<Slots> {
        let mut queues = self.lock();
        let slots = queues.served.entry(worked.queue.clone());
        slots.or_insert_with(|| Slots::new(worked.concurrency)).clone()
    }

    /// Whether this process works on a queue.
    pub(crate) fn serves(&self, queue: &Queue) -> bool {
        self.lock().served.contains_key(queue)
    }

    /// How many of a queue's messages may be handled at once, whoever handles them.
    pub(crate) fn running_max(&self, queue: &Queue) -> Option<usize> {
        self.lock().running_max.get(queue).copied()
    }

    /// Whether nothing of a queue may be claimed now.
    pub(crate) fn is_paused(&self, queue: &Queue) -> bool {
        self.lock().paused.contains(queue)
    }

    /// Pauses or resumes; answers whether that changed anything.
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

    /// Holds every queue until [`QueueBoard::release`], for [`HOLD_MAX`] at most.
    pub(crate) fn hold(&self, now: Timestamp) {
        self.lock().held_since = Some(now);
    }

    /// Ends the hold.
    pub(crate) fn release(&self) {
        if self.lock().held_since.take().is_some() {
            self.changed.notify();
        }
    }

    /// Returns until when every queue is held, when it is. A clock that went back behind the start of the hold ends it.
    pub(crate) fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.lock().held_since?;
        (since <= now && between(since, now) < HOLD_MAX).then(|| add(since, HOLD_MAX))
    }

    /// Changes how many messages of a queue are handled at once; what runs goes on.
    pub(crate) fn set_concurrency(&self, queue: &Queue, concurrency: usize) -> Result<()> {
        if concurrency == 0 {
            return Err(Error::invalid(format!(
                "the queue {queue:?} cannot have concurrency 0; pause it instead"
            )));
        }
        let slots = self.lock().served.get(queue).cloned().ok_or_else(|| {
            Error::not_found(format!(
                "this process does not work on the queue {queue:?}; list() says on which it does"
            ))
        })?;
        slots.resize(concurrency);
        Ok(())
    }

    /// How each stands, by name: those that are worked on, and those that are paused.
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

    /// Rings when something was switched.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.changed.wakeup()
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
