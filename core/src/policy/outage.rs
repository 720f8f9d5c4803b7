//! Outage: predicts from a job's record what would happen to its occurrences if no process ran for a while,
//! with the same policies as after a real outage. No run counts as alive afterwards, because each has ended or
//! was rescued.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::decide;
use super::plan::{Plan, PlannedOccurrence, Skip};
use crate::error::{Error, Result};
use crate::model::time::add;
use crate::model::{JobRecord, Threshold};

/// Longest outage that is predicted.
pub(super) const OUTAGE_MAX: Duration = Duration::from_hours(366 * 24);

/// Predicted effects of an outage.
#[derive(Clone, Debug, PartialEq)]
pub struct Outage {
    /// Start of the outage.
    pub from: Timestamp,
    /// End of the outage.
    pub to: Timestamp,
    /// Number of occurrences that would be missed; with `missed_more` at least that many.
    pub missed: u64,
    /// Whether counting stopped at its limit.
    pub missed_more: bool,
    /// Occurrences that would run after it, oldest first.
    pub runs: Vec<PlannedOccurrence>,
    /// Occurrences that would be skipped.
    pub skipped: Vec<Skip>,
    /// First occurrence that would run on time again.
    pub next: Option<Timestamp>,
    /// Lateness up to which the first occurrence is not missed.
    pub threshold: Threshold,
}

/// Predicts what would happen to a job if no process ran for `duration` from now on.
pub(crate) fn outage(
    record: &JobRecord,
    duration: Duration,
    threshold_default: Duration,
    now: Timestamp,
) -> Result<Outage> {
    if duration.is_zero() || duration > OUTAGE_MAX {
        return Err(Error::invalid(format!(
            "an outage of {} is out of range; use one above zero and of at most 366 days",
            crate::schedule::format_duration(duration)
        )));
    }
    let (job, to) = (&record.job, add(now, duration));
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
    let Plan { fire: runs, mut skipped, missed_count, missed_more, cursor: next, .. } =
        decide(record, cursor, 0, threshold_default, to).plan;
    skipped.sort_by_key(|skip| skip.nominal);
    Ok(Outage { missed: missed_count, missed_more, runs, skipped, next, threshold, ..none })
}

fn just_before(instant: Timestamp) -> Timestamp {
    instant.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Job, Misfire, Origin, Overrides, SkipReason, THRESHOLD_DEFAULT};
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
    fn each_policy_is_predicted_for_two_hours() {
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
    fn occurrences_younger_than_the_threshold_are_not_missed() {
        let mut minutely = record(Misfire::skip_to_next());
        minutely.job.schedule = Schedule::cron_utc("* * * * *").unwrap();
        minutely.cursor = Some(at("2026-03-01T12:11:00Z"));
        let now = at("2026-03-01T12:10:30Z");
        let found = outage(&minutely, Duration::from_mins(3), THRESHOLD_DEFAULT, now).unwrap();
        assert_eq!(nominals(&found), (owned(&["12:13"]), owned(&["12:11", "12:12"])));
        assert_eq!((found.missed, found.threshold.duration), (2, Duration::from_mins(1)));
    }

    #[test]
    fn what_an_operator_skips_stays_skipped_and_an_overdue_cursor_counts_from_now() {
        let mut record = record(Misfire::fire_all());
        record.cursor = Some(at("2026-02-01T00:00:00Z"));
        record.overrides.skips.insert(at("2026-03-01T13:00:00Z"));
        let now = at("2026-03-01T12:10:00Z");
        let outage = outage(&record, 2 * HOUR, THRESHOLD_DEFAULT, now).unwrap();
        assert_eq!(nominals(&outage).0, ["12:30", "13:30", "14:00"]);
        assert_eq!(outage.skipped[0].reason, SkipReason::Operator);
    }

    #[test]
    fn a_duration_out_of_range_is_refused() {
        let now = at("2026-03-01T12:10:00Z");
        for duration in [Duration::ZERO, OUTAGE_MAX + HOUR] {
            let error = outage(&record(Misfire::default()), duration, HOUR, now).unwrap_err();
            assert!(error.to_string().contains("at most 366 days"), "{error}");
        }
    }
}
