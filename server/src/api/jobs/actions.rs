//! Job actions: trigger, pause, resume, skip an occurrence, move the cursor.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use punctual::client::{PauseRequest, PublishResult, Trigger, TriggerResult};
use punctual::model::{Body as Content, JobRecord, MessageId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::lookup::find;
use super::queries::job_response;
use super::view::JobView;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};
use crate::spec::{Target, Work};

/// Largest number of characters of a reason.
const REASON_LEN_MAX: usize = 1_000;

/// Options of a manual run.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JobTriggerRequest {
    /// Whether to start the run even when the overlap policy of the job does not allow it.
    ignore_overlap: bool,
    /// Payload of this run, for the handler or the templates of the job.
    #[serde(deserialize_with = "null_as_value")]
    payload: Option<Value>,
}

/// Deserializes a present field, so that an explicit null is a value.
fn null_as_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A run that was started manually.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobTriggeredView {
    /// Id of the message of the run.
    message: String,
    /// Whether the job is paused; this run starts, and its schedule still fires nothing.
    paused: bool,
}

/// Runs a job now, also when it is paused. The schedule does not change.
#[utoipa::path(post, operation_id = "trigger_job", path = "/jobs/{name}/trigger", tag = "jobs", params(("name" = String, Path)),
    request_body = JobTriggerRequest,
    responses((status = 202, body = JobTriggeredView), (status = 404, body = Problem),
        (status = 409, description = "Conflict: another run is unfinished and the overlap policy does not allow a second one.",
            body = Problem)))]
pub(super) async fn trigger(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobTriggerRequest>,
) -> ApiResult<(StatusCode, Json<JobTriggeredView>)> {
    caller.must_be(Role::Operator)?;
    let (id, paused) = match keyed.made(&app, 1).await?.first() {
        Some(Some(known)) => (known.id, find(&app, &name).await?.record.paused.is_some()),
        _ => run(&app, &name, request, keyed.id(0)).await?,
    };
    keyed.confirm(&[PublishResult { id, duplicate_of: None }]).await;
    let message = id.to_string();
    let change = Change::new("job.trigger", &name).to(&json!({ "message": message }));
    app.audit().note(&caller, change).await?;
    Ok((StatusCode::ACCEPTED, Json(JobTriggeredView { message, paused })))
}

/// Runs a job now, as a message with the given id if any. Returns the message and whether the job is paused.
async fn run(
    app: &App,
    name: &str,
    request: JobTriggerRequest,
    id: Option<MessageId>,
) -> ApiResult<(MessageId, bool)> {
    let record = find(app, name).await?.record;
    let body = request.payload.map(|payload| content(&record, payload)).transpose()?;
    let trigger = Trigger { ignore_overlap: request.ignore_overlap, body, id };
    match app.admin().trigger_with(name, trigger).await? {
        TriggerResult::Started(id) => Ok((id, false)),
        TriggerResult::StartedWhilePaused(id) => Ok((id, true)),
        TriggerResult::Overlapping(alive) => Err(Problem::conflict(format!(
            "{alive} run{} of the job {name:?} {} unfinished, and its overlap policy {} does not allow another; wait, or send \"ignore_overlap\": true",
            if alive == 1 { "" } else { "s" },
            if alive == 1 { "is" } else { "are" },
            record.job.overlap
        ))),
    }
}

/// Returns the body of a run with its own payload: the payload, or the target of the job with it.
fn content(record: &JobRecord, payload: Value) -> ApiResult<Content> {
    let work = Work::of(record.job.topic.as_str(), &record.job.body.bytes);
    Ok(match work.target {
        Target::Code(_) if record.job.topic.is_system() => {
            return Err(Problem::conflict(format!(
                "the target of the job {:?} cannot be read, so it takes no payload; define the job again",
                record.job.name
            )));
        }
        Target::Code(_) => Content::json(&payload)?,
        target => Content::json(&Work { target, payload: Some(payload) })?,
    })
}

/// Reason and end of a pause.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobPauseRequest {
    /// Reason, shown to other users.
    reason: String,
    /// When the pause ends; without it the job must be resumed.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// Pauses a job: it does not fire, and current runs continue. The pause outlasts restarts and deployments.
#[utoipa::path(post, operation_id = "pause_job", path = "/jobs/{name}/pause", tag = "jobs", params(("name" = String, Path)),
    request_body = JobPauseRequest,
    responses((status = 200, body = JobView), (status = 404, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobPauseRequest>,
) -> ApiResult<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Operator)?;
    let reason = reason(&request.reason)?;
    let now = app.clock.now();
    if let Some(until) = request.until.filter(|until| *until <= now) {
        let problem = format!("{until} is not later than now ({now}); give a later time");
        return Err(Problem::refused(format!("the pause would end at once: {problem}"))
            .field("until", problem));
    }
    let record = find(&app, &name).await?.record;
    let before = record.paused;
    let is_unchanged = before.as_ref().is_some_and(|pause| {
        (&pause.by, &pause.reason, pause.until) == (&caller.name, &reason, request.until)
    });
    if !is_unchanged {
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    }
    let (by, until) = (caller.name.clone(), request.until);
    let pause = PauseRequest { by, reason: reason.clone(), until };
    let record = app.admin().pause(&name, pause).await?;
    let change = Change::new("job.pause", &name).because(reason).from(&before).to(&record.paused);
    app.audit().note(&caller, change).await?;
    job_response(&app, &name).await
}

/// Returns a trimmed reason. Fails when it is empty or too long.
pub(super) fn reason(text: &str) -> ApiResult<String> {
    let text = text.trim();
    let problem = match text.chars().count() {
        0 => "it is empty; give a reason for other users".to_owned(),
        long if long > REASON_LEN_MAX => {
            format!("{long} characters are more than the limit of {REASON_LEN_MAX}")
        }
        _ => return Ok(text.to_owned()),
    };
    Err(Problem::refused(format!("invalid reason: {problem}")).field("reason", problem))
}

/// An empty object; the body may be omitted.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct EmptyRequest {}

/// Resumes a job from its next occurrence on. Occurrences during the pause are not run.
#[utoipa::path(post, operation_id = "resume_job", path = "/jobs/{name}/resume", tag = "jobs", params(("name" = String, Path)),
    responses((status = 200, body = JobView), (status = 404, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    _request: Body<EmptyRequest>,
) -> ApiResult<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Operator)?;
    let record = find(&app, &name).await?.record;
    let before = record.paused;
    if before.is_some() {
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    }
    app.admin().resume(&name).await?;
    if before.is_some() {
        let change = Change::new("job.resume", &name).from(&before);
        app.audit().note(&caller, change).await?;
    }
    job_response(&app, &name).await
}

/// Occurrence to skip.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JobSkipRequest {
    /// Nominal time of the occurrence. Default: the next one.
    nominal: Option<Timestamp>,
}

/// A skipped occurrence.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct JobSkippedView {
    /// Nominal time of the occurrence.
    nominal: Timestamp,
}

/// Skips an upcoming occurrence.
#[utoipa::path(post, operation_id = "skip_occurrence", path = "/jobs/{name}/skip", tag = "jobs", params(("name" = String, Path)),
    request_body = JobSkipRequest,
    responses((status = 200, body = JobSkippedView), (status = 404, body = Problem),
        (status = 409, description = "Conflict: the occurrence was already run or skipped.", body = Problem)))]
pub(super) async fn skip(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobSkipRequest>,
) -> ApiResult<Json<JobSkippedView>> {
    caller.must_be(Role::Operator)?;
    let record = find(&app, &name).await?.record;
    let admin = app.admin();
    let nominal = if let Some(nominal) = request.nominal {
        admin.skip(&name, nominal).await.map(|_| nominal)?
    } else {
        // The next occurrence is a different one when an earlier run of this request has skipped one.
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
        admin.skip_next(&name).await?
    };
    let view = JobSkippedView { nominal };
    app.audit().note(&caller, Change::new("job.skip", &name).to(&view)).await?;
    Ok(Json(view))
}

/// New position of a cursor.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobCursorRequest {
    /// The cursor moves to the first occurrence at or after this time.
    to: Timestamp,
}

/// Moves the cursor of a job. Forward, the occurrences in between are recorded as skipped. Backward, the misfire
/// policy of the job decides about them again.
#[utoipa::path(post, operation_id = "move_job_cursor", path = "/jobs/{name}/cursor", tag = "jobs", params(("name" = String, Path)),
    request_body = JobCursorRequest,
    responses((status = 200, body = JobView), (status = 404, body = Problem),
        (status = 409, description = "Conflict: the job is paused or retired.", body = Problem)))]
pub(super) async fn move_cursor(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobCursorRequest>,
) -> ApiResult<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Operator)?;
    let record = find(&app, &name).await?.record;
    keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    let before = record.cursor;
    let record = app.admin().move_cursor(&name, request.to).await?;
    let change = Change::new("job.cursor", &name).from(&before).to(&record.cursor);
    app.audit().note(&caller, change).await?;
    job_response(&app, &name).await
}
