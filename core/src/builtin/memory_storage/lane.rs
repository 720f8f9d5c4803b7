//! One queue: its pending messages in the order they are claimed, a count per state, and its bell.
//!
//! There is no set of "ready" messages. Each priority has one set ordered by due time and id, so the
//! first of a set says whether anything of that priority is due. `now` may therefore go backwards
//! between two claims, and a million messages of the future cost a claim nothing.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::Timestamp;

use super::by_end::Place;
use super::records::{Slot, Stored};
use crate::model::{MessageState, Priority, Queue};
use crate::storage::{LOOK_MAX, Notifier, Wakeup};

/// The place of a lane in the list of lanes. Lanes are never removed.
pub(super) type LaneId = usize;

/// One set for each level of [`Priority`](crate::model::Priority), 0 to 9.
const PRIORITIES: usize = 10;

/// The messages of one queue.
pub(super) struct Lane {
    queue: Queue,
    pending: [BTreeMap<Place, Slot>; PRIORITIES],
    counts: [u64; MessageState::ALL.len()],
    bell: Notifier,
    /// The latest instant told since the last ring to those who asked with a filter; none when none of them
    /// sleeps. They may have been told a later instant than that of the first message.
    told: Option<Timestamp>,
}

/// How far a claim has come in each priority: what it passed over is not looked at again.
#[derive(Default)]
pub(super) struct Walk {
    first: Option<usize>,
    passed: [Option<Place>; PRIORITIES],
}

impl Walk {
    /// Begins a walk in which one priority goes before all others.
    pub(super) fn new(first: Option<Priority>) -> Self {
        let first = first.map(|priority| usize::from(priority.level()).min(PRIORITIES - 1));
        Self { first, ..Self::default() }
    }
}

impl Lane {
    pub(super) fn new(queue: Queue) -> Self {
        let (bell, _) = Wakeup::new();
        let (pending, counts) = Default::default();
        Self { queue, pending, counts, bell, told: None }
    }

    /// Puts a pending message in its place; answers whether somebody who sleeps has to know: it is due
    /// before all others, or before what was told to those who asked with a filter.
    pub(super) fn insert(&mut self, stored: &Stored) -> bool {
        let due_at = stored.record.due_at;
        let is_first = self.next_due().is_none_or(|first| due_at < first);
        self.pending[level(stored)].insert(place(stored), stored.slot);
        let is_news = is_first || self.told.is_some_and(|told| due_at < told);
        if is_news {
            self.told = None;
        }
        is_news
    }

    /// Notes what was told to one who asked with a filter.
    pub(super) fn tell(&mut self, due_at: Option<Timestamp>) {
        let due_at = due_at.unwrap_or(Timestamp::MAX);
        self.told = Some(self.told.map_or(due_at, |told| told.max(due_at)));
    }

    pub(super) fn remove(&mut self, stored: &Stored) {
        self.pending[level(stored)].remove(&place(stored));
    }

    /// Takes the next wanted message that is due: the priority that goes first this time, then the highest;
    /// in it the earliest, then the smallest id.
    pub(super) fn pop_due(
        &mut self,
        walk: &mut Walk,
        now: Timestamp,
        wants: impl Fn(Slot) -> bool,
    ) -> Option<Slot> {
        let levels = walk.first.into_iter().chain((0..PRIORITIES).rev());
        for level in levels {
            let (set, passed) = (&mut self.pending[level], &mut walk.passed[level]);
            let from = passed.map_or(Bound::Unbounded, Bound::Excluded);
            let due = set.range((from, Bound::Unbounded)).take_while(|(place, _)| place.0 <= now);
            let mut found = None;
            for (place, slot) in due {
                *passed = Some(*place);
                if wants(*slot) {
                    found = Some((*place, *slot));
                    break;
                }
            }
            if let Some((place, slot)) = found {
                set.remove(&place);
                return Some(slot);
            }
        }
        None
    }

    /// How many are running, whoever runs them.
    pub(super) fn running(&self) -> usize {
        usize::try_from(self.counts[MessageState::Running as usize]).unwrap_or(usize::MAX)
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

    /// The earliest pending message that is wanted, whatever its priority; behind many others of a
    /// priority only the instant of the last one that was looked at.
    pub(super) fn first_of(
        &self,
        wants: impl Fn(Slot) -> bool,
    ) -> Option<(Timestamp, Option<Slot>)> {
        let firsts = self.pending.iter().filter_map(|set| {
            let wanted = |(_, slot): &(&Place, &Slot)| wants(**slot);
            let found = set.iter().take(LOOK_MAX).find(wanted);
            let last = || set.keys().nth(LOOK_MAX - 1).map(|(due_at, _)| (*due_at, None));
            found.map(|((due_at, _), slot)| (*due_at, Some(*slot))).or_else(last)
        });
        firsts.min_by_key(|(due_at, _)| *due_at)
    }

    pub(super) fn count_up(&mut self, state: MessageState) {
        self.counts[state as usize] += 1;
    }

    pub(super) fn count_down(&mut self, state: MessageState) {
        self.counts[state as usize] -= 1;
    }

    /// How many messages are in each state; states without any are left out.
    pub(super) fn counts(&self) -> impl Iterator<Item = ((Queue, MessageState), u64)> {
        let counts =
            MessageState::ALL.into_iter().map(|state| (state, self.counts[state as usize]));
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(state, count)| ((self.queue.clone(), state), count))
    }

    pub(super) fn bell(&self) -> &Notifier {
        &self.bell
    }
}

fn place(stored: &Stored) -> Place {
    (stored.record.due_at, stored.id())
}

fn level(stored: &Stored) -> usize {
    usize::from(stored.record.message.priority.level()).min(PRIORITIES - 1)
}
