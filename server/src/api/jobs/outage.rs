//! What an outage would come to for one job, by its misfire policy.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::Error;
use punctual::model::JobRecord;
use punctual::policy::{MisfirePolicy, Outage};
use punctual::schedule::{format_duration, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::finding::find;
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
    let more = if outage.missed_more { "at least " } else { "" };
    let missed = match outage.missed {
        0 => return late(outage, down),
        1 => "1 occurrence would be missed".to_owned(),
        count => format!("{more}{count} occurrences would be missed"),
    };
    let made_up = outage.runs.iter().filter(|run| run.misfire.is_some());
    let first = made_up.clone().next().map(|run| run.nominal);
    let policy = record.job.misfire.policy_in_force();
    let then = match (policy, made_up.count(), first) {
        (_, 0, _) => "none of them would run".to_owned(),
        (MisfirePolicy::FireNow, _, Some(first)) => {
            format!("one run at once would stand for them, in the name of the oldest ({first})")
        }
        (MisfirePolicy::FireOnce, _, Some(first)) => {
            format!("one run at once would stand for them, in the name of the newest ({first})")
        }
        (_, count, _) => format!("{count} of them would run, oldest first"),
    };
    format!("after {down} without a scheduler {missed}; by {policy} {then}{}", afterwards(outage))
}

fn late(outage: &Outage, down: &str) -> String {
    let runs = match outage.runs.len() {
        0 => "nothing would be due",
        1 => "one occurrence would only be late, not missed, and would run",
        _ => "all occurrences would only be late, not missed, and would run",
    };
    format!("in {down} without a scheduler {runs}{}", afterwards(outage))
}

fn afterwards(outage: &Outage) -> String {
    outage.next.map(|next| format!("; the next one in time is {next}")).unwrap_or_default()
}
