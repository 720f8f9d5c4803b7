//! In-flight attempts of this process, each with its lease. The heartbeat renews these leases, shutdown waits
//! until they are gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::handler::{CancelCause, Context};
use crate::model::{JobName, LeaseRef};
use crate::storage::{Notifier, Storage, Wakeup};

/// Every attempt of this process that has not been settled yet.
pub(crate) struct InFlightAttempts {
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
    /// Its end when it was granted.
    pub(crate) granted_until: Timestamp,
    pub(crate) storage: Arc<dyn Storage>,
}

/// A lease of an attempt in flight, for its renewal.
pub(crate) struct InFlightLease {
    pub(crate) lease: StorageLease,
    pub(crate) until: Option<Timestamp>,
    pub(crate) context: Context,
}

impl InFlightAttempts {
    pub(crate) fn new() -> Self {
        let (emptied, _) = Wakeup::new();
        Self { attempts: Mutex::new(BTreeMap::new()), next: AtomicU64::new(0), emptied }
    }

    /// Adds an attempt until the returned guard is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        lease: Option<StorageLease>,
        context: &Context,
    ) -> InFlightGuard {
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
    pub(crate) fn cancel_all(&self, cause: CancelCause) {
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
    in_flight: Arc<InFlightAttempts>,
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
