//! Where a message stands, as sorted sets: in its lane while pending, with its owner while running,
//! by its end once it is finished. Every set follows from the record alone, so a change is always
//! the same three steps: leave, edit the record, enter.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::lane::Lane;
use crate::model::{MessageId, MessageRecord, ProcessId, Queue, State};
use crate::storage::{Bell, Wakeup};

/// The place of a lane in the list of lanes. Lanes are never removed.
pub(super) type LaneId = usize;

/// A record and the lane of its queue.
pub(super) struct Stored {
    pub(super) record: MessageRecord,
    pub(super) lane: LaneId,
}

type ByInstant = BTreeSet<(Timestamp, MessageId)>;

/// The sorted sets.
#[derive(Default)]
pub(super) struct Index {
    lanes: Vec<Lane>,
    lane_ids: BTreeMap<Queue, LaneId>,
    leases: BTreeMap<ProcessId, ByInstant>,
    finished: ByInstant,
    dead: ByInstant,
    rung: BTreeSet<LaneId>,
}

impl Index {
    /// The record has just got its state: put it where that state belongs.
    pub(super) fn enter(&mut self, stored: &Stored) {
        let record = &stored.record;
        let lane = &mut self.lanes[stored.lane];
        lane.count_up(record.state);
        match record.state {
            State::Pending => {
                // Who sleeps was told an instant that is not later than the earliest one here, or
                // was woken since; only something earlier still is news.
                if lane.insert(record) {
                    self.rung.insert(stored.lane);
                }
            }
            State::Running => {
                if let Some(lease) = record.lease {
                    let owned = self.leases.entry(lease.owner).or_default();
                    owned.insert((lease.until, record.message.id));
                }
            }
            State::Done | State::Cancelled => {
                self.finished.insert(end_of(record));
            }
            State::Dead => {
                self.dead.insert(end_of(record));
            }
        }
    }

    /// The record is about to change or to go: take it from where its state belongs.
    pub(super) fn leave(&mut self, stored: &Stored) {
        let record = &stored.record;
        let lane = &mut self.lanes[stored.lane];
        lane.count_down(record.state);
        match record.state {
            State::Pending => lane.remove(record),
            State::Running => {
                if let Some(lease) = record.lease
                    && let Some(owned) = self.leases.get_mut(&lease.owner)
                {
                    owned.remove(&(lease.until, record.message.id));
                    if owned.is_empty() {
                        self.leases.remove(&lease.owner);
                    }
                }
            }
            State::Done | State::Cancelled => {
                self.finished.remove(&end_of(record));
            }
            State::Dead => {
                self.dead.remove(&end_of(record));
            }
        }
    }

    /// Takes the next due message out of a lane; the caller gives it a lease and enters it again.
    pub(super) fn pop_due(&mut self, lane: LaneId, now: Timestamp) -> Option<MessageId> {
        let lane = &mut self.lanes[lane];
        let id = lane.pop_due(now)?;
        lane.count_down(State::Pending);
        Some(id)
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

    pub(super) fn next_due(&self, queue: &Queue) -> Option<Timestamp> {
        self.find_lane(queue)
            .and_then(|lane| self.lanes[lane].next_due())
    }

    pub(super) fn wakeup(&mut self, queue: &Queue) -> Wakeup {
        let lane = self.make_lane(queue);
        self.lanes[lane].bell().wakeup()
    }

    /// Rings at the end of this step, for whoever looks at one running message.
    pub(super) fn ring(&mut self, lane: LaneId) {
        self.rung.insert(lane);
    }

    pub(super) fn take_bells(&mut self) -> Vec<Bell> {
        let rung = std::mem::take(&mut self.rung);
        rung.into_iter()
            .map(|lane| self.lanes[lane].bell().clone())
            .collect()
    }

    /// At most `limit` leases that may be taken over, by their end and id: those that ended before
    /// `now`, and all of an owner whose beat has run out.
    pub(super) fn lapsed(
        &self,
        beats: &BTreeMap<ProcessId, Timestamp>,
        limit: usize,
        now: Timestamp,
    ) -> Vec<MessageId> {
        let mut found: Vec<(Timestamp, MessageId)> = Vec::new();
        for (owner, owned) in &self.leases {
            if beats.get(owner).is_some_and(|until| *until < now) {
                found.extend(owned.iter().take(limit));
            } else {
                found.extend(owned.range(..first_at(now)).take(limit));
            }
        }
        found.sort_unstable();
        found.truncate(limit);
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// How many leases ended before an instant.
    pub(super) fn expired_count(&self, now: Timestamp) -> usize {
        self.leases
            .values()
            .map(|owned| owned.range(..first_at(now)).count())
            .sum()
    }

    pub(super) fn owns(&self, owner: ProcessId) -> bool {
        self.leases.contains_key(&owner)
    }

    pub(super) fn finished_count(&self) -> usize {
        self.finished.len()
    }

    /// The finished message that ended first.
    pub(super) fn oldest_finished(&self) -> Option<MessageId> {
        self.finished.first().map(|(_, id)| *id)
    }

    /// At most `limit` finished messages that ended before an instant, oldest first; with `dead`
    /// dead letters after them.
    pub(super) fn ended_before(
        &self,
        before: Timestamp,
        limit: usize,
        dead: bool,
    ) -> Vec<MessageId> {
        let letters = dead
            .then(|| self.dead.range(..first_at(before)))
            .into_iter()
            .flatten();
        let ended = self.finished.range(..first_at(before)).chain(letters);
        ended.take(limit).map(|(_, id)| *id).collect()
    }

    /// Every message in a final state.
    pub(super) fn ended(&self) -> impl Iterator<Item = MessageId> {
        self.finished.iter().chain(&self.dead).map(|(_, id)| *id)
    }
}

/// The first place at an instant; everything below it is strictly before.
fn first_at(instant: Timestamp) -> (Timestamp, MessageId) {
    (instant, MessageId::from_uuid(Uuid::nil()))
}

fn end_of(record: &MessageRecord) -> (Timestamp, MessageId) {
    (record.ended_at.unwrap_or(record.due_at), record.message.id)
}
