//! Claim and extend by the rules of the contract.

use std::cmp::Reverse;

use punctual::backend::storage::{Claim, ClaimedMessage, ExtendResult};
use punctual::jiff::Timestamp;
use punctual::model::{Lease, LeaseRef, MessageId, MessageRecord, MessageState, Queue, Source};

use super::Ledger;
use crate::machine::Machine;

impl Ledger {
    pub(crate) fn claimed(
        &mut self,
        machine: &Machine,
        claim: &Claim,
        now: Timestamp,
        claimed: &[ClaimedMessage],
    ) {
        self.must(claimed.len() <= claim.limit, "claim keeps its limit", || format!("{claim:?}"));
        let order = |one: &ClaimedMessage| {
            let priority = one.message.priority;
            (claim.first != Some(priority), Reverse(priority), one.due_at, one.message.id)
        };
        self.must(claimed.is_sorted_by_key(order), "claim keeps its order", || {
            format!("{claimed:?}")
        });
        for one in claimed {
            self.claimed_one(machine, claim, now, one);
        }
        let due = |record: &&MessageRecord| {
            is_due(record, &claim.queue, now)
                && claim.topics.admits(&record.message.topic)
                && !self.must_wait(record)
        };
        let left = self.messages.values().find(due).map(|record| record.message.id);
        let full = claimed.len() == claim.limit;
        self.must(full || left.is_none(), "every due message is returned by claim", || {
            format!("{left:?} is due at {now}")
        });
    }

    fn claimed_one(
        &mut self,
        machine: &Machine,
        claim: &Claim,
        now: Timestamp,
        one: &ClaimedMessage,
    ) {
        let id = one.message.id;
        let Some(record) = self.messages.get(&id).cloned() else {
            return self.record_violation(
                "claim returns only stored messages",
                format!("{id} is unknown"),
            );
        };
        self.check_unclaimed(&record, claim);
        self.check_due(machine, &record, now);
        self.check_token(id, one.lease);
        let as_requested = one.lease.owner == claim.owner && one.lease.until == claim.until;
        self.must(as_requested, "a lease has the requested owner and end", || {
            format!("{id}: {:?}", one.lease)
        });
        let attempt = record.attempt + 1;
        self.must(one.attempt == attempt, "a claim counts one attempt", || {
            format!("{id}: {} after {}", one.attempt, record.attempt)
        });
        let relayed = record.message.queue.is_relay();
        let most = self.options_of(&record.message).retry.attempts_max;
        let allowed = relayed || most.is_none_or(|most| attempt <= most.max(1));
        self.must(allowed, "attempts never exceed the maximum", || {
            format!("{id} is at attempt {attempt} of {most:?}")
        });
        let claims = self.claims.entry((id, claim.owner)).or_default();
        claims.push(attempt);
        let (state, lease) = (MessageState::Running, Some(one.lease));
        let running = MessageRecord { state, attempt, lease, ..record };
        self.messages.insert(id, running);
    }

    /// Checks that no other process holds the message and no other run of its job comes first.
    fn check_unclaimed(&mut self, record: &MessageRecord, claim: &Claim) {
        let id = record.message.id;
        let expected = (MessageState::Pending, &claim.queue);
        let is_unclaimed = (record.state, &record.message.queue) == expected;
        self.must(is_unclaimed, "never two current leases on one message", || {
            let state = record.state.as_str();
            let (queue, lease) = (&claim.queue, record.lease);
            format!("{id} was claimed from {queue} while {state} as {lease:?}")
        });
        let waits = self.must_wait(record);
        self.must(!waits, "nothing is claimed before its turn", || {
            format!("{id} of {:?}", record.message.occurrence)
        });
    }

    /// Checks that the message is due, by the time the process passed and by the true time.
    fn check_due(&mut self, machine: &Machine, record: &MessageRecord, now: Timestamp) {
        let (id, due_at) = (record.message.id, record.due_at);
        self.must(due_at <= now, "nothing is claimed before its due time", || {
            format!("{id} is due at {due_at} and was claimed at {now}")
        });
        let early = due_at.duration_since(self.clock.now());
        self.must(!early.is_positive(), "nothing starts early, whatever the clock error", || {
            format!("{id} on {} is {early:?} early", machine.name)
        });
    }

    /// Returns whether a message must wait for another run of its job or limit, or for the end of a pause.
    pub(crate) fn must_wait(&self, record: &MessageRecord) -> bool {
        let message = &record.message;
        let Some(occurrence) = &message.occurrence else {
            return false;
        };
        let of_same_job = |other: &MessageRecord| {
            let job = other.message.occurrence.as_ref().map(|other| &other.job);
            other.state == MessageState::Running && job == Some(&occurrence.job)
        };
        let paused = || self.jobs.get(&occurrence.job).is_some_and(|job| job.paused.is_some());
        (message.source == Source::Scheduled && paused())
            || (message.exclusive && self.messages.values().any(of_same_job))
            || self.is_limited(record)
    }

    /// Returns whether the limit of a message has no free slot.
    fn is_limited(&self, record: &MessageRecord) -> bool {
        let limit_of = |record: &MessageRecord| {
            record.message.relations.as_ref().and_then(|relations| relations.limit.clone())
        };
        let Some(limit) = limit_of(record) else {
            return false;
        };
        let same = |other: &&MessageRecord| {
            other.state == MessageState::Running
                && limit_of(other).is_some_and(|other| other.name == limit.name)
        };
        let running = u32::try_from(self.messages.values().filter(same).count());
        limit.running_max.is_some_and(|most| running.unwrap_or(u32::MAX) >= most)
    }

    /// Checks that the token of a lease is greater than all earlier tokens.
    pub(super) fn check_token(&mut self, id: MessageId, lease: Lease) {
        let last = self.last_token;
        self.must(lease.token > last, "tokens only grow", || {
            format!("{id}: {} after {last}", lease.token)
        });
        self.last_token = lease.token;
    }

    pub(crate) fn extended(
        &mut self,
        leases: &[LeaseRef],
        until: Timestamp,
        answers: &[ExtendResult],
    ) {
        for (lease, answer) in leases.iter().zip(answers) {
            let current = self.is_current(*lease);
            let expected = match self.messages.get_mut(&lease.message) {
                Some(record) if current => {
                    record.lease = record.lease.map(|lease| Lease { until, ..lease });
                    if record.cancel_requested {
                        ExtendResult::CancelRequested
                    } else {
                        ExtendResult::Held
                    }
                }
                _ => ExtendResult::Lost,
            };
            self.must(*answer == expected, "only a current lease is extended", || {
                format!("{lease:?} returned {answer:?}, expected {expected:?}")
            });
        }
    }

    pub(super) fn is_current(&self, lease: LeaseRef) -> bool {
        let record = self.messages.get(&lease.message);
        record.is_some_and(|record| {
            record.state == MessageState::Running && record.lease_ref() == Some(lease)
        })
    }
}

fn is_due(record: &MessageRecord, queue: &Queue, now: Timestamp) -> bool {
    record.state == MessageState::Pending && record.message.queue == *queue && record.due_at <= now
}
