//! The list of jobs, one of them, and what it has done.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::inspect::ExecutionFilter;
use punctual::model::{Ending, Execution, JobName};
use punctual::status::JobStatus;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::finding::find;
use super::tag;
use super::view::{JobPhaseView, JobView};
use crate::api::executions::ExecutionView;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::{Listing, PageQuery};
use crate::problem::{Answer, Problem};
use crate::statuses::statuses;

/// How many of its latest runs a job shows.
const RECENT_MAX: usize = 30;
/// How many jobs are asked about at once.
const TOGETHER_MAX: usize = 100;

/// Which jobs, and in which order.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobsQuery {
    /// At most so many rows: 1 to 1000, 50 when not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
    /// Only in this phase.
    #[param(inline)]
    phase: Option<JobPhaseView>,
    /// Only with this tag.
    tag: Option<String>,
    /// Only of this application or file.
    app: Option<String>,
    /// Only those whose name, topic, description or tags hold this text, in any case.
    search: Option<String>,
    /// By `name` (the default), by the `next` run, or by the `last` one.
    #[param(inline)]
    sort: Option<JobSort>,
}

/// The order of a list of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum JobSort {
    /// By name.
    #[default]
    Name,
    /// Whose next run comes first.
    Next,
    /// Who ran last.
    Last,
}

/// Every job, complete also before anything ran. 503 while the storage does not answer.
#[utoipa::path(get, operation_id = "list_jobs", path = "/jobs", tag = "jobs", params(JobsQuery),
    responses((status = 200, body = Listing<JobView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<JobsQuery>,
) -> Answer<Json<Listing<JobView>>> {
    caller.must_be(Role::Viewer)?;
    let page = PageQuery { limit: query.limit, after: query.after.clone() };
    let limit = page.limit()?;
    let status = statuses(&app).await?;
    let mut jobs: Vec<&JobStatus> = status.jobs.iter().filter(|job| query.wants(job)).collect();
    let sort = query.sort.unwrap_or_default();
    match sort {
        JobSort::Name => {}
        JobSort::Next => jobs.sort_by_key(|job| (job.next_at.is_none(), job.next_at)),
        JobSort::Last => {
            jobs.sort_by_key(|job| std::cmp::Reverse(job.last.as_ref().map(|last| last.ended_at)));
        }
    }
    let start = begin(&jobs, sort, query.after.as_deref())?;
    let rest = jobs.len().saturating_sub(start);
    let page: Vec<JobStatus> = jobs.into_iter().skip(start).take(limit).cloned().collect();
    let next = page.last().filter(|_| rest > limit).map(|job| job.name.to_string());
    let names: Vec<JobName> = page.iter().map(|job| job.name.clone()).collect();
    let mut runs = runs_of(&app, &names).await?;
    let items = page.into_iter().map(|job| {
        let recent = runs.remove(&job.name).unwrap_or_default();
        viewed(&app, job, &recent)
    });
    let items = items.collect();
    Ok(Json(Listing { items, next }))
}

impl JobsQuery {
    fn wants(&self, job: &JobStatus) -> bool {
        let same = |wanted: &Option<String>, value: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == value)
        };
        let tagged =
            |wanted: &String| job.tags.iter().any(|tag| tag.eq_ignore_ascii_case(wanted.as_str()));
        self.phase.is_none_or(|phase| phase == job.phase.into())
            && same(&self.app, &job.app)
            && self.tag.as_ref().is_none_or(tagged)
            && self.search.as_ref().is_none_or(|text| holds(job, text))
    }
}

fn holds(job: &JobStatus, text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let has = |value: &str| value.to_lowercase().contains(&text);
    has(job.name.as_str())
        || has(job.record.job.topic.as_str())
        || job.description.as_deref().is_some_and(has)
        || job.tags.iter().any(|tag| has(tag))
}

/// Where the page behind a name begins.
fn begin(jobs: &[&JobStatus], sort: JobSort, after: Option<&str>) -> Answer<usize> {
    let Some(after) = after else { return Ok(0) };
    if sort == JobSort::Name {
        return Ok(jobs.partition_point(|job| job.name.as_str() <= after));
    }
    let place = jobs.iter().position(|job| job.name.as_str() == after);
    place.map(|place| place + 1).ok_or_else(|| {
        Problem::refused(format!("{after:?} is not the `next` of a page before, or is gone"))
            .field("after", "give the `next` of the page before, or begin anew without it")
    })
}

/// One job.
#[utoipa::path(get, operation_id = "get_job", path = "/jobs/{name}", tag = "jobs", params(("name" = String, Path)),
    responses((status = 200, body = JobView), (status = 404, body = Problem)))]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Viewer)?;
    answer(&app, &name).await
}

/// A job as it is now, with the tag of its definition.
pub(super) async fn answer(app: &App, name: &str) -> Answer<(HeaderMap, Json<JobView>)> {
    let status = find(app, name).await?;
    let headers = tag::header(&status.record);
    let recent = app.inspect.latest_runs(std::slice::from_ref(&status.name), RECENT_MAX).await?;
    Ok((headers, Json(viewed(app, status, &recent))))
}

fn viewed(app: &App, status: JobStatus, recent: &[Execution]) -> JobView {
    let view = JobView::new(status, recent, app.punctual.admin().misfire_threshold());
    view.redacted(app.redaction())
}

/// The latest runs of some jobs, newest first.
async fn runs_of(app: &App, names: &[JobName]) -> Answer<BTreeMap<JobName, Vec<Execution>>> {
    let mut runs: BTreeMap<JobName, Vec<Execution>> = BTreeMap::new();
    for some in names.chunks(TOGETHER_MAX) {
        for run in app.inspect.latest_runs(some, RECENT_MAX).await? {
            if let Some(job) = run.job.clone() {
                runs.entry(job).or_default().push(run);
            }
        }
    }
    Ok(runs)
}

/// Which executions of a job.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecutionsQuery {
    /// At most so many rows: 1 to 1000, 20 when not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
    /// Only those that ended so, several with commas between.
    ending: Option<String>,
}

/// What a job has done, newest first; skipped occurrences are part of it.
#[utoipa::path(get, operation_id = "list_job_executions", path = "/jobs/{name}/executions", tag = "jobs",
    params(("name" = String, Path), ExecutionsQuery),
    responses((status = 200, body = Listing<ExecutionView>), (status = 404, body = Problem)))]
pub(super) async fn executions(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<ExecutionsQuery>,
) -> Answer<Json<Listing<ExecutionView>>> {
    caller.must_be(Role::Viewer)?;
    let page = PageQuery::of_executions(query.limit, query.after).page()?;
    let endings = query.ending.as_deref().map(ending).transpose()?.unwrap_or_default();
    let job = Some(find(&app, &name).await?.name);
    let filter = ExecutionFilter { job, endings, ..ExecutionFilter::default() };
    let paged = app.inspect.executions(filter, page).await?;
    Ok(Json(Listing::of(paged, |execution| ExecutionView::new(&execution))))
}

/// Endings by name, with commas between.
fn ending(text: &str) -> Answer<Vec<&'static str>> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(one).collect()
}

fn one(name: &str) -> Answer<&'static str> {
    Ending::NAMES.into_iter().find(|known| *known == name).ok_or_else(|| {
        let known = Ending::NAMES.join(", ");
        Problem::refused(format!("nothing ends as {name:?}; use some of {known}"))
            .field("ending", format!("use some of {known}"))
    })
}
