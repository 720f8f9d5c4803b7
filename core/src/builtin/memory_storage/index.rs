//! Where a message stands, as sorted sets: in its lane while pending, with its owner while running,
//! by its end once it is finished. Every set follows from the record alone, so a change is always
//! the same three steps: leave, edit the record, enter.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::by_end::{ByEnd, Ended, Place, first_at};
use super::lane::{Lane, LaneId, Walk};
use super::leases::Leases;
use super::records::{Slot, Stored};
use super::turns::{Gate, Turns};
use crate::model::{MessageState, Queue};
use crate::storage::{Notifier, Wakeup};

/// The sorted sets.
pub(super) struct Index {
    lanes: Vec<Lane>,
    lane_ids: BTreeMap<Queue, LaneId>,
    pub(super) leases: Leases,
    pub(super) turns: Turns,
    finished: ByEnd<Finished>,
    dead: BTreeMap<Place, Slot>,
    notified: BTreeSet<LaneId>,
}

/// A message that is done or cancelled.
struct Finished {
    place: Place,
    slot: Slot,
}

impl Ended for Finished {
    fn place(&self) -> Place {
        self.place
    }
}

impl Index {
    pub(super) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            lane_ids: BTreeMap::new(),
            leases: Leases::default(),
            turns: Turns::default(),
            finished: ByEnd::new(),
            dead: BTreeMap::new(),
            notified: BTreeSet::new(),
        }
    }

    /// The record has just got its state: put it where that state belongs.
    pub(super) fn enter(&mut self, stored: &Stored) {
        let lane = &mut self.lanes[stored.lane];
        lane.count_up(stored.record.state);
        match stored.record.state {
            MessageState::Pending => {
                // Who sleeps was told an instant that is not later than the earliest one here, or
                // was woken since; only something earlier still is news.
                if lane.insert(stored) {
                    self.notified.insert(stored.lane);
                }
            }
            MessageState::Running => {
                self.leases.insert(stored);
                self.turns.started(&stored.record.message);
            }
            MessageState::Done | MessageState::Cancelled => {
                self.finished.insert(Finished { place: end_of(stored), slot: stored.slot });
            }
            MessageState::Dead => {
                self.dead.insert(end_of(stored), stored.slot);
            }
        }
    }

    /// The record is about to change or to go: take it from where its state belongs.
    pub(super) fn leave(&mut self, stored: &Stored) {
        let lane = &mut self.lanes[stored.lane];
        lane.count_down(stored.record.state);
        match stored.record.state {
            MessageState::Pending => {
                lane.remove(stored);
                self.turns.leave(stored);
            }
            MessageState::Running => {
                self.leases.remove(stored);
                self.turns.ended(&stored.record.message);
            }
            MessageState::Done | MessageState::Cancelled => self.finished.remove(end_of(stored)),
            MessageState::Dead => {
                self.dead.remove(&end_of(stored));
            }
        }
    }

    /// Takes the next due message that is wanted out of a lane; the caller gives it a lease and enters it
    /// again.
    pub(super) fn pop_due(
        &mut self,
        (lane, walk): (LaneId, &mut Walk),
        now: Timestamp,
        wants: impl Fn(Slot) -> bool,
    ) -> Option<Slot> {
        let lane = &mut self.lanes[lane];
        let slot = lane.pop_due(walk, now, wants)?;
        lane.count_down(MessageState::Pending);
        Some(slot)
    }

    /// A pending message that was taken out of its lane has to wait for its turn.
    pub(super) fn set_aside(&mut self, stored: &Stored, gate: Gate) {
        self.lanes[stored.lane].count_up(MessageState::Pending);
        self.turns.wait(gate, stored);
    }

    /// A pending message has to wait for its turn before anybody has tried to claim it.
    pub(super) fn set_aside_unclaimed(&mut self, stored: &Stored, gate: Gate) {
        self.lanes[stored.lane].remove(stored);
        self.turns.wait(gate, stored);
    }

    /// A pending message that waited for its turn is back in its lane.
    pub(super) fn offer(&mut self, stored: &Stored) {
        if self.lanes[stored.lane].insert(stored) {
            self.notified.insert(stored.lane);
        }
    }

    pub(super) fn find_lane(&self, queue: &Queue) -> Option<LaneId> {
        self.lane_ids.get(queue).copied()
    }

    pub(super) fn make_lane(&mut self, queue: &Queue) -> LaneId {
        if let Some(lane) = self.find_lane(queue) {
            return lane;
        }
        self.lanes.push(Lane::new(queue.clone()));
        self.lane_ids.insert(queue.clone(), self.lanes.len() - 1);
        self.lanes.len() - 1
    }

    pub(super) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The earliest pending message of a queue, whatever its priority.
    pub(super) fn first(&self, queue: &Queue) -> Option<(Timestamp, Slot)> {
        self.find_lane(queue).and_then(|lane| self.lanes[lane].first())
    }

    /// The lane, to look at and to note what was told.
    pub(super) fn lane_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.lanes[lane]
    }

    pub(super) fn wakeup(&mut self, queue: &Queue) -> Wakeup {
        let lane = self.make_lane(queue);
        self.lanes[lane].bell().wakeup()
    }

    pub(super) fn take_bells(&mut self) -> Vec<Notifier> {
        let notified = std::mem::take(&mut self.notified);
        notified.into_iter().map(|lane| self.lanes[lane].bell().clone()).collect()
    }

    pub(super) fn finished_count(&self) -> usize {
        self.finished.len()
    }

    /// The done or cancelled message that ended first.
    pub(super) fn oldest_finished(&self) -> Option<Slot> {
        self.finished.first().map(|finished| finished.slot)
    }

    /// At most `limit` done or cancelled messages that ended strictly before an instant, oldest
    /// first; with `dead` the dead letters after them.
    pub(super) fn ended_before(&self, instant: Timestamp, limit: usize, dead: bool) -> Vec<Slot> {
        let finished = self.finished.before(instant).map(|finished| finished.slot);
        let letters = self.dead.range(..first_at(instant)).map(|(_, slot)| *slot);
        finished.chain(letters.filter(|_| dead)).take(limit).collect()
    }

    /// Every message in a final state.
    pub(super) fn ended(&self) -> impl Iterator<Item = Slot> {
        let finished = self.finished.iter().map(|finished| finished.slot);
        finished.chain(self.dead.values().copied())
    }
}

fn end_of(stored: &Stored) -> Place {
    (stored.record.ended_at.unwrap_or(stored.record.due_at), stored.id())
}
