//! Tests with random commands: after every step each sorted set must contain exactly what follows from the
//! records alone, whatever the order of calls and however time jumps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use uuid::Uuid;

use super::memory::Memory;
use crate::model::{
    Body, Correlation, Headers, JobName, Key, Message, MessageId, MessageState, Occurrence,
    Priority, ProcessId, Queue, Source, Topic, mix,
};
use crate::policy::{AgainReason, Verdict};
use crate::storage::{Claim, ClaimedMessage, Command, Entry, Prune, Reclaim, Settlement};

/// Seeded run: a random generator, a memory, and the messages claimed and not settled.
struct RandomRun {
    random: u64,
    memory: Memory,
    claimed: Vec<ClaimedMessage>,
    now: Timestamp,
}

impl RandomRun {
    fn new(seed: u64) -> Self {
        Self { random: seed, memory: Memory::new(20, 60), claimed: Vec::new(), now: at(1_000) }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.random) % bound
    }

    fn instant(&mut self) -> Timestamp {
        at(900 + i64::try_from(self.below(300)).unwrap_or(0))
    }

    fn id(&mut self) -> MessageId {
        MessageId::from_uuid(Uuid::from_u128(u128::from(self.below(90))))
    }

    fn process(&mut self) -> ProcessId {
        ProcessId::from_uuid(Uuid::from_u128(u128::from(self.below(4))))
    }

    fn message(&mut self) -> Message {
        let job = JobName::new(format!("job {}", self.below(3))).unwrap();
        let nominal = self.instant();
        let occurrence = Occurrence { job, nominal, schedule: None, misfire: None };
        Message {
            id: self.id(),
            topic: Topic::new("mail").unwrap(),
            queue: Queue::new(format!("queue {}", self.below(3))).unwrap(),
            priority: Priority::new(u8::try_from(self.below(10)).unwrap()).unwrap(),
            due_at: self.instant(),
            created_at: at(0),
            source: Source::Published,
            key: self.name(4),
            dedupe: self.name(30),
            exclusive: false,
            body: Body::empty(),
            headers: Headers::new(),
            correlation: Correlation::default(),
            occurrence: (self.below(2) == 0).then_some(occurrence),
            handler_options: None,
            relations: None,
            route: None,
        }
    }

    fn name(&mut self, bound: u64) -> Option<Key> {
        let number = self.below(2 * bound);
        (number < bound).then(|| Key::new(number.to_string()).unwrap())
    }

    fn step(&mut self) {
        match self.below(9) {
            0..=2 => {
                let replace = self.below(3) == 0;
                let entry = Entry { message: Arc::new(self.message()), replace };
                // A full memory refuses, which is a valid result here.
                let _ = self.memory.enqueue(vec![entry], self.now);
            }
            3 => {
                let queue = Queue::new(format!("queue {}", self.below(3))).unwrap();
                let (owner, until) = (self.process(), self.instant());
                let claim = Claim::new(queue, owner, 3, until);
                let batch = self.memory.claim(&claim, self.now);
                assert!(batch.iter().all(|one| one.due_at <= self.now));
                self.claimed.extend(batch);
            }
            4 | 5 => self.settle(),
            6 => {
                let (owner, until) = (self.process(), self.instant());
                self.memory.heartbeat(owner, until, self.now);
                let reclaim = Reclaim { owner: self.process(), limit: 2, until: self.instant() };
                self.claimed.extend(self.memory.reclaim(&reclaim, self.now));
            }
            7 => {
                let (id, due_at) = (self.id(), self.instant());
                let command = match self.below(4) {
                    0 => Command::Cancel(id),
                    1 => Command::Redrive { id, due_at },
                    2 => Command::Reschedule { id, due_at },
                    _ => Command::Delete(id),
                };
                self.memory.command(&command, self.now);
            }
            _ => {
                self.now = self.instant();
                let leases: Vec<_> = self.claimed.iter().map(ClaimedMessage::lease_ref).collect();
                let until = self.instant();
                self.memory.extend(&leases, until);
                let prune = Prune { before: at(950), limit: 2, dead: true };
                self.memory.prune(prune);
            }
        }
    }

    fn settle(&mut self) {
        let Some(claimed) = self.claimed.pop() else {
            return;
        };
        let reason = crate::model::DeadReason::Discarded;
        let verdict = match self.below(4) {
            0 => Verdict::Done,
            1 => Verdict::Cancelled,
            2 => Verdict::Dead { reason, error: None },
            _ => Verdict::Again {
                due_at: self.instant(),
                attempt: claimed.attempt,
                crashes: 0,
                snoozes: 0,
                error: None,
                why: AgainReason::Retry,
            },
        };
        let settlement = Settlement::new(claimed.lease_ref(), verdict, None);
        self.memory.settle(vec![settlement], self.now);
    }

    /// Compares every set with the records.
    fn check(&self) {
        let records: Vec<_> = self.memory.records.below(None).collect();
        let mut counts = BTreeMap::new();
        let (mut keys, mut tokens) = (BTreeSet::new(), BTreeSet::new());
        let mut next_due: BTreeMap<&Queue, Timestamp> = BTreeMap::new();
        for record in &records {
            *counts.entry((record.message.queue.clone(), record.state)).or_insert(0) += 1;
            assert_eq!(record.lease.is_some(), record.state == MessageState::Running);
            assert_eq!(record.ended_at.is_some(), !record.state.is_alive());
            if let Some(lease) = record.lease {
                assert!(tokens.insert(lease.token), "two leases with one token");
            }
            if let (true, Some(dedupe)) = (record.state.is_alive(), &record.message.dedupe) {
                assert!(keys.insert(dedupe), "two alive under {dedupe}");
                assert_eq!(
                    self.memory.lookup.alive_duplicate(&record.message),
                    Some(record.message.id)
                );
            }
            if record.state == MessageState::Pending {
                let first = next_due.entry(&record.message.queue).or_insert(record.due_at);
                *first = record.due_at.min(*first);
            }
        }
        assert_eq!(self.memory.counts(self.now).messages, counts);
        for queue in counts.keys().map(|(queue, _)| queue) {
            assert_eq!(
                self.memory.index.first(queue).map(|(due_at, _)| due_at),
                next_due.get(queue).copied()
            );
        }
        let ended = records.iter().filter(|record| !record.state.is_alive()).count();
        assert_eq!(self.memory.index.ended().count(), ended);
        assert!(self.memory.index.finished_count() <= 20);
        for number in 0..3 {
            let job = JobName::new(format!("job {number}")).unwrap();
            let alive = records.iter().filter(|record| {
                let of = record.message.occurrence.as_ref().map(|occurrence| &occurrence.job);
                record.state.is_alive() && of == Some(&job)
            });
            assert_eq!(self.memory.lookup.of_job(&job).len(), alive.count());
        }
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn every_set_follows_from_the_records_after_any_steps() {
    for seed in 0..40 {
        let mut run = RandomRun::new(seed);
        for _ in 0..400 {
            run.step();
            run.check();
        }
        assert!(run.memory.records.len() > 10, "seed {seed} stores too few messages");
    }
}
