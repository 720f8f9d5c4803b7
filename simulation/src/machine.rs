//! One start of one process on one machine: whether it still lives, whether it stands still, and the
//! clock it reads. Dead means dead: whatever it does afterwards never comes to an end.

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

/// A process and the machine under it.
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
    /// How far its clock was moved in all, in nanoseconds.
    wandered: AtomicI64,
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
            wandered: AtomicI64::new(nanos.abs()),
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

    /// Notes that its shutdown has returned.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn freeze(&self, length: Duration) {
        self.was_frozen.store(true, Ordering::Relaxed);
        *lock(&self.frozen_until) = add(self.shared.now(), length);
    }

    /// Sets its clock forward or back.
    pub(crate) fn step(&self, by: SignedDuration) {
        let nanos = nanoseconds(by);
        self.skew.fetch_add(nanos, Ordering::Relaxed);
        self.wandered.fetch_add(nanos.abs(), Ordering::Relaxed);
        self.skew_changed.notify_waiters();
    }

    /// Notes that its clock may be behind by so much more, because the storage's answer was slow.
    pub(crate) fn widen(&self, nanos: i64) {
        self.wandered.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How much longer than agreed it may take: its deadlines are instants, and a clock that is
    /// corrected on the way moves them.
    pub(crate) fn wandered(&self) -> SignedDuration {
        SignedDuration::from_nanos(self.wandered.load(Ordering::Relaxed))
    }

    pub(crate) fn skew(&self) -> SignedDuration {
        SignedDuration::from_nanos(self.skew.load(Ordering::Relaxed))
    }

    /// Goes on only when the process lives and does not stand still.
    pub(crate) async fn pass(&self) {
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

    /// Waits for true time to pass, as a handler's work does.
    pub(crate) async fn work_for(&self, length: Duration) {
        let until = add(self.shared.now(), length);
        self.shared.clock.sleep_until(until).await;
        self.pass().await;
        self.shared.stir();
    }
}

/// The clock of a machine: true time and its error. Like the system's clock it waits for the instant
/// or for as long as there was to wait when it began, whichever comes first.
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
        machine.pass().await;
        machine.shared.stir();
    }
}

fn nanoseconds(length: SignedDuration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}
