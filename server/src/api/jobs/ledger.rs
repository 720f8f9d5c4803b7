//! The ledger of a job: every time of its schedule with what was decided about it, and why. Pure: what the
//! storage remembers goes in, the list comes out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use punctual::clock::between;
use punctual::model::{
    Ending, Execution, JobRecord, MessageId, MessageRecord, MessageState, MisfireFacts, SkipReason,
    Source,
};
use punctual::policy::MisfirePolicy;
use serde::Serialize;
use utoipa::ToSchema;

use super::traces::Traces;
use super::upcoming::future;
use crate::api::clock_change::just_before;
use crate::api::executions::milliseconds;
use crate::walk::Walk;

/// The most occurrences still to come that are worked out.
const AHEAD_MAX: usize = 10_000;

/// What was decided about an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OccurrenceDecision {
    /// It ran and succeeded.
    Ran,
    /// It ran and did not.
    Failed,
    /// It was not run, or will not be, on purpose.
    Skipped,
    /// It runs now.
    Running,
    /// It is due and waits: for a worker, for a retry, or for the scheduler.
    Waiting,
    /// It is still to come.
    Planned,
    /// It should have run, and nothing is known of it.
    Missed,
}

/// A time of a schedule with what was decided about it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OccurrenceView {
    /// The instant on the schedule.
    pub(super) nominal: Timestamp,
    /// What was decided.
    pub(super) decision: OccurrenceDecision,
    /// Why, where it is not plain.
    reason: Option<String>,
    /// The message it became, or the one that stands for it.
    message: Option<String>,
    /// Its last execution.
    execution: Option<String>,
    /// How late it began, or is by now.
    late_ms: Option<u64>,
    /// How many attempts were made.
    attempts: u32,
}

/// Everything that is known about the occurrences of a job.
pub(super) struct Ledger<'a> {
    walk: &'a Walk,
    record: &'a JobRecord,
    now: Timestamp,
    executions: BTreeMap<Timestamp, Vec<&'a Execution>>,
    messages: BTreeMap<Timestamp, Vec<&'a MessageRecord>>,
    /// Skips that are about many occurrences.
    folded: Vec<(Timestamp, Timestamp, &'a Execution)>,
    /// Runs that stand for others as well.
    stands: Vec<(&'a MisfireFacts, &'a MessageRecord)>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        walk: &'a Walk,
        record: &'a JobRecord,
        traces: &'a Traces,
        now: Timestamp,
    ) -> Self {
        let mut ledger = Self {
            walk,
            record,
            now,
            executions: BTreeMap::new(),
            messages: BTreeMap::new(),
            folded: Vec::new(),
            stands: Vec::new(),
        };
        // One-time jobs that were planned under the name of the job stand for none of its times.
        let planned: BTreeSet<MessageId> = traces
            .messages
            .iter()
            .filter(|one| one.is_planned())
            .map(|one| one.message.id)
            .collect();
        for execution in &traces.executions {
            if execution.message.is_some_and(|id| planned.contains(&id)) {
                continue;
            }
            let Some(nominal) = execution.nominal else { continue };
            ledger.executions.entry(nominal).or_default().push(execution);
            if let Some(first) = execution.skipped_since().filter(|first| *first < nominal) {
                ledger.folded.push((first, nominal, execution));
            }
        }
        for message in traces.messages.iter().filter(|one| !one.is_planned()) {
            let Some(occurrence) = &message.message.occurrence else { continue };
            ledger.messages.entry(occurrence.nominal).or_default().push(message);
            if let Some(facts) = occurrence.misfire.as_ref().filter(|facts| facts.missed_count > 1)
            {
                ledger.stands.push((facts, message));
            }
        }
        ledger
    }

    /// The times from one instant to another, both included, oldest first, at most so many; and whether
    /// there are more.
    pub(super) fn list(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> (Vec<OccurrenceView>, Option<Timestamp>) {
        let schedule = &self.record.job.schedule;
        // The first occurrence of a job is the one after it was declared.
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
        // Behind the last one that was worked out, traces alone would be an incomplete picture.
        let more = is_long || nominals.len() > limit;
        let nominals: Vec<Timestamp> = nominals.into_iter().take(limit).collect();
        let last = nominals.last().copied().unwrap_or(from);
        // Where runs are counted, they are counted from now on.
        let is_counted = schedule.runs_max().is_some();
        let begin = if is_counted { self.now } else { self.now.max(from) };
        let ahead: BTreeMap<Timestamp, Option<String>> = future(self.walk, self.record, begin)
            .take_while(|(at, _)| *at <= last)
            .take(AHEAD_MAX)
            .collect();
        let next = nominals.last().copied().filter(|_| more);
        let views = nominals.into_iter().filter_map(|nominal| self.one(nominal, &ahead)).collect();
        (views, next)
    }

    /// Whether a trace is about the schedule, and not a run by hand at just any time.
    fn belongs(&self, nominal: Timestamp, source: Source) -> bool {
        let on_schedule =
            || self.walk.next(&self.record.job.schedule, just_before(nominal)) == Some(nominal);
        matches!(source, Source::Scheduled | Source::Redriven) || on_schedule()
    }

    /// What was decided about one time; none when it is none of this job's.
    fn one(
        &self,
        nominal: Timestamp,
        ahead: &BTreeMap<Timestamp, Option<String>>,
    ) -> Option<OccurrenceView> {
        let executions = self.executions.get(&nominal).map(Vec::as_slice).unwrap_or_default();
        let messages = self.messages.get(&nominal).map(Vec::as_slice).unwrap_or_default();
        let ran = executions.iter().filter(|one| !matches!(one.ending, Ending::Skipped(_)));
        let last = ran.clone().max_by_key(|one| one.ended_at);
        let message = messages.iter().find(|one| one.state.is_alive()).or(messages.first());
        let skip = executions.iter().find_map(|one| match one.ending {
            Ending::Skipped(reason) => Some((reason, *one)),
            _ => None,
        });
        let began = ran.clone().map(|one| one.started_at).min();
        let tried = u32::try_from(ran.count()).unwrap_or(u32::MAX);
        let view = OccurrenceView {
            nominal,
            decision: OccurrenceDecision::Missed,
            reason: None,
            message: message.map(|one| one.message.id.to_string()),
            execution: last.map(|one| one.id.to_string()),
            late_ms: began.map(|began| milliseconds(between(nominal, began))),
            attempts: message.map_or(0, |one| one.attempt).max(tried),
        };
        match (message, last, skip) {
            (Some(alive), _, _) if alive.state.is_alive() => Some(self.alive(view, alive)),
            (message, Some(last), _) => Some(ended(view, last, message.copied())),
            (_, None, Some((reason, skip))) => Some(skipped(view, reason, skip)),
            (Some(message), None, None) => Some(finished(view, message)),
            (None, None, None) => self.untraced(view, ahead),
        }
    }

    fn alive(&self, view: OccurrenceView, alive: &MessageRecord) -> OccurrenceView {
        let late_ms = view.late_ms.or_else(|| {
            Some(milliseconds(between(view.nominal, self.now))).filter(|late| *late > 0)
        });
        if alive.state == MessageState::Running {
            return OccurrenceView { decision: OccurrenceDecision::Running, ..view };
        }
        let reason = match (&alive.error, alive.attempt) {
            (Some(error), _) => format!("tried again at {}: {error}", alive.due_at),
            (None, 1..) => format!("tried again at {}", alive.due_at),
            (None, 0) if alive.due_at > self.now => format!("begins at {}", alive.due_at),
            (None, 0) => "due, and no worker has taken it yet".to_owned(),
        };
        OccurrenceView {
            decision: OccurrenceDecision::Waiting,
            reason: Some(reason),
            late_ms,
            ..view
        }
    }

    /// A time that left no trace of its own.
    fn untraced(
        &self,
        view: OccurrenceView,
        ahead: &BTreeMap<Timestamp, Option<String>>,
    ) -> Option<OccurrenceView> {
        let (nominal, record) = (view.nominal, self.record);
        if let Some((_, _, skip)) =
            self.folded.iter().find(|(first, last, _)| (*first..=*last).contains(&nominal))
            && let Ending::Skipped(reason) = skip.ending
        {
            return Some(skipped(view, reason, skip));
        }
        if let Some((facts, message)) =
            self.stands.iter().find(|(facts, _)| self.covers(facts, nominal))
        {
            let reason = format!(
                "misfire: one run for {} missed ones, in the name of {}",
                facts.missed_count, facts.misfired_from
            );
            let message = Some(message.message.id.to_string());
            let decision = OccurrenceDecision::Skipped;
            return Some(OccurrenceView { decision, reason: Some(reason), message, ..view });
        }
        if let Some(why) = ahead.get(&nominal) {
            let decision = if why.is_some() {
                OccurrenceDecision::Skipped
            } else {
                OccurrenceDecision::Planned
            };
            return Some(OccurrenceView { decision, reason: why.clone(), ..view });
        }
        let undecided = record.cursor.is_some_and(|cursor| cursor <= nominal);
        let (decision, reason) = match (&record.paused, record.retired) {
            _ if nominal >= self.now => return None,
            (_, Some(_)) if record.last_nominal.is_none_or(|last| nominal > last) => return None,
            (Some(pause), None) if undecided => {
                (OccurrenceDecision::Skipped, format!("paused by {}: {}", pause.by, pause.reason))
            }
            (None, None) if undecided => {
                (OccurrenceDecision::Waiting, "the scheduler has not decided about it yet".to_owned())
            }
            _ => (
                OccurrenceDecision::Missed,
                "nothing is remembered of it: the history was pruned, or the schedule was another one then"
                    .to_owned(),
            ),
        };
        let late_ms = (decision == OccurrenceDecision::Waiting)
            .then(|| milliseconds(between(nominal, self.now)));
        Some(OccurrenceView { decision, reason: Some(reason), late_ms, ..view })
    }

    /// Whether a run that made up for several occurrences also stands for this one.
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

fn ended(
    view: OccurrenceView,
    last: &Execution,
    message: Option<&MessageRecord>,
) -> OccurrenceView {
    let cancelled = message.is_some_and(|message| message.state == MessageState::Cancelled);
    let (decision, reason) = match last.ending {
        Ending::Succeeded => (OccurrenceDecision::Ran, None),
        _ if cancelled => (OccurrenceDecision::Failed, Some("cancelled".to_owned())),
        ending => {
            let note = last.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
            (
                OccurrenceDecision::Failed,
                Some(format!("{}{note}", ending.as_str().replace('_', " "))),
            )
        }
    };
    let message = last.message.map(|id| id.to_string());
    OccurrenceView { decision, reason, message, ..view }
}

fn skipped(view: OccurrenceView, reason: SkipReason, skip: &Execution) -> OccurrenceView {
    OccurrenceView {
        decision: OccurrenceDecision::Skipped,
        reason: Some(reason.as_str().to_owned()),
        execution: Some(skip.id.to_string()),
        ..view
    }
}

/// A message that ended without an execution: its job keeps none, or it never ran.
fn finished(view: OccurrenceView, message: &MessageRecord) -> OccurrenceView {
    let (decision, reason) = match message.state {
        MessageState::Cancelled => {
            (OccurrenceDecision::Failed, Some("cancelled before it ran".to_owned()))
        }
        MessageState::Dead => {
            (OccurrenceDecision::Failed, message.error.as_deref().map(str::to_owned))
        }
        _ => (OccurrenceDecision::Ran, None),
    };
    OccurrenceView { decision, reason, ..view }
}
