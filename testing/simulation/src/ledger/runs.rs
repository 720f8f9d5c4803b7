//! Runs of handlers: records their results, and checks that none runs without a claim.

use std::sync::Arc;

use punctual::Context;
use punctual::backend::storage::Settlement;
use punctual::jiff::Timestamp;
use punctual::model::{ExecutionId, MessageId, MessageRecord, MessageState};

use super::Ledger;
use crate::machine::Machine;

/// Result of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunResult {
    Done,
    Failed,
    Snooze,
    Retry,
    Discard,
    Cancel,
}

/// Run of a handler.
pub(super) struct Run {
    message: MessageId,
    started_at: Timestamp,
    result: Option<RunResult>,
}

impl Ledger {
    /// Records the start of a handler.
    pub(crate) fn started(&mut self, machine: &Arc<Machine>, context: &Context, carried: bool) {
        self.tally.runs += 1;
        let (id, attempt) = (context.message_id(), context.attempt());
        self.must(!machine.has_stopped(), "a process that has shut down starts nothing", || {
            format!("{id} on {}", machine.name)
        });
        if !carried {
            let claims =
                machine.process.get().and_then(|process| self.claims.get_mut(&(id, *process)));
            let index = claims
                .as_ref()
                .and_then(|claims| claims.iter().position(|claimed| *claimed == attempt));
            if let (Some(claims), Some(index)) = (claims, index) {
                claims.remove(index);
            }
            self.must(index.is_some(), "a handler runs once for each claim", || {
                format!("{id} attempt {attempt} on {}", machine.name)
            });
        }
        if carried {
            self.delivered(context);
        }
        let started_at = self.clock.now();
        let run = Run { message: id, started_at, result: None };
        self.runs.insert(context.execution_id(), run);
        let running = self.running.entry(id).or_default();
        running.insert(context.execution_id());
        let (count, fault_free) = (running.len(), self.fault_free);
        // An operator may redrive a message that the broker still has.
        let alone = carried && self.redriven.contains(&id);
        self.must(
            !fault_free || alone || count == 1,
            "without faults a message never runs twice at once",
            || format!("{id} runs {count} times at {started_at}"),
        );
    }

    /// Checks the attempt of a broker delivery, which the engine counts because the broker does not.
    fn delivered(&mut self, context: &Context) {
        let (id, attempt, most) = (context.message_id(), context.attempt(), context.attempts_max());
        self.must(
            most.is_none_or(|most| attempt <= most.max(1)),
            "attempts never exceed the maximum",
            || format!("{id} is at attempt {attempt} of {most:?}"),
        );
        // Allowed snoozes do not count as attempts; further ones do.
        let free = self
            .handler_options
            .get(context.topic().as_str())
            .and_then(|handler_options| handler_options.snoozes_max)
            .unwrap_or(0);
        let runs = || self.runs.values().filter(|run| run.message == id);
        let snoozes = runs().filter(|run| run.result == Some(RunResult::Snooze)).count();
        let spent = runs().count() - snoozes.min(usize::try_from(free).unwrap_or(usize::MAX));
        // A redrive starts a new count.
        let plain = self.fault_free && !self.redriven.contains(&id);
        self.must(
            !plain || usize::try_from(attempt) == Ok(spent + 1),
            "every attempt is counted",
            || format!("{id} is at attempt {attempt} after {spent} were spent"),
        );
    }

    /// Records the end of a handler; no result means that it was dropped.
    pub(crate) fn ended(&mut self, execution: ExecutionId, result: Option<RunResult>) {
        let Some(run) = self.runs.get_mut(&execution) else {
            return;
        };
        run.result = result;
        let (message, started_at) = (run.message, run.started_at);
        if let Some(running) = self.running.get_mut(&message) {
            running.remove(&execution);
        }
        if matches!(result, Some(RunResult::Done | RunResult::Cancel)) {
            self.finish_carried(message);
        }
        let now = self.clock.now();
        self.must(started_at <= now, "time never goes back", || format!("{message}"));
    }

    pub(super) fn result_of(&self, execution: ExecutionId) -> Option<RunResult> {
        self.runs.get(&execution).and_then(|run| run.result)
    }

    /// Returns whether the handler of a settlement was called; false without an execution.
    pub(super) fn began(&self, settlement: &Settlement) -> bool {
        settlement.execution.as_ref().is_some_and(|execution| self.runs.contains_key(&execution.id))
    }

    /// Returns whether the handler of a settlement had this result; true without an execution.
    pub(super) fn had_result(&self, settlement: &Settlement, expected: RunResult) -> bool {
        match &settlement.execution {
            Some(execution) => self.result_of(execution.id) == Some(expected),
            None => true,
        }
    }

    /// Records a message stored by the broker.
    pub(crate) fn carried(&mut self, id: MessageId) {
        if self.carried.insert(id, false).is_none() {
            self.tally.carried += 1;
        }
    }

    /// Records the end of a message carried by the broker.
    pub(super) fn finish_carried(&mut self, id: MessageId) {
        if let Some(finished) = self.carried.get_mut(&id) {
            *finished = true;
        }
    }

    /// Records a successful publish.
    pub(crate) fn accept(&mut self, id: MessageId) {
        let known = self.messages.contains_key(&id)
            || self.removed.contains(&id)
            || self.carried.contains_key(&id);
        self.must(known, "every accepted message is stored", || format!("{id}"));
        self.accepted.insert(id);
    }

    /// Returns whether a carried message is in the storage and not yet relayed, or was deleted.
    pub(crate) fn is_stored(&self, id: MessageId) -> bool {
        let waits = |record: &MessageRecord| record.state != MessageState::Done;
        self.removed.contains(&id)
            || self.messages.get(&id).is_some_and(waits)
            || self.messages.values().any(|record| waits(record) && original_id(record) == Some(id))
    }

    /// Returns how many times each message was done, for messages with a complete history.
    pub(crate) fn done(&self) -> Vec<(MessageId, u64)> {
        let is_complete =
            |(id, _): &(&MessageId, &u64)| !self.history_pruned && self.messages.contains_key(*id);
        self.done.iter().filter(is_complete).map(|(id, count)| (*id, *count)).collect()
    }

    /// Returns accepted messages that disappeared.
    pub(crate) fn vanished(&self) -> Vec<MessageId> {
        let is_missing = |id: &&MessageId| {
            !self.messages.contains_key(*id)
                && !self.removed.contains(*id)
                && !self.carried.contains_key(*id)
        };
        self.accepted.iter().filter(is_missing).copied().collect()
    }
}

/// Returns the id of the carried message that is stored under another id because its own is in use.
fn original_id(record: &MessageRecord) -> Option<MessageId> {
    record.message.route.as_ref()?.original_id
}
