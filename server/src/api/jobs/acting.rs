//! Acting on a job: running it now, pausing and resuming it, leaving out an occurrence, moving its cursor.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use punctual::client::{PauseRequest, PublishResult, Trigger, TriggerResult};
use punctual::model::{Body as Content, JobRecord, MessageId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::finding::find;
use super::looking::answer;
use super::view::JobView;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};
use crate::spec::{Target, Work};

/// The most characters of a reason.
const REASON_LEN_MAX: usize = 1_000;

/// How a job is run by hand.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JobTriggerRequest {
    /// Runs it beside what is alive, whatever its overlap policy says.
    ignore_overlap: bool,
    /// What its handler or its templates are given this once.
    #[serde(deserialize_with = "some_value")]
    payload: Option<Value>,
}

/// A null that was written is a value, not nothing.
fn some_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// What was started.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobTriggeredView {
    /// The message it runs as.
    message: String,
    /// Whether the job is paused: it runs this once, and its schedule still fires nothing.
    paused: bool,
}

/// Runs a job now, also a paused one, which the answer says. Its schedule is left alone.
#[utoipa::path(post, operation_id = "trigger_job", path = "/jobs/{name}/trigger", tag = "jobs", params(("name" = String, Path)),
    request_body = JobTriggerRequest,
    responses((status = 202, body = JobTriggeredView), (status = 404, body = Problem),
        (status = 409, description = "A run is alive and its overlap policy says no.", body = Problem)))]
pub(super) async fn trigger(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobTriggerRequest>,
) -> Answer<(StatusCode, Json<JobTriggeredView>)> {
    caller.must_be(Role::Operator)?;
    let (id, paused) = match keyed.made(&app, 1).await?.first() {
        Some(Some(made)) => (made.id, find(&app, &name).await?.record.paused.is_some()),
        _ => run(&app, &name, request, keyed.id(0)).await?,
    };
    keyed.confirm(&[PublishResult { id, duplicate_of: None }]).await;
    let message = id.to_string();
    let change = Change::new("job.trigger", &name).to(&json!({ "message": message }));
    app.audit().note(&caller, change).await?;
    Ok((StatusCode::ACCEPTED, Json(JobTriggeredView { message, paused })))
}

/// Runs a job now, as a message of this identity when one is given; returns it, and whether the job is paused.
async fn run(
    app: &App,
    name: &str,
    request: JobTriggerRequest,
    id: Option<MessageId>,
) -> Answer<(MessageId, bool)> {
    let record = find(app, name).await?.record;
    let body = request.payload.map(|payload| content(&record, payload)).transpose()?;
    let trigger = Trigger { ignore_overlap: request.ignore_overlap, body, id };
    match app.punctual.admin().trigger_with(name, trigger).await? {
        TriggerResult::Started(id) => Ok((id, false)),
        TriggerResult::StartedWhilePaused(id) => Ok((id, true)),
        TriggerResult::Overlapping(alive) => Err(Problem::conflict(format!(
            "{alive} run{} of the job {name:?} {} alive and its overlap policy {} says no; wait, or send \"ignore_overlap\": true",
            if alive == 1 { "" } else { "s" },
            if alive == 1 { "is" } else { "are" },
            record.job.overlap
        ))),
    }
}

/// The body of a run with a payload of its own: the payload, or what the job does with it.
fn content(record: &JobRecord, payload: Value) -> Answer<Content> {
    let work = Work::of(record.job.topic.as_str(), &record.job.body.bytes);
    Ok(match work.target {
        Target::Code(_) if record.job.topic.is_system() => {
            return Err(Problem::conflict(format!(
                "what the job {:?} does cannot be read, so it takes no payload; define it anew",
                record.job.name
            )));
        }
        Target::Code(_) => Content::json(&payload)?,
        target => Content::json(&Work { target, payload: Some(payload) })?,
    })
}

/// Why a job is paused, and until when.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobPauseRequest {
    /// Why, for the next person who looks.
    reason: String,
    /// When it ends by itself; without it somebody has to resume it.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// Stops a job from firing; what runs goes on. It stays paused over restarts and deploys.
#[utoipa::path(post, operation_id = "pause_job", path = "/jobs/{name}/pause", tag = "jobs", params(("name" = String, Path)),
    request_body = JobPauseRequest,
    responses((status = 200, body = JobView), (status = 404, body = Problem)))]
pub(super) async fn pause(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobPauseRequest>,
) -> Answer<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Operator)?;
    let reason = reason(&request.reason)?;
    let now = app.clock.now();
    if let Some(until) = request.until.filter(|until| *until <= now) {
        let problem = format!("{until} is not later than now ({now}); give a later instant");
        return Err(Problem::refused(format!("the pause would be over at once: {problem}"))
            .field("until", problem));
    }
    let record = find(&app, &name).await?.record;
    let before = record.paused;
    let is_so = before.as_ref().is_some_and(|pause| {
        (&pause.by, &pause.reason, pause.until) == (&caller.name, &reason, request.until)
    });
    if !is_so {
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    }
    let (by, until) = (caller.name.clone(), request.until);
    let pause = PauseRequest { by, reason: reason.clone(), until };
    let record = app.punctual.admin().pause(&name, pause).await?;
    let change = Change::new("job.pause", &name).because(reason).from(&before).to(&record.paused);
    app.audit().note(&caller, change).await?;
    answer(&app, &name).await
}

/// A reason without the space around it, or the problem with it.
pub(super) fn reason(text: &str) -> Answer<String> {
    let text = text.trim();
    let problem = match text.chars().count() {
        0 => "say why, for the next person who looks".to_owned(),
        long if long > REASON_LEN_MAX => {
            format!("{long} characters are too many; at most {REASON_LEN_MAX} are allowed")
        }
        _ => return Ok(text.to_owned()),
    };
    Err(Problem::refused(format!("the reason cannot be taken: {problem}")).field("reason", problem))
}

/// Nothing to say; an empty object, or no body at all.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Nothing {}

/// Lets a job fire again, from the next occurrence on; what was due meanwhile is not made up for.
#[utoipa::path(post, operation_id = "resume_job", path = "/jobs/{name}/resume", tag = "jobs", params(("name" = String, Path)),
    responses((status = 200, body = JobView), (status = 404, body = Problem)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    _nothing: Body<Nothing>,
) -> Answer<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Operator)?;
    let record = find(&app, &name).await?.record;
    let before = record.paused;
    if before.is_some() {
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    }
    app.punctual.admin().resume(&name).await?;
    if before.is_some() {
        let change = Change::new("job.resume", &name).from(&before);
        app.audit().note(&caller, change).await?;
    }
    answer(&app, &name).await
}

/// Which occurrence is left out.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JobSkipRequest {
    /// Its instant on the schedule; the next one when not given.
    nominal: Option<Timestamp>,
}

/// What is left out.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct JobSkippedView {
    /// Its instant on the schedule.
    nominal: Timestamp,
}

/// Leaves out one occurrence that is still to come.
#[utoipa::path(post, operation_id = "skip_occurrence", path = "/jobs/{name}/skip", tag = "jobs", params(("name" = String, Path)),
    request_body = JobSkipRequest,
    responses((status = 200, body = JobSkippedView), (status = 404, body = Problem),
        (status = 409, description = "It is decided about already.", body = Problem)))]
pub(super) async fn skip(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobSkipRequest>,
) -> Answer<Json<JobSkippedView>> {
    caller.must_be(Role::Operator)?;
    let record = find(&app, &name).await?.record;
    let admin = app.punctual.admin();
    let nominal = if let Some(nominal) = request.nominal {
        admin.skip(&name, nominal).await.map(|_| nominal)?
    } else {
        // The one that is next now is another one when this request has skipped one before.
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
        admin.skip_next(&name).await?
    };
    let view = JobSkippedView { nominal };
    app.audit().note(&caller, Change::new("job.skip", &name).to(&view)).await?;
    Ok(Json(view))
}

/// Where a cursor goes.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobCursorRequest {
    /// To the first occurrence from this instant on.
    to: Timestamp,
}

/// Moves a job's cursor. Forward, what lies between is skipped and recorded; back, it is decided about
/// again by the job's misfire policy.
#[utoipa::path(post, operation_id = "move_job_cursor", path = "/jobs/{name}/cursor", tag = "jobs", params(("name" = String, Path)),
    request_body = JobCursorRequest,
    responses((status = 200, body = JobView), (status = 404, body = Problem),
        (status = 409, description = "It is paused, or fires no more.", body = Problem)))]
pub(super) async fn move_cursor(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobCursorRequest>,
) -> Answer<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Operator)?;
    let record = find(&app, &name).await?.record;
    keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    let before = record.cursor;
    let record = app.punctual.admin().move_cursor(&name, request.to).await?;
    let change = Change::new("job.cursor", &name).from(&before).to(&record.cursor);
    app.audit().note(&caller, change).await?;
    answer(&app, &name).await
}
