//! Index of messages, as sorted sets: by queue while pending, by owner while running, by its end once finished.
//! Every set follows from the record alone, so a change is always the same three steps: leave, edit the record,
//! enter.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::blocked::{BlockedMessages, Blocker};
use super::ended_rows::{EndedRow, EndedRows, TimeKey, first_key_at};
use super::leases::Leases;
use super::queue_index::{ClaimScan, QueueId, QueueIndex};
use super::records::{RecordSlot, StoredRecord};
use crate::model::{MessageState, Queue};
use crate::storage::{Notifier, Wakeup};

/// The sorted sets of all messages.
pub(super) struct Index {
    queues: Vec<QueueIndex>,
    queue_ids: BTreeMap<Queue, QueueId>,
    pub(super) leases: Leases,
    pub(super) blocked: BlockedMessages,
    finished: EndedRows<FinishedKey>,
    dead: BTreeMap<TimeKey, RecordSlot>,
    to_notify: BTreeSet<QueueId>,
}

/// A message that is done or cancelled.
struct FinishedKey {
    key: TimeKey,
    slot: RecordSlot,
}

impl EndedRow for FinishedKey {
    fn key(&self) -> TimeKey {
        self.key
    }
}

impl Index {
    pub(super) fn new() -> Self {
        Self {
            queues: Vec::new(),
            queue_ids: BTreeMap::new(),
            leases: Leases::default(),
            blocked: BlockedMessages::default(),
            finished: EndedRows::new(),
            dead: BTreeMap::new(),
            to_notify: BTreeSet::new(),
        }
    }

    /// Adds a record to the set that its state belongs to.
    pub(super) fn enter(&mut self, stored: &StoredRecord) {
        let queue = &mut self.queues[stored.queue_id];
        queue.count_up(stored.record.state);
        match stored.record.state {
            MessageState::Pending => {
                // A sleeping poller waits for an instant that is not later than the earliest one here, or was
                // notified since; so only a message that is due earlier needs a notification.
                if queue.insert(stored) {
                    self.to_notify.insert(stored.queue_id);
                }
            }
            MessageState::Running => {
                self.leases.insert(stored);
                self.blocked.started(&stored.record.message);
            }
            MessageState::Done | MessageState::Cancelled => {
                self.finished.insert(FinishedKey { key: end_of(stored), slot: stored.slot });
            }
            MessageState::Dead => {
                self.dead.insert(end_of(stored), stored.slot);
            }
        }
    }

    /// Removes a record, before it changes, from the set that its state belongs to.
    pub(super) fn leave(&mut self, stored: &StoredRecord) {
        let queue = &mut self.queues[stored.queue_id];
        queue.count_down(stored.record.state);
        match stored.record.state {
            MessageState::Pending => {
                queue.remove(stored);
                self.blocked.remove(stored);
            }
            MessageState::Running => {
                self.leases.remove(stored);
                self.blocked.ended(&stored.record.message);
            }
            MessageState::Done | MessageState::Cancelled => self.finished.remove(end_of(stored)),
            MessageState::Dead => {
                self.dead.remove(&end_of(stored));
            }
        }
    }

    /// Takes the next due message that the filter accepts out of a queue; the caller gives it a lease and
    /// enters it again.
    pub(super) fn pop_due(
        &mut self,
        (queue_id, scan): (QueueId, &mut ClaimScan),
        now: Timestamp,
        is_wanted: impl Fn(RecordSlot) -> bool,
    ) -> Option<RecordSlot> {
        let queue = &mut self.queues[queue_id];
        let slot = queue.pop_due(scan, now, is_wanted)?;
        queue.count_down(MessageState::Pending);
        Some(slot)
    }

    /// Blocks a pending message that a claim has taken out of its queue.
    pub(super) fn block(&mut self, stored: &StoredRecord, blocker: Blocker) {
        self.queues[stored.queue_id].count_up(MessageState::Pending);
        self.blocked.block(blocker, stored);
    }

    /// Blocks a pending message that no claim has taken out of its queue.
    pub(super) fn block_unclaimed(&mut self, stored: &StoredRecord, blocker: Blocker) {
        self.queues[stored.queue_id].remove(stored);
        self.blocked.block(blocker, stored);
    }

    /// Returns a pending message that was blocked to its queue.
    pub(super) fn return_to_queue(&mut self, stored: &StoredRecord) {
        if self.queues[stored.queue_id].insert(stored) {
            self.to_notify.insert(stored.queue_id);
        }
    }

    pub(super) fn find_queue(&self, queue: &Queue) -> Option<QueueId> {
        self.queue_ids.get(queue).copied()
    }

    pub(super) fn ensure_queue(&mut self, queue: &Queue) -> QueueId {
        if let Some(queue_id) = self.find_queue(queue) {
            return queue_id;
        }
        self.queues.push(QueueIndex::new(queue.clone()));
        self.queue_ids.insert(queue.clone(), self.queues.len() - 1);
        self.queues.len() - 1
    }

    pub(super) fn queues(&self) -> &[QueueIndex] {
        &self.queues
    }

    /// Returns the earliest pending message of a queue, whatever its priority.
    pub(super) fn first(&self, queue: &Queue) -> Option<(Timestamp, RecordSlot)> {
        self.find_queue(queue).and_then(|queue_id| self.queues[queue_id].first())
    }

    /// Returns the index of one queue.
    pub(super) fn queue_mut(&mut self, queue_id: QueueId) -> &mut QueueIndex {
        &mut self.queues[queue_id]
    }

    pub(super) fn wakeup(&mut self, queue: &Queue) -> Wakeup {
        let queue_id = self.ensure_queue(queue);
        self.queues[queue_id].notifier().wakeup()
    }

    pub(super) fn take_notifiers(&mut self) -> Vec<Notifier> {
        let to_notify = std::mem::take(&mut self.to_notify);
        to_notify.into_iter().map(|queue_id| self.queues[queue_id].notifier().clone()).collect()
    }

    pub(super) fn finished_count(&self) -> usize {
        self.finished.len()
    }

    /// Returns the done or cancelled message that ended first.
    pub(super) fn oldest_finished(&self) -> Option<RecordSlot> {
        self.finished.first().map(|finished| finished.slot)
    }

    /// Returns at most `limit` done or cancelled messages that ended strictly before an instant, oldest first;
    /// with `dead` the dead letters after them.
    pub(super) fn ended_before(
        &self,
        instant: Timestamp,
        limit: usize,
        dead: bool,
    ) -> Vec<RecordSlot> {
        let finished = self.finished.before(instant).map(|finished| finished.slot);
        let letters = self.dead.range(..first_key_at(instant)).map(|(_, slot)| *slot);
        finished.chain(letters.filter(|_| dead)).take(limit).collect()
    }

    /// Returns every message in a final state.
    pub(super) fn ended(&self) -> impl Iterator<Item = RecordSlot> {
        let finished = self.finished.iter().map(|finished| finished.slot);
        finished.chain(self.dead.values().copied())
    }
}

fn end_of(stored: &StoredRecord) -> TimeKey {
    (stored.record.ended_at.unwrap_or(stored.record.due_at), stored.id())
}
