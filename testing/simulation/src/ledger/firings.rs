//! Firings: each stored one is compared with the reference model. Together with the checks of other writes to a job
//! this shows that no occurrence is lost, duplicated or invented.

use std::sync::Arc;
use std::time::Duration;

use punctual::Overlap;
use punctual::backend::storage::{DueJob, FireResult, Firing};
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::model::{
    Ending, Execution, JobRecord, Message, MisfirePolicy, Occurrence, ProcessId, Retirement, Source,
};
use punctual::schedule::Spread;

use super::Ledger;
use crate::reference::{Decision, DecisionInput, RunOccurrence, SkippedRange, decide};

/// Attempted firing with its result.
pub(crate) struct FiringAttempt<'a> {
    pub(crate) process: ProcessId,
    pub(crate) firing: &'a Firing,
    pub(crate) answer: FireResult,
    pub(crate) now: Timestamp,
    pub(crate) threshold_default: Duration,
}

impl Ledger {
    pub(crate) fn due_jobs_read(&mut self, process: ProcessId, due: &[DueJob], now: Timestamp) {
        for DueJob { record, alive } in due {
            let name = record.job.name.clone();
            let expected = u32::try_from(self.alive_runs_of(&name, now).len()).unwrap_or(u32::MAX);
            self.must(*alive == expected, "alive runs are counted correctly", || {
                format!("{name}: {alive}, expected {expected}")
            });
            let due_at = record.due_at();
            self.must(
                due_at.is_some_and(|due_at| due_at <= now),
                "due_jobs returns only due jobs",
                || format!("{name}: {due_at:?}"),
            );
            self.alive_at_read.insert((process, name), *alive);
        }
    }

    pub(crate) fn fired(&mut self, fired: &FiringAttempt<'_>) {
        let name = &fired.firing.job;
        let Some(before) = self.jobs.get(name).cloned() else {
            return self.record_violation("only a known job fires", format!("{name}"));
        };
        let alive = u32::try_from(self.alive_runs_of(name, fired.now).len()).unwrap_or(u32::MAX);
        let expected = if before.version != fired.firing.seen {
            FireResult::AlreadyMoved
        } else if fired.firing.alive_max.is_some_and(|most| alive > most) {
            self.alive_at_read.insert((fired.process, name.clone()), alive);
            FireResult::Overlapping(alive)
        } else {
            FireResult::Fired
        };
        self.must(fired.answer == expected, "a firing requires the version it read", || {
            format!("{name}: returned {:?}, expected {expected:?}", fired.answer)
        });
        if expected != FireResult::Fired {
            return;
        }
        let manual =
            fired.firing.messages.first().is_some_and(|message| message.source == Source::Manual);
        if manual {
            self.check_trigger(&before, fired.firing);
        } else {
            self.check_decision(&before, fired);
        }
        self.store_firing(&before, fired);
    }

    /// Applies a stored firing.
    fn store_firing(&mut self, before: &JobRecord, fired: &FiringAttempt<'_>) {
        let firing = fired.firing;
        if firing.cancel_alive {
            for id in self.alive_runs_of(&firing.job, fired.now) {
                self.cancel(id, fired.now);
            }
        }
        for message in &firing.messages {
            if message.source == Source::Scheduled {
                let nominal = message
                    .occurrence
                    .as_ref()
                    .map_or(message.due_at, |occurrence| occurrence.nominal);
                let first = self.fired.insert((firing.job.clone(), nominal));
                self.must(first, "one message for each occurrence, ever", || {
                    format!("{} at {nominal}", firing.job)
                });
            }
            let twin = message.dedupe.as_ref().is_some_and(|key| self.alive_keys.contains_key(key));
            if !twin {
                self.insert(Arc::clone(message));
            }
        }
        let after = JobRecord { version: before.version + 1, ..(*firing.after).clone() };
        self.jobs.insert(firing.job.clone(), after);
    }

    /// Checks that a trigger does not change the schedule.
    fn check_trigger(&mut self, before: &JobRecord, firing: &Firing) {
        let same = JobRecord {
            version: before.version,
            updated_at: before.updated_at,
            ..(*firing.after).clone()
        };
        self.must(same == *before, "a trigger does not move the schedule", || {
            format!("{}", firing.job)
        });
    }

    /// Compares a decision of the scheduler with the reference model.
    fn check_decision(&mut self, before: &JobRecord, fired: &FiringAttempt<'_>) {
        let FiringAttempt { firing, now, .. } = fired;
        let name = &firing.job;
        let alive = self.alive_at_read.get(&(fired.process, name.clone())).copied().unwrap_or(0);
        let (paused, retired) = (before.paused.is_some(), before.retired.is_some());
        // An operator's command takes effect by the clock of the operator's process.
        let early = now.duration_since(self.clock.now());
        self.must(
            paused || !early.is_positive(),
            "nothing fires early, whatever the clock error",
            || format!("{name} is fired {early:?} early"),
        );
        let none = firing.messages.is_empty();
        self.must(paused || !retired, "a retired job fires nothing", || format!("{name}"));
        self.must(none || !paused, "a paused job fires nothing", || {
            format!("{name} at {now}: {:?}", before.paused)
        });
        let input = DecisionInput {
            record: before,
            alive,
            threshold_default: fired.threshold_default,
            now: *now,
        };
        let (expected, count) = decide(&input);
        let actual = actual_decision(before, firing);
        self.must(actual == expected, "every occurrence follows its policies", || {
            format!("{name} at {now}, alive {alive}, cursor {:?}, {:?} {:?} {}:\n  decided  {actual:?}\n  expected {expected:?}",
                before.cursor, before.job.misfire, before.job.overlap, before.job.schedule)
        });
        let catches_up = expected.fired.iter().any(|one| one.missed.is_some());
        for message in &firing.messages {
            self.check_run_message(before, message, (catches_up, *now));
        }
        self.check_overlap(before, firing, *now);
        self.check_order(before, firing);
        let back =
            matches!((before.cursor, firing.after.cursor), (Some(old), Some(new)) if new < old);
        self.must(!back, "a cursor never moves back by itself", || {
            format!("{name} from {:?} to {:?}", before.cursor, firing.after.cursor)
        });
        self.tally.firings += 1;
        self.tally.occurrences += count as u64;
        self.tally.misfires +=
            expected.fired.iter().filter(|one| one.missed.is_some()).count() as u64;
        self.tally.skips += expected.skipped.iter().map(|one| one.count).sum::<u64>();
    }

    /// Checks that the runs alive at the time of the firing, not only at the decision, leave room for one more; runs
    /// of one decision do not count against each other.
    fn check_overlap(&mut self, before: &JobRecord, firing: &Firing, now: Timestamp) {
        let most = match before.job.overlap {
            Overlap::Skip => 1,
            Overlap::QueueOne => 2,
            Overlap::Allow { parallel_max: Some(most) } => {
                usize::try_from(most).unwrap_or(usize::MAX)
            }
            Overlap::Allow { parallel_max: None } | Overlap::CancelRunning => return,
        };
        let is_fire_all = |message: &Arc<Message>| {
            let facts =
                message.occurrence.as_ref().and_then(|occurrence| occurrence.misfire.as_ref());
            facts.is_some_and(|facts| facts.policy == MisfirePolicy::FireAll)
        };
        let alive = self.alive_runs_of(&firing.job, now).len();
        let fits = firing.messages.iter().all(is_fire_all) || alive < most;
        self.must(fits, "no more runs are alive than the overlap policy allows", || {
            format!("{}: {alive} under {:?}", firing.job, before.job.overlap)
        });
    }

    /// Checks that late runs are ordered oldest first, and run one after the other unless the policy is fire-all.
    fn check_order(&mut self, before: &JobRecord, firing: &Firing) {
        let messages = &firing.messages;
        let first = messages.iter().map(|message| (message.due_at, message.id));
        let catches_up = messages.iter().any(|message| {
            message.occurrence.as_ref().is_some_and(|occurrence| occurrence.misfire.is_some())
        });
        let spread = before.job.spread != Spread::None;
        self.must(!catches_up || spread || first.is_sorted(), "runs catch up oldest first", || {
            format!("{}: {messages:?}", firing.job)
        });
        let all = before.job.misfire.policy_in_force() == MisfirePolicy::FireAll;
        let apart = messages.len() < 2
            || messages.iter().all(|message| {
                let limit =
                    message.relations.as_ref().and_then(|relations| relations.limit.as_ref());
                message.exclusive || limit.is_some_and(|limit| limit.running_max == Some(1))
            });
        self.must(all || apart, "late runs do not start together", || {
            format!("{}: {messages:?}", firing.job)
        });
    }

    /// Checks the message created for an occurrence.
    fn check_run_message(
        &mut self,
        before: &JobRecord,
        message: &Message,
        (catches_up, now): (bool, Timestamp),
    ) {
        let job = &before.job;
        let Some(occurrence) = &message.occurrence else {
            return self.record_violation("a run knows its occurrence", format!("{}", message.id));
        };
        let nominal = occurrence.nominal;
        let spread = job.spread.offset(job.name.as_str(), nominal, job.schedule.next(nominal));
        // A late occurrence waits behind missed ones.
        let due_at = match (&occurrence.misfire, catches_up) {
            (Some(_), _) => now,
            (None, true) => add(nominal, spread).max(now),
            (None, false) => add(nominal, spread),
        };
        let has_identity = message.dedupe == Some(Occurrence::identity(&job.name, nominal));
        let has_misfire_facts = occurrence.misfire.as_ref().is_none_or(|facts| {
            let delay_ms = u64::try_from(between(nominal, now).as_millis()).unwrap_or(u64::MAX);
            (facts.misfired_from, facts.detected_at, facts.delay_ms) == (nominal, now, delay_ms)
        });
        let fits = message.due_at == due_at
            && has_identity
            && has_misfire_facts
            && message.handler_options.as_ref() == Some(&job.handler_options);
        self.must(fits, "a run is due when its occurrence is, or at once", || {
            format!("{message:?}")
        });
    }
}

/// Converts a firing to a decision of the reference model.
fn actual_decision(before: &JobRecord, firing: &Firing) -> Decision {
    let after = &firing.after;
    let fired = firing.messages.iter().filter_map(|message| message.occurrence.as_ref()).map(
        |occurrence| RunOccurrence {
            nominal: occurrence.nominal,
            missed: occurrence
                .misfire
                .as_ref()
                .map(|facts| (facts.policy, facts.missed_count, facts.index)),
        },
    );
    Decision {
        fired: fired.collect(),
        skipped: firing.skipped.iter().filter_map(skipped).collect(),
        cursor: after.cursor,
        schedule: (after.job.schedule != before.job.schedule).then(|| after.job.schedule.clone()),
        last_nominal: after.last_nominal,
        runs: after.runs,
        finished: after.retired == Some(Retirement::Finished),
        cancels: firing.cancel_alive,
    }
}

/// Converts a skipped execution; the count and the range of a folded one are in its note.
fn skipped(execution: &Execution) -> Option<SkippedRange> {
    let Ending::Skipped(reason) = execution.ending else {
        return None;
    };
    let last = execution.nominal?;
    let folded = execution.note.as_deref().and_then(|note| {
        let words: Vec<&str> = note.split(' ').collect();
        let [count, "occurrences", "from", first, "to", end] = words.as_slice() else {
            return None;
        };
        let first: Timestamp = first.parse().ok()?;
        (end.parse().ok() == Some(last)).then_some((first, count.parse().ok()?))
    });
    let (first, count) = folded.unwrap_or((last, 1));
    Some(SkippedRange { first, last, count, reason })
}
