//! Everything the storage remembers, and the few moves all its calls are made of: insert, change,
//! remove. Nothing outside this file touches the map of messages and the sets beside it separately.

use std::sync::Arc;

use jiff::Timestamp;

use super::documents::Shelf;
use super::groups::Groups;
use super::history::History;
use super::inbox::Notes;
use super::index::Index;
use super::jobs::Jobs;
use super::names::Names;
use super::rates::Rates;
use super::records::{Records, Slot, Stored};
use super::turns::Gate;
use crate::error::{Error, Result};
use crate::inbox::InboxResult;
use crate::model::{Execution, Message, MessageId, MessageRecord, MessageState, StateChange};
use crate::storage::{Notifier, WakeSource, Wakeup};

/// The state behind the mutex.
pub(super) struct Memory {
    pub(super) records: Records,
    pub(super) index: Index,
    pub(super) names: Names,
    pub(super) history: History,
    pub(super) jobs: Jobs,
    pub(super) notes: Notes,
    pub(super) rates: Rates,
    pub(super) groups: Groups,
    pub(super) shelf: Shelf,
    pub(super) last_token: u64,
    removed: Removed,
    history_max: usize,
    messages_max: usize,
}

/// What a step has taken out. Nobody looks at it again; it only waits to be freed.
#[derive(Default)]
pub(super) struct Removed {
    #[allow(clippy::vec_box)] // the records are boxed already, and moving them would cost more
    messages: Vec<Box<Stored>>,
    #[allow(dead_code)] // see above
    executions: Vec<Arc<Execution>>,
}

impl Memory {
    pub(super) fn new(history_max: usize, messages_max: usize) -> Self {
        Self {
            records: Records::default(),
            index: Index::new(),
            names: Names::default(),
            history: History::new(history_max),
            jobs: Jobs::new(),
            notes: Notes::default(),
            rates: Rates::default(),
            groups: Groups::default(),
            shelf: Shelf::default(),
            last_token: 0,
            removed: Removed::default(),
            history_max,
            messages_max,
        }
    }

    pub(super) fn set_history_max(&mut self, count: usize) {
        self.history_max = count;
        self.history.set_length_max(count);
        self.trim();
    }

    /// Notes a delivery; as many are kept as history.
    pub(super) fn admit(&mut self, group: &str, message: MessageId, now: Timestamp) -> InboxResult {
        self.notes.admit(group, message, now, self.history_max)
    }

    pub(super) fn set_messages_max(&mut self, count: usize) {
        self.messages_max = count;
    }

    /// Refuses so many more messages when they would be too many.
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

    /// Whether so many more messages certainly fit.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.check_room(more).is_ok()
    }

    /// Stores a new pending message. A finished one of the same id gives way to it.
    pub(super) fn insert(&mut self, message: Arc<Message>) {
        self.put(MessageRecord::new(message));
    }

    /// Stores a record, in place of one of the same id.
    pub(super) fn put(&mut self, record: MessageRecord) {
        let lane = self.index.make_lane(&record.message.queue);
        if record.state.is_alive() {
            self.names.insert(&record.message);
        }
        let (stored, before) = self.records.insert(record, lane);
        self.index.enter(stored);
        if let Some(before) = before {
            self.remove_at(before);
        }
    }

    /// Takes a message out of everything.
    pub(super) fn remove(&mut self, id: MessageId) {
        if let Some(slot) = self.records.get(id).map(|stored| stored.slot) {
            self.remove_at(slot);
        }
    }

    pub(super) fn remove_at(&mut self, slot: Slot) {
        let Some(stored) = self.records.remove_at(slot) else {
            return;
        };
        self.index.leave(&stored);
        if stored.record.state.is_alive() {
            self.names.remove(&stored.record.message);
        }
        self.removed.messages.push(stored);
    }

    /// Changes a message if its state allows it; answers the state that refused otherwise.
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
            self.names.remove(&stored.record.message);
        }
        edit(&mut stored.record);
        stored.record.state = next;
        if !state.is_alive() && next.is_alive() {
            self.names.insert(&stored.record.message);
        }
        self.index.enter(stored);
        Ok(())
    }

    /// Lets the oldest finished messages fall out that are beyond the bound.
    pub(super) fn trim(&mut self) {
        while self.index.finished_count() > self.history_max {
            let Some(slot) = self.index.oldest_finished() else {
                break;
            };
            self.remove_at(slot);
        }
    }

    pub(super) fn next_due(&mut self, line: &WakeSource) -> Option<Timestamp> {
        match line {
            WakeSource::Queue(queue) => self.next_due_of(queue),
            WakeSource::Topics(queue, topics) => self.next_due_among(queue, topics),
            WakeSource::Jobs => self.jobs.next_due(),
            WakeSource::Leases => None,
        }
    }

    pub(super) fn wakeup(&mut self, line: &WakeSource) -> Wakeup {
        match line {
            WakeSource::Queue(queue) | WakeSource::Topics(queue, _) => self.index.wakeup(queue),
            WakeSource::Jobs => self.jobs.wakeup(),
            WakeSource::Leases => self.index.leases.wakeup(),
        }
    }

    /// Puts what may have its turn now back into its lane. The last move of every step.
    pub(super) fn offer_turns(&mut self) {
        self.end_batches();
        for job in self.jobs.take_resumed() {
            self.index.turns.release(&Gate::Job(job));
        }
        for slot in self.index.turns.take_ready() {
            if let Some(stored) = self
                .records
                .at_mut(slot)
                .filter(|stored| stored.record.state == MessageState::Pending)
            {
                self.index.offer(stored);
            }
        }
    }

    /// What this step has taken out, to be freed when the lock is: freeing is the slowest part.
    pub(super) fn take_removed(&mut self) -> Removed {
        Removed { executions: self.history.take_removed(), ..std::mem::take(&mut self.removed) }
    }

    /// The bells this step has to ring, once each.
    pub(super) fn take_bells(&mut self) -> Vec<Notifier> {
        let mut bells = self.index.take_bells();
        bells.extend(self.jobs.take_bell());
        bells.extend(self.index.leases.take_bell());
        bells
    }
}
