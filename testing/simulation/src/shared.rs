//! Shared state of one seed: clock, random numbers, faults, ledger and trace.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::jiff::Timestamp;
use punctual::{ManualClock, MemoryStorage};
use tokio::sync::Notify;

use super::faults::{Fault, Faults};
use super::ledger::Ledger;
use super::random::{Random, mix};

/// Shared state of one seed.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) clock: ManualClock,
    pub(crate) storage: Arc<MemoryStorage>,
    pub(crate) faults: Faults,
    pub(crate) fault_free: bool,
    random: Mutex<Random>,
    ledger: Mutex<Ledger>,
    trace: Option<Mutex<Trace>>,
    outage_until: Mutex<Timestamp>,
    activity: AtomicU64,
    calls: Mutex<(Timestamp, u64)>,
    faults_ended: Notify,
}

/// Trace as text, and its hash.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) lines: Vec<String>,
    pub(crate) hash: u64,
}

impl Shared {
    pub(crate) fn new(seed: u64, start: Timestamp, mut random: Random, traced: bool) -> Arc<Self> {
        let clock = ManualClock::new(start);
        let storage = Arc::new(MemoryStorage::new(Arc::new(clock.clone())));
        let faults = Faults::draw(&mut random);
        let fault_free = faults.is_fault_free();
        Arc::new(Self {
            seed,
            storage,
            fault_free,
            faults,
            random: Mutex::new(random),
            ledger: Mutex::new(Ledger::new(clock.clone(), fault_free)),
            clock,
            trace: traced.then(Mutex::default),
            outage_until: Mutex::new(start),
            activity: AtomicU64::new(0),
            calls: Mutex::new((start, 0)),
            faults_ended: Notify::new(),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Draws from the random generator of the seed.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut lock(&self.random))
    }

    pub(crate) fn occurs(&self, fault: Fault) -> bool {
        self.faults.occurs(fault, &mut lock(&self.random))
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Records activity, so that the world does not consider itself idle.
    pub(crate) fn record_activity(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call; returns the number of calls at this instant.
    pub(crate) fn count_call(&self) -> u64 {
        let now = self.now();
        let mut calls = lock(&self.calls);
        *calls = if calls.0 == now { (now, calls.1 + 1) } else { (now, 1) };
        calls.1
    }

    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_outage(&self, until: Timestamp) {
        *lock(&self.outage_until) = until;
    }

    pub(crate) fn in_outage(&self) -> bool {
        self.now() < *lock(&self.outage_until)
    }

    /// Starts the final phase: stops all faults and lets handlers finish.
    pub(crate) fn stop_faults(&self) {
        self.faults.stop();
        self.faults_ended.notify_waiters();
    }

    pub(crate) fn faults_stopped(&self) -> bool {
        self.faults.have_stopped()
    }

    /// Waits for the final phase.
    pub(crate) async fn wait_until_faults_stop(&self) {
        if !self.faults_stopped() {
            self.faults_ended.notified().await;
        }
    }

    /// Writes a line of the trace; the line is not built unless tracing is on.
    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            let line = format!("{} {}", self.now(), line());
            let mut trace = lock(trace);
            let hash = line.bytes().fold(trace.hash, |hash, byte| mix(hash ^ u64::from(byte)));
            trace.hash = hash;
            trace.lines.push(line);
        }
    }

    pub(crate) fn take_trace(&self) -> Trace {
        self.trace.as_ref().map(|trace| std::mem::take(&mut *lock(trace))).unwrap_or_default()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
