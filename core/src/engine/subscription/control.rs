//! What operators and the breaker say about subscriptions, and who has which name. A name belongs to one
//! subscription of a process at a time; a circuit that is not closed outlives its subscription, so that
//! taking it away and adding it again does not let it receive before its time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::Subscribed;
use crate::engine::{Process, Slots};
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::policy::{Breaker, BreakerDecision, BreakerSignal, Circuit};
use crate::storage::{Notifier, Wakeup};
use crate::subscription::{SubscriptionName, SubscriptionStatus};

/// How one subscription is steered.
pub(crate) struct Control {
    name: SubscriptionName,
    breaker: Option<Breaker>,
    standing: Mutex<Standing>,
    changed: Notifier,
    pub(crate) slots: Arc<Slots>,
}

#[derive(Clone, Copy, Default)]
struct Standing {
    paused: bool,
    circuit: Circuit,
    connected: bool,
    closing: bool,
}

impl Control {
    fn new(subscribed: &Subscribed, paused: bool, circuit: Circuit) -> Self {
        Self {
            name: subscribed.name.clone(),
            breaker: subscribed.receiving.breaker,
            standing: Mutex::new(Standing { paused, circuit, ..Standing::default() }),
            changed: Wakeup::new().0,
            slots: Slots::new(subscribed.receiving.concurrency),
        }
    }

    /// Rings when something was said.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.changed.wakeup()
    }

    /// What may be received now; nothing at all while it is paused.
    pub(crate) fn admits(&self, events: &Events, now: Timestamp) -> Option<BreakerDecision> {
        let mut standing = self.lock();
        if standing.paused {
            return None;
        }
        let Some(breaker) = self.breaker else { return Some(BreakerDecision::All) };
        let before = standing.circuit;
        let (circuit, admits) = breaker.admits(before, now);
        standing.circuit = circuit;
        drop(standing);
        self.tell(events, before, circuit);
        Some(admits)
    }

    /// Says that an attempt has begun.
    pub(crate) fn begun(&self, now: Timestamp) {
        if let Some(breaker) = self.breaker {
            let mut standing = self.lock();
            standing.circuit = breaker.begun(standing.circuit, now);
        }
    }

    /// Says what an attempt that has ended is a sign of.
    pub(crate) fn ended(&self, events: &Events, sign: BreakerSignal, now: Timestamp) {
        let Some(breaker) = self.breaker else { return };
        let mut standing = self.lock();
        let before = standing.circuit;
        standing.circuit = breaker.ended(before, sign, now);
        let after = standing.circuit;
        drop(standing);
        if before != after {
            self.tell(events, before, after);
            self.changed.notify();
        }
    }

    fn tell(&self, events: &Events, before: Circuit, after: Circuit) {
        if before.as_str() == after.as_str() {
            return;
        }
        let SubscriptionName { transport, topic, group } = self.name.clone();
        let group = group.to_string();
        events.emit(match after {
            Circuit::Open { until, .. } => Event::CircuitOpened { transport, topic, group, until },
            Circuit::HalfOpen { .. } => Event::CircuitHalfOpened { transport, topic, group },
            Circuit::Closed { .. } => Event::CircuitClosed { transport, topic, group },
        });
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        self.lock().connected = connected;
    }

    /// Pauses or resumes; answers whether that changed anything.
    fn set_paused(&self, paused: bool) -> bool {
        let was = std::mem::replace(&mut self.lock().paused, paused);
        self.changed.notify();
        was != paused
    }

    fn close(&self) -> Circuit {
        let mut standing = self.lock();
        standing.closing = true;
        let circuit = standing.circuit;
        drop(standing);
        self.changed.notify();
        circuit
    }

    fn status(&self) -> SubscriptionStatus {
        let Standing { paused, circuit, connected, .. } = *self.lock();
        let (name, running) = (self.name.clone(), self.slots.used());
        SubscriptionStatus { name, paused, circuit, connected, running }
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every subscription of a process.
#[derive(Default)]
pub(crate) struct Switchboard {
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    controls: BTreeMap<SubscriptionName, Arc<Control>>,
    /// The circuits of subscriptions that were taken away before they were closed.
    circuits: BTreeMap<SubscriptionName, Circuit>,
}

impl Switchboard {
    /// Gives a subscription its name; a second one of the same name is a mistake.
    pub(crate) fn add(&self, subscribed: &Subscribed, paused: bool) -> Result<Arc<Control>> {
        let mut lines = self.lock();
        let name = &subscribed.name;
        if lines.controls.contains_key(name) {
            return Err(Error::conflict(format!(
                "there are two subscriptions to {name}; give one of them another group, or leave it out"
            )));
        }
        let circuit = lines.circuits.remove(name).unwrap_or_default();
        let control = Arc::new(Control::new(subscribed, paused, circuit));
        lines.controls.insert(name.clone(), control.clone());
        Ok(control)
    }

    /// Takes a subscription away: it receives no more, and what it has in hand is finished.
    pub(crate) fn remove(&self, process: &Process, name: &SubscriptionName) -> Result<()> {
        let mut lines = self.lock();
        let control = lines.controls.remove(name).ok_or_else(|| unknown(name))?;
        let circuit = control.close();
        let now = process.now();
        // Those whose time is over are as good as closed.
        lines.circuits.retain(|_, circuit| !is_over(*circuit, now));
        if !is_over(circuit, now) {
            lines.circuits.insert(name.clone(), circuit);
        }
        drop(lines);
        told(process, name, "removed");
        Ok(())
    }

    /// Takes back a name whose subscription never began.
    pub(crate) fn forget(&self, name: &SubscriptionName) {
        self.lock().controls.remove(name);
    }

    /// Pauses or resumes a subscription.
    pub(crate) fn steer(
        &self,
        process: &Process,
        name: &SubscriptionName,
        paused: bool,
    ) -> Result<()> {
        let control = self.lock().controls.get(name).cloned().ok_or_else(|| unknown(name))?;
        if control.set_paused(paused) {
            told(process, name, if paused { "paused" } else { "resumed" });
        }
        Ok(())
    }

    /// How each stands, by name.
    pub(crate) fn all(&self) -> Vec<SubscriptionStatus> {
        self.lock().controls.values().map(|control| control.status()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a circuit would let everything through by now, or at least try.
fn is_over(circuit: Circuit, now: Timestamp) -> bool {
    match circuit {
        Circuit::Closed { .. } => true,
        Circuit::Open { until, .. } => until <= now,
        Circuit::HalfOpen { probing_until, .. } => probing_until.is_none_or(|until| until <= now),
    }
}

pub(crate) fn told(process: &Process, name: &SubscriptionName, change: &'static str) {
    let SubscriptionName { transport, topic, group } = name.clone();
    let group = group.to_string();
    process.events.emit(Event::SubscriptionSteered { transport, topic, group, change });
}

fn unknown(name: &SubscriptionName) -> Error {
    Error::not_found(format!("there is no subscription to {name}; list() says what there is"))
}
