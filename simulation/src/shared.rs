//! What everything in one seed shares: time, chance, faults, the ledger and the trace.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::jiff::Timestamp;
use punctual::{ManualClock, MemoryStorage};
use tokio::sync::Notify;

use super::faults::{Fault, Faults};
use super::ledger::Ledger;
use super::random::{Random, mix};

/// One seed's world, as seen by everything inside it.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) clock: ManualClock,
    pub(crate) storage: Arc<MemoryStorage>,
    pub(crate) faults: Faults,
    pub(crate) calm: bool,
    random: Mutex<Random>,
    ledger: Mutex<Ledger>,
    trace: Option<Mutex<Trace>>,
    outage_until: Mutex<Timestamp>,
    activity: AtomicU64,
    calls: Mutex<(Timestamp, u64)>,
    peace: Notify,
}

/// The story as text, and its hash.
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
        let calm = faults.is_calm();
        Arc::new(Self {
            seed,
            storage,
            calm,
            faults,
            random: Mutex::new(random),
            ledger: Mutex::new(Ledger::new(clock.clone(), calm)),
            clock,
            trace: traced.then(Mutex::default),
            outage_until: Mutex::new(start),
            activity: AtomicU64::new(0),
            calls: Mutex::new((start, 0)),
            peace: Notify::new(),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Draws from the one source of chance.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut lock(&self.random))
    }

    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        self.faults.strikes(fault, &mut lock(&self.random))
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Says that something happened, so that the world does not take the moment for quiet.
    pub(crate) fn stir(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call; answers how many there were at this very instant.
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

    /// The end begins: nothing goes wrong any more, and handlers finish.
    pub(crate) fn make_peace(&self) {
        self.faults.stop();
        self.peace.notify_waiters();
    }

    pub(crate) fn at_peace(&self) -> bool {
        self.faults.have_stopped()
    }

    /// Waits for the end to begin.
    pub(crate) async fn peace(&self) {
        if !self.at_peace() {
            self.peace.notified().await;
        }
    }

    /// Writes a line of the story; costs nothing unless the story is wanted.
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
