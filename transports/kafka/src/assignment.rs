//! Assignment of one partition to this consumer: the records fetched and not delivered yet, the number of records in
//! flight, and the position up to which everything is settled.

use std::collections::VecDeque;
use std::sync::Arc;

use punctual::Message;

use crate::commit_window::CommitWindow;

/// Limit of the bytes buffered per partition; one record is always buffered.
pub(crate) const READY_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// An assigned partition.
pub(crate) struct Assignment {
    generation: u64,
    ready: VecDeque<FetchedRecord>,
    ready_bytes: usize,
    window: CommitWindow,
    in_flight: usize,
    /// Set while the partition is being revoked: no more records are delivered.
    is_revoking: bool,
    /// The position last stored with the client.
    stored: Option<i64>,
}

impl Assignment {
    /// Creates the state of a newly assigned partition.
    pub(crate) fn new(generation: u64) -> Self {
        let (ready, window) = (VecDeque::new(), CommitWindow::default());
        Self {
            generation,
            ready,
            ready_bytes: 0,
            window,
            in_flight: 0,
            is_revoking: false,
            stored: None,
        }
    }

    /// Returns the generation of the assignment.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns how many records are ready.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn has_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    pub(crate) fn is_revoking(&self) -> bool {
        self.is_revoking
    }

    /// Whether the limit of uncommitted records is reached.
    pub(crate) fn is_full(&self, uncommitted_max: usize) -> bool {
        self.window.len() >= uncommitted_max
    }

    /// Returns how many more records may be fetched now.
    pub(crate) fn room(&self, ready_max: usize, uncommitted_max: usize) -> usize {
        if self.is_revoking || self.ready_bytes >= READY_BYTES_MAX {
            return 0;
        }
        let window = uncommitted_max.saturating_sub(self.window.len());
        ready_max.saturating_sub(self.ready.len()).min(window)
    }

    /// Stops deliveries: drops the ready records.
    pub(crate) fn drain(&mut self) {
        self.is_revoking = true;
        self.ready.clear();
        self.ready_bytes = 0;
    }

    pub(crate) fn add(&mut self, item: ReaderItem) {
        let offset = item.position().offset;
        // After a reconnect the client may fetch the same record again.
        let is_new = self.window.open(offset);
        match item {
            ReaderItem::Record(record) if is_new => self.insert(record),
            ReaderItem::Record(_) => {}
            ReaderItem::Skipped(_) => drop(self.window.settle(offset)),
        }
    }

    /// Appends ready records to `records` until it holds `limit`.
    pub(crate) fn take(&mut self, limit: usize, records: &mut Vec<FetchedRecord>) {
        while records.len() < limit {
            let Some(record) = self.ready.pop_front() else { break };
            self.ready_bytes = self.ready_bytes.saturating_sub(record.size());
            self.in_flight += 1;
            records.push(record);
        }
    }

    /// Settles a record; returns false when it is not in flight.
    pub(crate) fn settle(&mut self, offset: i64) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.window.settle(offset)
    }

    /// Makes an unsettled record ready again, with its attempt increased by one.
    pub(crate) fn release(&mut self, record: FetchedRecord) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let attempt = record.attempt.saturating_add(1);
        self.insert(FetchedRecord { attempt, ..record });
    }

    /// Returns the position if the client does not know it yet, and marks it as known.
    pub(crate) fn new_position(&mut self) -> Option<i64> {
        let position = self.window.position().filter(|now| self.stored != Some(*now))?;
        self.stored = Some(position);
        Some(position)
    }

    /// Inserts by offset, so that a released record is delivered first again.
    fn insert(&mut self, record: FetchedRecord) {
        if self.is_revoking {
            return;
        }
        self.ready_bytes += record.size();
        let at = self.ready.partition_point(|other| other.position.offset < record.position.offset);
        self.ready.insert(at, record);
    }
}

/// A fetched record, ready to be delivered.
#[derive(Clone, Debug)]
pub(crate) struct FetchedRecord {
    pub(crate) position: RecordPosition,
    pub(crate) message: Arc<Message>,
    /// Number of the attempt that its next delivery is.
    pub(crate) attempt: u32,
    pub(crate) poison: Option<Arc<str>>,
}

/// Position of a record: its partition, the generation of the assignment, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub(crate) partition: i32,
    pub(crate) generation: u64,
    pub(crate) offset: i64,
}

/// A record read from a partition: for this group, or skipped because it is for another one.
pub(crate) enum ReaderItem {
    Record(FetchedRecord),
    Skipped(RecordPosition),
}

impl FetchedRecord {
    fn size(&self) -> usize {
        self.message.body.bytes.len()
    }
}

impl ReaderItem {
    pub(crate) fn position(&self) -> RecordPosition {
        match self {
            Self::Record(record) => record.position,
            Self::Skipped(position) => *position,
        }
    }
}
