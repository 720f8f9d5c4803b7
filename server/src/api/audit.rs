//! The audit trail, for people.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::audit::Entry;
use crate::caller::{Caller, Role};
use crate::extract::Query;
use crate::page::{Listing, PageQuery};
use crate::problem::Answer;

/// The most entries that are looked at for one page.
const LOOKED_AT_MAX: usize = 10_000;
/// How many are read at once.
const BATCH: usize = 500;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Which entries; what is not given does not matter.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wanted {
    /// Only by this one: the name, or the `identity` of an entry.
    who: Option<String>,
    /// Only what begins with this, such as `job` or `job.pause`.
    what: Option<String>,
    /// Only to this.
    target: Option<String>,
    /// At most so many rows: 1 to 1000, 50 when not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

impl Wanted {
    fn has(&self, entry: &Entry) -> bool {
        let is_by = |who: &String| entry.who == *who || entry.identity.as_ref() == Some(who);
        self.who.as_ref().is_none_or(is_by)
            && self.what.as_ref().is_none_or(|what| entry.what.starts_with(what.as_str()))
            && self.target.as_ref().is_none_or(|target| entry.target == *target)
    }
}

/// Who changed what, newest first.
#[utoipa::path(get, path = "/audit", tag = "audit", params(Wanted), responses((status = 200, body = Listing<Entry>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Answer<Json<Listing<Entry>>> {
    caller.must_be(Role::Viewer)?;
    let limit = PageQuery { limit: wanted.limit, after: None }.limit()?;
    let mut after = wanted.after.clone();
    let mut items = Vec::new();
    for _ in 0..LOOKED_AT_MAX / BATCH {
        let entries = app.audit().list(after.clone(), BATCH).await?;
        let is_last = entries.len() < BATCH;
        for entry in entries {
            if items.len() == limit {
                return Ok(Json(Listing { items, next: after }));
            }
            after = Some(entry.id.clone());
            if wanted.has(&entry) {
                items.push(shown(&app, entry));
            }
        }
        if is_last {
            return Ok(Json(Listing::whole(items)));
        }
    }
    Ok(Json(Listing { items, next: after }))
}

/// An entry without what nobody gets to see.
fn shown(app: &App, mut entry: Entry) -> Entry {
    for value in [&mut entry.before, &mut entry.after].into_iter().flatten() {
        app.redaction().hide_job(value);
    }
    entry
}
