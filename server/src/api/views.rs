//! Saved views: a page and what it was filtered by, under a name, for the one who saved it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::documents::{ExpectedVersion, KeyRange, NewDocument, RemoveResult};
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
use crate::problem::{Answer, Problem};

/// The kind of the documents.
pub(crate) const KIND: &str = "view";
/// The most views of one person.
const VIEWS_MAX: usize = 200;
/// The most characters of each text.
const TEXT_LEN_MAX: usize = 2_000;
/// The most characters of a name, so that it fits into a key.
const NAME_LEN_MAX: usize = 100;

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(put, delete))
}

/// A saved view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
struct View {
    /// Its name.
    name: String,
    /// The page it is of, such as `messages`.
    page: String,
    /// What the page is filtered by.
    query: String,
}

/// A view to be saved.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ViewRequest {
    /// Its name; the one in the path counts, and this must be the same.
    name: Option<String>,
    /// The page it is of.
    page: String,
    /// What the page is filtered by.
    query: String,
}

/// Where the views of a caller are, whatever signs are in the name.
fn shelf(caller: &Caller) -> String {
    let digest = Sha256::digest(caller.identity().as_bytes());
    let mut text = String::new();
    for byte in &digest[..16] {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('/');
    text
}

/// The views of whoever asks, by name.
#[utoipa::path(get, path = "/views", tag = "views", responses((status = 200, body = Listing<View>)))]
async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<Listing<View>>> {
    caller.must_be(Role::Viewer)?;
    let range = KeyRange { limit: VIEWS_MAX, ..KeyRange::prefix(shelf(&caller)) };
    let documents = app.documents.list(KIND, range, app.clock.now()).await?;
    let views = documents.into_iter().filter_map(|one| serde_json::from_value(one.body).ok());
    Ok(Json(Listing::whole(views.collect())))
}

/// Saves a view, in place of one of the same name.
#[utoipa::path(put, path = "/views/{name}", tag = "views", params(("name" = String, Path)),
    request_body = ViewRequest, responses((status = 200, body = View), (status = 422, body = Problem)))]
async fn put(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<ViewRequest>,
) -> Answer<Json<View>> {
    caller.must_be(Role::Viewer)?;
    if request.name.as_ref().is_some_and(|given| *given != name) {
        return Err(
            Problem::refused("`name` is not the one in the path").field("name", "leave it out")
        );
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
    let (now, key) = (app.clock.now(), format!("{}{name}", shelf(&caller)));
    let range = KeyRange { limit: VIEWS_MAX, ..KeyRange::prefix(shelf(&caller)) };
    let there = app.documents.list(KIND, range, now).await?;
    if there.len() >= VIEWS_MAX && !there.iter().any(|one| one.key == key) {
        return Err(Problem::refused(format!("{VIEWS_MAX} views are saved; delete one first")));
    }
    let view = View { name, page: request.page, query: request.query };
    let body = serde_json::to_value(&view)
        .map_err(|error| punctual::Error::internal("a view cannot be written").caused_by(error))?;
    if let Some(known) = there.iter().find(|one| one.key == key && one.body != body) {
        keyed.refuse_if_changed("the view", known.updated_at)?;
    }
    app.documents.put_all(vec![NewDocument::new(KIND, key, body)], now).await?;
    Ok(Json(view))
}

/// Deletes a view.
#[utoipa::path(delete, path = "/views/{name}", tag = "views", params(("name" = String, Path)),
    responses((status = 204), (status = 404, body = Problem)))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    caller.must_be(Role::Viewer)?;
    let key = format!("{}{name}", shelf(&caller));
    match app.documents.remove(KIND, &key, ExpectedVersion::Any).await? {
        RemoveResult::Removed => Ok(StatusCode::NO_CONTENT),
        _ => Err(Problem::not_found(format!("you have no saved view {name:?}"))),
    }
}
