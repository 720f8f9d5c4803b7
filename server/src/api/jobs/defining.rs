//! Definitions made over the API: created, replaced and deleted. What code or a file declares is theirs to
//! change, and the refusal says where.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use punctual::client::PauseRequest;
use punctual::model::{JobName, JobRecord, Retirement};
use punctual::{ErrorKind, JobBuilder};

use super::finding::find;
use super::hidden;
use super::looking::answer;
use super::tag;
use super::view::{JobView, source};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};
use crate::spec::{FieldError, JobSpec};
use crate::targets::allowed;

/// Creates a job. With `enabled` false it is created paused.
#[utoipa::path(post, operation_id = "create_job", path = "/jobs", tag = "jobs", request_body = JobSpec,
    responses((status = 201, body = JobView),
        (status = 409, description = "There is one of this name.", body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Body(mut spec): Body<JobSpec>,
) -> Answer<(StatusCode, HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Admin)?;
    let Some(name) = spec.name.clone() else {
        let problem = "give the job a name, such as \"nightly-report\"";
        return Err(
            Problem::refused(format!("the job has no name; {problem}")).field("name", problem)
        );
    };
    hidden::restore(&mut spec, None, app.redaction())?;
    let job = builder(&app, &spec, &name)?;
    // As it is stored, without blanks around it.
    let name = JobName::new(&name)?.to_string();
    match find(&app, &name).await {
        Ok(there) if there.record.retired != Some(Retirement::Removed) => {
            return Err(taken(&name));
        }
        Err(problem) if problem.status() != StatusCode::NOT_FOUND => return Err(problem),
        _ => {}
    }
    let is_free = |seen: Option<&JobRecord>| {
        seen.is_none_or(|record| record.retired == Some(Retirement::Removed))
    };
    if !declare(&app, &caller, (&name, &spec), job, is_free).await? {
        return Err(taken(&name));
    }
    let change = Change::new("job.create", &name).to(&shown(&spec));
    app.audit().note(&caller, change).await?;
    let (mut headers, view) = answer(&app, &name).await?;
    if let Ok(place) = HeaderValue::from_str(&format!("/api/v1/jobs/{}", in_path(&name))) {
        headers.insert(LOCATION, place);
    }
    Ok((StatusCode::CREATED, headers, view))
}

/// Replaces the whole definition of a job that was made over the API. What operators did to it, a pause
/// included, stays. Secrets sent back as they were shown mean the stored ones.
#[utoipa::path(put, operation_id = "replace_job", path = "/jobs/{name}", tag = "jobs",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The ETag of what you have seen.")),
    request_body = JobSpec,
    responses((status = 200, body = JobView), (status = 404, body = Problem),
        (status = 409, description = "Code or a file declares it.", body = Problem),
        (status = 412, description = "Somebody changed it since.", body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn replace(
    State(app): State<App>,
    (caller, keyed): (Caller, Keyed),
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(mut spec): Body<JobSpec>,
) -> Answer<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Admin)?;
    let record = find(&app, &name).await?.record;
    ours(&record, "replaced")?;
    tag::check(&headers, &record)?;
    keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    hidden::restore(&mut spec, Some(&record), app.redaction())?;
    let job = builder(&app, &spec, &name)?;
    let is_seen =
        |seen: Option<&JobRecord>| seen.is_some_and(|record| tag::matches(&headers, record));
    if !declare(&app, &caller, (&name, &spec), job, is_seen).await? {
        return Err(tag::changed(&find(&app, &name).await?.record));
    }
    let change = Change::new("job.replace", &name)
        .from(&serde_json::json!({ "schedule": record.declared.schedule, "topic": record.declared.topic }))
        .to(&shown(&spec));
    app.audit().note(&caller, change).await?;
    answer(&app, &name).await
}

/// Removes a job with its history and all its messages that are not running.
#[utoipa::path(delete, operation_id = "delete_job", path = "/jobs/{name}", tag = "jobs",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The ETag of what you have seen.")),
    responses((status = 204), (status = 404, body = Problem),
        (status = 409, description = "Code or a file declares it.", body = Problem),
        (status = 412, description = "Somebody changed it since.", body = Problem)))]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    caller.must_be(Role::Admin)?;
    let record = find(&app, &name).await?.record;
    // What nobody declares any more only takes up room.
    if record.retired != Some(Retirement::Removed) {
        ours(&record, "deleted")?;
    }
    tag::check(&headers, &record)?;
    let is_seen = |record: &JobRecord| tag::matches(&headers, record);
    if app.punctual.admin().delete_job_if(&name, is_seen).await?.is_none() {
        return Err(tag::changed(&find(&app, &name).await?.record));
    }
    let before = serde_json::json!({
        "schedule": record.declared.schedule, "topic": record.declared.topic, "runs": record.runs,
    });
    app.audit().note(&caller, Change::new("job.delete", &name).from(&before)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A name as a part of a path.
fn in_path(name: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(escaped).collect()
}

/// The job of a definition, or everything that is wrong with it, field by field.
fn builder(app: &App, spec: &JobSpec, name: &str) -> Answer<JobBuilder> {
    let mut wrong = spec.check(name);
    if let (Some(programs), Some(command)) = (app.programs(), &spec.command)
        && let Err(error) = allowed(programs, command)
    {
        wrong.push(FieldError { field: "command".to_owned(), problem: error.to_string() });
    }
    if wrong.is_empty() {
        return Ok(spec.builder(name)?);
    }
    let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    let problem =
        Problem::refused(format!("the job {name:?} cannot be declared: {}", all.join("; ")));
    Err(wrong.into_iter().fold(problem, |problem, one| problem.field(one.field, one.problem)))
}

/// There is one of this name.
fn taken(name: &str) -> Problem {
    Problem::conflict(format!(
        "there is a job {name:?} already; choose another name, or change it with PUT /api/v1/jobs/{name}"
    ))
}

/// Stores a definition if what it replaces is right; answers whether it was.
async fn declare(
    app: &App,
    caller: &Caller,
    (name, spec): (&str, &JobSpec),
    job: JobBuilder,
    is_right: impl Fn(Option<&JobRecord>) -> bool + Sync,
) -> Answer<bool> {
    let admin = app.punctual.admin();
    let declared = admin.declare_if(job, is_right).await.map_err(|error| match error.kind() {
        ErrorKind::Conflict => Problem::conflict(error.to_string()),
        _ => Problem::from(error),
    })?;
    let Some((record, _)) = declared else { return Ok(false) };
    if !spec.enabled && record.paused.is_none() {
        let reason = "its definition says enabled = false".to_owned();
        let pause = PauseRequest { by: caller.name.clone(), reason, until: None };
        admin.pause(name, pause).await?;
    }
    Ok(true)
}

/// Refuses what somebody else declares, with the way out.
fn ours(record: &JobRecord, what: &str) -> Answer<()> {
    let (name, app): (&JobName, &str) = (&record.job.name, &record.app);
    let way_out = match source(record) {
        "api" => return Ok(()),
        "file" => {
            "the configuration file declares it; change it there, and it is read again".to_owned()
        }
        _ => format!(
            "the code of {app:?} declares it; change it there, or put values over it with PATCH /api/v1/jobs/{name}"
        ),
    };
    Err(Problem::conflict(format!("the job {name:?} cannot be {what} here: {way_out}")))
}

/// A definition for the audit trail, without secrets.
fn shown(spec: &JobSpec) -> serde_json::Value {
    let mut shown = serde_json::to_value(spec).unwrap_or_default();
    if let (Some(members), Ok(target)) = (shown.as_object_mut(), spec.target())
        && let Some(member) = members.get_mut(target.kind())
    {
        *member = target.view();
    }
    shown
}
