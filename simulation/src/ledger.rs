//! The ledger: what must be true of the storage, kept by its own rules beside it. Every call that
//! took effect is written down here in the same instant, by the contract and not by looking; then the
//! records the call touched are compared. The first thing that does not fit ends the seed.

mod claims;
mod commands;
mod declarations;
mod enqueue;
mod jobs;
mod runs;
mod upkeep;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual::ManualClock;
use punctual::jiff::Timestamp;
use punctual::model::{
    ExecutionId, HandlerOptions, JobName, JobRecord, Key, Message, MessageId, MessageRecord,
    MessageState, ProcessId,
};
use punctual::policy::{EffectiveHandlerOptions, MessageKind, effective_options};

pub(crate) use self::jobs::FiredJob;
use self::runs::Run;
pub(crate) use self::runs::Said;

/// What must be true.
pub(crate) struct Ledger {
    clock: ManualClock,
    /// Whether nothing goes wrong in this seed, so that nothing may be run twice.
    calm: bool,
    pub(crate) messages: BTreeMap<MessageId, MessageRecord>,
    alive_keys: BTreeMap<Key, MessageId>,
    last_token: u64,
    reclaimed_tokens: BTreeSet<u64>,
    beats: BTreeMap<ProcessId, Timestamp>,
    /// The handler's terms, by topic, for messages that bring none.
    pub(crate) handler_options: BTreeMap<String, Arc<HandlerOptions>>,
    pub(crate) jobs: BTreeMap<JobName, JobRecord>,
    fired: BTreeSet<(JobName, Timestamp)>,
    seen_alive: BTreeMap<(ProcessId, JobName), u32>,
    claims: BTreeMap<(MessageId, ProcessId), Vec<u32>>,
    runs: BTreeMap<ExecutionId, Run>,
    running: BTreeMap<MessageId, BTreeSet<ExecutionId>>,
    pub(crate) accepted: BTreeSet<MessageId>,
    /// How often each message was settled as done with an execution.
    done: BTreeMap<MessageId, u64>,
    pub(crate) carried: BTreeMap<MessageId, bool>,
    /// Whether history fell out, so that it cannot be compared any more.
    history_pruned: bool,
    /// Messages that an operator sent again.
    redriven: BTreeSet<MessageId>,
    /// Messages that went because an operator or a newer message said so.
    gone: BTreeSet<MessageId>,
    pub(crate) tally: Tally,
    violation: Option<Violation>,
}

/// Which rule was broken, and how.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) detail: String,
}

/// How much happened.
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
    pub(crate) fn new(clock: ManualClock, calm: bool) -> Self {
        Self {
            clock,
            calm,
            messages: BTreeMap::new(),
            alive_keys: BTreeMap::new(),
            last_token: 0,
            reclaimed_tokens: BTreeSet::new(),
            beats: BTreeMap::new(),
            handler_options: BTreeMap::new(),
            jobs: BTreeMap::new(),
            fired: BTreeSet::new(),
            seen_alive: BTreeMap::new(),
            claims: BTreeMap::new(),
            runs: BTreeMap::new(),
            running: BTreeMap::new(),
            accepted: BTreeSet::new(),
            done: BTreeMap::new(),
            carried: BTreeMap::new(),
            history_pruned: false,
            redriven: BTreeSet::new(),
            gone: BTreeSet::new(),
            tally: Tally::default(),
            violation: None,
        }
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.violation.clone()
    }

    /// Notes that a rule was broken; the first one counts.
    pub(crate) fn broken(&mut self, invariant: &'static str, detail: impl Into<String>) {
        if self.violation.is_none() {
            self.violation = Some(Violation { invariant, detail: detail.into() });
        }
    }

    /// Notes that a rule was broken unless it holds.
    pub(crate) fn must(
        &mut self,
        holds: bool,
        invariant: &'static str,
        detail: impl FnOnce() -> String,
    ) {
        self.tally.checks += 1;
        if !holds {
            self.broken(invariant, detail());
        }
    }

    /// Compares a record with what it must be after a call that touched it.
    pub(crate) fn compare(&mut self, id: MessageId, stored: Option<&MessageRecord>) {
        let expected = self.messages.get(&id).map(facts);
        let found = stored.map(facts);
        self.must(found == expected, "the storage holds what its contract says", || {
            format!("message {id}: stored {found:?}, expected {expected:?}")
        });
    }

    /// Compares all there is: the number in every state.
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

    /// The terms a message is handled under.
    fn terms_of(&self, message: &Message) -> EffectiveHandlerOptions {
        let handler = self
            .handler_options
            .get(message.topic.as_str())
            .map(|handler_options| &**handler_options);
        let layers = [handler, message.handler_options.as_deref()];
        effective_options(MessageKind::of(message), layers.into_iter().flatten())
    }

    /// A new pending message.
    fn insert(&mut self, message: Arc<Message>) {
        let id = message.id;
        if let Some(key) = &message.dedupe {
            let before = self.alive_keys.insert(key.clone(), id);
            self.must(before.is_none(), "unique keys are unique among the alive", || {
                format!("{id} and {before:?} are both alive as {key:?}")
            });
        }
        self.tally.messages += 1;
        self.gone.remove(&id);
        self.messages.insert(id, MessageRecord::new(message));
    }

    /// A message is no longer alive: its key is free.
    fn release_key(&mut self, message: &Message) {
        if let Some(key) = &message.dedupe
            && self.alive_keys.get(key) == Some(&message.id)
        {
            self.alive_keys.remove(key);
        }
    }

    /// The runs of a job that are running, due and waiting, or waiting after they have begun.
    fn alive_of(&self, job: &JobName, now: Timestamp) -> Vec<MessageId> {
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

/// What two records must agree in.
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
