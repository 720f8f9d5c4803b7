//! Firings: every one that was stored is compared with the reference model. Together with what other
//! writes to a job may change, that leaves no way for an occurrence to be lost, doubled or made up.

use std::sync::Arc;
use std::time::Duration;

use punctual::Overlap;
use punctual::clock::{add, between};
use punctual::jiff::Timestamp;
use punctual::model::{
    Ending, Execution, JobRecord, Message, Occurrence, ProcessId, Retirement, Source,
};
use punctual::policy::MisfirePolicy;
use punctual::schedule::Spread;
use punctual::storage::{DueJob, FireResult, Firing};

use super::Ledger;
use crate::reference::{Fate, FiredOne, Known, SkippedOne, decide};

/// A firing that was tried.
pub(crate) struct FiredJob<'a> {
    pub(crate) process: ProcessId,
    pub(crate) firing: &'a Firing,
    pub(crate) answer: FireResult,
    pub(crate) now: Timestamp,
    pub(crate) threshold_default: Duration,
}

impl Ledger {
    pub(crate) fn saw_due(&mut self, process: ProcessId, due: &[DueJob], now: Timestamp) {
        for DueJob { record, alive } in due {
            let name = record.job.name.clone();
            let expected = u32::try_from(self.alive_of(&name, now).len()).unwrap_or(u32::MAX);
            self.must(*alive == expected, "alive runs are counted right", || {
                format!("{name}: {alive}, expected {expected}")
            });
            let due_at = record.due_at();
            self.must(
                due_at.is_some_and(|due_at| due_at <= now),
                "only due jobs are looked at",
                || format!("{name}: {due_at:?}"),
            );
            self.seen_alive.insert((process, name), *alive);
        }
    }

    pub(crate) fn fired(&mut self, fired: &FiredJob<'_>) {
        let name = &fired.firing.job;
        let Some(before) = self.jobs.get(name).cloned() else {
            return self.broken("only a known job fires", format!("{name}"));
        };
        let alive = u32::try_from(self.alive_of(name, fired.now).len()).unwrap_or(u32::MAX);
        let expected = if before.version != fired.firing.seen {
            FireResult::AlreadyMoved
        } else if fired.firing.alive_max.is_some_and(|most| alive > most) {
            self.seen_alive.insert((fired.process, name.clone()), alive);
            FireResult::Overlapping(alive)
        } else {
            FireResult::Fired
        };
        self.must(fired.answer == expected, "a firing stands on the version it has seen", || {
            format!("{name}: answered {:?}, expected {expected:?}", fired.answer)
        });
        if expected != FireResult::Fired {
            return;
        }
        let manual =
            fired.firing.messages.first().is_some_and(|message| message.source == Source::Manual);
        if manual {
            self.triggered(&before, fired.firing);
        } else {
            self.decided(&before, fired);
        }
        self.store_firing(&before, fired);
    }

    /// What a firing puts into the storage.
    fn store_firing(&mut self, before: &JobRecord, fired: &FiredJob<'_>) {
        let firing = fired.firing;
        if firing.cancel_alive {
            for id in self.alive_of(&firing.job, fired.now) {
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

    /// A trigger leaves the schedule alone.
    fn triggered(&mut self, before: &JobRecord, firing: &Firing) {
        let same = JobRecord {
            version: before.version,
            updated_at: before.updated_at,
            ..(*firing.after).clone()
        };
        self.must(same == *before, "a trigger does not move the schedule", || {
            format!("{}", firing.job)
        });
    }

    /// A scheduler decided: compare with the reference model.
    fn decided(&mut self, before: &JobRecord, fired: &FiredJob<'_>) {
        let FiredJob { firing, now, .. } = fired;
        let name = &firing.job;
        let alive = self.seen_alive.get(&(fired.process, name.clone())).copied().unwrap_or(0);
        let (paused, retired) = (before.paused.is_some(), before.retired.is_some());
        // An operator's word is taken at the time his process knows.
        let early = now.duration_since(self.clock.now());
        self.must(
            paused || !early.is_positive(),
            "nothing fires early, however wrong clocks are",
            || format!("{name} is fired {early:?} early"),
        );
        let none = firing.messages.is_empty();
        self.must(paused || !retired, "a retired job fires nothing", || format!("{name}"));
        self.must(none || !paused, "a paused job fires nothing", || {
            format!("{name} at {now}: {:?}", before.paused)
        });
        let known =
            Known { record: before, alive, threshold_default: fired.threshold_default, now: *now };
        let (expected, about) = decide(&known);
        let found = found(before, firing);
        self.must(found == expected, "every occurrence has the fate its policy says", || {
            format!("{name} at {now}, alive {alive}, cursor {:?}, {:?} {:?} {}:\n  decided  {found:?}\n  expected {expected:?}",
                before.cursor, before.job.misfire, before.job.overlap, before.job.schedule)
        });
        let makes_up = expected.fired.iter().any(|one| one.missed.is_some());
        for message in &firing.messages {
            self.made(before, message, (makes_up, *now));
        }
        self.admitted(before, firing, *now);
        self.ordered(before, firing);
        let back =
            matches!((before.cursor, firing.after.cursor), (Some(old), Some(new)) if new < old);
        self.must(!back, "a cursor never moves back by itself", || {
            format!("{name} from {:?} to {:?}", before.cursor, firing.after.cursor)
        });
        self.tally.firings += 1;
        self.tally.occurrences += about as u64;
        self.tally.misfires +=
            expected.fired.iter().filter(|one| one.missed.is_some()).count() as u64;
        self.tally.skips += expected.skipped.iter().map(|one| one.count).sum::<u64>();
    }

    /// What is alive at the moment of the firing, and not only when it was decided, leaves room for one
    /// more; the runs of one decision do not count against each other.
    fn admitted(&mut self, before: &JobRecord, firing: &Firing, now: Timestamp) {
        let most = match before.job.overlap {
            Overlap::Skip => 1,
            Overlap::QueueOne => 2,
            Overlap::Allow { parallel_max: Some(most) } => {
                usize::try_from(most).unwrap_or(usize::MAX)
            }
            Overlap::Allow { parallel_max: None } | Overlap::CancelRunning => return,
        };
        let promised = |message: &Arc<Message>| {
            let facts =
                message.occurrence.as_ref().and_then(|occurrence| occurrence.misfire.as_ref());
            facts.is_some_and(|facts| facts.policy == MisfirePolicy::FireAll)
        };
        let alive = self.alive_of(&firing.job, now).len();
        let fits = firing.messages.iter().all(promised) || alive < most;
        self.must(fits, "no more runs are alive than the overlap policy allows", || {
            format!("{}: {alive} under {:?}", firing.job, before.job.overlap)
        });
    }

    /// Oldest first, and one after the other unless the job wants several at once.
    fn ordered(&mut self, before: &JobRecord, firing: &Firing) {
        let messages = &firing.messages;
        let first = messages.iter().map(|message| (message.due_at, message.id));
        let makes_up = messages.iter().any(|message| {
            message.occurrence.as_ref().is_some_and(|occurrence| occurrence.misfire.is_some())
        });
        let spread = before.job.spread != Spread::None;
        self.must(!makes_up || spread || first.is_sorted(), "runs catch up oldest first", || {
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

    /// The message an occurrence became.
    fn made(&mut self, before: &JobRecord, message: &Message, (makes_up, now): (bool, Timestamp)) {
        let job = &before.job;
        let Some(occurrence) = &message.occurrence else {
            return self.broken("a run knows its occurrence", format!("{}", message.id));
        };
        let nominal = occurrence.nominal;
        let spread = job.spread.offset(job.name.as_str(), nominal, job.schedule.next(nominal));
        // What is only late waits behind those that were missed.
        let due_at = match (&occurrence.misfire, makes_up) {
            (Some(_), _) => now,
            (None, true) => add(nominal, spread).max(now),
            (None, false) => add(nominal, spread),
        };
        let named = message.dedupe == Some(Occurrence::identity(&job.name, nominal));
        let told = occurrence.misfire.as_ref().is_none_or(|facts| {
            let delay_ms = u64::try_from(between(nominal, now).as_millis()).unwrap_or(u64::MAX);
            (facts.misfired_from, facts.detected_at, facts.delay_ms) == (nominal, now, delay_ms)
        });
        let fits = message.due_at == due_at
            && named
            && told
            && message.handler_options.as_ref() == Some(&job.handler_options);
        self.must(fits, "a run is due when its occurrence is, or at once", || {
            format!("{message:?}")
        });
    }
}

/// What a firing says, in the words of the reference model.
fn found(before: &JobRecord, firing: &Firing) -> Fate {
    let after = &firing.after;
    let fired = firing.messages.iter().filter_map(|message| message.occurrence.as_ref()).map(
        |occurrence| FiredOne {
            nominal: occurrence.nominal,
            missed: occurrence
                .misfire
                .as_ref()
                .map(|facts| (facts.policy, facts.missed_count, facts.index)),
        },
    );
    Fate {
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

/// A skipped execution; the number and the range of a folded one are in its note.
fn skipped(execution: &Execution) -> Option<SkippedOne> {
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
    Some(SkippedOne { first, last, count, reason })
}
