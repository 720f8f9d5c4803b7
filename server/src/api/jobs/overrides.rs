//! Job overrides: values that an operator sets over a definition, their reset, and the view of all layers.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::model::{JobRecord, Overrides};
use punctual::policy::{Edit, EffectiveLayer, Field, Layer};
use punctual::schedule::{Cron, Zone, parse_duration};
use punctual::{Misfire, Retry};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::etag;
use super::lookup::find;
use super::queries::job_response;
use super::view::JobView;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{ApiResult, Problem};
use crate::spec::{JobSpec, MisfireText, RetrySpec, RetryText};
use crate::wording::{Syntax, reworded};

/// Overrides to set; omitted fields keep their values.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "cron": "0 3 * * *", "timeout": "5m" }))]
pub(super) struct JobEditRequest {
    /// Cron expression, in the time zone of the job unless `zone` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// IANA time zone of the cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    /// Interval instead of a cron expression, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    /// Retry policy: a number of retries, or an object as in a definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryText>)]
    retry: Option<RetrySpec>,
    /// Timeout of a run, such as `5m`; null removes the timeout of the job.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "nullable_timeout")]
    #[schema(value_type = Option<String>)]
    timeout: Option<Timeout>,
    /// Misfire policy: a name, or an object as in a definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MisfireText>)]
    misfire: Option<Value>,
}

/// Override of the timeout of a run.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Timeout {
    /// A duration.
    Limit(String),
    /// The default of the process, serialized as null.
    ProcessDefault,
}

/// Deserializes a present field, so that an explicit null is a value.
fn nullable_timeout<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timeout>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    Ok(Some(text.map_or(Timeout::ProcessDefault, Timeout::Limit)))
}

/// Overrides values of a definition until they are reset. Current runs keep their options; a new schedule applies
/// from the next occurrence on.
#[utoipa::path(patch, operation_id = "edit_job", path = "/jobs/{name}", tag = "jobs",
    params(("name" = String, Path),
        ("If-Match" = Option<String>, Header, description = "ETag of the version that the change is based on.")),
    request_body = JobEditRequest,
    responses((status = 200, body = JobView), (status = 404, body = Problem),
        (status = 412, description = "Precondition Failed: the job was changed since the given ETag.", body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn edit(
    State(app): State<App>,
    (caller, keyed): (Caller, Keyed),
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(request): Body<JobEditRequest>,
) -> ApiResult<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Admin)?;
    let record = find(&app, &name).await?.record;
    etag::check(&headers, &record)?;
    let edit = request.edit(&name)?;
    let is_unchanged = |overrides| overrides == record.overrides;
    if !edit.overrides(&record, app.clock.now()).is_ok_and(is_unchanged) {
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    }
    let is_expected = |record: &JobRecord| etag::matches(&headers, record);
    let Some(edited) = app.admin().edit_if(&name, edit, is_expected).await? else {
        return Err(etag::changed(&find(&app, &name).await?.record));
    };
    let change = Change::new("job.edit", &name)
        .from(&record.overrides)
        .to(&json!({ "edit": request, "overrides": edited.overrides }));
    app.audit().note(&caller, change).await?;
    job_response(&app, &name).await
}

impl JobEditRequest {
    /// Returns the edit, or every invalid field.
    fn edit(&self, name: &str) -> ApiResult<Edit> {
        let mut errors = FieldErrors::default();
        let mut edit = Edit::new();
        if self.cron.is_some() && self.every.is_some() {
            errors.add(
                "every",
                &"there is a cron expression as well; give only one of cron and every",
            );
        }
        if let Some(cron) = &self.cron
            && errors.check("cron", Cron::parse_seeded(cron, name)).is_some()
        {
            edit = edit.cron(cron);
        }
        if let Some(zone) = &self.zone
            && errors.check("zone", Zone::named(zone)).is_some()
        {
            edit = edit.zone(zone);
        }
        if let Some(every) =
            self.every.as_ref().and_then(|text| errors.check("every", parse_duration(text)))
        {
            edit = edit.every(every);
        }
        if let Some(retry) =
            self.retry.as_ref().and_then(|spec| errors.check("retry", spec.retry()))
        {
            edit = with_retry(edit, self.retry.as_ref(), retry);
        }
        match &self.timeout {
            Some(Timeout::Limit(text)) => {
                if let Some(timeout) = errors.check("timeout", parse_duration(text)) {
                    edit = edit.timeout(timeout);
                }
            }
            Some(Timeout::ProcessDefault) => edit = edit.no_timeout(),
            None => {}
        }
        if let Some(misfire) =
            self.misfire.as_ref().and_then(|value| errors.check("misfire", misfire(value)))
        {
            edit = edit.misfire(misfire);
        }
        errors.into_result(name)?;
        Ok(edit)
    }
}

/// Applies a retry policy; a bare number of retries keeps the current back-off.
fn with_retry(edit: Edit, spec: Option<&RetrySpec>, retry: Retry) -> Edit {
    let bare = spec.and_then(|spec| {
        let number = RetrySpec { retries: spec.retries, ..RetrySpec::default() };
        spec.retries.filter(|_| *spec == number)
    });
    match bare {
        Some(retries) => edit.retries_max(retries),
        None => edit.retry(retry),
    }
}

/// Reads a misfire policy in the form of a definition.
fn misfire(value: &Value) -> Result<Misfire, String> {
    let spec: JobSpec = serde_json::from_value(json!({ "misfire": value }))
        .map_err(|error| reworded(&error.to_string(), &["misfire"], Syntax::Json))?;
    let misfire = spec.misfire.ok_or("give a policy, or reset it instead")?;
    misfire.check().map_err(|error| error.to_string())?;
    Ok(misfire)
}

/// Invalid fields of an edit.
#[derive(Default)]
struct FieldErrors(Vec<(&'static str, String)>);

impl FieldErrors {
    fn add(&mut self, field: &'static str, problem: &dyn std::fmt::Display) {
        self.0.push((field, problem.to_string()));
    }

    fn check<T, E: std::fmt::Display>(
        &mut self,
        field: &'static str,
        result: Result<T, E>,
    ) -> Option<T> {
        result.map_err(|error| self.add(field, &error)).ok()
    }

    fn into_result(self, name: &str) -> ApiResult<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let all: Vec<String> =
            self.0.iter().map(|(field, text)| format!("{field}: {text}")).collect();
        let detail = format!("the job {name:?} cannot be edited: {}", all.join("; "));
        let add = |problem: Problem, (field, text): (&str, String)| problem.field(field, text);
        Err(self.0.into_iter().fold(Problem::refused(detail), add))
    }
}

/// Override to reset.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JobResetRequest {
    /// `schedule`, `zone`, `retry`, `timeout` or `misfire`. Default: all of them.
    field: Option<String>,
}

/// Resets overrides, so that the values of the configuration or the code apply again.
#[utoipa::path(post, operation_id = "reset_job", path = "/jobs/{name}/reset", tag = "jobs", params(("name" = String, Path)),
    request_body = JobResetRequest,
    responses((status = 200, body = JobView), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn reset(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<JobResetRequest>,
) -> ApiResult<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Admin)?;
    let record = find(&app, &name).await?.record;
    let before = record.overrides;
    if before != Overrides::default() {
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    }
    let field =
        request.field.as_deref().map(str::parse::<Field>).transpose().map_err(|error| {
            Problem::refused(error.to_string()).field("field", error.to_string())
        })?;
    let admin = app.admin();
    let record = match field {
        Some(field) => admin.reset_field(&name, field).await?,
        None => admin.reset(&name).await?,
    };
    let change = Change::new("job.reset", &name).from(&before).to(&record.overrides);
    app.audit().note(&caller, change).await?;
    job_response(&app, &name).await
}

/// One field of a definition in every layer, with values as display texts.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobLayerView {
    /// Name of the field.
    field: &'static str,
    /// Value of the code, file or request that defined the job.
    declared: String,
    /// Value of the configuration, if any.
    configured: Option<String>,
    /// Override of an operator, if any.
    overridden: Option<String>,
    /// Effective value.
    effective: String,
    /// Layer of the effective value: `code`, `configuration` or `operator`.
    winner: &'static str,
    /// Reason why this layer applies, in one sentence.
    why: String,
}

impl From<Layer> for JobLayerView {
    fn from(layer: Layer) -> Self {
        Self {
            field: layer.field.as_str(),
            declared: layer.declared,
            configured: layer.configured,
            overridden: layer.overridden,
            effective: layer.in_force,
            winner: match layer.winner {
                EffectiveLayer::Code => "code",
                EffectiveLayer::Configuration => "configuration",
                EffectiveLayer::Operator => "operator",
            },
            why: layer.why,
        }
    }
}

/// Returns the value of each field in code, configuration and overrides, with the effective one and the reason.
#[utoipa::path(get, operation_id = "get_job_layers", path = "/jobs/{name}/layers", tag = "jobs", params(("name" = String, Path)),
    responses((status = 200, body = Vec<JobLayerView>), (status = 404, body = Problem)))]
pub(super) async fn layers(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult<Json<Vec<JobLayerView>>> {
    caller.must_be(Role::Viewer)?;
    let record = find(&app, &name).await?.record;
    Ok(Json(punctual::policy::layers(&record).into_iter().map(JobLayerView::from).collect()))
}
