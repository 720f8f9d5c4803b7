//! One queue: its pending messages in the order they are claimed, a count per state, and its bell.
//!
//! There is no set of "ready" messages. Each priority has one set ordered by due time and id, so the
//! first of a set says whether anything of that priority is due. `now` may therefore go backwards
//! between two claims, and a million messages of the future cost a claim nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

use jiff::Timestamp;

use super::by_end::Place;
use super::records::{Slot, Stored};
use crate::model::{Priority, Queue, State};
use crate::storage::{Bell, Wakeup};

/// The place of a lane in the list of lanes. Lanes are never removed.
pub(super) type LaneId = usize;

/// One set for each level of [`Priority`](crate::model::Priority), 0 to 9.
const PRIORITIES: usize = 10;

/// The messages of one queue.
pub(super) struct Lane {
    queue: Queue,
    pending: [BTreeMap<Place, Slot>; PRIORITIES],
    counts: [u64; State::ALL.len()],
    bell: Bell,
}

impl Lane {
    pub(super) fn new(queue: Queue) -> Self {
        let (bell, _) = Wakeup::new();
        Self { queue, pending: Default::default(), counts: Default::default(), bell }
    }

    /// Puts a pending message in its place; answers whether it is due before all others.
    pub(super) fn insert(&mut self, stored: &Stored) -> bool {
        let is_first = self.next_due().is_none_or(|first| stored.record.due_at < first);
        self.pending[level(stored)].insert(place(stored), stored.slot);
        is_first
    }

    pub(super) fn remove(&mut self, stored: &Stored) {
        self.pending[level(stored)].remove(&place(stored));
    }

    /// Takes the next message that is due: the priority that goes first this time, then the highest;
    /// in it the earliest, then the smallest id.
    pub(super) fn pop_due(&mut self, first: Option<Priority>, now: Timestamp) -> Option<Slot> {
        let favoured = first.map(|priority| usize::from(priority.level()));
        let taken = favoured.and_then(|level| pop(self.pending.get_mut(level)?, now));
        taken.or_else(|| self.pending.iter_mut().rev().find_map(|set| pop(set, now)))
    }

    /// How many are running, whoever runs them.
    pub(super) fn running(&self) -> usize {
        usize::try_from(self.counts[State::Running as usize]).unwrap_or(usize::MAX)
    }

    /// When the earliest pending message is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.first().map(|(due_at, _)| due_at)
    }

    /// The earliest pending message, whatever its priority.
    pub(super) fn first(&self) -> Option<(Timestamp, Slot)> {
        let firsts = self.pending.iter().filter_map(|set| set.first_key_value());
        firsts.min().map(|((due_at, _), slot)| (*due_at, *slot))
    }

    pub(super) fn count_up(&mut self, state: State) {
        self.counts[state as usize] += 1;
    }

    pub(super) fn count_down(&mut self, state: State) {
        self.counts[state as usize] -= 1;
    }

    /// How many messages are in each state; states without any are left out.
    pub(super) fn counts(&self) -> impl Iterator<Item = ((Queue, State), u64)> {
        let counts = State::ALL.into_iter().map(|state| (state, self.counts[state as usize]));
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(state, count)| ((self.queue.clone(), state), count))
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// Takes the first of a set, if it is due.
fn pop(set: &mut BTreeMap<Place, Slot>, now: Timestamp) -> Option<Slot> {
    let first = set.first_entry().filter(|first| first.key().0 <= now);
    first.map(OccupiedEntry::remove)
}

fn place(stored: &Stored) -> Place {
    (stored.record.due_at, stored.id())
}

fn level(stored: &Stored) -> usize {
    usize::from(stored.record.message.priority.level()).min(PRIORITIES - 1)
}
