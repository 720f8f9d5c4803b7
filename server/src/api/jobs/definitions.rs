//! Job definitions of the API: create, replace, delete. Jobs that code or a file declares are changed there, and the
//! error says where.

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use punctual::client::PauseRequest;
use punctual::model::{JobName, JobRecord, Retirement};
use punctual::{ErrorKind, JobBuilder};

use super::etag;
use super::lookup::find;
use super::queries::job_response;
use super::secrets;
use super::view::{JobView, source};
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};
use crate::spec::{FieldError, JobSpec};
use crate::targets::allowed;

/// Creates a job. With `enabled: false` it is created paused.
#[utoipa::path(post, operation_id = "create_job", path = "/jobs", tag = "jobs", request_body = JobSpec,
    responses((status = 201, body = JobView),
        (status = 409, description = "Conflict: a job with this name exists.", body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Body(mut spec): Body<JobSpec>,
) -> ApiResult<(StatusCode, HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Admin)?;
    let Some(name) = spec.name.clone() else {
        let problem = "give the job a name, such as \"nightly-report\"";
        return Err(
            Problem::refused(format!("the job has no name; {problem}")).field("name", problem)
        );
    };
    secrets::restore(&mut spec, None, app.redaction())?;
    let job = builder(&app, &spec, &name)?;
    // The stored form, without surrounding blanks.
    let name = JobName::new(&name)?.to_string();
    match find(&app, &name).await {
        Ok(existing) if existing.record.retired != Some(Retirement::Removed) => {
            return Err(name_in_use(&name));
        }
        Err(problem) if problem.status() != StatusCode::NOT_FOUND => return Err(problem),
        _ => {}
    }
    let is_free = |current: Option<&JobRecord>| {
        current.is_none_or(|record| record.retired == Some(Retirement::Removed))
    };
    if !declare(&app, &caller, (&name, &spec), job, is_free).await? {
        return Err(name_in_use(&name));
    }
    let change = Change::new("job.create", &name).to(&redacted(&spec));
    app.audit().note(&caller, change).await?;
    let (mut headers, view) = job_response(&app, &name).await?;
    if let Ok(location) = HeaderValue::from_str(&format!("/api/v1/jobs/{}", percent_encoded(&name)))
    {
        headers.insert(LOCATION, location);
    }
    Ok((StatusCode::CREATED, headers, view))
}

/// Replaces the definition of a job that was created over the API. Changes by operators, such as a pause, are kept.
/// A redacted secret in the request stands for the stored secret.
#[utoipa::path(put, operation_id = "replace_job", path = "/jobs/{name}", tag = "jobs",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "ETag of the version that the change is based on.")),
    request_body = JobSpec,
    responses((status = 200, body = JobView), (status = 404, body = Problem),
        (status = 409, description = "Conflict: the job is declared by code or by a configuration file.",
            body = Problem),
        (status = 412, description = "Precondition Failed: the job was changed since the given ETag.", body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn replace(
    State(app): State<App>,
    (caller, keyed): (Caller, Keyed),
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(mut spec): Body<JobSpec>,
) -> ApiResult<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Admin)?;
    let record = find(&app, &name).await?.record;
    must_be_from_api(&record, "replaced")?;
    etag::check(&headers, &record)?;
    keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    secrets::restore(&mut spec, Some(&record), app.redaction())?;
    let job = builder(&app, &spec, &name)?;
    let is_expected =
        |current: Option<&JobRecord>| current.is_some_and(|record| etag::matches(&headers, record));
    if !declare(&app, &caller, (&name, &spec), job, is_expected).await? {
        return Err(etag::changed(&find(&app, &name).await?.record));
    }
    let change = Change::new("job.replace", &name)
        .from(&serde_json::json!({ "schedule": record.declared.schedule, "topic": record.declared.topic }))
        .to(&redacted(&spec));
    app.audit().note(&caller, change).await?;
    job_response(&app, &name).await
}

/// Deletes a job with its history and all of its messages that are not running.
#[utoipa::path(delete, operation_id = "delete_job", path = "/jobs/{name}", tag = "jobs",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "ETag of the version that the change is based on.")),
    responses((status = 204), (status = 404, body = Problem),
        (status = 409, description = "Conflict: the job is declared by code or by a configuration file.",
            body = Problem),
        (status = 412, description = "Precondition Failed: the job was changed since the given ETag.",
            body = Problem)))]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> ApiResult<StatusCode> {
    caller.must_be(Role::Admin)?;
    let record = find(&app, &name).await?.record;
    // A job whose declaration was removed is only leftover data, which may be deleted here.
    if record.retired != Some(Retirement::Removed) {
        must_be_from_api(&record, "deleted")?;
    }
    etag::check(&headers, &record)?;
    let is_expected = |record: &JobRecord| etag::matches(&headers, record);
    if app.admin().delete_job_if(&name, is_expected).await?.is_none() {
        return Err(etag::changed(&find(&app, &name).await?.record));
    }
    let before = serde_json::json!({
        "schedule": record.declared.schedule, "topic": record.declared.topic, "runs": record.runs,
    });
    app.audit().note(&caller, Change::new("job.delete", &name).from(&before)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns a name percent-encoded as a path segment.
fn percent_encoded(name: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(escaped).collect()
}

/// Returns the job of a definition, or every invalid field.
fn builder(app: &App, spec: &JobSpec, name: &str) -> ApiResult<JobBuilder> {
    let mut errors = spec.check(name);
    if let (Some(programs), Some(command)) = (app.programs(), &spec.command)
        && let Err(error) = allowed(programs, command)
    {
        errors.push(FieldError { field: "command".to_owned(), problem: error.to_string() });
    }
    if errors.is_empty() {
        return Ok(spec.builder(name)?);
    }
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let problem =
        Problem::refused(format!("the job {name:?} cannot be declared: {}", all.join("; ")));
    Err(errors.into_iter().fold(problem, |problem, one| problem.field(one.field, one.problem)))
}

/// Returns the problem for a name in use.
fn name_in_use(name: &str) -> Problem {
    Problem::conflict(format!(
        "a job {name:?} exists; choose another name, or change it with PUT /api/v1/jobs/{name}"
    ))
}

/// Stores a definition when `is_expected` accepts the current one. Returns whether it was stored.
async fn declare(
    app: &App,
    caller: &Caller,
    (name, spec): (&str, &JobSpec),
    job: JobBuilder,
    is_expected: impl Fn(Option<&JobRecord>) -> bool + Sync,
) -> ApiResult<bool> {
    let admin = app.admin();
    let declared =
        admin.declare_if(job, is_expected).await.map_err(|error| match error.kind() {
            ErrorKind::Conflict => Problem::conflict(error.to_string()),
            _ => Problem::from(error),
        })?;
    let Some((record, _)) = declared else { return Ok(false) };
    if !spec.enabled && record.paused.is_none() {
        let reason = "its definition has enabled = false".to_owned();
        let pause = PauseRequest { by: caller.name.clone(), reason, until: None };
        admin.pause(name, pause).await?;
    }
    Ok(true)
}

/// Fails for a job that code or a file declares, with the place to change it.
fn must_be_from_api(record: &JobRecord, action: &str) -> ApiResult<()> {
    let (name, app): (&JobName, &str) = (&record.job.name, &record.app);
    let remedy = match source(record) {
        "api" => return Ok(()),
        "file" => "the configuration file declares it; change it there, and the server reloads it"
            .to_owned(),
        _ => format!(
            "the code of {app:?} declares it; change it there, or override values with PATCH /api/v1/jobs/{name}"
        ),
    };
    Err(Problem::conflict(format!("the job {name:?} cannot be {action} here: {remedy}")))
}

/// Returns a definition for the audit trail, without secrets.
fn redacted(spec: &JobSpec) -> serde_json::Value {
    let mut shown = serde_json::to_value(spec).unwrap_or_default();
    if let (Some(members), Ok(target)) = (shown.as_object_mut(), spec.target())
        && let Some(member) = members.get_mut(target.kind())
    {
        *member = target.view();
    }
    shown
}
