//! What an outage would come to for one job, by its misfire policy.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::Error;
use punctual::model::JobRecord;
use punctual::policy::{MisfirePolicy, Outage, PlannedOccurrence, ThresholdOrigin};
use punctual::schedule::{format_duration, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::finding::find;
use crate::api::executions::milliseconds;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::problem::{Answer, Problem};
use crate::walk::walk;

/// How long nothing would run.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OutageQuery {
    /// A length such as `2h`, at most 366 days.
    down: String,
}

/// What an outage would come to.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct OutageView {
    /// When it would begin: now.
    down_from: Timestamp,
    /// When it would be over.
    down_to: Timestamp,
    /// How many occurrences would be missed.
    missed: u64,
    /// Whether there would be even more; counting has a bound.
    missed_more: bool,
    /// An occurrence later than this would be missed; that of the first occurrence, where they differ.
    threshold_ms: u64,
    /// Where it comes from: `given`, `default` or `next_occurrence`.
    threshold_from: &'static str,
    /// The occurrences that would run when it is over, oldest first.
    runs: Vec<OutageRunView>,
    /// Those that would not.
    skipped: Vec<OutageSkipView>,
    /// The first occurrence that would run in time again.
    next_at: Option<Timestamp>,
    /// All of it in a sentence.
    in_words: String,
}

/// An occurrence that would run.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutageRunView {
    /// Its instant on the schedule.
    nominal: Timestamp,
    /// Whether it would make up for what was missed, or merely be a little late.
    makes_up: bool,
}

/// An occurrence that would not run, or many of them in one.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutageSkipView {
    /// Its instant on the schedule; the newest where it stands for many.
    nominal: Timestamp,
    /// Why.
    reason: &'static str,
    /// How many it stands for.
    count: u64,
}

/// What would happen to a job's occurrences if nothing ran for so long from now on. Nothing is changed.
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
    // Its steps are bounded by the policy itself.
    let thought = walk(&app, move |_| {
        let outage = punctual::policy::outage(&record, down, threshold, now)?;
        let in_words = in_words(&record, &outage, &format_duration(down));
        Ok((outage, in_words))
    });
    let (outage, in_words) = thought.await?.map_err(|error: Error| refuse(error.to_string()))?;
    Ok(Json(OutageView {
        down_from: outage.from,
        down_to: outage.to,
        missed: outage.missed,
        missed_more: outage.missed_more,
        threshold_ms: milliseconds(outage.threshold.length),
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

fn in_words(record: &JobRecord, outage: &Outage, down: &str) -> String {
    if record.retired.is_some() {
        return "it fires no more, so an outage changes nothing".to_owned();
    }
    let made_up = outage.runs.iter().filter(|run| run.misfire.is_some());
    let late = outage.runs.len() - made_up.clone().count();
    let mut words = match outage.missed {
        0 if outage.runs.is_empty() && outage.skipped.is_empty() => {
            format!("in {down} without a scheduler nothing would be due")
        }
        0 => format!("after {down} without a scheduler no occurrence would be missed"),
        count => {
            let more = if outage.missed_more { "at least " } else { "" };
            let missed = plural(count, "occurrence");
            let then = made_up_in_words(record.job.misfire.policy_in_force(), made_up);
            let by = threshold_in_words(outage);
            format!("after {down} without a scheduler {more}{missed} would be missed, {by}; {then}")
        }
    };
    if late > 0 {
        let those = plural(late as u64, "occurrence");
        let _ = write!(words, "; {those} would only be late, not missed, and would run");
    }
    if let Some(next) = outage.next {
        let _ = write!(words, "; the next one in time is {next}");
    }
    words
}

/// What the policy would make of what was missed.
fn made_up_in_words<'a>(
    policy: MisfirePolicy,
    mut made_up: impl Iterator<Item = &'a PlannedOccurrence>,
) -> String {
    match (policy, made_up.next().map(|run| run.nominal)) {
        (_, None) => format!("by {policy} none of the missed ones would run"),
        (MisfirePolicy::FireNow, Some(first)) => format!(
            "by {policy} one run at once would stand for the missed ones, in the name of the oldest ({first})"
        ),
        (MisfirePolicy::FireOnce, Some(first)) => format!(
            "by {policy} one run at once would stand for the missed ones, in the name of the newest ({first})"
        ),
        (_, Some(_)) => {
            let count = 1 + made_up.count();
            format!("by {policy} {count} of the missed ones would run, oldest first")
        }
    }
}

/// What counts as missed, and why.
fn threshold_in_words(outage: &Outage) -> String {
    let length = format_duration(outage.threshold.length);
    match outage.threshold.origin {
        ThresholdOrigin::Given => format!("being later than the given threshold of {length}"),
        ThresholdOrigin::Default => format!("being later than the default threshold of {length}"),
        ThresholdOrigin::NextOccurrence => {
            format!("being later than {length}, the distance to the next one")
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

    /// A job of every minute in words, down for three minutes and forty seconds.
    fn words(misfire: Misfire) -> String {
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
        in_words(&record, &outage, &format_duration(down))
    }

    #[test]
    fn a_preview_tells_missed_and_late_ones_apart_and_names_the_threshold() {
        let down = "after 3m 40s without a scheduler";
        let next = "the next one in time is 2026-03-01T12:15:00Z";
        let late = "1 occurrence would only be late, not missed, and would run";
        let missed =
            "3 occurrences would be missed, being later than 1m, the distance to the next one";
        assert_eq!(
            words(Misfire::skip_to_next()),
            format!(
                "{down} {missed}; by skip_to_next none of the missed ones would run; {late}; {next}"
            )
        );
        let oldest = "in the name of the oldest (2026-03-01T12:11:00Z)";
        assert_eq!(
            words(Misfire::fire_now()),
            format!(
                "{down} {missed}; by fire_now one run at once would stand for the missed ones, {oldest}; {late}; {next}"
            )
        );
        let given = words(Misfire::fire_all().threshold(Duration::from_secs(5)));
        assert!(
            given.contains(
                "4 occurrences would be missed, being later than the given threshold of 5s"
            )
        );
        assert!(given.contains("by fire_all 4 of the missed ones would run, oldest first"));
        let patient = words(Misfire::skip_to_next().threshold(Duration::from_mins(5)));
        assert_eq!(
            patient,
            format!(
                "{down} no occurrence would be missed; 4 occurrences would only be late, not missed, and would run; {next}"
            )
        );
    }
}
