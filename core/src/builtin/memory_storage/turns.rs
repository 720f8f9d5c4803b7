//! Messages that are due and must wait for their turn: exclusive ones while another message of their
//! job is running, scheduled ones while their job is paused, limited ones while as many of their name
//! are running as may. They are in no lane meanwhile, so that a claim does not stumble over them again
//! and again, and nobody is woken for them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::lane::LaneId;
use super::records::{Slot, Stored};
use crate::model::{JobName, Key, Message};

/// What a message waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gate {
    /// A job: its other messages, or the end of its pause.
    Job(JobName),
    /// Others that share a limit.
    Limit(Key),
}

/// Whose turn it is.
#[derive(Default)]
pub(super) struct Turns {
    gates: BTreeMap<Gate, Turn>,
    ready: Vec<Slot>,
}

/// The order in which those that wait in one lane are let through: as a claim takes them.
type Place = (Reverse<u8>, Timestamp, u128);

#[derive(Default)]
struct Turn {
    running: u32,
    waiting: BTreeMap<LaneId, BTreeMap<Place, Slot>>,
}

impl Turns {
    /// A message began to run.
    pub(super) fn started(&mut self, message: &Message) {
        for gate in gates(message) {
            self.gates.entry(gate).or_default().running += 1;
        }
    }

    /// A message runs no more: those that waited for it may try again.
    pub(super) fn ended(&mut self, message: &Message) {
        for gate in gates(message) {
            if let Some(turn) = self.gates.get_mut(&gate) {
                turn.running = turn.running.saturating_sub(1);
            }
            self.release(&gate);
        }
    }

    /// Whether another message of a job is running.
    pub(super) fn is_taken(&self, job: &JobName) -> bool {
        self.running(&Gate::Job(job.clone())) > 0
    }

    /// How many run behind a gate.
    pub(super) fn running(&self, gate: &Gate) -> u32 {
        self.gates.get(gate).map_or(0, |turn| turn.running)
    }

    /// Sets a message aside until its turn comes.
    pub(super) fn wait(&mut self, gate: Gate, stored: &Stored) {
        let turn = self.gates.entry(gate).or_default();
        turn.waiting.entry(stored.lane).or_default().insert(place(stored), stored.slot);
    }

    /// A message that may have waited is leaving. One that had its turn and did not use it gives it
    /// to the next.
    pub(super) fn leave(&mut self, stored: &Stored) {
        for gate in gates(&stored.record.message) {
            let Some(turn) = self.gates.get_mut(&gate) else { continue };
            let waited = turn
                .waiting
                .get_mut(&stored.lane)
                .is_some_and(|waiting| waiting.remove(&place(stored)).is_some());
            if !waited && matches!(gate, Gate::Limit(_)) {
                self.release(&gate);
            }
        }
    }

    /// Everything that waits.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Slot> {
        let waiting = self.gates.values().flat_map(|turn| turn.waiting.values());
        waiting.flat_map(|waiting| waiting.values().copied())
    }

    /// Lets what waits try again; a claim looks at each once more. Of those that share a limit only the
    /// next of each lane, because only one can have become possible; which lane is worked on nobody
    /// knows here.
    pub(super) fn release(&mut self, gate: &Gate) {
        let Some(turn) = self.gates.get_mut(gate) else { return };
        match gate {
            Gate::Job(_) => {
                let waiting = std::mem::take(&mut turn.waiting);
                self.ready.extend(waiting.into_values().flat_map(BTreeMap::into_values));
            }
            Gate::Limit(_) => {
                let next = turn.waiting.values_mut().filter_map(BTreeMap::pop_first);
                self.ready.extend(next.map(|(_, slot)| slot));
                turn.waiting.retain(|_, waiting| !waiting.is_empty());
            }
        }
        if turn.running == 0 && turn.waiting.is_empty() {
            self.gates.remove(gate);
        }
    }

    /// What may go back to its lane.
    pub(super) fn take_ready(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.ready)
    }
}

/// The gates a message goes through.
fn gates(message: &Message) -> impl Iterator<Item = Gate> + use<> {
    let job = message.occurrence.as_ref().map(|occurrence| Gate::Job(occurrence.job.clone()));
    let limit = message.limit().filter(|limit| limit.running_max.is_some());
    job.into_iter().chain(limit.map(|limit| Gate::Limit(limit.name.clone())))
}

fn place(stored: &Stored) -> Place {
    (Reverse(stored.record.message.priority.level()), stored.record.due_at, stored.id())
}
