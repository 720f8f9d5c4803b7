//! Check of a run: compares the ledgers of all processes with the history of the storage, without I/O.
//!
//! Nothing lost: for every acknowledged message a handler ended, and the history has exactly one success. No repeat
//! without a reason: all runs of a message except the one that settled it belong to a process that was killed or lost
//! the lease, and the history has a lost attempt for each of them. No run after a message is done.

use std::collections::{BTreeMap, BTreeSet};

use punctual::model::MessageId;

use crate::fuse::CrashPoint;
use crate::ledger::LedgerEvent;

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessEnd {
    /// Stopped gracefully.
    Stopped,
    /// Killed from outside.
    Killed,
    /// Aborted at a crash point.
    Crashed(CrashPoint),
}

/// Ledger of one process, and its end.
#[derive(Clone, Debug)]
pub struct ProcessLedger {
    /// Name of the process.
    pub process: String,
    /// End of the process.
    pub end: ProcessEnd,
    /// Events in the order they were written.
    pub events: Vec<LedgerEvent>,
}

/// Attempts of one message in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageHistory {
    /// Attempts that succeeded.
    pub succeeded: u32,
    /// Attempts that were lost with their process.
    pub lost: u32,
    /// Attempts that a shutdown released.
    pub released: u32,
}

/// Result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// Messages whose publish was acknowledged.
    pub acknowledged: usize,
    /// Messages that ran although their publish was not acknowledged.
    pub unacknowledged: usize,
    /// Started handlers.
    pub runs: usize,
    /// Messages that ran more than once.
    pub repeated: usize,
    /// Runs repeated because their process was killed.
    pub explained_by_kill: usize,
    /// Runs repeated because their process lost the lease.
    pub explained_by_lease: usize,
    /// Lost attempts in the history, including those whose handler never started.
    pub lost_attempts: u64,
    /// Acknowledged messages that are not done.
    pub lost: Vec<MessageId>,
    /// Descriptions of all other violations.
    pub violations: Vec<String>,
}

impl CheckResult {
    /// Returns whether no message is lost and no rule was violated.
    pub fn is_good(&self) -> bool {
        self.lost.is_empty() && self.violations.is_empty()
    }
}

/// Events of one message in all ledgers.
#[derive(Default)]
struct MessageEvents<'a> {
    acknowledged: bool,
    finished: bool,
    done: Option<u64>,
    runs: Vec<Run<'a>>,
    /// Processes that lost its lease.
    lease_lost: BTreeSet<&'a str>,
}

struct Run<'a> {
    token: u64,
    ledger: &'a ProcessLedger,
}

/// Checks the ledgers of all processes against the history.
pub fn verify(
    ledgers: &[ProcessLedger],
    history: &BTreeMap<MessageId, MessageHistory>,
) -> CheckResult {
    let mut result = CheckResult::default();
    for attempts in history.values() {
        result.lost_attempts += u64::from(attempts.lost);
    }
    for (id, mut events) in events_by_message(ledgers) {
        events.runs.sort_by_key(|run| run.token);
        let attempts = history.get(&id).copied().unwrap_or_default();
        result.runs += events.runs.len();
        result.acknowledged += usize::from(events.acknowledged);
        result.unacknowledged += usize::from(!events.acknowledged && !events.runs.is_empty());
        result.repeated += usize::from(events.runs.len() > 1);
        if events.acknowledged && !(events.finished && attempts.succeeded > 0) {
            result.lost.push(id);
        }
        if attempts.succeeded > 1 {
            result.violations.push(format!("{id} succeeded {} times", attempts.succeeded));
        }
        if events.runs.len() as u64 > 1 + u64::from(attempts.lost + attempts.released) {
            let runs = events.runs.len();
            result.violations.push(format!("{id} ran {runs} times, the history has {attempts:?}"));
        }
        explain_repeats(id, &events, &mut result);
    }
    result
}

fn events_by_message(ledgers: &[ProcessLedger]) -> BTreeMap<MessageId, MessageEvents<'_>> {
    let mut messages: BTreeMap<MessageId, MessageEvents<'_>> = BTreeMap::new();
    for ledger in ledgers {
        for event in &ledger.events {
            match event {
                LedgerEvent::Acknowledged(id) => {
                    messages.entry(*id).or_default().acknowledged = true;
                }
                LedgerEvent::Finished(id) => messages.entry(*id).or_default().finished = true,
                LedgerEvent::Done(id, token) => {
                    messages.entry(*id).or_default().done = Some(*token);
                }
                LedgerEvent::Started(id, _, token) => {
                    messages.entry(*id).or_default().runs.push(Run { token: *token, ledger });
                }
                LedgerEvent::LeaseLost(id) => {
                    messages.entry(*id).or_default().lease_lost.insert(&ledger.process);
                }
                LedgerEvent::Claimed(..) | LedgerEvent::Reclaimed(..) | LedgerEvent::Again(..) => {}
            }
        }
    }
    messages
}

/// Finds a reason for every run except the one that settled the message.
fn explain_repeats(id: MessageId, events: &MessageEvents<'_>, result: &mut CheckResult) {
    // A process killed right after the commit has no `done` event; then the last run is the settling one.
    let settled = events.done.or(events.runs.last().map(|run| run.token));
    for run in events.runs.iter().filter(|run| Some(run.token) != settled) {
        let ProcessLedger { process, end, .. } = run.ledger;
        if settled.is_some_and(|settled| run.token > settled) {
            result.violations.push(format!("{id} ran in {process} after it was done"));
        } else if events.lease_lost.contains(process.as_str()) {
            result.explained_by_lease += 1;
        } else if *end == ProcessEnd::Stopped {
            result.violations.push(format!("{id} ran in {process} and again without a reason"));
        } else {
            result.explained_by_kill += 1;
        }
    }
}

#[cfg(test)]
mod tests;
