//! Ledger: the expected state of the storage. Every call that took effect is applied here in the same step by the
//! rules of the contract, without reading the storage; then the records it changed are compared. The first violation
//! ends the seed.

mod claims;
mod commands;
mod declarations;
mod enqueue;
mod firings;
mod maintenance;
mod runs;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual::ManualClock;
use punctual::backend::policy::{EffectiveHandlerOptions, effective_options};
use punctual::jiff::Timestamp;
use punctual::model::{
    ExecutionId, HandlerOptions, JobName, JobRecord, Key, Message, MessageId, MessageKind,
    MessageRecord, MessageState, ProcessId,
};

pub(crate) use self::firings::FiringAttempt;
use self::runs::Run;
pub(crate) use self::runs::RunResult;

/// Expected state of messages and jobs.
pub(crate) struct Ledger {
    clock: ManualClock,
    /// Whether the seed has no faults, so that no message may run twice.
    fault_free: bool,
    pub(crate) messages: BTreeMap<MessageId, MessageRecord>,
    alive_keys: BTreeMap<Key, MessageId>,
    last_token: u64,
    reclaimed_tokens: BTreeSet<u64>,
    heartbeats: BTreeMap<ProcessId, Timestamp>,
    /// Handler options by topic.
    pub(crate) handler_options: BTreeMap<String, Arc<HandlerOptions>>,
    pub(crate) jobs: BTreeMap<JobName, JobRecord>,
    fired: BTreeSet<(JobName, Timestamp)>,
    alive_at_read: BTreeMap<(ProcessId, JobName), u32>,
    claims: BTreeMap<(MessageId, ProcessId), Vec<u32>>,
    runs: BTreeMap<ExecutionId, Run>,
    running: BTreeMap<MessageId, BTreeSet<ExecutionId>>,
    pub(crate) accepted: BTreeSet<MessageId>,
    /// Number of settlements as done with an execution, by message.
    done: BTreeMap<MessageId, u64>,
    pub(crate) carried: BTreeMap<MessageId, bool>,
    /// Whether executions were pruned, so that the history can no longer be compared.
    history_pruned: bool,
    /// Messages that an operator redrove.
    redriven: BTreeSet<MessageId>,
    /// Messages that were deleted, pruned or replaced.
    removed: BTreeSet<MessageId>,
    pub(crate) tally: Tally,
    violation: Option<Violation>,
}

/// Violated rule, with details.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) detail: String,
}

/// Counts of events in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) messages: u64,
    pub(crate) runs: u64,
    pub(crate) rescues: u64,
    pub(crate) stale_settlements: u64,
    pub(crate) firings: u64,
    pub(crate) occurrences: u64,
    pub(crate) misfires: u64,
    pub(crate) skips: u64,
    pub(crate) declarations: u64,
    pub(crate) commands: u64,
    pub(crate) carried: u64,
    pub(crate) checks: u64,
}

impl Ledger {
    pub(crate) fn new(clock: ManualClock, fault_free: bool) -> Self {
        Self {
            clock,
            fault_free,
            messages: BTreeMap::new(),
            alive_keys: BTreeMap::new(),
            last_token: 0,
            reclaimed_tokens: BTreeSet::new(),
            heartbeats: BTreeMap::new(),
            handler_options: BTreeMap::new(),
            jobs: BTreeMap::new(),
            fired: BTreeSet::new(),
            alive_at_read: BTreeMap::new(),
            claims: BTreeMap::new(),
            runs: BTreeMap::new(),
            running: BTreeMap::new(),
            accepted: BTreeSet::new(),
            done: BTreeMap::new(),
            carried: BTreeMap::new(),
            history_pruned: false,
            redriven: BTreeSet::new(),
            removed: BTreeSet::new(),
            tally: Tally::default(),
            violation: None,
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.violation.clone()
    }

    /// Records a violation; only the first one is stored.
    pub(crate) fn record_violation(&mut self, invariant: &'static str, detail: impl Into<String>) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, detail: detail.into() });
        }
    }

    /// Records a violation unless the condition holds.
    pub(crate) fn must(
        &mut self,
        holds: bool,
        invariant: &'static str,
        detail: impl FnOnce() -> String,
    ) {
        self.tally.checks += 1;
        if !holds {
            self.record_violation(invariant, detail());
        }
    }

    /// Compares a stored record with the expected one.
    pub(crate) fn compare(&mut self, id: MessageId, stored: Option<&MessageRecord>) {
        let expected = self.messages.get(&id).map(facts);
        let found = stored.map(facts);
        self.must(found == expected, "the storage contains the expected records", || {
            format!("message {id}: stored {found:?}, expected {expected:?}")
        });
    }

    /// Compares the number of messages in every state.
    pub(crate) fn compare_counts(&mut self, counted: &punctual::inspect::Counts) {
        for state in MessageState::ALL {
            let expected =
                self.messages.values().filter(|record| record.state == state).count() as u64;
            let found = counted.total(state);
            self.must(found == expected, "no accepted message disappears", || {
                format!("{found} messages are {}, expected {expected}", state.as_str())
            });
        }
    }

    /// Returns the effective handler options of a message.
    fn options_of(&self, message: &Message) -> EffectiveHandlerOptions {
        let handler = self
            .handler_options
            .get(message.topic.as_str())
            .map(|handler_options| &**handler_options);
        let layers = [handler, message.handler_options.as_deref()];
        effective_options(MessageKind::of(message), layers.into_iter().flatten())
    }

    /// Inserts a new pending message.
    fn insert(&mut self, message: Arc<Message>) {
        let id = message.id;
        if let Some(key) = &message.dedupe {
            let before = self.alive_keys.insert(key.clone(), id);
            self.must(before.is_none(), "unique keys are unique among alive messages", || {
                format!("{id} and {before:?} are both alive as {key:?}")
            });
        }
        self.tally.messages += 1;
        self.removed.remove(&id);
        self.messages.insert(id, MessageRecord::new(message));
    }

    /// Releases the unique key of a message that is no longer alive.
    fn release_key(&mut self, message: &Message) {
        if let Some(key) = &message.dedupe
            && self.alive_keys.get(key) == Some(&message.id)
        {
            self.alive_keys.remove(key);
        }
    }

    /// Returns the alive runs of a job: running, due, or waiting for another attempt.
    fn alive_runs_of(&self, job: &JobName, now: Timestamp) -> Vec<MessageId> {
        let of_job = |record: &&MessageRecord| {
            let occurrence = record.message.occurrence.as_ref();
            let begun = record.attempt + record.snoozes + record.crashes > 0;
            let waits = record.state == MessageState::Pending && (begun || record.due_at <= now);
            (waits || record.state == MessageState::Running)
                && occurrence.is_some_and(|occurrence| occurrence.job == *job)
        };
        self.messages.values().filter(of_job).map(|record| record.message.id).collect()
    }
}

/// Compared fields of a record.
type Facts = (MessageState, Timestamp, u32, u32, u32, Option<u64>, bool, Option<Timestamp>);

fn facts(record: &MessageRecord) -> Facts {
    let token = record.lease.map(|lease| lease.token);
    (
        record.state,
        record.due_at,
        record.attempt,
        record.crashes,
        record.snoozes,
        token,
        record.cancel_requested,
        record.ended_at,
    )
}
