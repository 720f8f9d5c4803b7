//! Occurrence ledger: every time of a job's schedule with the decision about it and the reason. Pure: computed from
//! the history that the storage has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::clock_change::just_before;
use super::history::JobHistory;
use super::upcoming::occurrences_from;
use super::walk::Walk;
use crate::inspect::PageResult;
use crate::model::time::between;
use crate::model::{
    Ending, Execution, ExecutionId, JobRecord, MessageId, MessageRecord, MessageState,
    MisfireFacts, MisfirePolicy, SkipReason, Source,
};

/// Largest number of upcoming occurrences computed.
const AHEAD_MAX: usize = 10_000;

/// Decision about an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerDecision {
    /// It ran and succeeded.
    Ran,
    /// It ran and failed.
    Failed,
    /// It was or will be skipped.
    Skipped,
    /// It is running.
    Running,
    /// It is due and waits for a worker, a retry or the scheduler.
    Waiting,
    /// It is upcoming.
    Planned,
    /// It was due and no record of it exists.
    Missed,
}

/// A time of a schedule with the decision about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LedgerEntry {
    /// Nominal time on the schedule.
    pub nominal: Timestamp,
    /// Decision.
    pub decision: LedgerDecision,
    /// Reason of the decision, if any.
    pub reason: Option<String>,
    /// Id of its message, or of the run that covers it.
    pub message: Option<MessageId>,
    /// Id of its last execution.
    pub execution: Option<ExecutionId>,
    /// Delay of its start, so far when it has not started.
    pub late: Option<Duration>,
    /// Number of attempts.
    pub attempts: u32,
}

/// Records of the occurrences of a job, by nominal time.
pub(crate) struct Ledger<'a> {
    walk: &'a Walk,
    record: &'a JobRecord,
    now: Timestamp,
    executions: BTreeMap<Timestamp, Vec<&'a Execution>>,
    messages: BTreeMap<Timestamp, Vec<&'a MessageRecord>>,
    /// Skips that cover a range of occurrences: first, last and execution.
    skipped_ranges: Vec<(Timestamp, Timestamp, &'a Execution)>,
    /// Runs that cover several missed occurrences.
    misfire_runs: Vec<(&'a MisfireFacts, &'a MessageRecord)>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(
        walk: &'a Walk,
        record: &'a JobRecord,
        history: &'a JobHistory,
        now: Timestamp,
    ) -> Self {
        let mut ledger = Self {
            walk,
            record,
            now,
            executions: BTreeMap::new(),
            messages: BTreeMap::new(),
            skipped_ranges: Vec::new(),
            misfire_runs: Vec::new(),
        };
        // One-time jobs planned under the name of the job are no occurrences of it.
        let planned: BTreeSet<MessageId> = history
            .messages
            .iter()
            .filter(|one| one.is_planned())
            .map(|one| one.message.id)
            .collect();
        for execution in &history.executions {
            if execution.message.is_some_and(|id| planned.contains(&id)) {
                continue;
            }
            let Some(nominal) = execution.nominal else { continue };
            ledger.executions.entry(nominal).or_default().push(execution);
            if let Some(first) = execution.skipped_since().filter(|first| *first < nominal) {
                ledger.skipped_ranges.push((first, nominal, execution));
            }
        }
        for message in history.messages.iter().filter(|one| !one.is_planned()) {
            let Some(occurrence) = &message.message.occurrence else { continue };
            ledger.messages.entry(occurrence.nominal).or_default().push(message);
            if let Some(facts) = occurrence.misfire.as_ref().filter(|facts| facts.missed_count > 1)
            {
                ledger.misfire_runs.push((facts, message));
            }
        }
        ledger
    }

    /// Returns up to `limit` occurrences between two times, both included, oldest first, and the last one as the
    /// cursor when there are more.
    pub(crate) fn list(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> PageResult<LedgerEntry, Timestamp> {
        let schedule = &self.record.job.schedule;
        // The first occurrence of a job is after its creation.
        let first = just_before(from).max(self.record.created_at);
        let mut nominals: BTreeSet<Timestamp> =
            self.walk.after(schedule, first).take_while(|at| *at <= to).take(limit + 1).collect();
        let is_long = nominals.len() > limit;
        if from <= to {
            nominals.extend(self.executions.range(from..=to).filter_map(|(nominal, all)| {
                all.iter().any(|one| self.belongs(*nominal, one.source)).then_some(*nominal)
            }));
            nominals.extend(self.messages.range(from..=to).filter_map(|(nominal, all)| {
                let belongs = |one: &&MessageRecord| self.belongs(*nominal, one.message.source);
                all.iter().any(belongs).then_some(*nominal)
            }));
        }
        // Behind the last computed time, records alone would be incomplete.
        let more = is_long || nominals.len() > limit;
        let nominals: Vec<Timestamp> = nominals.into_iter().take(limit).collect();
        let last = nominals.last().copied().unwrap_or(from);
        // A schedule with a limited number of runs counts them from now on.
        let is_counted = schedule.runs_max().is_some();
        let begin = if is_counted { self.now } else { self.now.max(from) };
        let upcoming: BTreeMap<Timestamp, Option<String>> =
            occurrences_from(self.walk, self.record, begin)
                .take_while(|(at, _)| *at <= last)
                .take(AHEAD_MAX)
                .collect();
        let next = nominals.last().copied().filter(|_| more);
        let rows = nominals
            .into_iter()
            .filter_map(|nominal| self.occurrence(nominal, &upcoming))
            .collect();
        PageResult { rows, next }
    }

    /// Returns whether a record belongs to the schedule, and is not a manual run at another time.
    fn belongs(&self, nominal: Timestamp, source: Source) -> bool {
        let on_schedule =
            || self.walk.next(&self.record.job.schedule, just_before(nominal)) == Some(nominal);
        matches!(source, Source::Scheduled | Source::Redriven) || on_schedule()
    }

    /// Returns the decision about a time; `None` when it is not a time of this job.
    fn occurrence(
        &self,
        nominal: Timestamp,
        upcoming: &BTreeMap<Timestamp, Option<String>>,
    ) -> Option<LedgerEntry> {
        let executions = self.executions.get(&nominal).map(Vec::as_slice).unwrap_or_default();
        let messages = self.messages.get(&nominal).map(Vec::as_slice).unwrap_or_default();
        let ran = executions.iter().filter(|one| !matches!(one.ending, Ending::Skipped(_)));
        let last = ran.clone().max_by_key(|one| one.ended_at);
        let message = messages.iter().find(|one| one.state.is_alive()).or(messages.first());
        let skip = executions.iter().find_map(|one| match one.ending {
            Ending::Skipped(reason) => Some((reason, *one)),
            _ => None,
        });
        let started_at = ran.clone().map(|one| one.started_at).min();
        let attempts = u32::try_from(ran.count()).unwrap_or(u32::MAX);
        let entry = LedgerEntry {
            nominal,
            decision: LedgerDecision::Missed,
            reason: None,
            message: message.map(|one| one.message.id),
            execution: last.map(|one| one.id),
            late: started_at.map(|started_at| between(nominal, started_at)),
            attempts: message.map_or(0, |one| one.attempt).max(attempts),
        };
        match (message, last, skip) {
            (Some(message), _, _) if message.state.is_alive() => {
                Some(self.unfinished(entry, message))
            }
            (message, Some(last), _) => Some(ended(entry, last, message.copied())),
            (_, None, Some((reason, skip))) => Some(skipped(entry, reason, skip)),
            (Some(message), None, None) => Some(finished(entry, message)),
            (None, None, None) => self.unrecorded(entry, upcoming),
        }
    }

    fn unfinished(&self, entry: LedgerEntry, message: &MessageRecord) -> LedgerEntry {
        let so_far = between(entry.nominal, self.now);
        let late = entry.late.or_else(|| (so_far.as_millis() > 0).then_some(so_far));
        if message.state == MessageState::Running {
            return LedgerEntry { decision: LedgerDecision::Running, ..entry };
        }
        let reason = match (&message.error, message.attempt) {
            (Some(error), _) => format!("retried at {}: {error}", message.due_at),
            (None, 1..) => format!("retried at {}", message.due_at),
            (None, 0) if message.due_at > self.now => format!("starts at {}", message.due_at),
            (None, 0) => "due, and not claimed by a worker yet".to_owned(),
        };
        LedgerEntry { decision: LedgerDecision::Waiting, reason: Some(reason), late, ..entry }
    }

    /// Returns the decision about a time without a record of its own.
    fn unrecorded(
        &self,
        entry: LedgerEntry,
        upcoming: &BTreeMap<Timestamp, Option<String>>,
    ) -> Option<LedgerEntry> {
        let (nominal, record) = (entry.nominal, self.record);
        if let Some((_, _, skip)) =
            self.skipped_ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&nominal))
            && let Ending::Skipped(reason) = skip.ending
        {
            return Some(skipped(entry, reason, skip));
        }
        if let Some((facts, message)) =
            self.misfire_runs.iter().find(|(facts, _)| self.covers(facts, nominal))
        {
            let reason = format!(
                "misfire: one run for {} missed occurrences, with the nominal time {}",
                facts.missed_count, facts.misfired_from
            );
            let message = Some(message.message.id);
            let decision = LedgerDecision::Skipped;
            return Some(LedgerEntry { decision, reason: Some(reason), message, ..entry });
        }
        if let Some(why) = upcoming.get(&nominal) {
            let decision =
                if why.is_some() { LedgerDecision::Skipped } else { LedgerDecision::Planned };
            return Some(LedgerEntry { decision, reason: why.clone(), ..entry });
        }
        let undecided = record.cursor.is_some_and(|cursor| cursor <= nominal);
        let (decision, reason) = match (&record.paused, record.retired) {
            _ if nominal >= self.now => return None,
            (_, Some(_)) if record.last_nominal.is_none_or(|last| nominal > last) => return None,
            (Some(pause), None) if undecided => {
                (LedgerDecision::Skipped, format!("paused by {}: {}", pause.by, pause.reason))
            }
            (None, None) if undecided => {
                (LedgerDecision::Waiting, "not processed by the scheduler yet".to_owned())
            }
            _ => (
                LedgerDecision::Missed,
                "no record exists: the history was pruned, or the schedule was a different one"
                    .to_owned(),
            ),
        };
        let late = (decision == LedgerDecision::Waiting).then(|| between(nominal, self.now));
        Some(LedgerEntry { decision, reason: Some(reason), late, ..entry })
    }

    /// Returns whether a run for several missed occurrences covers this one.
    fn covers(&self, facts: &MisfireFacts, nominal: Timestamp) -> bool {
        let (from, schedule) = (facts.misfired_from, &self.record.job.schedule);
        match facts.policy {
            MisfirePolicy::FireNow => {
                nominal > from
                    && nominal <= facts.detected_at
                    && self.walk.count(schedule, (from, nominal), facts.missed_count)
                        < facts.missed_count
            }
            MisfirePolicy::FireOnce => {
                nominal < from
                    && self.walk.count(schedule, (nominal, from), facts.missed_count)
                        < facts.missed_count
            }
            MisfirePolicy::FireAll | MisfirePolicy::SkipToNext => false,
        }
    }
}

fn ended(entry: LedgerEntry, last: &Execution, message: Option<&MessageRecord>) -> LedgerEntry {
    let cancelled = message.is_some_and(|message| message.state == MessageState::Cancelled);
    let (decision, reason) = match last.ending {
        Ending::Succeeded => (LedgerDecision::Ran, None),
        _ if cancelled => (LedgerDecision::Failed, Some("cancelled".to_owned())),
        ending => {
            let note = last.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
            (LedgerDecision::Failed, Some(format!("{}{note}", ending.as_str().replace('_', " "))))
        }
    };
    LedgerEntry { decision, reason, message: last.message, ..entry }
}

fn skipped(entry: LedgerEntry, reason: SkipReason, skip: &Execution) -> LedgerEntry {
    LedgerEntry {
        decision: LedgerDecision::Skipped,
        reason: Some(reason.as_str().to_owned()),
        execution: Some(skip.id),
        ..entry
    }
}

/// Returns the decision about a message that ended without an execution: its job keeps none, or it never ran.
fn finished(entry: LedgerEntry, message: &MessageRecord) -> LedgerEntry {
    let (decision, reason) = match message.state {
        MessageState::Cancelled => {
            (LedgerDecision::Failed, Some("cancelled before it ran".to_owned()))
        }
        MessageState::Dead => (LedgerDecision::Failed, message.error.as_deref().map(str::to_owned)),
        _ => (LedgerDecision::Ran, None),
    };
    LedgerEntry { decision, reason, ..entry }
}
