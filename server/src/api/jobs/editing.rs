//! An operator's values over a job's definition: put there, taken back, and shown beside what the code and
//! the configuration say.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::model::{JobRecord, Overrides};
use punctual::policy::{Edit, Field, Layer, Winner};
use punctual::schedule::{Cron, Zone, parse_duration};
use punctual::{Misfire, Retry};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::finding::find;
use super::looking::answer;
use super::tag;
use super::view::JobView;
use crate::app::App;
use crate::audit::Change;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::problem::{Answer, Problem};
use crate::spec::{JobSpec, MisfireText, RetrySpec, RetryText};
use crate::wording::{Syntax, reworded};

/// What is to be different about a job. What is not said stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "cron": "0 3 * * *", "timeout": "5m" }))]
pub(super) struct JobEditRequest {
    /// Another cron text, in the zone the job has unless `zone` names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// Another IANA zone for the cron text.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    /// Every so often instead, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    /// How often a failed run is tried again: a number, or a table as in a definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryText>)]
    retry: Option<RetrySpec>,
    /// How long a run may take; null takes the job's own limit away.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    timeout: Option<Timeout>,
    /// What happens with missed occurrences: a policy, or a table as in a definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<MisfireText>)]
    misfire: Option<Value>,
}

/// How long a run may take.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Timeout {
    /// So long.
    Of(String),
    /// As long as the process says, which is written as null.
    Usual,
}

/// A null that was written is a value, not nothing.
fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timeout>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    Ok(Some(text.map_or(Timeout::Usual, Timeout::Of)))
}

/// Puts an operator's values over a definition, which is kept below and comes back with a reset. What runs
/// already goes on under its old terms; another schedule is followed from the next occurrence on.
#[utoipa::path(patch, operation_id = "edit_job", path = "/jobs/{name}", tag = "jobs",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The ETag of what you have seen.")),
    request_body = JobEditRequest,
    responses((status = 200, body = JobView), (status = 404, body = Problem),
        (status = 412, description = "Somebody changed it since.", body = Problem),
        (status = 422, body = Problem)))]
pub(super) async fn edit(
    State(app): State<App>,
    (caller, keyed): (Caller, Keyed),
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(request): Body<JobEditRequest>,
) -> Answer<(HeaderMap, Json<JobView>)> {
    caller.must_be(Role::Admin)?;
    let record = find(&app, &name).await?.record;
    tag::check(&headers, &record)?;
    let edit = request.edit(&name)?;
    let is_so = |overrides| overrides == record.overrides;
    if !edit.overrides(&record, app.clock.now()).is_ok_and(is_so) {
        keyed.refuse_if_changed(&format!("the job {name:?}"), record.updated_at)?;
    }
    let is_seen = |record: &JobRecord| tag::matches(&headers, record);
    let Some(edited) = app.punctual.admin().edit_if(&name, edit, is_seen).await? else {
        return Err(tag::changed(&find(&app, &name).await?.record));
    };
    let change = Change::new("job.edit", &name)
        .from(&record.overrides)
        .to(&json!({ "edit": request, "overrides": edited.overrides }));
    app.audit().note(&caller, change).await?;
    answer(&app, &name).await
}

impl JobEditRequest {
    /// The edit, or everything that is wrong with it.
    fn edit(&self, name: &str) -> Answer<Edit> {
        let mut wrong = Wrong::default();
        let mut edit = Edit::new();
        if self.cron.is_some() && self.every.is_some() {
            wrong.add("every", &"there is a cron text as well; say only one of cron and every");
        }
        if let Some(cron) = &self.cron
            && wrong.of("cron", Cron::parse_seeded(cron, name)).is_some()
        {
            edit = edit.cron(cron);
        }
        if let Some(zone) = &self.zone
            && wrong.of("zone", Zone::named(zone)).is_some()
        {
            edit = edit.zone(zone);
        }
        if let Some(every) =
            self.every.as_ref().and_then(|text| wrong.of("every", parse_duration(text)))
        {
            edit = edit.every(every);
        }
        if let Some(retry) = self.retry.as_ref().and_then(|spec| wrong.of("retry", spec.retry())) {
            edit = with_retry(edit, self.retry.as_ref(), retry);
        }
        match &self.timeout {
            Some(Timeout::Of(text)) => {
                if let Some(timeout) = wrong.of("timeout", parse_duration(text)) {
                    edit = edit.timeout(timeout);
                }
            }
            Some(Timeout::Usual) => edit = edit.no_timeout(),
            None => {}
        }
        if let Some(misfire) =
            self.misfire.as_ref().and_then(|value| wrong.of("misfire", misfire(value)))
        {
            edit = edit.misfire(misfire);
        }
        wrong.answer(name)?;
        Ok(edit)
    }
}

/// A bare number keeps the waits there are.
fn with_retry(edit: Edit, spec: Option<&RetrySpec>, retry: Retry) -> Edit {
    let bare = spec.and_then(|spec| {
        let number = RetrySpec { retries: spec.retries, ..RetrySpec::default() };
        spec.retries.filter(|_| *spec == number)
    });
    match bare {
        Some(retries) => edit.max_retries(retries),
        None => edit.retry(retry),
    }
}

/// A misfire policy as definitions write it.
fn misfire(value: &Value) -> Result<Misfire, String> {
    let spec: JobSpec = serde_json::from_value(json!({ "misfire": value }))
        .map_err(|error| reworded(&error.to_string(), &["misfire"], Syntax::Json))?;
    let misfire = spec.misfire.ok_or("give a policy, or reset it instead")?;
    misfire.check().map_err(|error| error.to_string())?;
    Ok(misfire)
}

/// Collects what is wrong with an edit.
#[derive(Default)]
struct Wrong(Vec<(&'static str, String)>);

impl Wrong {
    fn add(&mut self, field: &'static str, problem: &dyn std::fmt::Display) {
        self.0.push((field, problem.to_string()));
    }

    fn of<T, E: std::fmt::Display>(
        &mut self,
        field: &'static str,
        result: Result<T, E>,
    ) -> Option<T> {
        result.map_err(|error| self.add(field, &error)).ok()
    }

    fn answer(self, name: &str) -> Answer<()> {
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

/// Which value is taken back.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct JobResetRequest {
    /// `schedule`, `zone`, `retry`, `timeout` or `misfire`; all of them when not given.
    field: Option<String>,
}

/// Takes an operator's values back: the job is again as the configuration or the code says.
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
) -> Answer<(HeaderMap, Json<JobView>)> {
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
    let admin = app.punctual.admin();
    let record = match field {
        Some(field) => admin.reset_field(&name, field).await?,
        None => admin.reset(&name).await?,
    };
    let change = Change::new("job.reset", &name).from(&before).to(&record.overrides);
    app.audit().note(&caller, change).await?;
    answer(&app, &name).await
}

/// One field of a definition, layer by layer. Values are texts for people.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct JobLayerView {
    /// Which field.
    field: &'static str,
    /// What the code, the file or the request that made it says.
    declared: String,
    /// What the configuration gives, when it does.
    configured: Option<String>,
    /// What an operator put over both, when one did.
    overridden: Option<String>,
    /// The value in force.
    effective: String,
    /// Whose value that is: `code`, `configuration` or `operator`.
    winner: &'static str,
    /// Why, in a sentence.
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
                Winner::Code => "code",
                Winner::Configuration => "configuration",
                Winner::Operator => "operator",
            },
            why: layer.why,
        }
    }
}

/// What code, configuration and operators say about each field, which of them is in force, and why.
#[utoipa::path(get, operation_id = "get_job_layers", path = "/jobs/{name}/layers", tag = "jobs", params(("name" = String, Path)),
    responses((status = 200, body = Vec<JobLayerView>), (status = 404, body = Problem)))]
pub(super) async fn layers(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Json<Vec<JobLayerView>>> {
    caller.must_be(Role::Viewer)?;
    let record = find(&app, &name).await?.record;
    Ok(Json(punctual::policy::layers(&record).into_iter().map(JobLayerView::from).collect()))
}
