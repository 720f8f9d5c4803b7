//! Message records, each in a slot that stays the same for as long as it is stored, and the slots by id. Sets
//! that point to a record hold its slot, so the hot path searches by id only once. A record is boxed, so that
//! after a peak only the small slots remain allocated.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use super::queue_index::QueueId;
use crate::model::{JobName, MessageId, MessageRecord, MessageState};

/// Position of a record. Reused once the record is removed.
pub(super) type RecordSlot = usize;

/// Record, its slot, and the position of its queue.
pub(super) struct StoredRecord {
    pub(super) record: MessageRecord,
    pub(super) slot: RecordSlot,
    pub(super) queue_id: QueueId,
}

impl StoredRecord {
    /// Returns the id as a number: it sorts the same and compares faster.
    pub(super) fn id(&self) -> u128 {
        number(self.record.message.id)
    }
}

/// All message records.
#[derive(Default)]
pub(super) struct Records {
    slots: Vec<Option<Box<StoredRecord>>>,
    free: Vec<RecordSlot>,
    by_id: BTreeMap<u128, RecordSlot>,
}

impl Records {
    /// Stores a record; returns it, and the slot of one of the same id that the caller removes.
    pub(super) fn insert(
        &mut self,
        record: MessageRecord,
        queue_id: QueueId,
    ) -> (&StoredRecord, Option<RecordSlot>) {
        let id = number(record.message.id);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let before = self.by_id.insert(id, slot);
        let stored = Box::new(StoredRecord { record, slot, queue_id });
        (self.slots[slot].insert(stored), before)
    }

    pub(super) fn get(&self, id: MessageId) -> Option<&StoredRecord> {
        self.by_id.get(&number(id)).and_then(|slot| self.at(*slot))
    }

    pub(super) fn get_mut(&mut self, id: MessageId) -> Option<&mut StoredRecord> {
        let slot = *self.by_id.get(&number(id))?;
        self.at_mut(slot)
    }

    pub(super) fn at(&self, slot: RecordSlot) -> Option<&StoredRecord> {
        self.slots.get(slot)?.as_deref()
    }

    pub(super) fn at_mut(&mut self, slot: RecordSlot) -> Option<&mut StoredRecord> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    pub(super) fn remove_at(&mut self, slot: RecordSlot) -> Option<Box<StoredRecord>> {
        let stored = self.slots.get_mut(slot).and_then(Option::take)?;
        self.free.push(slot);
        if let Entry::Occupied(entry) = self.by_id.entry(stored.id())
            && *entry.get() == slot
        {
            entry.remove();
        }
        Some(stored)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the messages of a job that are not running.
    pub(super) fn of_job(&self, job: &JobName) -> Vec<MessageId> {
        let records = self.below(None).filter(|record| {
            let of = record.message.occurrence.as_ref().map(|occurrence| &occurrence.job);
            of == Some(job) && record.state != MessageState::Running
        });
        records.map(|record| record.message.id).collect()
    }

    /// Returns the records with an id below `id`, newest id first.
    pub(super) fn below(&self, id: Option<MessageId>) -> impl Iterator<Item = &MessageRecord> {
        let end = id.map_or(Bound::Unbounded, |id| Bound::Excluded(number(id)));
        let slots = self.by_id.range((Bound::Unbounded, end)).rev();
        slots.filter_map(|(_, slot)| self.at(*slot)).map(|stored| &stored.record)
    }
}

pub(super) fn number(id: MessageId) -> u128 {
    id.as_uuid().as_u128()
}
