//! Controls of subscriptions: pauses by operators, the circuit of the breaker, and the names in use. A name
//! belongs to one subscription of a process at a time; a circuit that is not closed outlives its
//! subscription, so that removing the subscription and adding it again does not end the wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::SubscriptionSpec;
use crate::engine::Process;
use crate::engine::{SubscriptionName, SubscriptionStatus};
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::handler::Slots;
use crate::policy::{Breaker, BreakerDecision, BreakerSignal, Circuit};
use crate::storage::{Notifier, Wakeup};

/// Control of one subscription.
pub(crate) struct Control {
    name: SubscriptionName,
    breaker: Option<Breaker>,
    state: Mutex<ControlState>,
    changed: Notifier,
    pub(crate) slots: Arc<Slots>,
}

#[derive(Clone, Copy, Default)]
struct ControlState {
    paused: bool,
    circuit: Circuit,
    connected: bool,
    closing: bool,
}

impl Control {
    fn new(spec: &SubscriptionSpec, paused: bool, circuit: Circuit) -> Self {
        Self {
            name: spec.name.clone(),
            breaker: spec.receive_options.breaker,
            state: Mutex::new(ControlState { paused, circuit, ..ControlState::default() }),
            changed: Wakeup::new().0,
            slots: Slots::new(spec.receive_options.concurrency),
        }
    }

    /// Returns the wakeup for changes of the control.
    pub(crate) fn wakeup(&self) -> Wakeup {
        self.changed.wakeup()
    }

    /// Returns what may be received now; `None` while it is paused.
    pub(crate) fn admits(&self, events: &Events, now: Timestamp) -> Option<BreakerDecision> {
        let mut state = self.lock();
        if state.paused {
            return None;
        }
        let Some(breaker) = self.breaker else { return Some(BreakerDecision::All) };
        let before = state.circuit;
        let (circuit, admits) = breaker.admits(before, now);
        state.circuit = circuit;
        drop(state);
        self.emit_circuit(events, before, circuit);
        Some(admits)
    }

    /// Counts the start of an attempt.
    pub(crate) fn attempt_started(&self, now: Timestamp) {
        if let Some(breaker) = self.breaker {
            let mut state = self.lock();
            state.circuit = breaker.attempt_started(state.circuit, now);
        }
    }

    /// Passes the end of an attempt to the breaker.
    pub(crate) fn attempt_ended(&self, events: &Events, signal: BreakerSignal, now: Timestamp) {
        let Some(breaker) = self.breaker else { return };
        let mut state = self.lock();
        let before = state.circuit;
        state.circuit = breaker.attempt_ended(before, signal, now);
        let after = state.circuit;
        drop(state);
        if before != after {
            self.emit_circuit(events, before, after);
            self.changed.notify();
        }
    }

    fn emit_circuit(&self, events: &Events, before: Circuit, after: Circuit) {
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

    /// Pauses or resumes; returns whether that changed anything.
    fn set_paused(&self, paused: bool) -> bool {
        let was = std::mem::replace(&mut self.lock().paused, paused);
        self.changed.notify();
        was != paused
    }

    fn close(&self) -> Circuit {
        let mut state = self.lock();
        state.closing = true;
        let circuit = state.circuit;
        drop(state);
        self.changed.notify();
        circuit
    }

    fn status(&self) -> SubscriptionStatus {
        let ControlState { paused, circuit, connected, .. } = *self.lock();
        let (name, running) = (self.name.clone(), self.slots.used());
        SubscriptionStatus { name, paused, circuit, connected, running }
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Controls of every subscription of a process.
#[derive(Default)]
pub(crate) struct Controls {
    table: Mutex<ControlTable>,
}

#[derive(Default)]
struct ControlTable {
    controls: BTreeMap<SubscriptionName, Arc<Control>>,
    /// Circuits of subscriptions that were removed before their circuit was closed.
    circuits: BTreeMap<SubscriptionName, Circuit>,
}

impl Controls {
    /// Adds a subscription; fails when its name is in use.
    pub(crate) fn add(&self, spec: &SubscriptionSpec, paused: bool) -> Result<Arc<Control>> {
        let mut table = self.lock();
        let name = &spec.name;
        if table.controls.contains_key(name) {
            return Err(Error::conflict(format!(
                "there are two subscriptions to {name}; give one of them another group, or leave it out"
            )));
        }
        let circuit = table.circuits.remove(name).unwrap_or_default();
        let control = Arc::new(Control::new(spec, paused, circuit));
        table.controls.insert(name.clone(), control.clone());
        Ok(control)
    }

    /// Removes a subscription: it receives no more, and its deliveries in flight are finished.
    pub(crate) fn remove(&self, process: &Process, name: &SubscriptionName) -> Result<()> {
        let mut table = self.lock();
        let control = table.controls.remove(name).ok_or_else(|| unknown(name))?;
        let circuit = control.close();
        let now = process.now();
        // Circuits that no longer block need not be kept.
        table.circuits.retain(|_, circuit| !is_over(*circuit, now));
        if !is_over(circuit, now) {
            table.circuits.insert(name.clone(), circuit);
        }
        drop(table);
        emit_change(process, name, "removed");
        Ok(())
    }

    /// Frees the name of a subscription that could not be started.
    pub(crate) fn forget(&self, name: &SubscriptionName) {
        self.lock().controls.remove(name);
    }

    /// Pauses or resumes a subscription.
    pub(crate) fn set_paused(
        &self,
        process: &Process,
        name: &SubscriptionName,
        paused: bool,
    ) -> Result<()> {
        let control = self.lock().controls.get(name).cloned().ok_or_else(|| unknown(name))?;
        if control.set_paused(paused) {
            emit_change(process, name, if paused { "paused" } else { "resumed" });
        }
        Ok(())
    }

    /// Returns the status of every subscription, by name.
    pub(crate) fn all(&self) -> Vec<SubscriptionStatus> {
        self.lock().controls.values().map(|control| control.status()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, ControlTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a circuit lets messages through by now, or at least a probe.
fn is_over(circuit: Circuit, now: Timestamp) -> bool {
    match circuit {
        Circuit::Closed { .. } => true,
        Circuit::Open { until, .. } => until <= now,
        Circuit::HalfOpen { probing_until, .. } => probing_until.is_none_or(|until| until <= now),
    }
}

pub(crate) fn emit_change(process: &Process, name: &SubscriptionName, change: &'static str) {
    let SubscriptionName { transport, topic, group } = name.clone();
    let group = group.to_string();
    process.env.events.emit(Event::SubscriptionChanged { transport, topic, group, change });
}

fn unknown(name: &SubscriptionName) -> Error {
    Error::not_found(format!("there is no subscription to {name}; list() returns those that exist"))
}
