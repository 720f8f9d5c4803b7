//! In-flight records of a subscription, shared by the reader thread and the consumer: for each partition, what was
//! fetched and not delivered yet, and what was delivered and not settled. A revoked partition is removed with all of
//! that; its receipts are stale from then on.
//!
//! Not the set of the transport kit, which is for deliveries that are renewed one by one: Kafka renews nothing, commits
//! offsets in order, and revokes whole partitions.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::Error;
use tokio::sync::Notify;

use crate::assignment::{Assignment, FetchedRecord, ReaderItem, RecordPosition};
use crate::notifier::Notifier;

/// Limits of the records buffered per partition.
const READY_MIN: usize = 16;
const READY_MAX: usize = 1_024;

/// Fetched and delivered records. Shared by the reader, the consumer and its receipts.
pub(crate) struct InFlight {
    state: Mutex<Contents>,
    /// Notifies the consumer: records are ready, an error occurred, or the subscription was closed.
    changed: Notify,
    /// Notifies the reader: a record of a partition being revoked was settled or released.
    released: Condvar,
    /// Wakes the reader thread.
    pub(crate) notifier: Arc<Notifier>,
    prefetch: usize,
    uncommitted_max: usize,
}

#[derive(Default)]
struct Contents {
    assignments: BTreeMap<i32, Assignment>,
    /// Delivered and unsettled records of all partitions, including revoked ones.
    in_flight: usize,
    /// The partition that was served last.
    last_served: i32,
    /// How often the group assigned partitions, counting empty assignments.
    generation: u64,
    error: Option<Error>,
    phase: Phase,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Open,
    Closing,
    Closed,
}

/// Result of taking records.
pub(crate) enum TakeResult {
    Records(Vec<FetchedRecord>),
    Failed(Error),
    Closed,
    Empty,
}

impl InFlight {
    pub(crate) fn new(prefetch: usize, uncommitted_max: usize) -> Self {
        let (state, changed, released) = (Mutex::default(), Notify::new(), Condvar::new());
        let (notifier, prefetch) = (Arc::new(Notifier::default()), prefetch.max(1));
        // A window smaller than the prefetch would pause a partition without need.
        Self {
            state,
            changed,
            released,
            notifier,
            prefetch,
            uncommitted_max: uncommitted_max.max(prefetch),
        }
    }

    /// Adds newly assigned partitions.
    pub(crate) fn assign(&self, partitions: &[i32]) {
        let mut state = self.lock();
        state.generation += 1;
        let generation = state.generation;
        for partition in partitions {
            state.assignments.insert(*partition, Assignment::new(generation));
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until the consumer has joined the group.
    pub(crate) async fn joined(&self) {
        while self.lock().generation == 0 {
            self.changed().await;
        }
    }

    /// Stops deliveries from partitions that are about to be revoked, and waits until none of their records is in
    /// flight, at most for `timeout`.
    pub(crate) fn drain(&self, partitions: &[i32], timeout: Duration) {
        let mut state = self.lock();
        for partition in partitions {
            if let Some(assignment) = state.assignments.get_mut(partition) {
                assignment.drain();
            }
        }
        let busy = |state: &mut Contents| {
            let mut assignments =
                partitions.iter().filter_map(|partition| state.assignments.get(partition));
            state.phase == Phase::Open && assignments.any(Assignment::has_in_flight)
        };
        drop(self.released.wait_timeout_while(state, timeout, busy));
    }

    /// Removes partitions; receipts of their records become stale.
    pub(crate) fn revoke(&self, partitions: &[i32]) {
        let mut state = self.lock();
        for partition in partitions {
            state.assignments.remove(partition);
        }
    }

    /// Returns the assigned partitions, each with the generation of its assignment.
    pub(crate) fn assignments(&self) -> Vec<(i32, u64)> {
        self.lock()
            .assignments
            .iter()
            .map(|(partition, assignment)| (*partition, assignment.generation()))
            .collect()
    }

    /// Returns how many more records of a partition may be fetched now.
    pub(crate) fn room(&self, partition: i32) -> usize {
        let state = self.lock();
        let assignment = state.assignments.get(&partition);
        assignment.map_or(0, |assignment| assignment.room(self.ready_max(), self.uncommitted_max))
    }

    /// Adds fetched records.
    pub(crate) fn add(&self, items: impl IntoIterator<Item = ReaderItem>) {
        let mut state = self.lock();
        for item in items {
            if let Some(assignment) = state.assignments.get_mut(&item.position().partition) {
                assignment.add(item);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Returns ready records within `limit` and the prefetch, from the partitions in turn.
    pub(crate) fn take(&self, limit: usize) -> TakeResult {
        let mut state = self.lock();
        if state.phase > Phase::Open {
            return TakeResult::Closed;
        }
        let limit = limit.min(self.prefetch.saturating_sub(state.in_flight));
        let mut records = Vec::new();
        let mut needs_fetch = false;
        while records.len() < limit {
            let Some(assignment) = state.next_assignment() else { break };
            assignment.take(limit, &mut records);
            needs_fetch |= assignment.ready() < self.ready_max() / 2;
        }
        state.in_flight += records.len();
        let error = if records.is_empty() { state.error.take() } else { None };
        drop(state);
        if needs_fetch {
            self.notifier.notify();
        }
        match error {
            _ if !records.is_empty() => TakeResult::Records(records),
            Some(error) => TakeResult::Failed(error),
            None => TakeResult::Empty,
        }
    }

    /// Waits until there may be records to take.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether the partition of a record is still assigned to this consumer.
    pub(crate) fn is_assigned(&self, position: RecordPosition) -> bool {
        self.lock().assignment(position).is_some()
    }

    /// Settles a record in flight; returns false when its partition was revoked meanwhile.
    pub(crate) fn settle(&self, position: RecordPosition) -> bool {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        let assignment = state.assignment(position);
        let was_full =
            assignment.as_ref().is_some_and(|assignment| assignment.is_full(self.uncommitted_max));
        let is_awaited = assignment.as_ref().is_some_and(|assignment| assignment.is_revoking());
        let settled = assignment.is_some_and(|assignment| assignment.settle(position.offset));
        drop(state);
        self.notify_released(is_awaited);
        if was_full {
            self.notifier.notify();
        }
        settled
    }

    /// Makes an unsettled record ready again, with its attempt increased by one.
    pub(crate) fn release(&self, record: FetchedRecord) {
        let mut state = self.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        let assignment = state.assignment(record.position);
        let is_awaited = assignment.as_ref().is_some_and(|assignment| assignment.is_revoking());
        if let Some(assignment) = assignment {
            assignment.release(record);
        }
        drop(state);
        self.notify_released(is_awaited);
    }

    /// Notifies that a record is no longer in flight. The reader waits for partitions being revoked only, and a
    /// notification costs a system call.
    fn notify_released(&self, is_awaited: bool) {
        if is_awaited {
            self.released.notify_all();
        }
        self.changed.notify_one();
    }

    /// Returns the positions that the client does not know yet, as partition and offset.
    pub(crate) fn new_positions(&self) -> Vec<(i32, i64)> {
        let mut state = self.lock();
        let moved = state
            .assignments
            .iter_mut()
            .filter_map(|(partition, assignment)| Some((*partition, assignment.new_position()?)));
        moved.collect()
    }

    /// Stores an error, which the next `take` without records returns once.
    pub(crate) fn report_error(&self, error: Error) {
        self.lock().error = Some(error);
        self.changed.notify_one();
    }

    /// Requests the reader to end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.phase = state.phase.max(Phase::Closing);
        drop(state);
        self.released.notify_all();
        self.changed.notify_one();
        self.notifier.notify();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().phase > Phase::Open
    }

    /// Marks the reader as ended.
    pub(crate) fn mark_closed(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        state.assignments.clear();
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().phase == Phase::Closed
    }

    fn ready_max(&self) -> usize {
        self.prefetch.clamp(READY_MIN, READY_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// Returns the partition of a record, unless it was revoked since.
    fn assignment(&mut self, position: RecordPosition) -> Option<&mut Assignment> {
        self.assignments
            .get_mut(&position.partition)
            .filter(|assignment| assignment.generation() == position.generation)
    }

    /// Returns the next partition with ready records, after the one that was served last.
    fn next_assignment(&mut self) -> Option<&mut Assignment> {
        let last = self.last_served;
        let after =
            self.assignments.range(last.saturating_add(1)..).chain(self.assignments.range(..=last));
        let (partition, _) = after.into_iter().find(|(_, assignment)| assignment.ready() > 0)?;
        self.last_served = *partition;
        self.assignments.get_mut(&self.last_served)
    }
}

#[cfg(test)]
mod tests;
