//! Saved views: named filters of dashboard pages, for each user.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::backend::documents::{ExpectedVersion, KeyRange, NewDocument, RemoveResult};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path};
use crate::idempotency::Keyed;
use crate::page::Listing;
use crate::problem::{ApiResult, Problem};

/// Kind of the documents.
pub(crate) const KIND: &str = "view";
/// Largest number of views of a user.
const VIEWS_MAX: usize = 200;
/// Largest number of characters of each text.
const TEXT_LEN_MAX: usize = 2_000;
/// Largest number of characters of a name, so that it fits into a document key.
const NAME_LEN_MAX: usize = 100;

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(put, delete))
}

/// A saved view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
struct SavedView {
    /// Name of the view.
    name: String,
    /// Page of the view, such as `messages`.
    page: String,
    /// Query string of the page.
    query: String,
}

/// A view to save.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SavedViewRequest {
    /// Name of the view; may be omitted, otherwise equal to the one in the path.
    name: Option<String>,
    /// Page of the view.
    page: String,
    /// Query string of the page.
    query: String,
}

/// Returns the key prefix of the views of a caller, safe for any character in the name.
fn key_prefix(caller: &Caller) -> String {
    let digest = Sha256::digest(caller.identity().as_bytes());
    let mut text = String::new();
    for byte in &digest[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('/');
    text
}

/// Lists the saved views of the caller by name.
#[utoipa::path(get, path = "/views", tag = "views", responses((status = 200, body = Listing<SavedView>)))]
async fn list(State(app): State<App>, caller: Caller) -> ApiResult<Json<Listing<SavedView>>> {
    caller.must_be(Role::Viewer)?;
    let range = KeyRange { limit: VIEWS_MAX, ..KeyRange::prefix(key_prefix(&caller)) };
    let documents = app.documents.list(KIND, range, app.clock.now()).await?;
    let views = documents.into_iter().filter_map(|one| serde_json::from_value(one.body).ok());
    Ok(Json(Listing::whole(views.collect())))
}

/// Saves a view; replaces one with the same name.
#[utoipa::path(put, path = "/views/{name}", tag = "views", params(("name" = String, Path)),
    request_body = SavedViewRequest, responses((status = 200, body = SavedView), (status = 422, body = Problem)))]
async fn put(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<SavedViewRequest>,
) -> ApiResult<Json<SavedView>> {
    caller.must_be(Role::Viewer)?;
    if request.name.as_ref().is_some_and(|given| *given != name) {
        return Err(Problem::refused("`name` differs from the name in the path")
            .field("name", "leave it out"));
    }
    let fits = |text: &str, most| !text.trim().is_empty() && text.chars().count() <= most;
    if !fits(&name, NAME_LEN_MAX) || name.contains(char::is_control) {
        let problem = format!("must have 1 to {NAME_LEN_MAX} printable characters");
        return Err(Problem::refused(format!("the name {problem}")).field("name", problem));
    }
    if !fits(&request.page, TEXT_LEN_MAX) || request.query.chars().count() > TEXT_LEN_MAX {
        let problem =
            format!("must have at most {TEXT_LEN_MAX} characters, and `page` at least one");
        return Err(
            Problem::refused(format!("`page` and `query` {problem}")).field("page", problem)
        );
    }
    let (now, key) = (app.clock.now(), format!("{}{name}", key_prefix(&caller)));
    let range = KeyRange { limit: VIEWS_MAX, ..KeyRange::prefix(key_prefix(&caller)) };
    let existing = app.documents.list(KIND, range, now).await?;
    if existing.len() >= VIEWS_MAX && !existing.iter().any(|one| one.key == key) {
        return Err(Problem::refused(format!(
            "there are {VIEWS_MAX} saved views, which is the limit; delete one first"
        )));
    }
    let view = SavedView { name, page: request.page, query: request.query };
    let body = serde_json::to_value(&view)
        .map_err(|error| punctual::Error::internal("a view cannot be written").caused_by(error))?;
    if let Some(known) = existing.iter().find(|one| one.key == key && one.body != body) {
        keyed.refuse_if_changed("the view", known.updated_at)?;
    }
    app.documents.put_all(vec![NewDocument::new(KIND, key, body)], now).await?;
    Ok(Json(view))
}

/// Deletes a saved view.
#[utoipa::path(delete, path = "/views/{name}", tag = "views", params(("name" = String, Path)),
    responses((status = 204), (status = 404, body = Problem)))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult<StatusCode> {
    caller.must_be(Role::Viewer)?;
    let key = format!("{}{name}", key_prefix(&caller));
    match app.documents.remove(KIND, &key, ExpectedVersion::Any).await? {
        RemoveResult::Removed => Ok(StatusCode::NO_CONTENT),
        _ => Err(Problem::not_found(format!("you have no saved view {name:?}"))),
    }
}
