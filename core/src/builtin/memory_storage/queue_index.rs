//! Queue index: the pending messages of one queue in the order they are claimed, a count per state, and its
//! notifier.
//!
//! There is no set of "ready" messages. Each priority has one set ordered by due time and id, so the first of a
//! set shows whether anything of that priority is due. `now` may therefore go backwards between two claims, and
//! a million messages of the future cost a claim nothing.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::Timestamp;

use super::ended_rows::TimeKey;
use super::records::{RecordSlot, StoredRecord};
use crate::model::{MessageState, Priority, Queue};
use crate::storage::{NEXT_DUE_SCAN_MAX, Notifier, Wakeup};

/// Position of a queue in the list of queues. Queues are never removed from it.
pub(super) type QueueId = usize;

/// One set for each level of [`Priority`](crate::model::Priority), 0 to 9.
const PRIORITIES: usize = 10;

/// Pending messages of one queue, and its counts.
pub(super) struct QueueIndex {
    queue: Queue,
    pending: [BTreeMap<TimeKey, RecordSlot>; PRIORITIES],
    counts: [u64; MessageState::ALL.len()],
    notifier: Notifier,
    /// Latest instant returned since the last notification to a poller with a topic filter; none when no such
    /// poller sleeps. It may be later than the first message, which the filter does not accept.
    reported_due: Option<Timestamp>,
}

/// Progress of a claim in each priority: messages that it passed over are not checked again.
#[derive(Default)]
pub(super) struct ClaimScan {
    first: Option<usize>,
    passed: [Option<TimeKey>; PRIORITIES],
}

impl ClaimScan {
    /// Returns a scan in which one priority goes before all others.
    pub(super) fn new(first: Option<Priority>) -> Self {
        let first = first.map(|priority| usize::from(priority.level()).min(PRIORITIES - 1));
        Self { first, ..Self::default() }
    }
}

impl QueueIndex {
    pub(super) fn new(queue: Queue) -> Self {
        let (notifier, _) = Wakeup::new();
        let (pending, counts) = Default::default();
        Self { queue, pending, counts, notifier, reported_due: None }
    }

    /// Inserts a pending message; returns whether sleeping pollers have to be notified, because it is due
    /// before all others or before the instant returned to a poller with a topic filter.
    pub(super) fn insert(&mut self, stored: &StoredRecord) -> bool {
        let due_at = stored.record.due_at;
        let is_first = self.next_due().is_none_or(|first| due_at < first);
        self.pending[level(stored)].insert(time_key(stored), stored.slot);
        let is_earlier =
            is_first || self.reported_due.is_some_and(|reported_due| due_at < reported_due);
        if is_earlier {
            self.reported_due = None;
        }
        is_earlier
    }

    /// Notes the due time that was returned to a poller with a topic filter.
    pub(super) fn note_reported_due(&mut self, due_at: Option<Timestamp>) {
        let due_at = due_at.unwrap_or(Timestamp::MAX);
        self.reported_due =
            Some(self.reported_due.map_or(due_at, |reported_due| reported_due.max(due_at)));
    }

    pub(super) fn remove(&mut self, stored: &StoredRecord) {
        self.pending[level(stored)].remove(&time_key(stored));
    }

    /// Takes the next due message that the filter accepts: from the priority that goes first this time, then
    /// from the highest; in it the earliest, then the smallest id.
    pub(super) fn pop_due(
        &mut self,
        scan: &mut ClaimScan,
        now: Timestamp,
        is_wanted: impl Fn(RecordSlot) -> bool,
    ) -> Option<RecordSlot> {
        let levels = scan.first.into_iter().chain((0..PRIORITIES).rev());
        for level in levels {
            let (set, passed) = (&mut self.pending[level], &mut scan.passed[level]);
            let from = passed.map_or(Bound::Unbounded, Bound::Excluded);
            let due = set.range((from, Bound::Unbounded)).take_while(|(key, _)| key.0 <= now);
            let mut found = None;
            for (key, slot) in due {
                *passed = Some(*key);
                if is_wanted(*slot) {
                    found = Some((*key, *slot));
                    break;
                }
            }
            if let Some((key, slot)) = found {
                set.remove(&key);
                return Some(slot);
            }
        }
        None
    }

    /// Returns the number of running messages, of all owners.
    pub(super) fn running(&self) -> usize {
        usize::try_from(self.counts[MessageState::Running as usize]).unwrap_or(usize::MAX)
    }

    /// Returns when the earliest pending message is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.first().map(|(due_at, _)| due_at)
    }

    /// Returns the earliest pending message, whatever its priority.
    pub(super) fn first(&self) -> Option<(Timestamp, RecordSlot)> {
        let firsts = self.pending.iter().filter_map(|set| set.first_key_value());
        firsts.min().map(|((due_at, _), slot)| (*due_at, *slot))
    }

    /// Returns the earliest pending message that the filter accepts, whatever its priority. Where the scan of a
    /// priority reaches its limit, only the due time of the last message checked.
    pub(super) fn first_of(
        &self,
        is_wanted: impl Fn(RecordSlot) -> bool,
    ) -> Option<(Timestamp, Option<RecordSlot>)> {
        let firsts = self.pending.iter().filter_map(|set| {
            let matches = |(_, slot): &(&TimeKey, &RecordSlot)| is_wanted(**slot);
            let found = set.iter().take(NEXT_DUE_SCAN_MAX).find(matches);
            let last = || set.keys().nth(NEXT_DUE_SCAN_MAX - 1).map(|(due_at, _)| (*due_at, None));
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

    /// Returns the number of messages in each state; states without any are left out.
    pub(super) fn counts(&self) -> impl Iterator<Item = ((Queue, MessageState), u64)> {
        let counts =
            MessageState::ALL.into_iter().map(|state| (state, self.counts[state as usize]));
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(state, count)| ((self.queue.clone(), state), count))
    }

    pub(super) fn notifier(&self) -> &Notifier {
        &self.notifier
    }
}

fn time_key(stored: &StoredRecord) -> TimeKey {
    (stored.record.due_at, stored.id())
}

fn level(stored: &StoredRecord) -> usize {
    usize::from(stored.record.message.priority.level()).min(PRIORITIES - 1)
}
