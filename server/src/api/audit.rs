//! Audit trail: lists who changed what.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::audit::AuditEntry;
use crate::caller::{Caller, Role};
use crate::extract::Query;
use crate::page::{Listing, PageQuery};
use crate::problem::ApiResult;

/// Largest number of entries read for one page.
const SCANNED_MAX: usize = 10_000;
/// Number of entries per read.
const BATCH: usize = 500;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Filter of audit entries; omitted parameters match every entry.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Only changes by this caller: the `who` or the `identity` of an entry.
    who: Option<String>,
    /// Only actions that begin with this text, such as `job` or `job.pause`.
    what: Option<String>,
    /// Only changes of this target.
    target: Option<String>,
    /// Page size, 1 to 1000. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Cursor: `next` of the previous page.
    after: Option<String>,
}

impl AuditQuery {
    fn matches(&self, entry: &AuditEntry) -> bool {
        let is_by = |who: &String| entry.who == *who || entry.identity.as_ref() == Some(who);
        self.who.as_ref().is_none_or(is_by)
            && self.what.as_ref().is_none_or(|what| entry.what.starts_with(what.as_str()))
            && self.target.as_ref().is_none_or(|target| entry.target == *target)
    }
}

/// Lists the audit trail, newest first.
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditQuery), responses((status = 200, body = Listing<AuditEntry>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> ApiResult<Json<Listing<AuditEntry>>> {
    caller.must_be(Role::Viewer)?;
    let limit = PageQuery { limit: query.limit, after: None }.limit()?;
    let mut after = query.after.clone();
    let mut items = Vec::new();
    for _ in 0..SCANNED_MAX / BATCH {
        let entries = app.audit().list(after.clone(), BATCH).await?;
        let is_last = entries.len() < BATCH;
        for entry in entries {
            if items.len() == limit {
                return Ok(Json(Listing { items, next: after }));
            }
            after = Some(entry.id.clone());
            if query.matches(&entry) {
                items.push(redacted(&app, entry));
            }
        }
        if is_last {
            return Ok(Json(Listing::whole(items)));
        }
    }
    Ok(Json(Listing { items, next: after }))
}

/// Returns an entry without redacted values.
fn redacted(app: &App, mut entry: AuditEntry) -> AuditEntry {
    for value in [&mut entry.before, &mut entry.after].into_iter().flatten() {
        app.redaction().hide_job(value);
    }
    entry
}
