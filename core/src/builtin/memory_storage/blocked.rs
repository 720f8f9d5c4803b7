//! Blocked messages: due, but not to be claimed yet. An exclusive message is blocked while another message of
//! its job is running, a scheduled one while its job is paused, a limited one while as many of its name are
//! running as the limit allows. Blocked messages are not in the index of their queue, so that claims do not
//! scan them again and again and no poller is woken for them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::queue_index::QueueId;
use super::records::{RecordSlot, StoredRecord};
use crate::model::{JobName, Key, Message};

/// Cause for which a message is blocked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Blocker {
    /// Another running message of the job, or the job's pause.
    Job(JobName),
    /// The limit of this name is reached.
    Limit(Key),
}

/// Blocked messages, and the counts of running messages that block them.
#[derive(Default)]
pub(super) struct BlockedMessages {
    blockers: BTreeMap<Blocker, BlockerState>,
    unblocked: Vec<RecordSlot>,
}

/// Sort key of the messages that are blocked in one queue: the order in which a claim takes them.
type ClaimKey = (Reverse<u8>, Timestamp, u128);

#[derive(Default)]
struct BlockerState {
    running: u32,
    waiting: BTreeMap<QueueId, BTreeMap<ClaimKey, RecordSlot>>,
}

impl BlockedMessages {
    /// Counts a message that began to run.
    pub(super) fn started(&mut self, message: &Message) {
        for blocker in blockers(message) {
            self.blockers.entry(blocker).or_default().running += 1;
        }
    }

    /// Counts a message that has ended, and unblocks messages that it blocked.
    pub(super) fn ended(&mut self, message: &Message) {
        for blocker in blockers(message) {
            if let Some(state) = self.blockers.get_mut(&blocker) {
                state.running = state.running.saturating_sub(1);
            }
            self.unblock(&blocker);
        }
    }

    /// Returns whether a message of a job is running.
    pub(super) fn is_running(&self, job: &JobName) -> bool {
        self.running(&Blocker::Job(job.clone())) > 0
    }

    /// Returns the number of running messages of a job or limit.
    pub(super) fn running(&self, blocker: &Blocker) -> u32 {
        self.blockers.get(blocker).map_or(0, |state| state.running)
    }

    /// Adds a message that is blocked.
    pub(super) fn block(&mut self, blocker: Blocker, stored: &StoredRecord) {
        let state = self.blockers.entry(blocker).or_default();
        state.waiting.entry(stored.queue_id).or_default().insert(claim_key(stored), stored.slot);
    }

    /// Removes a message that may be blocked. A message that was unblocked by a limit and does not run unblocks
    /// the next one.
    pub(super) fn remove(&mut self, stored: &StoredRecord) {
        for blocker in blockers(&stored.record.message) {
            let Some(state) = self.blockers.get_mut(&blocker) else { continue };
            let waited = state
                .waiting
                .get_mut(&stored.queue_id)
                .is_some_and(|waiting| waiting.remove(&claim_key(stored)).is_some());
            if !waited && matches!(blocker, Blocker::Limit(_)) {
                self.unblock(&blocker);
            }
        }
    }

    /// Returns every blocked message.
    pub(super) fn waiting(&self) -> impl Iterator<Item = RecordSlot> {
        let waiting = self.blockers.values().flat_map(|state| state.waiting.values());
        waiting.flat_map(|waiting| waiting.values().copied())
    }

    /// Unblocks the messages behind a blocker; a claim checks each again. Behind a limit, only the next one of
    /// each queue is unblocked: one more can run, and which queue is claimed from is not known here.
    pub(super) fn unblock(&mut self, blocker: &Blocker) {
        let Some(state) = self.blockers.get_mut(blocker) else { return };
        match blocker {
            Blocker::Job(_) => {
                let waiting = std::mem::take(&mut state.waiting);
                self.unblocked.extend(waiting.into_values().flat_map(BTreeMap::into_values));
            }
            Blocker::Limit(_) => {
                let next = state.waiting.values_mut().filter_map(BTreeMap::pop_first);
                self.unblocked.extend(next.map(|(_, slot)| slot));
                state.waiting.retain(|_, waiting| !waiting.is_empty());
            }
        }
        if state.running == 0 && state.waiting.is_empty() {
            self.blockers.remove(blocker);
        }
    }

    /// Takes the messages that are to return to the index of their queue.
    pub(super) fn take_unblocked(&mut self) -> Vec<RecordSlot> {
        std::mem::take(&mut self.unblocked)
    }
}

/// Returns what can block a message.
fn blockers(message: &Message) -> impl Iterator<Item = Blocker> + use<> {
    let job = message.occurrence.as_ref().map(|occurrence| Blocker::Job(occurrence.job.clone()));
    let limit = message.limit().filter(|limit| limit.running_max.is_some());
    job.into_iter().chain(limit.map(|limit| Blocker::Limit(limit.name.clone())))
}

fn claim_key(stored: &StoredRecord) -> ClaimKey {
    (Reverse(stored.record.message.priority.level()), stored.record.due_at, stored.id())
}
