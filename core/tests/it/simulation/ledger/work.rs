//! Enqueue, claim, extend and settle, as the contract says them.

use std::sync::Arc;

use punctual::jiff::Timestamp;
use punctual::model::{
    DeadReason, Ending, Lease, LeaseRef, Message, MessageId, MessageRecord, Queue, Rescue, Source, State,
};
use punctual::policy::{Verdict, Why};
use punctual::storage::{Claim, Claimed, Enqueued, Entry, Extended, Settled, Settlement};

use super::{Ledger, Said};
use crate::simulation::machine::Machine;

impl Ledger {
    pub(crate) fn enqueued(&mut self, entries: &[Entry], answers: &[Enqueued]) {
        for (entry, answer) in entries.iter().zip(answers) {
            let expected = self.enqueue(entry);
            self.must(*answer == expected, "enqueue answers by its contract", || {
                format!("{} was answered {answer:?}, expected {expected:?}", entry.message.id)
            });
        }
    }

    fn enqueue(&mut self, entry: &Entry) -> Enqueued {
        let id = entry.message.id;
        if let Some(known) = self.messages.get(&id) {
            let finished = matches!(known.state, State::Done | State::Cancelled);
            let sent = Message { source: known.message.source, ..(*entry.message).clone() };
            if !finished || *known.message == sent {
                return Enqueued::Duplicate(id);
            }
        }
        let twin = entry.message.dedupe.as_ref().and_then(|key| self.alive_keys.get(key)).copied();
        let answer = match twin {
            Some(twin) if entry.replace && self.state_of(twin) == Some(State::Pending) => {
                let retry = self.carried.contains_key(&id);
                self.must(!retry, "a retry that is held replaces no other message", || format!("{id} replaces {twin}"));
                self.release_key(&Arc::clone(&self.messages[&twin].message));
                self.messages.remove(&twin);
                self.gone.insert(twin);
                Enqueued::Replaced(twin)
            }
            Some(twin) => return Enqueued::Duplicate(twin),
            None => Enqueued::Stored,
        };
        self.insert(entry.message.clone());
        answer
    }

    pub(crate) fn state_of(&self, id: MessageId) -> Option<State> {
        self.messages.get(&id).map(|record| record.state)
    }

    pub(crate) fn claimed(&mut self, machine: &Machine, claim: &Claim, now: Timestamp, claimed: &[Claimed]) {
        self.must(claimed.len() <= claim.limit, "claim keeps its limit", || format!("{claim:?}"));
        let order = |one: &Claimed| (std::cmp::Reverse(one.message.priority), one.due_at, one.message.id);
        self.must(claimed.is_sorted_by_key(order), "claim keeps its order", || format!("{claimed:?}"));
        for one in claimed {
            self.claimed_one(machine, claim, now, one);
        }
        let due = |record: &&MessageRecord| is_due(record, &claim.queue, now) && !self.must_wait(record);
        let left = self.messages.values().find(due).map(|record| record.message.id);
        let full = claimed.len() == claim.limit;
        self.must(full || left.is_none(), "what is due is handed out", || format!("{left:?} is due at {now}"));
    }

    fn claimed_one(&mut self, machine: &Machine, claim: &Claim, now: Timestamp, one: &Claimed) {
        let id = one.message.id;
        let (true_now, excuse) = (self.clock.now(), machine.excuse());
        let Some(record) = self.messages.get(&id).cloned() else {
            return self.broken("claim hands out what is stored", format!("{id} is unknown"));
        };
        let expected = (State::Pending, &claim.queue);
        self.must((record.state, &record.message.queue) == expected, "never two current leases on one message", || {
            format!("{id} was claimed from {} while {} as {:?}", claim.queue, record.state.as_str(), record.lease)
        });
        self.must(record.due_at <= now, "nothing is claimed before its due time", || {
            format!("{id} is due at {} and was claimed at {now}", record.due_at)
        });
        let waits = self.must_wait(&record);
        self.must(!waits, "nothing is claimed before its turn", || {
            format!("{id} of {:?}", record.message.occurrence)
        });
        let early = record.due_at.duration_since(true_now);
        self.must(early <= excuse, "nothing starts earlier than clocks can err", || {
            format!("{id} on {} is {early:?} early, its clock may err by {excuse:?}", machine.name)
        });
        self.token(id, one.lease);
        self.must(one.lease.owner == claim.owner && one.lease.until == claim.until, "a lease is as asked for", || {
            format!("{id}: {:?}", one.lease)
        });
        let spent = record.attempt + 1;
        self.must(one.attempt == spent, "a claim counts one attempt", || format!("{id}: {} after {}", one.attempt, record.attempt));
        let relayed = record.message.queue.as_str().starts_with("~relay/");
        let most = self.terms_of(&record.message).retry.attempts_max;
        self.must(relayed || most.is_none_or(|most| spent <= most.max(1)), "attempts never exceed the maximum", || {
            format!("{id} is at attempt {spent} of {most:?}")
        });
        self.claims.entry((id, claim.owner)).or_default().push(spent);
        let lease = Some(one.lease);
        self.messages.insert(id, MessageRecord { state: State::Running, attempt: spent, lease, ..record });
    }

    /// Whether it is not its turn: another run of its job, or a pause, comes first.
    pub(crate) fn must_wait(&self, record: &MessageRecord) -> bool {
        let message = &record.message;
        let Some(occurrence) = &message.occurrence else { return false };
        let beside = |other: &MessageRecord| {
            let job = other.message.occurrence.as_ref().map(|other| &other.job);
            other.state == State::Running && job == Some(&occurrence.job)
        };
        let paused = || self.jobs.get(&occurrence.job).is_some_and(|job| job.paused.is_some());
        (message.source == Source::Scheduled && paused())
            || (message.exclusive && self.messages.values().any(beside))
    }

    /// Every lease has a token greater than all before.
    pub(super) fn token(&mut self, id: MessageId, lease: Lease) {
        let last = self.last_token;
        self.must(lease.token > last, "tokens only grow", || format!("{id}: {} after {last}", lease.token));
        self.last_token = lease.token;
    }

    pub(crate) fn extended(&mut self, leases: &[LeaseRef], until: Timestamp, answers: &[Extended]) {
        for (lease, answer) in leases.iter().zip(answers) {
            let current = self.is_current(*lease);
            let expected = match self.messages.get_mut(&lease.message) {
                Some(record) if current => {
                    record.lease = record.lease.map(|lease| Lease { until, ..lease });
                    if record.cancel_requested { Extended::CancelRequested } else { Extended::Held }
                }
                _ => Extended::Lost,
            };
            self.must(*answer == expected, "only a current lease is extended", || {
                format!("{lease:?} was answered {answer:?}, expected {expected:?}")
            });
        }
    }

    pub(super) fn is_current(&self, lease: LeaseRef) -> bool {
        let record = self.messages.get(&lease.message);
        record.is_some_and(|record| record.state == State::Running && record.lease_ref() == Some(lease))
    }

    pub(crate) fn settled(&mut self, settlements: &[Settlement], now: Timestamp, answers: &[Settled]) {
        for (settlement, answer) in settlements.iter().zip(answers) {
            let expected = self.settle(settlement, now);
            self.must(*answer == expected, "only the current token settles", || {
                format!("{:?} was answered {answer:?}, expected {expected:?}", settlement.lease)
            });
        }
    }

    fn settle(&mut self, settlement: &Settlement, now: Timestamp) -> Settled {
        if !self.is_current(settlement.lease) {
            self.tally.stale_settlements += 1;
            let calm = self.calm;
            self.must(!calm, "without faults no lease is lost", || format!("{settlement:?}"));
            return Settled::Lost;
        }
        let mut record = self.messages[&settlement.lease.message].clone();
        if record.cancel_requested && matches!(settlement.verdict, Verdict::Again { .. }) {
            return Settled::CancelRequested;
        }
        self.judge(&record, settlement);
        record.lease = None;
        record.cancel_requested = false;
        match &settlement.verdict {
            Verdict::Again { due_at, attempt, crashes, snoozes, .. } => {
                record.state = State::Pending;
                (record.due_at, record.attempt) = (*due_at, *attempt);
                (record.crashes, record.snoozes) = (*crashes, *snoozes);
            }
            ended => {
                record.state = match ended {
                    Verdict::Done => State::Done,
                    Verdict::Dead { .. } => State::Dead,
                    _ => State::Cancelled,
                };
                record.ended_at = Some(now);
                if *ended == Verdict::Done && settlement.execution.is_some() {
                    *self.done.entry(record.message.id).or_default() += 1;
                }
                self.release_key(&record.message);
            }
        }
        self.messages.insert(record.message.id, record);
        Settled::Applied
    }

    /// Whether a verdict that was stored follows from what happened.
    fn judge(&mut self, record: &MessageRecord, settlement: &Settlement) {
        let id = record.message.id;
        let terms = self.terms_of(&record.message);
        let (spent, given_back) = (record.attempt, record.attempt.saturating_sub(1));
        let relayed = record.message.queue.as_str().starts_with("~relay/");
        let rescued = self.reclaimed_tokens.contains(&settlement.lease.token);
        let most = terms.retry.attempts_max;
        let exhausted = most.is_some_and(|most| spent >= most);
        let same = (record.crashes, record.snoozes);
        let fits = match &settlement.verdict {
            Verdict::Again { attempt, crashes, snoozes, why, .. } => {
                let counts = (*attempt, *crashes, *snoozes);
                match why {
                    Why::Retry => counts == (spent, same.0, same.1) && (relayed || !exhausted) && !rescued,
                    Why::Snooze => counts == (given_back, same.0, same.1 + 1) && same.1 < terms.snoozes_max && !rescued,
                    Why::Release => counts == (given_back, same.0, same.1) && !rescued,
                    Why::Rescue => {
                        let forgiven = terms.rescue == Rescue::AtOnce
                            && (terms.crashes_max == 0 || same.0 < terms.crashes_max);
                        let left = if forgiven { given_back } else { spent };
                        counts == (left, same.0 + 1, same.1) && (forgiven || !exhausted) && rescued
                    }
                }
            }
            Verdict::Dead { reason: DeadReason::AttemptsSpent, .. } => exhausted,
            Verdict::Dead { reason: DeadReason::CrashLoop, .. } => {
                exhausted && rescued && same.0 >= terms.crashes_max && terms.rescue == Rescue::AtOnce
            }
            Verdict::Done => relayed || self.was_said(settlement, Said::Done),
            _ => true,
        };
        if rescued {
            self.tally.rescues += 1;
            let lost = settlement.execution.as_ref().is_none_or(|execution| execution.ending == Ending::Lost);
            self.must(lost, "a rescued attempt is recorded as lost", || format!("{settlement:?}"));
        }
        self.must(fits, "a verdict follows from its attempt", || {
            format!("{id} at attempt {spent} of {most:?}, crashes and snoozes {same:?}, rescued {rescued}: {settlement:?}")
        });
    }
}

fn is_due(record: &MessageRecord, queue: &Queue, now: Timestamp) -> bool {
    record.state == State::Pending && record.message.queue == *queue && record.due_at <= now
}
