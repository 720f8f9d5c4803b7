//! Executions: the history of attempts.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::inspect::{ExecutionFilter, PAGE_LIMIT_MAX, PageRequest, PageResult};
use punctual::model::{Ending, Execution, ExecutionId, JobName, MessageId, Topic};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::messages::{
    ID_TIME_TOLERANCE, PAGE_TIMEOUT, SCANNED_MAX, checked, comma_separated, execution_of, instant,
};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::PageQuery;
use crate::problem::{ApiResult, Problem};

/// Largest number of pages one request reads; a page of the storage may have no matching row.
const PAGES_MAX: usize = 50;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get))
}

/// A finished attempt, or a skipped occurrence.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionView {
    /// Id of the execution.
    id: String,
    /// Id of the message; null for a skipped occurrence.
    message: Option<String>,
    /// Topic of the message.
    topic: String,
    /// Queue of the message.
    queue: String,
    /// Key of the message.
    key: Option<String>,
    /// Name of the job; null when the message is not a run of a job.
    job: Option<String>,
    /// Nominal time on the schedule; null when the message is not a run of a job.
    nominal: Option<Timestamp>,
    /// Origin of the message: `scheduled`, `manual`, `deferred`, `published` or `redriven`.
    source: &'static str,
    /// Number of the attempt, from 1; 0 for a skipped occurrence.
    attempt: u32,
    /// Largest number of attempts; null without a limit.
    attempts_max: Option<u32>,
    /// Id of the process that ran the attempt.
    process: Option<String>,
    /// Due time of the message.
    due_at: Timestamp,
    /// Start of the attempt.
    started_at: Timestamp,
    /// End of the attempt.
    ended_at: Timestamp,
    /// Duration of the attempt in milliseconds.
    took_ms: u64,
    /// Time between the due time and the start in milliseconds.
    waited_ms: u64,
    /// How the attempt ended, such as `succeeded` or `failed`.
    ending: &'static str,
    /// Why the occurrence was skipped.
    reason: Option<&'static str>,
    /// Error or note of the attempt.
    note: Option<String>,
    /// Lines that the handler logged.
    log: Option<String>,
}

impl ExecutionView {
    /// Returns the view of a stored execution.
    pub(crate) fn new(execution: &Execution) -> Self {
        let waited = between(execution.due_at, execution.started_at);
        Self {
            id: execution.id.to_string(),
            message: execution.message.map(|id| id.to_string()),
            topic: execution.topic.to_string(),
            queue: execution.queue.to_string(),
            key: execution.key.as_ref().map(ToString::to_string),
            job: execution.job.as_ref().map(ToString::to_string),
            nominal: execution.nominal,
            source: execution.source.as_str(),
            attempt: execution.attempt,
            attempts_max: execution.attempts_max,
            process: execution.process.map(|id| id.to_string()),
            due_at: execution.due_at,
            started_at: execution.started_at,
            ended_at: execution.ended_at,
            took_ms: milliseconds(execution.took()),
            waited_ms: milliseconds(waited),
            ending: execution.ending.as_str(),
            reason: match execution.ending {
                Ending::Skipped(reason) => Some(reason.as_str()),
                _ => None,
            },
            note: execution.note.as_ref().map(ToString::to_string),
            log: execution.log.as_ref().map(ToString::to_string),
        }
    }
}

/// Returns a duration in milliseconds, the unit of the API.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A page of executions.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ExecutionList {
    /// The executions, newest first.
    items: Vec<ExecutionView>,
    /// Cursor of the next page, passed as `after`; null on the last page.
    next: Option<String>,
    /// Whether the search stopped before the page was full; continue it with `next`.
    more: bool,
}

/// Filter of executions.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ExecutionQuery {
    /// Only executions of this job.
    job: Option<String>,
    /// Only executions of this topic.
    topic: Option<String>,
    /// Only executions of this message.
    message: Option<String>,
    /// Only these endings, separated by commas.
    #[serde(deserialize_with = "comma_separated")]
    #[param(value_type = Option<String>)]
    ending: Vec<String>,
    /// Only executions that ended at or after this time.
    since: Option<String>,
    /// Only executions that ended before this time.
    until: Option<String>,
    /// Page size, 1 to 1000. Default: 20.
    limit: Option<usize>,
    /// Cursor: `next` of the previous page.
    after: Option<String>,
}

impl ExecutionQuery {
    fn filter(&self) -> ApiResult<ExecutionFilter> {
        let ending = |word: &String| {
            Ending::NAMES.into_iter().find(|name| name == word).ok_or_else(|| {
                let problem = format!("{word:?} is not one of {}", Ending::NAMES.join(", "));
                Problem::refused(format!("the ending {problem}")).field("ending", problem)
            })
        };
        Ok(ExecutionFilter {
            message: checked("message", self.message.as_ref(), MessageId::from_str)?,
            job: checked("job", self.job.as_ref(), |text| JobName::new(text))?,
            topic: checked("topic", self.topic.as_ref(), |text| Topic::stored(text))?,
            endings: self.ending.iter().map(ending).collect::<ApiResult<_>>()?,
        })
    }
}

/// Lists executions, newest first.
#[utoipa::path(get, path = "/executions", tag = "messages", params(ExecutionQuery),
    responses((status = 200, body = ExecutionList), (status = 422, body = Problem)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ExecutionQuery>,
) -> ApiResult<Json<ExecutionList>> {
    caller.must_be(Role::Viewer)?;
    let filter = query.filter()?;
    let since = instant("since", query.since.as_ref())?;
    let until = instant("until", query.until.as_ref())?;
    let mut page: PageRequest<ExecutionId> =
        PageQuery::of_executions(query.limit, query.after.clone()).page()?;
    // An id holds the start of its attempt, and no attempt ends before its start.
    if let Some(until) = until.map(|until| first_id(add(until, ID_TIME_TOLERANCE))) {
        page.after = Some(page.after.map_or(until, |after| after.min(until)));
    }
    let matches = |execution: &Execution| {
        since.is_none_or(|since| execution.ended_at >= since)
            && until.is_none_or(|until| execution.ended_at < until)
    };
    let paged = search(&app, &filter, page, matches).await?;
    Ok(Json(ExecutionList {
        more: paged.next.is_some() && paged.rows.len() < page.limit,
        next: paged.next.map(|id| id.to_string()),
        items: paged.rows.iter().map(ExecutionView::new).collect(),
    }))
}

/// Searches a page of executions over a bounded number of rows.
pub(crate) async fn search(
    app: &App,
    filter: &ExecutionFilter,
    page: PageRequest<ExecutionId>,
    matches: impl Fn(&Execution) -> bool,
) -> punctual::Result<PageResult<Execution, ExecutionId>> {
    let (mut rows, mut next, mut scanned) = (Vec::new(), page.after, 0);
    let (started_at, mut pages) = (app.clock.now(), 0);
    let mut size = page.bounded();
    while scanned < SCANNED_MAX && pages < PAGES_MAX {
        pages += 1;
        let paged = app
            .inspect
            .executions(filter.clone(), PageRequest { after: next, limit: size })
            .await?;
        for execution in paged.rows {
            if rows.len() == page.limit {
                return Ok(PageResult { rows, next });
            }
            scanned += 1;
            next = Some(execution.id);
            if matches(&execution) {
                rows.push(execution);
            }
        }
        match paged.next {
            None => return Ok(PageResult { rows, next: None }),
            Some(_) if rows.len() == page.limit => break,
            Some(last) => (next, size) = (Some(last), PAGE_LIMIT_MAX),
        }
        if between(started_at, app.clock.now()) > PAGE_TIMEOUT {
            break;
        }
    }
    Ok(PageResult { rows, next })
}

/// Returns the smallest id of a time.
fn first_id(at: Timestamp) -> ExecutionId {
    let millisecond = u64::try_from(at.as_millisecond()).unwrap_or(0);
    ExecutionId::from_uuid(Uuid::from_u64_pair(millisecond << 16, 0))
}

/// Returns an execution.
#[utoipa::path(get, path = "/executions/{id}", tag = "messages", params(("id" = String, Path)),
    responses((status = 200, body = ExecutionView), (status = 404, body = Problem)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<ExecutionView>> {
    caller.must_be(Role::Viewer)?;
    let id: ExecutionId =
        id.parse().map_err(|error: punctual::Error| Problem::malformed(error.to_string()))?;
    let execution = execution_of(&app, id).await?.ok_or_else(|| {
        Problem::not_found(format!("there is no execution {id}; it may have been pruned"))
    })?;
    Ok(Json(ExecutionView::new(&execution)))
}
