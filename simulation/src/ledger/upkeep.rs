//! Reclaim, beat and prune, as the contract says them.

use punctual::jiff::Timestamp;
use punctual::model::{Ending, MessageRecord, MessageState, ProcessId};
use punctual::storage::{BrokerRecord, ClaimedMessage, Prune, PruneResult, Reclaim};

use super::{Ledger, Said};

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
                self.broken("reclaim hands out what is stored", format!("{id} is unknown"));
                continue;
            };
            let lapsed = record.lease.is_some_and(|lease| {
                let silent = self.beats.get(&lease.owner).is_some_and(|until| *until < now);
                silent || lease.until < now
            });
            self.must(
                record.state == MessageState::Running && lapsed,
                "only a lapsed lease is taken over",
                || format!("{id} is {} under {:?} at {now}", record.state.as_str(), record.lease),
            );
            let calm = self.calm;
            self.must(!calm, "without faults no lease is lost", || {
                format!("{id} was taken over from {:?}", record.lease)
            });
            self.must(one.attempt == record.attempt, "a rescue counts no attempt", || {
                format!("{id}")
            });
            self.token(id, one.lease);
            self.reclaimed_tokens.insert(one.lease.token);
            self.must(
                one.lease.owner == reclaim.owner && one.lease.until == reclaim.until,
                "a lease is as asked for",
                || format!("{id}: {:?}", one.lease),
            );
            self.messages.insert(id, MessageRecord { lease: Some(one.lease), ..record });
        }
    }

    /// A late beat takes nothing back; a goodbye does.
    pub(crate) fn beaten(&mut self, process: ProcessId, until: Timestamp, now: Timestamp) {
        let before = self.beats.get(&process).copied().unwrap_or(until);
        self.beats.insert(process, if until > now { until.max(before) } else { until });
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
        let went: Vec<_> = self
            .messages
            .values()
            .filter(|record| old(record))
            .map(|record| record.message.id)
            .collect();
        self.must(
            pruned.messages == went.len() as u64,
            "only what is finished and old is pruned",
            || format!("{pruned:?}, expected {}", went.len()),
        );
        self.history_pruned |= pruned.executions > 0;
        for id in went {
            self.messages.remove(&id);
            self.gone.insert(id);
        }
    }

    /// Executions of broker deliveries; a dead letter is kept unless the message lives here.
    pub(crate) fn recorded(&mut self, records: &[BrokerRecord], now: Timestamp) {
        for BrokerRecord { execution, dead } in records {
            if let (Some(id), Ending::Succeeded | Ending::Cancelled) =
                (execution.message, execution.ending)
            {
                let wanted =
                    if execution.ending == Ending::Succeeded { Said::Done } else { Said::Cancel };
                let said = self.said(execution.id);
                self.must(said == Some(wanted), "a verdict follows from its attempt", || {
                    format!("{id}: {execution:?}")
                });
            }
            let Some(letter) = dead else { continue };
            let id = letter.message.id;
            // A letter may be kept under another identity; its execution names what was delivered.
            self.finish_carried(execution.message.unwrap_or(id));
            if self
                .state_of(id)
                .is_some_and(|state| state.is_alive() || state == MessageState::Dead)
            {
                continue;
            }
            let ended_at = letter.ended_at.or(Some(now));
            self.messages.insert(id, MessageRecord { lease: None, ended_at, ..(**letter).clone() });
        }
    }
}
