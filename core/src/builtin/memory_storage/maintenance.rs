//! Maintenance: heartbeats of processes, leases that may be taken over, and rows old enough to delete.

use jiff::Timestamp;

use super::memory::Memory;
use super::message_flow::grant_lease;
use crate::model::{Lease, ProcessId};
use crate::storage::{ClaimedMessage, Prune, PruneResult, Reclaim};

impl Memory {
    pub(super) fn heartbeat(&mut self, process: ProcessId, until: Timestamp, now: Timestamp) {
        self.index.leases.heartbeat(process, until, now);
    }

    pub(super) fn reclaim(&mut self, reclaim: &Reclaim, now: Timestamp) -> Vec<ClaimedMessage> {
        let lapsed = self.index.leases.lapsed(reclaim.limit, now);
        let mut claimed = Vec::with_capacity(lapsed.len());
        for slot in lapsed {
            let Some(stored) = self.records.at_mut(slot) else {
                continue;
            };
            self.index.leave(stored);
            self.last_token += 1;
            let lease =
                Lease { owner: reclaim.owner, token: self.last_token, until: reclaim.until };
            claimed.push(grant_lease(&mut stored.record, lease));
            self.index.enter(stored);
        }
        claimed
    }

    pub(super) fn prune(&mut self, prune: Prune) -> PruneResult {
        let ended = self.index.ended_before(prune.before, prune.limit, prune.dead);
        for slot in &ended {
            self.remove_at(*slot);
        }
        self.index.leases.forget_silent(prune.before);
        PruneResult {
            messages: ended.len() as u64,
            executions: self.history.prune(prune.before, prune.limit),
        }
    }
}
