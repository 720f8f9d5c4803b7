//! Outage preview: what the misfire policy of a job would do after an outage, with a summary in words. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::Result;
use crate::model::{JobRecord, MisfirePolicy, ThresholdOrigin};
use crate::policy::{Outage, PlannedOccurrence, outage};
use crate::schedule::format_duration;

/// Preview of an outage.
#[derive(Clone, Debug, PartialEq)]
pub struct OutagePreview {
    /// Its effects on the occurrences of the job.
    pub outage: Outage,
    /// Summary in one sentence.
    pub in_words: String,
}

/// Previews what would happen to a job if no scheduler ran for a while from now on.
pub(crate) fn outage_preview(
    record: &JobRecord,
    down: Duration,
    threshold_default: Duration,
    now: Timestamp,
) -> Result<OutagePreview> {
    let outage = outage(record, down, threshold_default, now)?;
    let in_words = describe(record, &outage, &format_duration(down));
    Ok(OutagePreview { outage, in_words })
}

fn describe(record: &JobRecord, outage: &Outage, down: &str) -> String {
    if record.retired.is_some() {
        return "the job is retired, so an outage changes nothing".to_owned();
    }
    let covering = outage.runs.iter().filter(|run| run.misfire.is_some());
    let late = outage.runs.len() - covering.clone().count();
    let mut words = match outage.missed {
        0 if outage.runs.is_empty() && outage.skipped.is_empty() => {
            format!("no occurrence would be due in {down} without a scheduler")
        }
        0 => format!("after {down} without a scheduler no occurrence would be missed"),
        count => {
            let more = if outage.missed_more { "at least " } else { "" };
            let missed = plural(count, "occurrence");
            let then = describe_missed_runs(record.job.misfire.policy_in_force(), covering);
            let by = describe_threshold(outage);
            format!("after {down} without a scheduler {more}{missed} would be missed, {by}; {then}")
        }
    };
    if late > 0 {
        let those = plural(late as u64, "occurrence");
        let _ = write!(words, "; {those} would only be late, not missed, and would run");
    }
    if let Some(next) = outage.next {
        let _ = write!(words, "; the next one on time is {next}");
    }
    words
}

/// Describes what the policy would do with the missed occurrences.
fn describe_missed_runs<'a>(
    policy: MisfirePolicy,
    mut runs: impl Iterator<Item = &'a PlannedOccurrence>,
) -> String {
    match (policy, runs.next().map(|run| run.nominal)) {
        (_, None) => format!("with {policy} none of the missed ones would run"),
        (MisfirePolicy::FireNow, Some(first)) => format!(
            "with {policy} one run would start at once for the missed ones, with the nominal time of the oldest ({first})"
        ),
        (MisfirePolicy::FireOnce, Some(first)) => format!(
            "with {policy} one run would start at once for the missed ones, with the nominal time of the newest ({first})"
        ),
        (_, Some(_)) => {
            let count = 1 + runs.count();
            format!("with {policy} {count} of the missed ones would run, oldest first")
        }
    }
}

/// Describes the misfire threshold and its origin.
fn describe_threshold(outage: &Outage) -> String {
    let duration = format_duration(outage.threshold.duration);
    match outage.threshold.origin {
        ThresholdOrigin::Given => format!("being later than the given threshold of {duration}"),
        ThresholdOrigin::Default => format!("being later than the default threshold of {duration}"),
        ThresholdOrigin::NextOccurrence => {
            format!("being later than {duration}, the distance to the next one")
        }
    }
}

fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{Job, Misfire, Origin, Overrides};
    use crate::schedule::Schedule;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Describes an outage of three minutes and forty seconds of a job that runs every minute.
    fn described(misfire: Misfire) -> String {
        let schedule = Schedule::cron_utc("* * * * *").unwrap();
        let job = Job { misfire, ..Job::new("report", schedule).unwrap() };
        let record = JobRecord {
            declared: job.clone(),
            configured: None,
            overrides: Overrides::default(),
            job,
            origin: Origin::Runtime,
            app: "shop".to_owned(),
            release: 0,
            cursor: Some(at("2026-03-01T12:11:00Z")),
            last_nominal: None,
            runs: 0,
            paused: None,
            retired: None,
            created_at: at("2026-01-01T00:00:00Z"),
            updated_at: at("2026-01-01T00:00:00Z"),
            version: 1,
        };
        let (down, now) = (Duration::from_secs(220), at("2026-03-01T12:10:30Z"));
        outage_preview(&record, down, Duration::from_mins(1), now).unwrap().in_words
    }

    #[test]
    fn a_preview_distinguishes_missed_from_late_and_names_the_threshold() {
        let down = "after 3m 40s without a scheduler";
        let next = "the next one on time is 2026-03-01T12:15:00Z";
        let late = "1 occurrence would only be late, not missed, and would run";
        let missed =
            "3 occurrences would be missed, being later than 1m, the distance to the next one";
        assert_eq!(
            described(Misfire::skip_to_next()),
            format!(
                "{down} {missed}; with skip_to_next none of the missed ones would run; {late}; {next}"
            )
        );
        let oldest = "with the nominal time of the oldest (2026-03-01T12:11:00Z)";
        assert_eq!(
            described(Misfire::fire_now()),
            format!(
                "{down} {missed}; with fire_now one run would start at once for the missed ones, {oldest}; {late}; {next}"
            )
        );
        let given = described(Misfire::fire_all().threshold(Duration::from_secs(5)));
        assert!(
            given.contains(
                "4 occurrences would be missed, being later than the given threshold of 5s"
            )
        );
        assert!(given.contains("with fire_all 4 of the missed ones would run, oldest first"));
        let tolerant = described(Misfire::skip_to_next().threshold(Duration::from_mins(5)));
        assert_eq!(
            tolerant,
            format!(
                "{down} no occurrence would be missed; 4 occurrences would only be late, not missed, and would run; {next}"
            )
        );
    }
}
