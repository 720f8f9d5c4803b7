//! Job queries: list jobs, get a job, list its executions.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::inspect::ExecutionFilter;
use punctual::model::{Ending, Execution, JobName};
use punctual::status::JobStatus;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::etag;
use super::lookup::find;
use super::view::{JobPhaseView, JobView};
use crate::api::executions::ExecutionView;
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::{Listing, PageQuery};
use crate::problem::{ApiResult, Problem};
use crate::statuses::statuses;

/// Number of latest runs in the view of a job.
const RECENT_MAX: usize = 30;
/// Largest number of jobs in one query of the storage.
const JOBS_PER_QUERY: usize = 100;

/// Filter and order of jobs.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobsQuery {
    /// Page size, 1 to 1000. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Cursor: `next` of the previous page.
    after: Option<String>,
    /// Only jobs in this phase.
    #[param(inline)]
    phase: Option<JobPhaseView>,
    /// Only jobs with this tag.
    tag: Option<String>,
    /// Only jobs of this application or file.
    app: Option<String>,
    /// Only jobs whose name, topic, description or tags contain this text, ignoring case.
    search: Option<String>,
    /// Order: by `name` (the default), by the `next` run, or by the `last` run.
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
    /// By next run, earliest first.
    Next,
    /// By last run, latest first.
    Last,
}

/// Lists all jobs, including jobs that never ran.
#[utoipa::path(get, operation_id = "list_jobs", path = "/jobs", tag = "jobs", params(JobsQuery),
    responses((status = 200, body = Listing<JobView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<JobsQuery>,
) -> ApiResult<Json<Listing<JobView>>> {
    caller.must_be(Role::Viewer)?;
    let page = PageQuery { limit: query.limit, after: query.after.clone() };
    let limit = page.limit()?;
    let status = statuses(&app).await?;
    let mut jobs: Vec<&JobStatus> = status.jobs.iter().filter(|job| query.matches(job)).collect();
    let sort = query.sort.unwrap_or_default();
    match sort {
        JobSort::Name => {}
        JobSort::Next => jobs.sort_by_key(|job| (job.next_at.is_none(), job.next_at)),
        JobSort::Last => {
            jobs.sort_by_key(|job| std::cmp::Reverse(job.last.as_ref().map(|last| last.ended_at)));
        }
    }
    let start = page_start(&jobs, sort, query.after.as_deref())?;
    let rest = jobs.len().saturating_sub(start);
    let page: Vec<JobStatus> = jobs.into_iter().skip(start).take(limit).cloned().collect();
    let next = page.last().filter(|_| rest > limit).map(|job| job.name.to_string());
    let names: Vec<JobName> = page.iter().map(|job| job.name.clone()).collect();
    let mut runs = runs_of(&app, &names).await?;
    let items = page.into_iter().map(|job| {
        let recent = runs.remove(&job.name).unwrap_or_default();
        job_view(&app, job, &recent)
    });
    let items = items.collect();
    Ok(Json(Listing { items, next }))
}

impl JobsQuery {
    fn matches(&self, job: &JobStatus) -> bool {
        let same = |expected: &Option<String>, value: &str| {
            expected.as_deref().is_none_or(|expected| expected == value)
        };
        let tagged =
            |expected: &String| job.tags.iter().any(|tag| tag.eq_ignore_ascii_case(expected));
        self.phase.is_none_or(|phase| phase == job.phase.into())
            && same(&self.app, &job.app)
            && self.tag.as_ref().is_none_or(tagged)
            && self.search.as_ref().is_none_or(|text| contains_text(job, text))
    }
}

fn contains_text(job: &JobStatus, text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let has = |value: &str| value.to_lowercase().contains(&text);
    has(job.name.as_str())
        || has(job.record.job.topic.as_str())
        || job.description.as_deref().is_some_and(has)
        || job.tags.iter().any(|tag| has(tag))
}

/// Returns the index of the first job behind a name.
fn page_start(jobs: &[&JobStatus], sort: JobSort, after: Option<&str>) -> ApiResult<usize> {
    let Some(after) = after else { return Ok(0) };
    if sort == JobSort::Name {
        return Ok(jobs.partition_point(|job| job.name.as_str() <= after));
    }
    let place = jobs.iter().position(|job| job.name.as_str() == after);
    place.map(|place| place + 1).ok_or_else(|| {
        Problem::refused(format!(
            "{after:?} is not the `next` of a previous page, or no longer exists"
        ))
        .field("after", "give the `next` of the previous page, or leave it out to start over")
    })
}

/// Returns a job.
#[utoipa::path(get, operation_id = "get_job", path = "/jobs/{name}", tag = "jobs", params(("name" = String, Path)),
    responses((status = 200, body = JobView), (status = 404, body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Viewer)?;
    job_response(&app, &name).await
}

/// Returns the current view of a job with its ETag.
pub(super) async fn job_response(app: &App, name: &str) -> ApiResult<(HeaderMap, Json<JobView>)> {
    let status = find(app, name).await?;
    let headers = etag::header(&status.record);
    let recent = app.inspect.latest_runs(std::slice::from_ref(&status.name), RECENT_MAX).await?;
    Ok((headers, Json(job_view(app, status, &recent))))
}

fn job_view(app: &App, status: JobStatus, recent: &[Execution]) -> JobView {
    let view = JobView::new(status, recent, app.admin().misfire_threshold());
    view.redacted(app.redaction())
}

/// Returns the latest runs of jobs, newest first.
async fn runs_of(app: &App, names: &[JobName]) -> ApiResult<BTreeMap<JobName, Vec<Execution>>> {
    let mut runs: BTreeMap<JobName, Vec<Execution>> = BTreeMap::new();
    for chunk in names.chunks(JOBS_PER_QUERY) {
        for run in app.inspect.latest_runs(chunk, RECENT_MAX).await? {
            if let Some(job) = run.job.clone() {
                runs.entry(job).or_default().push(run);
            }
        }
    }
    Ok(runs)
}

/// Filter of the executions of a job.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExecutionsQuery {
    /// Page size, 1 to 1000. Default: 20.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Cursor: `next` of the previous page.
    after: Option<String>,
    /// Only these endings, separated by commas.
    ending: Option<String>,
}

/// Lists the executions of a job, newest first, including skipped occurrences.
#[utoipa::path(get, operation_id = "list_job_executions", path = "/jobs/{name}/executions", tag = "jobs",
    params(("name" = String, Path), ExecutionsQuery),
    responses((status = 200, body = Listing<ExecutionView>), (status = 404, body = Problem)))]
pub(super) async fn executions(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<ExecutionsQuery>,
) -> ApiResult<Json<Listing<ExecutionView>>> {
    caller.must_be(Role::Viewer)?;
    let page = PageQuery::of_executions(query.limit, query.after).page()?;
    let endings = query.ending.as_deref().map(endings).transpose()?.unwrap_or_default();
    let job = Some(find(&app, &name).await?.name);
    let filter = ExecutionFilter { job, endings, ..ExecutionFilter::default() };
    let paged = app.inspect.executions(filter, page).await?;
    Ok(Json(Listing::of(paged, |execution| ExecutionView::new(&execution))))
}

/// Parses names of endings separated by commas.
fn endings(text: &str) -> ApiResult<Vec<&'static str>> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(ending).collect()
}

fn ending(name: &str) -> ApiResult<&'static str> {
    Ending::NAMES.into_iter().find(|known| *known == name).ok_or_else(|| {
        let known = Ending::NAMES.join(", ");
        Problem::refused(format!("{name:?} is not an ending; use one of {known}"))
            .field("ending", format!("use one of {known}"))
    })
}
