//! Outage: what would become of a job's occurrences if nothing ran for a while, by the same decisions
//! that are made after a real one. Nothing is alive by then, because what ran has ended or was rescued.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::plan::{Plan, PlannedOccurrence, Skip, plan};
use super::{MisfirePolicy, Threshold, admit};
use crate::clock::add;
use crate::error::{Error, Result};
use crate::model::{JobRecord, SkipReason};

/// The longest outage that is thought through.
pub const OUTAGE_MAX: Duration = Duration::from_hours(366 * 24);

/// What an outage would come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// When it would begin.
    pub from: Timestamp,
    /// When it would be over.
    pub to: Timestamp,
    /// How many occurrences would be missed; with `missed_more` at least that many.
    pub missed: u64,
    /// Whether counting stopped at its bound.
    pub missed_more: bool,
    /// The occurrences that would run when it is over, oldest first.
    pub runs: Vec<PlannedOccurrence>,
    /// Those that would not.
    pub skipped: Vec<Skip>,
    /// The first occurrence that would run in time again.
    pub next: Option<Timestamp>,
    /// How late the first occurrence may be without being missed.
    pub threshold: Threshold,
}

/// What would happen to a job if nothing ran for so long from now on.
pub fn outage(
    record: &JobRecord,
    length: Duration,
    threshold_default: Duration,
    now: Timestamp,
) -> Result<Outage> {
    if length.is_zero() || length > OUTAGE_MAX {
        return Err(Error::invalid(format!(
            "an outage of {} cannot be thought through; give one above zero and of at most 366 days",
            crate::schedule::format_duration(length)
        )));
    }
    let (job, to) = (&record.job, add(now, length));
    let none = Outage {
        from: now,
        to,
        missed: 0,
        missed_more: false,
        runs: Vec::new(),
        skipped: Vec::new(),
        next: None,
        threshold: record.misfire_threshold(threshold_default),
    };
    let before = just_before(now);
    let Some(cursor) = record
        .cursor
        .filter(|_| record.retired.is_none())
        .and_then(|cursor| if cursor >= now { Some(cursor) } else { job.schedule.next(before) })
    else {
        return Ok(none);
    };
    let first = job.schedule.next(just_before(cursor)).unwrap_or(cursor);
    let threshold = job.misfire.threshold_in_force(&job.schedule, first, threshold_default);
    let mut planned = plan(&job.schedule, cursor, &job.misfire, threshold_default, to);
    let (unwanted, wanted): (Vec<PlannedOccurrence>, Vec<PlannedOccurrence>) =
        std::mem::take(&mut planned.fire).into_iter().partition(|run| is_unwanted(record, run));
    let mut admission = admit(job.overlap, 0, wanted);
    let left = job.schedule.runs_max().map_or(u64::MAX, |most| most.saturating_sub(record.runs));
    admission.fire.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    let Plan { mut skipped, missed_count, missed_more, cursor, .. } = planned;
    skipped.extend(unwanted.iter().map(|run| skip(run, SkipReason::Operator)));
    skipped.extend(admission.skipped.iter().map(|run| skip(run, SkipReason::Overlap)));
    skipped.sort_by_key(|skip| skip.nominal);
    let spent = left <= admission.fire.len() as u64;
    let (runs, next) = (admission.fire, cursor.filter(|_| !spent));
    Ok(Outage { missed: missed_count, missed_more, runs, skipped, next, threshold, ..none })
}

fn just_before(instant: Timestamp) -> Timestamp {
    instant.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

/// Whether an operator asked not to run an occurrence. A run that also stands for others is still due
/// to those.
pub(crate) fn is_unwanted(record: &JobRecord, run: &PlannedOccurrence) -> bool {
    let alone = run
        .misfire
        .as_ref()
        .is_none_or(|facts| facts.policy == MisfirePolicy::FireAll || facts.missed_count <= 1);
    alone && record.overrides.skips.contains(&run.nominal)
}

fn skip(run: &PlannedOccurrence, reason: SkipReason) -> Skip {
    Skip { nominal: run.nominal, first: run.nominal, count: 1, more: false, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Job, Origin, Overrides};
    use crate::policy::{Misfire, THRESHOLD_DEFAULT};
    use crate::schedule::Schedule;

    const HOUR: Duration = Duration::from_hours(1);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn record(misfire: Misfire) -> JobRecord {
        let schedule = Schedule::cron_utc("*/30 * * * *").unwrap();
        let job = Job { misfire, ..Job::new("report", schedule).unwrap() };
        JobRecord {
            declared: job.clone(),
            configured: None,
            overrides: Overrides::default(),
            job,
            origin: Origin::Declared,
            app: "shop".to_owned(),
            release: 0,
            cursor: Some(at("2026-03-01T12:30:00Z")),
            last_nominal: None,
            runs: 0,
            paused: None,
            retired: None,
            created_at: at("2026-01-01T00:00:00Z"),
            updated_at: at("2026-01-01T00:00:00Z"),
            version: 1,
        }
    }

    fn nominals(outage: &Outage) -> (Vec<String>, Vec<String>) {
        let clock = |at: Timestamp| at.strftime("%H:%M").to_string();
        (
            outage.runs.iter().map(|run| clock(run.nominal)).collect(),
            outage.skipped.iter().map(|skip| clock(skip.nominal)).collect(),
        )
    }

    #[test]
    fn every_policy_says_what_it_would_do_with_two_hours() {
        let now = at("2026-03-01T12:10:00Z");
        for (misfire, runs, skipped) in [
            (Misfire::fire_now(), &["12:30"][..], &[][..]),
            (Misfire::fire_once(), &["14:00"], &[]),
            (Misfire::fire_all(), &["12:30", "13:00", "13:30", "14:00"], &[]),
            (Misfire::fire_all().catch_up_max(2), &["13:30", "14:00"], &["12:30", "13:00"]),
            (Misfire::skip_to_next(), &[], &["12:30", "13:00", "13:30", "14:00"]),
        ] {
            let outage =
                outage(&record(misfire.clone()), 2 * HOUR, THRESHOLD_DEFAULT, now).unwrap();
            let (ran, left) = nominals(&outage);
            assert_eq!(
                (ran.as_slice(), left.as_slice()),
                (&owned(runs)[..], &owned(skipped)[..]),
                "{misfire:?}"
            );
            assert_eq!((outage.missed, outage.next), (4, Some(at("2026-03-01T14:30:00Z"))));
        }
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn an_outage_across_young_occurrences_says_so() {
        let mut minutely = record(Misfire::skip_to_next());
        minutely.job.schedule = Schedule::cron_utc("* * * * *").unwrap();
        minutely.cursor = Some(at("2026-03-01T12:11:00Z"));
        let now = at("2026-03-01T12:10:30Z");
        let found = outage(&minutely, Duration::from_mins(3), THRESHOLD_DEFAULT, now).unwrap();
        assert_eq!(nominals(&found), (owned(&["12:13"]), owned(&["12:11", "12:12"])));
        assert_eq!((found.missed, found.threshold.length), (2, Duration::from_mins(1)));
    }

    #[test]
    fn what_an_operator_skips_stays_skipped_and_a_paused_job_is_seen_from_now_on() {
        let mut record = record(Misfire::fire_all());
        record.cursor = Some(at("2026-02-01T00:00:00Z"));
        record.overrides.skips.insert(at("2026-03-01T13:00:00Z"));
        let now = at("2026-03-01T12:10:00Z");
        let outage = outage(&record, 2 * HOUR, THRESHOLD_DEFAULT, now).unwrap();
        assert_eq!(nominals(&outage).0, ["12:30", "13:30", "14:00"]);
        assert_eq!(outage.skipped[0].reason, SkipReason::Operator);
    }

    #[test]
    fn a_length_that_makes_no_sense_is_refused() {
        let now = at("2026-03-01T12:10:00Z");
        for length in [Duration::ZERO, OUTAGE_MAX + HOUR] {
            let error = outage(&record(Misfire::default()), length, HOUR, now).unwrap_err();
            assert!(error.to_string().contains("at most 366 days"), "{error}");
        }
    }
}
