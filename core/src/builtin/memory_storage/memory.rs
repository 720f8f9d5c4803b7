//! Memory: the whole state of the storage, and the few moves all its calls are made of: insert, change, remove.
//! Nothing outside this file touches the map of messages and the sets beside it separately.

use std::sync::Arc;

use jiff::Timestamp;

use super::blocked::Blocker;
use super::documents::Documents;
use super::groups::Groups;
use super::history::History;
use super::inbox::InboxRecords;
use super::index::Index;
use super::jobs::JobTable;
use super::lookup::Lookup;
use super::rates::Rates;
use super::records::{RecordSlot, Records, StoredRecord};
use crate::error::{Error, Result};
use crate::inbox::InboxResult;
use crate::model::{Execution, Message, MessageId, MessageRecord, MessageState, StateChange};
use crate::storage::{Notifier, WakeSource, Wakeup};

/// The state behind the mutex.
pub(super) struct Memory {
    pub(super) records: Records,
    pub(super) index: Index,
    pub(super) lookup: Lookup,
    pub(super) history: History,
    pub(super) jobs: JobTable,
    pub(super) inbox: InboxRecords,
    pub(super) rates: Rates,
    pub(super) groups: Groups,
    pub(super) documents: Documents,
    pub(super) last_token: u64,
    removed: RemovedMessage,
    history_max: usize,
    messages_max: usize,
}

/// Rows that a step has removed, kept only to be freed after the lock is released.
#[derive(Default)]
pub(super) struct RemovedMessage {
    #[allow(clippy::vec_box)] // the records are boxed already, and moving them would cost more
    messages: Vec<Box<StoredRecord>>,
    #[allow(dead_code)] // see above
    executions: Vec<Arc<Execution>>,
}

impl Memory {
    pub(super) fn new(history_max: usize, messages_max: usize) -> Self {
        Self {
            records: Records::default(),
            index: Index::new(),
            lookup: Lookup::default(),
            history: History::new(history_max),
            jobs: JobTable::new(),
            inbox: InboxRecords::default(),
            rates: Rates::default(),
            groups: Groups::default(),
            documents: Documents::default(),
            last_token: 0,
            removed: RemovedMessage::default(),
            history_max,
            messages_max,
        }
    }

    pub(super) fn set_history_max(&mut self, count: usize) {
        self.history_max = count;
        self.history.set_executions_max(count);
        self.trim();
    }

    /// Records a delivery; the limit is that of the history.
    pub(super) fn admit(&mut self, group: &str, message: MessageId, now: Timestamp) -> InboxResult {
        self.inbox.admit(group, message, now, self.history_max)
    }

    pub(super) fn set_messages_max(&mut self, count: usize) {
        self.messages_max = count;
    }

    /// Fails when so many more messages would exceed the limit.
    pub(super) fn check_room(&self, more: usize) -> Result<()> {
        let kept = self.records.len() - self.index.finished_count();
        if kept.saturating_add(more) > self.messages_max {
            return Err(Error::unavailable(format!(
                "the memory storage holds {kept} messages and {more} more would exceed messages_max \
                 ({}); handle, cancel or prune some, raise the limit, or use a durable storage",
                self.messages_max
            )));
        }
        Ok(())
    }

    /// Returns whether so many more messages fit.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.check_room(more).is_ok()
    }

    /// Stores a new pending message, replacing a finished one of the same id.
    pub(super) fn insert(&mut self, message: Arc<Message>) {
        self.put(MessageRecord::new(message));
    }

    /// Stores a record, replacing one of the same id.
    pub(super) fn put(&mut self, record: MessageRecord) {
        let queue_id = self.index.ensure_queue(&record.message.queue);
        if record.state.is_alive() {
            self.lookup.insert(&record.message);
        }
        let (stored, before) = self.records.insert(record, queue_id);
        self.index.enter(stored);
        if let Some(before) = before {
            self.remove_at(before);
        }
    }

    /// Removes a message from the map and all sets.
    pub(super) fn remove(&mut self, id: MessageId) {
        if let Some(slot) = self.records.get(id).map(|stored| stored.slot) {
            self.remove_at(slot);
        }
    }

    pub(super) fn remove_at(&mut self, slot: RecordSlot) {
        let Some(stored) = self.records.remove_at(slot) else {
            return;
        };
        self.index.leave(&stored);
        if stored.record.state.is_alive() {
            self.lookup.remove(&stored.record.message);
        }
        self.removed.messages.push(stored);
    }

    /// Changes a message if its state allows it; returns the state that does not otherwise.
    pub(super) fn change(
        &mut self,
        id: MessageId,
        change: StateChange,
        edit: impl FnOnce(&mut MessageRecord),
    ) -> Result<(), Option<MessageState>> {
        let stored = self.records.get_mut(id).ok_or(None)?;
        let state = stored.record.state;
        let next = state.after(change).ok_or(Some(state))?;
        self.index.leave(stored);
        if state.is_alive() && !next.is_alive() {
            self.lookup.remove(&stored.record.message);
        }
        edit(&mut stored.record);
        stored.record.state = next;
        if !state.is_alive() && next.is_alive() {
            self.lookup.insert(&stored.record.message);
        }
        self.index.enter(stored);
        Ok(())
    }

    /// Removes the oldest finished messages beyond the limit.
    pub(super) fn trim(&mut self) {
        while self.index.finished_count() > self.history_max {
            let Some(slot) = self.index.oldest_finished() else {
                break;
            };
            self.remove_at(slot);
        }
    }

    pub(super) fn next_due(&mut self, source: &WakeSource) -> Option<Timestamp> {
        match source {
            WakeSource::Queue(queue) => self.next_due_of(queue),
            WakeSource::Topics(queue, topics) => self.next_due_among(queue, topics),
            WakeSource::Jobs => self.jobs.next_due(),
            WakeSource::Leases => None,
        }
    }

    pub(super) fn wakeup(&mut self, source: &WakeSource) -> Wakeup {
        match source {
            WakeSource::Queue(queue) | WakeSource::Topics(queue, _) => self.index.wakeup(queue),
            WakeSource::Jobs => self.jobs.wakeup(),
            WakeSource::Leases => self.index.leases.wakeup(),
        }
    }

    /// Returns unblocked messages to their queues. The last move of every step.
    pub(super) fn return_unblocked(&mut self) {
        self.end_batches();
        for job in self.jobs.take_resumed() {
            self.index.blocked.unblock(&Blocker::Job(job));
        }
        for slot in self.index.blocked.take_unblocked() {
            if let Some(stored) = self
                .records
                .at_mut(slot)
                .filter(|stored| stored.record.state == MessageState::Pending)
            {
                self.index.return_to_queue(stored);
            }
        }
    }

    /// Takes the rows that this step has removed; freeing them is the slowest part and happens without the
    /// lock.
    pub(super) fn take_removed(&mut self) -> RemovedMessage {
        RemovedMessage {
            executions: self.history.take_removed(),
            ..std::mem::take(&mut self.removed)
        }
    }

    /// Takes the notifiers that this step has to notify, each once.
    pub(super) fn take_notifiers(&mut self) -> Vec<Notifier> {
        let mut notifiers = self.index.take_notifiers();
        notifiers.extend(self.jobs.take_notifier());
        notifiers.extend(self.index.leases.take_notifier());
        notifiers
    }
}
