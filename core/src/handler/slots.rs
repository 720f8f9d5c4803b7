//! Slots of a queue: the limit of attempts that run in parallel. A blocking call may hold one beyond its attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::storage::{Notifier, Wakeup};

/// How often a claim yields to other tasks.
const YIELDS_MAX: usize = 4;

/// Slots of a queue: the limit of attempts that run in parallel.
#[derive(Debug)]
pub(crate) struct Slots {
    capacity: AtomicUsize,
    used: AtomicUsize,
    /// Whether the next slot that is released notifies the worker.
    notify_requested: AtomicBool,
    freed: Notifier,
}

impl Slots {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        let (freed, _) = Wakeup::new();
        Arc::new(Self {
            capacity: AtomicUsize::new(capacity),
            used: AtomicUsize::new(0),
            notify_requested: AtomicBool::new(false),
            freed,
        })
    }

    /// Returns how many more attempts may start now.
    pub(crate) fn free(&self) -> usize {
        self.capacity().saturating_sub(self.used.load(Ordering::Acquire))
    }

    /// Lets attempts that are ready run first, until about half as many slots are free as the last claim took.
    /// Under load slots become free one by one; this makes one claim of many instead of many claims of one.
    pub(crate) async fn yield_for_slots(&self, last: usize) {
        for _ in 0..YIELDS_MAX {
            if self.free() * 2 >= last {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the number of slots.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Acquire)
    }

    /// Changes the number of slots. Slots in use stay in use.
    pub(crate) fn resize(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Release);
        self.freed.notify();
    }

    /// Returns the number of slots in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Takes a slot. Only the queue's own worker takes slots, so `free` cannot shrink concurrently; except for
    /// a blocking call that outlives its attempt, which takes one more before the attempt's slot is released.
    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        self.used.fetch_add(1, Ordering::AcqRel);
        Slot { slots: self.clone() }
    }

    /// Requests a notification when a slot is free; notifies immediately if one is free already.
    pub(crate) fn notify_when_free(&self) {
        self.notify_requested.store(true, Ordering::Release);
        // A slot may have been released before the flag was set.
        if self.free() > 0 {
            self.freed.notify();
        }
    }

    /// Requests a notification for the next slot that is released, also when slots are free now.
    pub(crate) fn notify_on_release(&self) {
        self.notify_requested.store(true, Ordering::Release);
    }

    /// Waits until no slot is in use. Cancel-safe.
    pub(crate) async fn idle(&self) {
        let mut freed = self.wakeup();
        loop {
            self.notify_on_release();
            if self.used() == 0 {
                return;
            }
            freed.notified().await;
        }
    }

    /// Returns the wakeup for requested notifications of released slots.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.freed.wakeup()
    }
}

/// The right to run one attempt; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.used.fetch_sub(1, Ordering::AcqRel);
        if self.slots.notify_requested.swap(false, Ordering::AcqRel) {
            self.slots.freed.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_that_took_many_slots_waits_for_ready_attempts_before_it_takes_more() {
        let slots = Slots::new(100);
        for _ in 0..100 {
            let slot = slots.take();
            tokio::spawn(async move { drop(slot) });
        }
        slots.yield_for_slots(0).await;
        assert_eq!(slots.free(), 0, "a worker that took none does not wait");
        slots.yield_for_slots(100).await;
        assert!(slots.free() >= 50, "only {} ended", slots.free());
    }

    #[tokio::test]
    async fn slots_that_stay_taken_are_not_waited_for() {
        let slots = Slots::new(2);
        let _taken = [slots.take(), slots.take()];
        slots.yield_for_slots(2).await;
        assert_eq!(slots.free(), 0);
    }
}
