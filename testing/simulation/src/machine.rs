//! Machine: one start of a process on a machine, with its state (running, frozen, dead, stopped) and its clock. Calls
//! of a dead process never return.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use punctual::Clock;
use punctual::clock::{add, between};
use punctual::jiff::{SignedDuration, Timestamp};
use punctual::model::ProcessId;
use tokio::sync::Notify;

use super::shared::{Shared, lock};

/// Process and its machine.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) process: OnceLock<ProcessId>,
    dead: AtomicBool,
    stopped: AtomicBool,
    was_frozen: AtomicBool,
    frozen_until: Mutex<Timestamp>,
    skew: AtomicI64,
    skew_changed: Notify,
    /// Sum of all clock changes and uncertainties, in nanoseconds.
    clock_error: AtomicI64,
}

impl Machine {
    pub(crate) fn new(name: String, shared: Arc<Shared>, skew: SignedDuration) -> Arc<Self> {
        let nanos = nanoseconds(skew);
        let frozen_until = Mutex::new(shared.now());
        Arc::new(Self {
            name,
            shared,
            process: OnceLock::new(),
            dead: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            was_frozen: AtomicBool::new(false),
            frozen_until,
            skew: AtomicI64::new(nanos),
            skew_changed: Notify::new(),
            clock_error: AtomicI64::new(nanos.abs()),
        })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn was_frozen(&self) -> bool {
        self.was_frozen.load(Ordering::Relaxed)
    }

    pub(crate) fn crash(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    /// Records that the shutdown has returned.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn freeze(&self, duration: Duration) {
        self.was_frozen.store(true, Ordering::Relaxed);
        *lock(&self.frozen_until) = add(self.shared.now(), duration);
    }

    /// Sets the clock forwards or backwards.
    pub(crate) fn step(&self, by: SignedDuration) {
        let nanos = nanoseconds(by);
        self.skew.fetch_add(nanos, Ordering::Relaxed);
        self.clock_error.fetch_add(nanos.abs(), Ordering::Relaxed);
        self.skew_changed.notify_waiters();
    }

    /// Adds an uncertainty of the clock caused by a slow response of the storage.
    pub(crate) fn add_clock_error(&self, nanos: i64) {
        self.clock_error.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns how much longer than its deadlines the process may take: deadlines are instants, and a clock that is
    /// corrected meanwhile moves them.
    pub(crate) fn clock_error(&self) -> SignedDuration {
        SignedDuration::from_nanos(self.clock_error.load(Ordering::Relaxed))
    }

    pub(crate) fn skew(&self) -> SignedDuration {
        SignedDuration::from_nanos(self.skew.load(Ordering::Relaxed))
    }

    /// Waits while the process is frozen; never returns when it is dead.
    pub(crate) async fn wait_until_running(&self) {
        loop {
            if self.is_dead() {
                std::future::pending::<()>().await;
            }
            let until = *lock(&self.frozen_until);
            if self.shared.now() >= until {
                return;
            }
            self.shared.clock.sleep_until(until).await;
        }
    }

    /// Waits for a duration of true time, like the work of a handler.
    pub(crate) async fn work_for(&self, duration: Duration) {
        let until = add(self.shared.now(), duration);
        self.shared.clock.sleep_until(until).await;
        self.wait_until_running().await;
        self.shared.record_activity();
    }
}

/// Clock of a machine: true time plus an error. Like the system clock it sleeps until the instant or for the duration
/// computed at the start, whichever ends first.
pub(crate) struct MachineClock(pub(crate) Arc<Machine>);

impl fmt::Debug for MachineClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MachineClock").field(&self.0.name).finish()
    }
}

#[async_trait]
impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        self.0.shared.now().checked_add(self.0.skew()).unwrap_or(Timestamp::MAX)
    }

    fn steady(&self) -> Timestamp {
        self.0.shared.now()
    }

    async fn sleep_until(&self, instant: Timestamp) {
        let machine = &self.0;
        let true_clock = &machine.shared.clock;
        let enough = add(true_clock.now(), between(self.now(), instant));
        while self.now() < instant && true_clock.now() < enough {
            let at = instant.checked_sub(machine.skew()).unwrap_or(instant).min(enough);
            tokio::select! {
                biased;
                () = true_clock.sleep_until(at) => {}
                () = machine.skew_changed.notified() => {}
            }
        }
        machine.wait_until_running().await;
        machine.shared.record_activity();
    }
}

fn nanoseconds(duration: SignedDuration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
