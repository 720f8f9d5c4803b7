//! Maintenance by the rules of the contract: reclaim, heartbeat, prune, and records of broker deliveries.

use punctual::backend::storage::{BrokerRecord, ClaimedMessage, Prune, PruneResult, Reclaim};
use punctual::jiff::Timestamp;
use punctual::model::{Ending, MessageRecord, MessageState, ProcessId};

use super::{Ledger, RunResult};

impl Ledger {
    pub(crate) fn reclaimed(
        &mut self,
        reclaim: &Reclaim,
        now: Timestamp,
        claimed: &[ClaimedMessage],
    ) {
        let true_now = self.clock.now();
        self.must(now <= true_now, "leases are judged by the storage's time", || {
            format!("{now} after {true_now}")
        });
        for one in claimed {
            let id = one.message.id;
            let Some(record) = self.messages.get(&id).cloned() else {
                self.record_violation(
                    "reclaim returns only stored messages",
                    format!("{id} is unknown"),
                );
                continue;
            };
            let expired = record.lease.is_some_and(|lease| {
                let heartbeat_expired =
                    self.heartbeats.get(&lease.owner).is_some_and(|until| *until < now);
                heartbeat_expired || lease.until < now
            });
            self.must(
                record.state == MessageState::Running && expired,
                "only an expired lease is taken over",
                || format!("{id} is {} under {:?} at {now}", record.state.as_str(), record.lease),
            );
            let fault_free = self.fault_free;
            self.must(!fault_free, "without faults no lease is lost", || {
                format!("{id} was taken over from {:?}", record.lease)
            });
            self.must(one.attempt == record.attempt, "a rescue counts no attempt", || {
                format!("{id}")
            });
            self.check_token(id, one.lease);
            self.reclaimed_tokens.insert(one.lease.token);
            self.must(
                one.lease.owner == reclaim.owner && one.lease.until == reclaim.until,
                "a lease has the requested owner and end",
                || format!("{id}: {:?}", one.lease),
            );
            self.messages.insert(id, MessageRecord { lease: Some(one.lease), ..record });
        }
    }

    /// Records a heartbeat: a late one does not shorten a later one, a deregistration does.
    pub(crate) fn heartbeat(&mut self, process: ProcessId, until: Timestamp, now: Timestamp) {
        let before = self.heartbeats.get(&process).copied().unwrap_or(until);
        self.heartbeats.insert(process, if until > now { until.max(before) } else { until });
    }

    pub(crate) fn pruned(&mut self, prune: Prune, pruned: PruneResult) {
        let old = |record: &MessageRecord| {
            let final_state = match record.state {
                MessageState::Done | MessageState::Cancelled => true,
                MessageState::Dead => prune.dead,
                MessageState::Pending | MessageState::Running => false,
            };
            final_state && record.ended_at.is_some_and(|ended_at| ended_at < prune.before)
        };
        let pruned_ids: Vec<_> = self
            .messages
            .values()
            .filter(|record| old(record))
            .map(|record| record.message.id)
            .collect();
        self.must(
            pruned.messages == pruned_ids.len() as u64,
            "only old finished messages are pruned",
            || format!("{pruned:?}, expected {}", pruned_ids.len()),
        );
        self.history_pruned |= pruned.executions > 0;
        for id in pruned_ids {
            self.messages.remove(&id);
            self.removed.insert(id);
        }
    }

    /// Applies records of broker deliveries; a dead letter is stored unless the message is alive in the storage.
    pub(crate) fn recorded(&mut self, records: &[BrokerRecord], now: Timestamp) {
        for BrokerRecord { execution, dead } in records {
            if let (Some(id), Ending::Succeeded | Ending::Cancelled) =
                (execution.message, execution.ending)
            {
                let expected = if execution.ending == Ending::Succeeded {
                    RunResult::Done
                } else {
                    RunResult::Cancel
                };
                let result = self.result_of(execution.id);
                self.must(result == Some(expected), "a verdict follows from its attempt", || {
                    format!("{id}: {execution:?}")
                });
            }
            let Some(record) = dead else { continue };
            let id = record.message.id;
            // A dead letter may be stored under another id; its execution has the id of the delivery.
            self.finish_carried(execution.message.unwrap_or(id));
            if self
                .state_of(id)
                .is_some_and(|state| state.is_alive() || state == MessageState::Dead)
            {
                continue;
            }
            let ended_at = record.ended_at.or(Some(now));
            self.messages.insert(id, MessageRecord { lease: None, ended_at, ..(**record).clone() });
        }
    }
}
