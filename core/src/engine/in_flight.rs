//! What this process is working on: every lease it holds, with the context of its attempt. The pulse
//! renews from here, shutdown waits here, and slots bound how much may be here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::handler::{Cause, Context};
use crate::model::{JobName, LeaseRef};
use crate::storage::{Notifier, Storage, Wakeup};
use crate::transport::Receipt;

/// How often a claim lets others go first.
const YIELDS_MAX: usize = 4;

/// Every attempt of this process that has not been settled yet.
pub(crate) struct InFlight {
    attempts: Mutex<BTreeMap<u64, InHand>>,
    next: AtomicU64,
    emptied: Notifier,
}

/// An attempt, and the lease it holds when its message came from a storage.
struct InHand {
    context: Context,
    lease: Option<Held>,
}

/// A lease and the storage it was given by.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) lease: LeaseRef,
    pub(crate) storage: Arc<dyn Storage>,
}

/// A lease in hand, as the pulse sees it.
pub(crate) struct InHandLease {
    pub(crate) held: Held,
    pub(crate) until: Option<Timestamp>,
    pub(crate) context: Context,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        let (emptied, _) = Wakeup::new();
        Self { attempts: Mutex::new(BTreeMap::new()), next: AtomicU64::new(0), emptied }
    }

    /// Counts an attempt in, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, receipt: &Receipt, context: &Context) -> Entered {
        let lease = match receipt {
            Receipt::Lease(receipt) => {
                Some(Held { lease: receipt.claimed.lease_ref(), storage: receipt.storage.clone() })
            }
            Receipt::Broker(_) => None,
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, InHand { context: context.clone(), lease });
        Entered { in_flight: self.clone(), number }
    }

    /// How many attempts there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// How many attempts of each job there are.
    pub(crate) fn jobs(&self) -> BTreeMap<JobName, u64> {
        let mut jobs = BTreeMap::new();
        for in_hand in self.lock().values() {
            if let Some(job) = in_hand.context.job() {
                *jobs.entry(job.clone()).or_default() += 1;
            }
        }
        jobs
    }

    /// The leases in hand, oldest attempt first.
    pub(crate) fn leases(&self) -> Vec<InHandLease> {
        let attempts = self.lock();
        let leases = attempts.values().filter_map(|InHand { context, lease }| {
            let (held, context) = (lease.clone()?, context.clone());
            Some(InHandLease { held, until: context.lease_until(), context })
        });
        leases.collect()
    }

    /// Asks every handler to stop.
    pub(crate) fn cancel_all(&self, cause: Cause) {
        for in_hand in self.lock().values() {
            in_hand.context.parts().cancellation.cancel(cause);
        }
    }

    /// Waits until there is nothing left. Cancel-safe.
    pub(crate) async fn emptied(&self) {
        let mut wakeup = self.emptied.wakeup();
        while self.len() > 0 {
            wakeup.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, InHand>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps an attempt counted.
pub(crate) struct Entered {
    in_flight: Arc<InFlight>,
    number: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let (left, empty) = {
            let mut attempts = self.in_flight.lock();
            (attempts.remove(&self.number), attempts.is_empty())
        };
        // Outside the lock: it may be the last owner of the message.
        drop(left);
        if empty {
            self.in_flight.emptied.notify();
        }
    }
}

/// How many attempts of a queue may run at once.
#[derive(Debug)]
pub(crate) struct Slots {
    capacity: AtomicUsize,
    used: AtomicUsize,
    hungry: AtomicBool,
    freed: Notifier,
}

impl Slots {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        let (freed, _) = Wakeup::new();
        Arc::new(Self {
            capacity: AtomicUsize::new(capacity),
            used: AtomicUsize::new(0),
            hungry: AtomicBool::new(false),
            freed,
        })
    }

    /// How many more may start now.
    pub(crate) fn free(&self) -> usize {
        self.capacity().saturating_sub(self.used.load(Ordering::Acquire))
    }

    /// Lets the attempts that are ready run first, for one who took so many the last time. Under load slots
    /// become free one by one; this makes one claim of many instead of many claims of one.
    pub(crate) async fn gather(&self, last: usize) {
        for _ in 0..YIELDS_MAX {
            if self.free() * 2 >= last {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// How many there are.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Acquire)
    }

    /// Makes them more or fewer. Those that are taken stay taken.
    pub(crate) fn resize(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Release);
        self.freed.notify();
    }

    /// How many are taken.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Takes one. Only the queue's own worker takes, so `free` cannot shrink behind its back; but for
    /// a blocking call that outlives its attempt, which takes one more before that attempt's is freed.
    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        self.used.fetch_add(1, Ordering::AcqRel);
        Slot { slots: self.clone() }
    }

    /// Says that the worker would start more if it could: the next free slot rings.
    pub(crate) fn starve(&self) {
        self.hungry.store(true, Ordering::Release);
        // A slot may have become free between the look and the flag.
        if self.free() > 0 {
            self.freed.notify();
        }
    }

    /// Says that the next slot that becomes free should ring, whatever there is now.
    pub(crate) fn hunger(&self) {
        self.hungry.store(true, Ordering::Release);
    }

    /// Waits until none is taken. Cancel-safe.
    pub(crate) async fn idle(&self) {
        let mut freed = self.wakeup();
        loop {
            self.hunger();
            if self.used() == 0 {
                return;
            }
            freed.notified().await;
        }
    }

    /// Rings when a slot is free for a worker that starves.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.freed.wakeup()
    }
}

/// The right to run one attempt.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
}

impl Slot {
    /// Where it comes from.
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.used.fetch_sub(1, Ordering::AcqRel);
        if self.slots.hungry.swap(false, Ordering::AcqRel) {
            self.slots.freed.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_took_many_lets_those_end_that_can_before_it_takes_again() {
        let slots = Slots::new(100);
        for _ in 0..100 {
            let slot = slots.take();
            tokio::spawn(async move { drop(slot) });
        }
        slots.gather(0).await;
        assert_eq!(slots.free(), 0, "whoever took none waits for nobody");
        slots.gather(100).await;
        assert!(slots.free() >= 50, "only {} ended", slots.free());
    }

    #[tokio::test]
    async fn nobody_waits_for_slots_that_stay_taken() {
        let slots = Slots::new(2);
        let _taken = [slots.take(), slots.take()];
        slots.gather(2).await;
        assert_eq!(slots.free(), 0);
    }
}
