//! Message flow, the hot path: enqueue, claim, extend, settle, and the records of messages from a broker.

use jiff::Timestamp;

use super::blocked::{BlockedMessages, Blocker};
use super::jobs::JobTable;
use super::memory::Memory;
use super::queue_index::ClaimScan;
use super::records::{RecordSlot, Records, StoredRecord};
use crate::error::Result;
use crate::model::{
    Lease, LeaseRef, Message, MessageId, MessageRecord, MessageState, Queue, Source, StateChange,
    Unique,
};
use crate::policy::{DedupeDecision, DedupeFacts, SameId, Verdict, dedupe};
use crate::storage::{
    BrokerRecord, Claim, ClaimedMessage, END_OF_TIME, EnqueueResult, Entry, ExtendResult,
    ProgressUpdate, SettleResult, Settlement, TopicFilter,
};

impl Memory {
    pub(super) fn enqueue(
        &mut self,
        entries: Vec<Entry>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        if !self.has_room(entries.len()) {
            let is_new = |entry: &&Entry| self.dedupe(entry, now) == DedupeDecision::Insert;
            self.check_room(entries.iter().filter(is_new).count())?;
        }
        let waiting: Vec<MessageId> = entries
            .iter()
            .filter(|entry| entry.message.waits_for().is_some())
            .map(|entry| entry.message.id)
            .collect();
        let results = entries.into_iter().map(|entry| self.enqueue_one(entry, now)).collect();
        for id in waiting {
            self.wait_for_batch(id);
        }
        Ok(results)
    }

    pub(super) fn enqueue_one(&mut self, entry: Entry, now: Timestamp) -> EnqueueResult {
        let result = match self.dedupe(&entry, now) {
            DedupeDecision::Insert => EnqueueResult::Stored,
            DedupeDecision::Replace(id) => {
                self.remove(id);
                EnqueueResult::Replaced(id)
            }
            DedupeDecision::Duplicate(id) => return EnqueueResult::Duplicate(id),
        };
        self.lookup.reserve_key(&entry.message, now);
        self.insert(entry.message);
        result
    }

    /// Makes a message that waits for a batch due at the end of time.
    fn wait_for_batch(&mut self, id: MessageId) {
        let Some(stored) = self.records.get_mut(id) else { return };
        if stored.record.state != MessageState::Pending
            || !self.lookup.waits_for_batch(&stored.record.message)
        {
            return;
        }
        self.index.leave(stored);
        stored.record.due_at = END_OF_TIME;
        self.index.enter(stored);
    }

    /// Gives the messages that waited for an ended batch their own due time.
    pub(super) fn end_batches(&mut self) {
        for id in self.lookup.take_batch_waiters() {
            let Some(stored) = self.records.get_mut(id) else { continue };
            if stored.record.state == MessageState::Pending && stored.record.due_at == END_OF_TIME {
                self.index.leave(stored);
                stored.record.due_at = stored.record.message.due_at;
                self.index.enter(stored);
            }
        }
    }

    fn dedupe(&self, entry: &Entry, now: Timestamp) -> DedupeDecision {
        let message = &*entry.message;
        let same_key = self.lookup.alive_duplicate(message).and_then(|id| self.records.get(id));
        let known = DedupeFacts {
            same_id: self.records.get(message.id).map(|stored| SameId::from(&stored.record)),
            same_key: same_key.map(|stored| (stored.record.message.id, stored.record.state)),
            reserved_by: self.lookup.key_owner(message, now),
        };
        dedupe(message, entry.replace, &known)
    }

    pub(super) fn claim(&mut self, claim: &Claim, now: Timestamp) -> Vec<ClaimedMessage> {
        let Some(queue_id) = self.index.find_queue(&claim.queue) else {
            return Vec::new();
        };
        let running = self.index.queues()[queue_id].running();
        let room = claim.running_max.map_or(usize::MAX, |most| most.saturating_sub(running));
        let limit = claim.limit.min(room);
        let (mut claimed, mut scan) = (Vec::new(), ClaimScan::new(claim.first));
        while claimed.len() < limit {
            let filter = |slot| is_wanted(&self.records, slot, &claim.topics);
            let Some(slot) = self.index.pop_due((queue_id, &mut scan), now, filter) else {
                break;
            };
            let Some(stored) = self.records.at_mut(slot) else {
                continue;
            };
            if let Some(blocker) =
                blocker_of(&stored.record.message, &self.index.blocked, &self.jobs)
            {
                self.index.block(stored, blocker);
                continue;
            }
            let Some(state) = stored.record.state.after(StateChange::Claim) else {
                continue;
            };
            if stored.record.message.unique() == Unique::WhilePending {
                self.lookup.free_key(&stored.record.message);
            }
            self.last_token += 1;
            stored.record.state = state;
            stored.record.attempt = stored.record.attempt.saturating_add(1);
            let lease = Lease { owner: claim.owner, token: self.last_token, until: claim.until };
            claimed.push(grant_lease(&mut stored.record, lease));
            self.index.enter(stored);
        }
        claimed
    }

    /// Returns when the first message of a queue is due that is not blocked. Blocked ones are taken out of the
    /// queue, so that no poller is woken for them.
    pub(super) fn next_due_of(&mut self, queue: &Queue) -> Option<Timestamp> {
        loop {
            let (due_at, slot) = self.index.first(queue)?;
            let stored = self.records.at(slot)?;
            match blocker_of(&stored.record.message, &self.index.blocked, &self.jobs) {
                Some(blocker) => self.index.block_unclaimed(stored, blocker),
                None => return Some(due_at),
            }
        }
    }

    /// Returns the same for the messages that a filter accepts. Sleeping callers are notified when an accepted
    /// message is enqueued that is due earlier.
    pub(super) fn next_due_among(
        &mut self,
        queue: &Queue,
        topics: &TopicFilter,
    ) -> Option<Timestamp> {
        if topics.is_all() {
            return self.next_due_of(queue);
        }
        let queue_id = self.index.ensure_queue(queue);
        let due_at = loop {
            let filter = |slot| is_wanted(&self.records, slot, topics);
            let Some((due_at, slot)) = self.index.queue_mut(queue_id).first_of(filter) else {
                break None;
            };
            let Some(stored) = slot.and_then(|slot| self.records.at(slot)) else {
                break Some(due_at);
            };
            match blocker_of(&stored.record.message, &self.index.blocked, &self.jobs) {
                Some(blocker) => self.index.block_unclaimed(stored, blocker),
                None => break Some(due_at),
            }
        };
        self.index.queue_mut(queue_id).note_reported_due(due_at);
        due_at
    }

    pub(super) fn extend(&mut self, leases: &[LeaseRef], until: Timestamp) -> Vec<ExtendResult> {
        leases.iter().map(|lease| self.extend_one(*lease, until)).collect()
    }

    fn extend_one(&mut self, lease: LeaseRef, until: Timestamp) -> ExtendResult {
        let Some(stored) = self.records.get_mut(lease.message) else {
            return ExtendResult::Lost;
        };
        if !is_current(stored, lease) {
            return ExtendResult::Lost;
        }
        self.index.leave(stored);
        if let Some(lease) = &mut stored.record.lease {
            lease.until = until;
        }
        self.index.enter(stored);
        if stored.record.cancel_requested {
            ExtendResult::CancelRequested
        } else {
            ExtendResult::Held
        }
    }

    pub(super) fn settle(
        &mut self,
        settlements: Vec<Settlement>,
        now: Timestamp,
    ) -> Vec<SettleResult> {
        let settled = settlements.into_iter().map(|settlement| self.settle_one(settlement, now));
        let settled = settled.collect();
        self.trim();
        settled
    }

    fn settle_one(&mut self, settlement: Settlement, now: Timestamp) -> SettleResult {
        let Settlement { lease, verdict, execution, then } = settlement;
        let Some(stored) = self.records.get_mut(lease.message) else {
            return SettleResult::Lost;
        };
        if !is_current(stored, lease) {
            return SettleResult::Lost;
        }
        if stored.record.cancel_requested && matches!(verdict, Verdict::Again { .. }) {
            return SettleResult::CancelRequested;
        }
        let Some(state) = stored.record.state.after(verdict.change()) else {
            return SettleResult::Lost;
        };
        self.index.leave(stored);
        stored.record.state = state;
        stored.record.lease = None;
        stored.record.cancel_requested = false;
        apply_verdict(&mut stored.record, verdict, now);
        if !state.is_alive() {
            self.lookup.remove(&stored.record.message);
        }
        self.index.enter(stored);
        if let Some(execution) = execution {
            self.history.append(execution);
        }
        for message in then {
            self.enqueue_one(Entry { message, replace: false }, now);
        }
        SettleResult::Applied
    }

    pub(super) fn save_progress(&mut self, updates: Vec<ProgressUpdate>) -> Vec<ExtendResult> {
        updates.into_iter().map(|update| self.save_progress_one(update)).collect()
    }

    fn save_progress_one(&mut self, update: ProgressUpdate) -> ExtendResult {
        let stored = self.records.get_mut(update.lease.message);
        let Some(stored) = stored.filter(|stored| is_current(stored, update.lease)) else {
            return ExtendResult::Lost;
        };
        let record = &mut stored.record;
        record.progress = update.progress.or(record.progress.take());
        record.checkpoint = update.checkpoint.or(record.checkpoint.take());
        if record.cancel_requested { ExtendResult::CancelRequested } else { ExtendResult::Held }
    }

    pub(super) fn record(&mut self, records: Vec<BrokerRecord>, now: Timestamp) -> Result<()> {
        self.check_room(records.iter().filter(|record| record.dead.is_some()).count())?;
        for record in records {
            self.history.append(record.execution);
            if let Some(letter) = record.dead {
                self.store_dead_letter(*letter, now);
            }
        }
        Ok(())
    }

    pub(super) fn import(
        &mut self,
        records: Vec<MessageRecord>,
        now: Timestamp,
    ) -> Result<Vec<EnqueueResult>> {
        self.check_room(records.len())?;
        Ok(records.into_iter().map(|record| self.import_one(record.moved(now))).collect())
    }

    fn import_one(&mut self, record: MessageRecord) -> EnqueueResult {
        let id = record.message.id;
        let duplicate =
            || self.lookup.alive_duplicate(&record.message).filter(|_| record.state.is_alive());
        if let Some(known) = self.records.get(id).map(|_| id).or_else(duplicate) {
            return EnqueueResult::Duplicate(known);
        }
        self.put(record);
        EnqueueResult::Stored
    }

    /// Stores a dead letter, unless the same message is alive or dead here.
    fn store_dead_letter(&mut self, mut letter: MessageRecord, now: Timestamp) {
        let id = letter.message.id;
        let known = self.records.get(id).map(|stored| stored.record.state);
        if known.is_some_and(|state| state.is_alive() || state == MessageState::Dead) {
            return;
        }
        letter.state = MessageState::Dead;
        letter.lease = None;
        letter.cancel_requested = false;
        letter.ended_at = letter.ended_at.or(Some(now));
        self.put(letter);
    }
}

/// Returns whether a filter accepts a pending message.
fn is_wanted(records: &Records, slot: RecordSlot, topics: &TopicFilter) -> bool {
    topics.is_all()
        || records.at(slot).is_some_and(|stored| topics.admits(&stored.record.message.topic))
}

/// Returns what blocks a due message.
fn blocker_of(message: &Message, blocked: &BlockedMessages, jobs: &JobTable) -> Option<Blocker> {
    let job = message.occurrence.as_ref().map(|occurrence| &occurrence.job).filter(|job| {
        (message.exclusive && blocked.is_running(job))
            || (message.source == Source::Scheduled && jobs.is_paused(job))
    });
    if let Some(job) = job {
        return Some(Blocker::Job(job.clone()));
    }
    let limit = message.limit()?;
    let blocker = Blocker::Limit(limit.name.clone());
    limit.running_max.is_some_and(|most| blocked.running(&blocker) >= most).then_some(blocker)
}

/// Fence: returns whether the message is running under this very token.
fn is_current(stored: &StoredRecord, lease: LeaseRef) -> bool {
    stored.record.state == MessageState::Running && stored.record.lease_ref() == Some(lease)
}

/// Puts a record under a lease and returns the claimed message.
pub(super) fn grant_lease(record: &mut MessageRecord, lease: Lease) -> ClaimedMessage {
    record.lease = Some(lease);
    ClaimedMessage::of_record(record, lease)
}

/// Applies a verdict to a record. The last failure stays until there is a newer one.
fn apply_verdict(record: &mut MessageRecord, verdict: Verdict, now: Timestamp) {
    match verdict {
        Verdict::Done | Verdict::Cancelled => record.ended_at = Some(now),
        Verdict::Dead { reason, error } => {
            record.ended_at = Some(now);
            record.dead = Some(reason);
            record.error = error.or(record.error.take());
        }
        Verdict::Again { due_at, attempt, crashes, snoozes, error, .. } => {
            record.due_at = due_at;
            record.attempt = attempt;
            record.crashes = crashes;
            record.snoozes = snoozes;
            record.error = error.or(record.error.take());
        }
    }
}
