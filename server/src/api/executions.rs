//! Executions: what happened, attempt by attempt.

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

use super::messages::{LOOKED_AT_MAX, NEAR, TIMEOUT, checked, execution_of, instant, words};
use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Path, Query};
use crate::page::PageQuery;
use crate::problem::{Answer, Problem};

/// The most pages one request looks at; a storage may find nothing on some.
const PAGES_MAX: usize = 50;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one))
}

/// One attempt that ended, or one occurrence that was not run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionView {
    /// Its id.
    id: String,
    /// The message that was attempted; null for a skipped occurrence.
    message: Option<String>,
    /// The topic.
    topic: String,
    /// The line the message waited in.
    queue: String,
    /// What the message was about.
    key: Option<String>,
    /// The job, when there is one.
    job: Option<String>,
    /// The instant of the schedule, when there is one.
    nominal: Option<Timestamp>,
    /// Why the message existed.
    source: &'static str,
    /// Which attempt this was, from 1; 0 for a skipped occurrence.
    attempt: u32,
    /// How many there may be; null without a limit.
    attempts_max: Option<u32>,
    /// The process that ran it.
    process: Option<String>,
    /// When the message was due.
    due_at: Timestamp,
    /// When the attempt began.
    started_at: Timestamp,
    /// When it ended.
    ended_at: Timestamp,
    /// How long it took.
    took_ms: u64,
    /// How long the message waited after it was due.
    waited_ms: u64,
    /// How it ended.
    ending: &'static str,
    /// Why it was skipped.
    reason: Option<&'static str>,
    /// The error or note.
    note: Option<String>,
    /// The lines its handler logged.
    log: Option<String>,
}

impl ExecutionView {
    /// An execution as a storage remembers it.
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

/// A length as the API shows it.
pub(crate) fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Executions, and where the next page begins.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ExecutionList {
    /// The executions, newest first.
    items: Vec<ExecutionView>,
    /// Give this as `after` for the next page; null when this was the last.
    next: Option<String>,
    /// Whether looking stopped before the page was full; `next` goes on from there.
    more: bool,
}

/// Which executions.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ExecutionQuery {
    /// Only of this job.
    job: Option<String>,
    /// Only of this topic.
    topic: Option<String>,
    /// Only of this message.
    message: Option<String>,
    /// Only these endings, with commas between them.
    #[serde(deserialize_with = "words")]
    #[param(value_type = Option<String>)]
    ending: Vec<String>,
    /// Only those that ended at this instant or later.
    since: Option<String>,
    /// Only those that ended before this instant.
    until: Option<String>,
    /// At most so many rows: 1 to 1000, 20 when not given.
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

impl ExecutionQuery {
    fn filter(&self) -> Answer<ExecutionFilter> {
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
            endings: self.ending.iter().map(ending).collect::<Answer<_>>()?,
        })
    }
}

/// Executions that match, newest first.
#[utoipa::path(get, path = "/executions", tag = "messages", params(ExecutionQuery),
    responses((status = 200, body = ExecutionList), (status = 422, body = Problem)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ExecutionQuery>,
) -> Answer<Json<ExecutionList>> {
    caller.must_be(Role::Viewer)?;
    let filter = query.filter()?;
    let since = instant("since", query.since.as_ref())?;
    let until = instant("until", query.until.as_ref())?;
    let mut page: PageRequest<ExecutionId> =
        PageQuery::of_executions(query.limit, query.after.clone()).page()?;
    // An id tells when an attempt began, and none ends before that.
    if let Some(until) = until.map(|until| first_id(add(until, NEAR))) {
        page.after = Some(page.after.map_or(until, |after| after.min(until)));
    }
    let takes = |execution: &Execution| {
        since.is_none_or(|since| execution.ended_at >= since)
            && until.is_none_or(|until| execution.ended_at < until)
    };
    let paged = look(&app, &filter, page, takes).await?;
    Ok(Json(ExecutionList {
        more: paged.next.is_some() && paged.rows.len() < page.limit,
        next: paged.next.map(|id| id.to_string()),
        items: paged.rows.iter().map(ExecutionView::new).collect(),
    }))
}

/// Looks for a page of executions, over a bounded number of rows.
pub(crate) async fn look(
    app: &App,
    filter: &ExecutionFilter,
    page: PageRequest<ExecutionId>,
    takes: impl Fn(&Execution) -> bool,
) -> punctual::Result<PageResult<Execution, ExecutionId>> {
    let (mut rows, mut next, mut looked_at) = (Vec::new(), page.after, 0);
    let (began, mut pages) = (app.clock.now(), 0);
    let mut size = page.bounded();
    while looked_at < LOOKED_AT_MAX && pages < PAGES_MAX {
        pages += 1;
        let paged = app
            .inspect
            .executions(filter.clone(), PageRequest { after: next, limit: size })
            .await?;
        for execution in paged.rows {
            if rows.len() == page.limit {
                return Ok(PageResult { rows, next });
            }
            looked_at += 1;
            next = Some(execution.id);
            if takes(&execution) {
                rows.push(execution);
            }
        }
        match paged.next {
            None => return Ok(PageResult { rows, next: None }),
            Some(_) if rows.len() == page.limit => break,
            Some(behind) => (next, size) = (Some(behind), PAGE_LIMIT_MAX),
        }
        if between(began, app.clock.now()) > TIMEOUT {
            break;
        }
    }
    Ok(PageResult { rows, next })
}

/// The smallest id of an instant.
fn first_id(at: Timestamp) -> ExecutionId {
    let millisecond = u64::try_from(at.as_millisecond()).unwrap_or(0);
    ExecutionId::from_uuid(Uuid::from_u64_pair(millisecond << 16, 0))
}

/// One execution.
#[utoipa::path(get, path = "/executions/{id}", tag = "messages", params(("id" = String, Path)),
    responses((status = 200, body = ExecutionView), (status = 404, body = Problem)))]
async fn one(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer<Json<ExecutionView>> {
    caller.must_be(Role::Viewer)?;
    let id: ExecutionId =
        id.parse().map_err(|error: punctual::Error| Problem::malformed(error.to_string()))?;
    let execution = execution_of(&app, id).await?.ok_or_else(|| {
        Problem::not_found(format!("there is no execution {id}; it may have been pruned"))
    })?;
    Ok(Json(ExecutionView::new(&execution)))
}
