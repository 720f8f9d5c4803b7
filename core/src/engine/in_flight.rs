//! What this process is working on: every lease it holds, with the context of its attempt. The pulse
//! renews from here, shutdown waits here, and slots bound how much may be here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::handler::{Cause, Context};
use crate::model::LeaseRef;
use crate::storage::{Bell, Wakeup};

/// Every attempt of this process that has not been settled yet.
pub(crate) struct InFlight {
    attempts: Mutex<BTreeMap<LeaseRef, Context>>,
    /// Attempts of broker deliveries, which hold no lease, and those being settled.
    total: AtomicUsize,
    emptied: Bell,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        let (emptied, _) = Wakeup::new();
        Self { attempts: Mutex::new(BTreeMap::new()), total: AtomicUsize::new(0), emptied }
    }

    /// Counts an attempt in, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, lease: Option<LeaseRef>, context: &Context) -> Entered {
        self.total.fetch_add(1, Ordering::AcqRel);
        if let Some(lease) = lease {
            self.lock().insert(lease, context.clone());
        }
        Entered { in_flight: self.clone(), lease }
    }

    /// How many attempts there are.
    pub(crate) fn len(&self) -> usize {
        self.total.load(Ordering::Acquire)
    }

    /// The leases held and until when.
    pub(crate) fn leases(&self) -> Vec<(LeaseRef, Option<Timestamp>)> {
        self.lock().iter().map(|(lease, context)| (*lease, context.lease_until())).collect()
    }

    /// Notes that a lease holds until a later instant.
    pub(crate) fn renewed(&self, lease: LeaseRef, until: Timestamp) {
        if let Some(context) = self.lock().get(&lease) {
            *context.parts().lease_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
    }

    /// Asks one handler to stop; answers its context when it was the first to ask.
    pub(crate) fn cancel(&self, lease: LeaseRef, cause: Cause) -> Option<Context> {
        let context = self.lock().get(&lease).cloned()?;
        context.parts().cancellation.cancel(cause).then_some(context)
    }

    /// Asks every handler to stop.
    pub(crate) fn cancel_all(&self, cause: Cause) {
        for context in self.lock().values() {
            context.parts().cancellation.cancel(cause);
        }
    }

    /// Waits until there is nothing left. Cancel-safe.
    pub(crate) async fn emptied(&self) {
        let mut wakeup = self.emptied.wakeup();
        while self.len() > 0 {
            wakeup.rung().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<LeaseRef, Context>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps an attempt counted.
pub(crate) struct Entered {
    in_flight: Arc<InFlight>,
    lease: Option<LeaseRef>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(lease) = self.lease {
            self.in_flight.lock().remove(&lease);
        }
        if self.in_flight.total.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.in_flight.emptied.ring();
        }
    }
}

/// How many attempts of a queue may run at once.
pub(crate) struct Slots {
    capacity: usize,
    used: AtomicUsize,
    hungry: AtomicBool,
    freed: Bell,
}

impl Slots {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        let (freed, _) = Wakeup::new();
        Arc::new(Self { capacity, used: AtomicUsize::new(0), hungry: AtomicBool::new(false), freed })
    }

    /// How many more may start now.
    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.used.load(Ordering::Acquire))
    }

    /// Takes one. Only the queue's own worker takes, so `free` cannot shrink behind its back.
    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        self.used.fetch_add(1, Ordering::AcqRel);
        Slot { slots: self.clone() }
    }

    /// Says that the worker would start more if it could: the next free slot rings.
    pub(crate) fn starve(&self) {
        self.hungry.store(true, Ordering::Release);
        // A slot may have become free between the look and the flag.
        if self.free() > 0 {
            self.freed.ring();
        }
    }

    /// Rings when a slot is free for a worker that starves.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.freed.wakeup()
    }
}

/// The right to run one attempt.
pub(crate) struct Slot {
    slots: Arc<Slots>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.used.fetch_sub(1, Ordering::AcqRel);
        if self.slots.hungry.swap(false, Ordering::AcqRel) {
            self.slots.freed.ring();
        }
    }
}
