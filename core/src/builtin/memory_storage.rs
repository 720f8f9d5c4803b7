//! Memory storage: the reference for every other storage, and the default.
//!
//! One mutex around plain state, never held across an await, so every call is one step that no other call can
//! observe half done. Notifiers are notified after the mutex is free. The content is lost when the process
//! ends; this is the only rule of storages that it does not keep.
//!
//! To read what the contract means, read `message_flow.rs` (enqueue, claim, extend, settle), `commands.rs`,
//! `jobs.rs` and `maintenance.rs`, in this order: they change records and call the policies. `memory.rs` has the
//! moves they share. The other files about messages decide nothing; they find a record without a search:
//! `records.rs`, `index.rs`, `queue_index.rs`, `leases.rs`, `blocked.rs`, `ended_rows.rs`, and `lookup.rs`, which
//! keeps the reserved keys as well. ADR 46 gives the reason.

mod blocked;
mod commands;
mod documents;
mod ended_rows;
mod groups;
mod history;
mod inbox;
mod index;
mod jobs;
mod leases;
mod lookup;
mod maintenance;
mod memory;
mod message_flow;
mod queries;
mod queue_index;
mod rates;
mod records;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use self::memory::Memory;
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::inbox::{Inbox, InboxResult};
use crate::inspect::{
    Bucket, Counts, ExecutionFilter, Inspect, JobFilter, MessageFilter, PageRequest, PageResult,
};
use crate::model::{
    BatchId, Execution, ExecutionId, JobCommand, JobName, JobRecord, LeaseRef, MessageId,
    MessageRecord, MessageState, ProcessId, Topic,
};
use crate::policy::RateGrant;
use crate::storage::{
    BrokerRecord, Claim, ClaimedMessage, Command, CommandResult, DeclareResult, DueJob,
    EnqueueResult, Entry, ExtendResult, FireResult, Firing, JobCommandResult, ProgressUpdate,
    Prune, PruneResult, RateRequest, Reclaim, SettleResult, Settlement, Storage, WakeSource,
    Wakeup,
};

/// Default limit of executions, and of finished messages.
const HISTORY_MAX_DEFAULT: usize = 100_000;
/// Default limit of documents.
const DOCUMENTS_MAX_DEFAULT: usize = 100_000;
/// Default limit of pending, running and dead messages.
const MESSAGES_MAX_DEFAULT: usize = 10_000_000;

/// Storage of messages and jobs for as long as the process lives.
///
/// Its memory is bounded: history beyond [`MemoryStorage::history_max`] is removed, oldest first, and messages
/// beyond [`MemoryStorage::messages_max`] are refused. Where [`Storage`] leaves a choice:
///
/// - A message that is done or cancelled can be listed and redriven until it is pruned or removed by the limit.
/// - Enqueueing the id of such a message again is a duplicate, except for a message that was relayed and came
///   back to be delayed, or that an operator sent again.
/// - A message that was replaced is deleted; deleting a message deletes its executions as well.
/// - A redrive is refused while another message with its deduplication key is alive.
pub struct MemoryStorage {
    clock: Arc<dyn Clock>,
    memory: Mutex<Memory>,
}

impl MemoryStorage {
    /// Returns an empty storage. The clock is used by [`Storage::time`] only.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let memory = Memory::new(HISTORY_MAX_DEFAULT, MESSAGES_MAX_DEFAULT);
        Self { clock, memory: Mutex::new(memory) }
    }

    /// Sets the limit of executions, and of finished messages; 0 keeps none.
    #[must_use]
    pub fn history_max(self, count: usize) -> Self {
        self.act(|memory| memory.set_history_max(count));
        self
    }

    /// Sets the limit of pending, running and dead messages; more are refused as unavailable.
    ///
    /// Dead letters count, because they are kept until an operator redrives or deletes them.
    #[must_use]
    pub fn messages_max(self, count: usize) -> Self {
        self.act(|memory| memory.set_messages_max(count));
        self
    }

    /// Sets the limit of documents; more are refused as unavailable.
    #[must_use]
    pub fn documents_max(self, count: usize) -> Self {
        self.act(|memory| memory.documents.set_count_max(count));
        self
    }

    /// Runs one step under the lock. Notifications are sent and removed rows are freed after the lock is
    /// released.
    fn act<T>(&self, step: impl FnOnce(&mut Memory) -> T) -> T {
        let (result, notifiers, _removed) = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            let result = step(&mut memory);
            memory.return_unblocked();
            (result, memory.take_notifiers(), memory.take_removed())
        };
        for notifier in notifiers {
            notifier.notify();
        }
        result
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStorage").field("clock", &self.clock).finish_non_exhaustive()
    }
}

#[async_trait]
impl Storage for MemoryStorage {
    async fn enqueue(&self, entries: Vec<Entry>, now: Timestamp) -> Result<Vec<EnqueueResult>> {
        self.act(|memory| memory.enqueue(entries, now))
    }

    async fn claim(&self, claim: Claim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        Ok(self.act(|memory| memory.claim(&claim, now)))
    }

    async fn extend(
        &self,
        leases: &[LeaseRef],
        until: Timestamp,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        Ok(self.act(|memory| memory.extend(leases, until)))
    }

    async fn settle(
        &self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Result<Vec<SettleResult>> {
        Ok(self.act(|memory| memory.settle(settlements, now)))
    }

    async fn save_progress(
        &self,
        updates: Vec<ProgressUpdate>,
        _now: Timestamp,
    ) -> Result<Vec<ExtendResult>> {
        Ok(self.act(|memory| memory.save_progress(updates)))
    }

    async fn acquire_rate(&self, request: RateRequest, now: Timestamp) -> Result<RateGrant> {
        Ok(self.act(|memory| memory.rates.acquire(request, now)))
    }

    async fn record(&self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.act(|memory| memory.record(records, now))
    }

    async fn command(&self, command: Command, now: Timestamp) -> Result<CommandResult> {
        Ok(self.act(|memory| memory.command(&command, now)))
    }

    async fn declare(
        &self,
        record: JobRecord,
        seen: Option<u64>,
        now: Timestamp,
    ) -> Result<DeclareResult> {
        Ok(self.act(|memory| memory.jobs.declare(record, seen, now)))
    }

    async fn due_jobs(&self, limit: usize, now: Timestamp) -> Result<Vec<DueJob>> {
        Ok(self.act(|memory| memory.due_jobs(limit, now)))
    }

    async fn fire(&self, firings: Vec<Firing>, now: Timestamp) -> Result<Vec<FireResult>> {
        self.act(|memory| memory.fire(firings, now))
    }

    async fn command_job(
        &self,
        job: &JobName,
        command: JobCommand,
        seen: u64,
        now: Timestamp,
    ) -> Result<JobCommandResult> {
        self.act(|memory| memory.jobs.command(job, &command, seen, now))
    }

    async fn remove_job(
        &self,
        job: &JobName,
        seen: u64,
        _now: Timestamp,
    ) -> Result<JobCommandResult> {
        Ok(self.act(|memory| memory.remove_job(job, seen)))
    }

    async fn reclaim(&self, reclaim: Reclaim, now: Timestamp) -> Result<Vec<ClaimedMessage>> {
        Ok(self.act(|memory| memory.reclaim(&reclaim, now)))
    }

    async fn next_expiry(&self) -> Result<Option<Timestamp>> {
        Ok(self.act(|memory| memory.index.leases.next_expiry()))
    }

    async fn heartbeat(&self, process: ProcessId, until: Timestamp, now: Timestamp) -> Result<()> {
        self.act(|memory| memory.heartbeat(process, until, now));
        Ok(())
    }

    async fn register_group(&self, topic: &Topic, group: &str, _now: Timestamp) -> Result<()> {
        self.act(|memory| memory.groups.register(topic, group))
    }

    async fn groups(&self) -> Result<Vec<(Topic, String)>> {
        Ok(self.act(|memory| memory.groups.list()))
    }

    async fn prune(&self, prune: Prune, _now: Timestamp) -> Result<PruneResult> {
        Ok(self.act(|memory| memory.prune(prune)))
    }

    async fn next_due(&self, source: &WakeSource) -> Result<Option<Timestamp>> {
        Ok(self.act(|memory| memory.next_due(source)))
    }

    async fn import_messages(
        &self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.act(|memory| memory.import(records, now))
    }

    fn wakeup(&self, source: &WakeSource) -> Wakeup {
        self.act(|memory| memory.wakeup(source))
    }

    /// No other process can reach this storage.
    fn notifies_across_processes(&self) -> bool {
        true
    }

    fn is_durable(&self) -> bool {
        false
    }

    async fn time(&self) -> Result<Timestamp> {
        Ok(self.clock.now())
    }
}

#[async_trait]
impl Inbox for MemoryStorage {
    async fn has_seen(&self, group: &str, message: MessageId) -> Result<bool> {
        Ok(self.act(|memory| memory.inbox.contains(group, message)))
    }

    async fn admit(&self, group: &str, message: MessageId, now: Timestamp) -> Result<InboxResult> {
        Ok(self.act(|memory| memory.admit(group, message, now)))
    }

    async fn forget(&self, before: Timestamp, limit: usize) -> Result<u64> {
        Ok(self.act(|memory| memory.inbox.forget(before, limit)))
    }
}

#[async_trait]
impl Inspect for MemoryStorage {
    async fn messages(
        &self,
        filter: MessageFilter,
        page: PageRequest<MessageId>,
    ) -> Result<PageResult<MessageRecord, MessageId>> {
        Ok(self.act(|memory| memory.page_of_messages(&filter, page)))
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageRecord>> {
        Ok(self.act(|memory| memory.message(id)))
    }

    async fn executions(
        &self,
        filter: ExecutionFilter,
        page: PageRequest<ExecutionId>,
    ) -> Result<PageResult<Execution, ExecutionId>> {
        Ok(self.act(|memory| memory.history.page(&filter, page)))
    }

    async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobRecord>> {
        Ok(self.act(|memory| memory.jobs.list(&filter)))
    }

    async fn job(&self, name: &JobName) -> Result<Option<JobRecord>> {
        Ok(self.act(|memory| memory.jobs.get(name)))
    }

    async fn counts(&self, now: Timestamp) -> Result<Counts> {
        Ok(self.act(|memory| memory.counts(now)))
    }

    async fn batch(&self, batch: BatchId) -> Result<BTreeMap<MessageState, u64>> {
        Ok(self.act(|memory| memory.batch(batch)))
    }

    async fn throughput(&self, since: Timestamp, bucket: Duration) -> Result<Vec<Bucket>> {
        self.act(|memory| memory.history.throughput(since, bucket))
    }
}
