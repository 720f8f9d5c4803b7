//! One queue: its pending messages in the order they are claimed, a count per state, and its bell.
//!
//! There is no set of "ready" messages. Each priority has one set ordered by due time and id, so the
//! first of a set says whether anything of that priority is due. `now` may therefore go backwards
//! between two claims, and a million messages of the future cost a claim nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::model::{MessageId, MessageRecord, Queue, State};
use crate::storage::{Bell, Wakeup};

/// One set for each level of [`Priority`](crate::model::Priority), 0 to 9.
const PRIORITIES: usize = 10;

/// The pending messages of one queue.
pub(super) struct Lane {
    queue: Queue,
    pending: [BTreeSet<(Timestamp, MessageId)>; PRIORITIES],
    counts: BTreeMap<State, u64>,
    bell: Bell,
}

impl Lane {
    pub(super) fn new(queue: Queue) -> Self {
        let (bell, _) = Wakeup::new();
        Self {
            queue,
            pending: Default::default(),
            counts: BTreeMap::new(),
            bell,
        }
    }

    /// Puts a pending message in its place; answers whether it is due before all others.
    pub(super) fn insert(&mut self, record: &MessageRecord) -> bool {
        let is_first = self.next_due().is_none_or(|first| record.due_at < first);
        self.pending[level(record)].insert((record.due_at, record.message.id));
        is_first
    }

    pub(super) fn remove(&mut self, record: &MessageRecord) {
        self.pending[level(record)].remove(&(record.due_at, record.message.id));
    }

    /// Takes the next message that is due: highest priority, then earliest, then smallest id.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<MessageId> {
        let due = self
            .pending
            .iter_mut()
            .rev()
            .find(|set| set.first().is_some_and(|(due_at, _)| *due_at <= now))?;
        due.pop_first().map(|(_, id)| id)
    }

    /// When the earliest pending message is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.pending
            .iter()
            .filter_map(|set| set.first())
            .map(|(due_at, _)| *due_at)
            .min()
    }

    pub(super) fn count_up(&mut self, state: State) {
        *self.counts.entry(state).or_default() += 1;
    }

    pub(super) fn count_down(&mut self, state: State) {
        if let Some(count) = self.counts.get_mut(&state) {
            *count = count.saturating_sub(1);
        }
    }

    /// How many messages are in each state; states without any are left out.
    pub(super) fn counts(&self) -> impl Iterator<Item = ((Queue, State), u64)> {
        let found = self.counts.iter().filter(|(_, count)| **count > 0);
        found.map(|(state, count)| ((self.queue.clone(), *state), *count))
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }
}

fn level(record: &MessageRecord) -> usize {
    usize::from(record.message.priority.level()).min(PRIORITIES - 1)
}
