//! Handlers as they run: what each said, and that none ran without a claim.

use std::sync::Arc;

use punctual::Context;
use punctual::jiff::Timestamp;
use punctual::model::{ExecutionId, MessageId, MessageRecord, MessageState};
use punctual::storage::Settlement;

use super::Ledger;
use crate::machine::Machine;

/// What a handler said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Done,
    Failed,
    Snooze,
    Retry,
    Discard,
    Cancel,
}

/// One run of a handler.
pub(super) struct Run {
    message: MessageId,
    started_at: Timestamp,
    said: Option<Said>,
}

impl Ledger {
    /// A handler starts.
    pub(crate) fn started(&mut self, machine: &Arc<Machine>, context: &Context, carried: bool) {
        self.tally.runs += 1;
        let (id, attempt) = (context.message_id(), context.attempt());
        self.must(!machine.has_stopped(), "a process that has shut down starts nothing", || {
            format!("{id} on {}", machine.name)
        });
        if !carried {
            let claims =
                machine.process.get().and_then(|process| self.claims.get_mut(&(id, *process)));
            let place = claims
                .as_ref()
                .and_then(|claims| claims.iter().position(|claimed| *claimed == attempt));
            if let (Some(claims), Some(place)) = (claims, place) {
                claims.remove(place);
            }
            self.must(place.is_some(), "a handler runs once for each claim", || {
                format!("{id} attempt {attempt} on {}", machine.name)
            });
        }
        if carried {
            self.delivered(context);
        }
        let started_at = self.clock.now();
        let run = Run { message: id, started_at, said: None };
        self.runs.insert(context.execution_id(), run);
        let beside = self.running.entry(id).or_default();
        beside.insert(context.execution_id());
        let (count, calm) = (beside.len(), self.calm);
        // An operator may send again what the broker still carries.
        let alone = carried && self.redriven.contains(&id);
        self.must(
            !calm || alone || count == 1,
            "without faults a message never runs twice at once",
            || format!("{id} runs {count} times at {started_at}"),
        );
    }

    /// A broker counts nothing: the engine carries the attempts spent.
    fn delivered(&mut self, context: &Context) {
        let (id, attempt, most) = (context.message_id(), context.attempt(), context.attempts_max());
        self.must(
            most.is_none_or(|most| attempt <= most.max(1)),
            "attempts never exceed the maximum",
            || format!("{id} is at attempt {attempt} of {most:?}"),
        );
        // As many snoozes as allowed cost nothing; one more is an attempt like any other.
        let free = self
            .handler_options
            .get(context.topic().as_str())
            .and_then(|handler_options| handler_options.snoozes_max)
            .unwrap_or(0);
        let runs = || self.runs.values().filter(|run| run.message == id);
        let snoozes = runs().filter(|run| run.said == Some(Said::Snooze)).count();
        let spent = runs().count() - snoozes.min(usize::try_from(free).unwrap_or(usize::MAX));
        // An operator who sends it again starts a count of its own.
        let plain = self.calm && !self.redriven.contains(&id);
        self.must(
            !plain || usize::try_from(attempt) == Ok(spent + 1),
            "every attempt is counted",
            || format!("{id} is at attempt {attempt} after {spent} were spent"),
        );
    }

    /// A handler ends, or is dropped.
    pub(crate) fn ended(&mut self, execution: ExecutionId, said: Option<Said>) {
        let Some(run) = self.runs.get_mut(&execution) else {
            return;
        };
        run.said = said;
        let (message, started_at) = (run.message, run.started_at);
        if let Some(beside) = self.running.get_mut(&message) {
            beside.remove(&execution);
        }
        if matches!(said, Some(Said::Done | Said::Cancel)) {
            self.finish_carried(message);
        }
        let now = self.clock.now();
        self.must(started_at <= now, "time goes on", || format!("{message}"));
    }

    pub(super) fn said(&self, execution: ExecutionId) -> Option<Said> {
        self.runs.get(&execution).and_then(|run| run.said)
    }

    /// Whether the handler behind a settlement was called; unknown, and so no, where no execution is kept.
    pub(super) fn began(&self, settlement: &Settlement) -> bool {
        settlement.execution.as_ref().is_some_and(|execution| self.runs.contains_key(&execution.id))
    }

    /// Whether the attempt behind a settlement said this; unknown where no execution is kept.
    pub(super) fn was_said(&self, settlement: &Settlement, wanted: Said) -> bool {
        match &settlement.execution {
            Some(execution) => self.said(execution.id) == Some(wanted),
            None => true,
        }
    }

    /// A broker took a message.
    pub(crate) fn carried(&mut self, id: MessageId) {
        if self.carried.insert(id, false).is_none() {
            self.tally.carried += 1;
        }
    }

    /// A carried message came to its end.
    pub(super) fn finish_carried(&mut self, id: MessageId) {
        if let Some(finished) = self.carried.get_mut(&id) {
            *finished = true;
        }
    }

    /// A publish was answered with success.
    pub(crate) fn accept(&mut self, id: MessageId) {
        let known = self.messages.contains_key(&id)
            || self.gone.contains(&id)
            || self.carried.contains_key(&id);
        self.must(known, "what was accepted is stored", || format!("{id}"));
        self.accepted.insert(id);
    }

    /// Whether a carried message is in the storage and has not been handed on, or went on purpose.
    pub(crate) fn is_kept(&self, id: MessageId) -> bool {
        let waits = |record: &MessageRecord| record.state != MessageState::Done;
        self.gone.contains(&id)
            || self.messages.get(&id).is_some_and(waits)
            || self.messages.values().any(|record| waits(record) && stands_for(record) == Some(id))
    }

    /// How often each message was done whose executions are all kept.
    pub(crate) fn done(&self) -> Vec<(MessageId, u64)> {
        let kept =
            |(id, _): &(&MessageId, &u64)| !self.history_pruned && self.messages.contains_key(*id);
        self.done.iter().filter(kept).map(|(id, count)| (*id, *count)).collect()
    }

    /// Accepted messages that are nowhere any more.
    pub(crate) fn vanished(&self) -> Vec<MessageId> {
        let nowhere = |id: &&MessageId| {
            !self.messages.contains_key(*id)
                && !self.gone.contains(*id)
                && !self.carried.contains_key(*id)
        };
        self.accepted.iter().filter(nowhere).copied().collect()
    }
}

/// The carried message that is kept under this identity because its own was taken.
fn stands_for(record: &MessageRecord) -> Option<MessageId> {
    record.message.headers.get("punctual-id")?.parse().ok()
}
