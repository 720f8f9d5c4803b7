//! Outage preview: what the misfire policy of a job would do after an outage.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::Error;
use punctual::model::{JobRecord, MisfirePolicy, ThresholdOrigin};
use punctual::policy::{Outage, PlannedOccurrence};
use punctual::schedule::{format_duration, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lookup::find;
use crate::api::executions::milliseconds;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::problem::{Answer, Problem};
use crate::walk::walk;

/// Duration of the outage.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OutageQuery {
    /// Duration such as `2h`, at most 366 days.
    down: String,
}

/// Effect of an outage on a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OutageView {
    /// Start of the outage: now.
    down_from: Timestamp,
    /// End of the outage.
    down_to: Timestamp,
    /// Number of missed occurrences.
    missed: u64,
    /// Whether there would be more; the count has a limit.
    missed_more: bool,
    /// Misfire threshold in milliseconds: an occurrence later than this is missed. Where the threshold differs, the one
    /// of the first occurrence.
    threshold_ms: u64,
    /// Origin of the threshold: `given`, `default` or `next_occurrence`.
    threshold_from: &'static str,
    /// Occurrences that would run after the outage, oldest first.
    runs: Vec<OutageRunView>,
    /// Occurrences that would be skipped.
    skipped: Vec<OutageSkipView>,
    /// First occurrence that would run on time.
    next_at: Option<Timestamp>,
    /// Summary in one sentence.
    in_words: String,
}

/// An occurrence that would run.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutageRunView {
    /// Nominal time of the occurrence.
    nominal: Timestamp,
    /// Whether the run covers missed occurrences; otherwise it is only late.
    makes_up: bool,
}

/// An occurrence that would be skipped, or a range of them.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutageSkipView {
    /// Nominal time of the occurrence, the newest one of a range.
    nominal: Timestamp,
    /// Reason of the skip.
    reason: &'static str,
    /// Number of occurrences in the range.
    count: u64,
}

/// Previews what happens to the occurrences of a job when no scheduler runs for a while from now on. Changes nothing.
#[utoipa::path(get, operation_id = "preview_misfire", path = "/jobs/{name}/misfire-preview", tag = "jobs",
    params(("name" = String, Path), OutageQuery),
    responses((status = 200, body = OutageView), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<OutageQuery>,
) -> Answer<Json<OutageView>> {
    caller.must_be(Role::Viewer)?;
    let record = find(&app, &name).await?.record;
    let refuse = |text: String| Problem::refused(format!("down: {text}")).field("down", text);
    let down = parse_duration(&query.down).map_err(|error| refuse(error.to_string()))?;
    let threshold = app.punctual.admin().misfire_threshold();
    let now = app.clock.now();
    // The policy bounds the number of steps.
    let preview = walk(&app, move |_| {
        let outage = punctual::policy::outage(&record, down, threshold, now)?;
        let in_words = describe(&record, &outage, &format_duration(down));
        Ok((outage, in_words))
    });
    let (outage, in_words) = preview.await?.map_err(|error: Error| refuse(error.to_string()))?;
    Ok(Json(OutageView {
        down_from: outage.from,
        down_to: outage.to,
        missed: outage.missed,
        missed_more: outage.missed_more,
        threshold_ms: milliseconds(outage.threshold.duration),
        threshold_from: outage.threshold.origin.as_str(),
        runs: outage
            .runs
            .iter()
            .map(|run| OutageRunView { nominal: run.nominal, makes_up: run.misfire.is_some() })
            .collect(),
        skipped: outage
            .skipped
            .iter()
            .map(|skip| OutageSkipView {
                nominal: skip.nominal,
                reason: skip.reason.as_str(),
                count: skip.count,
            })
            .collect(),
        next_at: outage.next,
        in_words,
    }))
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

    use punctual::Job;
    use punctual::Misfire;
    use punctual::schedule::Schedule;

    use super::*;

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
            overrides: punctual::model::Overrides::default(),
            job,
            origin: punctual::model::Origin::Runtime,
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
        let outage = punctual::policy::outage(&record, down, Duration::from_mins(1), now).unwrap();
        describe(&record, &outage, &format_duration(down))
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
