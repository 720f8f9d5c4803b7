//! In-flight attempts of this process, each with its lease. The heartbeat renews these leases, shutdown waits
//! until they are gone, and slots limit their number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::handler::{Cause, Context};
use crate::model::{JobName, LeaseRef};
use crate::storage::{Notifier, Storage, Wakeup};
use crate::transport::Receipt;

/// How often a claim yields to other tasks.
const YIELDS_MAX: usize = 4;

/// Every attempt of this process that has not been settled yet.
pub(crate) struct InFlight {
    attempts: Mutex<BTreeMap<u64, InFlightAttempt>>,
    next: AtomicU64,
    emptied: Notifier,
}

/// An attempt, and the lease it holds when its message came from a storage.
struct InFlightAttempt {
    context: Context,
    lease: Option<StorageLease>,
}

/// A lease and the storage that granted it.
#[derive(Clone)]
pub(crate) struct StorageLease {
    pub(crate) lease_ref: LeaseRef,
    pub(crate) storage: Arc<dyn Storage>,
}

/// A lease of an attempt in flight, for its renewal.
pub(crate) struct InFlightLease {
    pub(crate) lease: StorageLease,
    pub(crate) until: Option<Timestamp>,
    pub(crate) context: Context,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        let (emptied, _) = Wakeup::new();
        Self { attempts: Mutex::new(BTreeMap::new()), next: AtomicU64::new(0), emptied }
    }

    /// Adds an attempt until the returned guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, receipt: &Receipt, context: &Context) -> InFlightGuard {
        let lease = match receipt {
            Receipt::Lease(receipt) => Some(StorageLease {
                lease_ref: receipt.claimed.lease_ref(),
                storage: receipt.storage.clone(),
            }),
            Receipt::Broker(_) => None,
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, InFlightAttempt { context: context.clone(), lease });
        InFlightGuard { in_flight: self.clone(), number }
    }

    /// Returns the number of attempts.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns the number of attempts of each job.
    pub(crate) fn jobs(&self) -> BTreeMap<JobName, u64> {
        let mut jobs = BTreeMap::new();
        for attempt in self.lock().values() {
            if let Some(job) = attempt.context.job() {
                *jobs.entry(job.clone()).or_default() += 1;
            }
        }
        jobs
    }

    /// Returns the leases of all attempts, the oldest attempt first.
    pub(crate) fn leases(&self) -> Vec<InFlightLease> {
        let attempts = self.lock();
        let leases = attempts.values().filter_map(|InFlightAttempt { context, lease }| {
            let (lease, context) = (lease.clone()?, context.clone());
            Some(InFlightLease { lease, until: context.lease_until(), context })
        });
        leases.collect()
    }

    /// Requests every handler to stop.
    pub(crate) fn cancel_all(&self, cause: Cause) {
        for attempt in self.lock().values() {
            attempt.context.parts().cancellation.cancel(cause);
        }
    }

    /// Waits until no attempt is in flight. Cancel-safe.
    pub(crate) async fn emptied(&self) {
        let mut wakeup = self.emptied.wakeup();
        while self.len() > 0 {
            wakeup.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, InFlightAttempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that keeps an attempt in flight until it is dropped.
pub(crate) struct InFlightGuard {
    in_flight: Arc<InFlight>,
    number: u64,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let (removed, is_empty) = {
            let mut attempts = self.in_flight.lock();
            (attempts.remove(&self.number), attempts.is_empty())
        };
        // Outside the lock: it may be the last owner of the message.
        drop(removed);
        if is_empty {
            self.in_flight.emptied.notify();
        }
    }
}

/// Slots of a queue: the limit of attempts that run at once.
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

    /// Requests a notification when a slot is free; notifies at once if one is free already.
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

impl Slot {
    /// Returns the slots it belongs to.
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }
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
    async fn a_worker_that_took_many_slots_lets_ready_attempts_end_before_it_takes_again() {
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
