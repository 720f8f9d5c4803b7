//! Users and their roles.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::audit::Change;
use crate::auth::User;
use crate::caller::{Caller, Role};
use crate::extract::{Body, Path, Query};
use crate::idempotency::Keyed;
use crate::page::{Listing, PageQuery};
use crate::problem::{ApiResult, Problem};

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, change, delete))
}

/// A user.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct UserView {
    /// Name of the user.
    name: String,
    /// Role of the user.
    role: Role,
    /// Creation time.
    created_at: Timestamp,
    /// Last login.
    last_login_at: Option<Timestamp>,
    /// Whether the user is disabled and cannot log in.
    disabled: bool,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        let User { name, role, created_at, last_login_at, disabled, .. } = user;
        Self { name, role, created_at, last_login_at, disabled }
    }
}

/// A user to create.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUser {
    /// Name of the user.
    name: String,
    /// Role of the user.
    role: Role,
    /// Initial password.
    password: String,
}

/// Changes of a user; omitted fields keep their values.
#[derive(Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserChange {
    /// New role.
    role: Option<Role>,
    /// New password.
    password: Option<String>,
    /// Whether the user is disabled. `true` ends their sessions and event streams and revokes their tokens;
    /// `false` lets them log in again and restores none of these.
    disabled: Option<bool>,
    /// Whether to revoke the tokens of the user; disabling the user always does. Default: false.
    #[serde(default)]
    revoke_tokens: bool,
}

/// Lists users by name.
#[utoipa::path(get, path = "/users", tag = "users", params(PageQuery), responses((status = 200, body = Listing<UserView>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<Listing<UserView>>> {
    caller.must_be(Role::Admin)?;
    let limit = page.limit()?;
    let users = app.auth().users.list(page.after, limit).await?;
    let next = (users.len() == limit).then(|| users.last().map(|user| user.name.clone())).flatten();
    Ok(Json(Listing { items: users.into_iter().map(UserView::from).collect(), next }))
}

/// Creates a user.
#[utoipa::path(post, path = "/users", tag = "users", request_body = NewUser, responses(
    (status = 201, body = UserView), (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<NewUser>,
) -> ApiResult<(StatusCode, Json<UserView>)> {
    caller.must_be(Role::Admin)?;
    let role = person_role(request.role)?;
    let hash = app.auth().hash(&request.password, caller.from).await?;
    let user = User::new(request.name, role, hash, app.clock.now());
    app.auth().users.create(&user).await?;
    let view = UserView::from(user);
    app.audit().note(&caller, Change::new("user.create", &view.name).to(&view)).await?;
    Ok((StatusCode::CREATED, Json(view)))
}

/// Returns a user.
#[utoipa::path(get, path = "/users/{name}", tag = "users", params(("name" = String, Path)), responses(
    (status = 200, body = UserView), (status = 404, body = Problem)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult<Json<UserView>> {
    caller.must_be(Role::Admin)?;
    Ok(Json(app.auth().users.get(&name).await?.into()))
}

/// Changes a user. Every change ends the sessions of the user; disabling also revokes the tokens.
#[utoipa::path(patch, path = "/users/{name}", tag = "users", params(("name" = String, Path)), request_body = UserChange,
    responses((status = 200, body = UserView), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn change(
    State(app): State<App>,
    caller: Caller,
    keyed: Keyed,
    Path(name): Path<String>,
    Body(request): Body<UserChange>,
) -> ApiResult<Json<UserView>> {
    caller.must_be(Role::Admin)?;
    let role = request.role.map(person_role).transpose()?;
    keyed.refuse_if_overtaken(&app, &caller, &Change::new("user.change", &name)).await?;
    let users = &app.auth().users;
    users.get(&name).await?;
    let hash = match &request.password {
        Some(password) => Some(app.auth().hash(password, caller.from).await?),
        None => None,
    };
    let apply = |user: &mut User| {
        let disabled = request.disabled.unwrap_or(user.disabled);
        // Also when enabling, for users who were disabled before tokens had generations.
        let ends_tokens = request.revoke_tokens || disabled != user.disabled;
        user.role = role.unwrap_or(user.role);
        user.disabled = disabled;
        user.hash = hash.clone().unwrap_or_else(|| user.hash.clone());
        user.generation += 1;
        user.tokens_generation += u64::from(ends_tokens);
    };
    let (before, after) = users.change_unless_last_admin(&name, apply).await?;
    if before.tokens_generation != after.tokens_generation {
        // They are invalid since the change; this deletes them.
        app.auth().tokens.revoke_ended(&after).await?;
    }
    let (before, after) = (UserView::from(before), UserView::from(after));
    app.audit().note(&caller, Change::new("user.change", &name).from(&before).to(&after)).await?;
    Ok(Json(after))
}

/// Deletes a user, with their sessions and tokens.
#[utoipa::path(delete, path = "/users/{name}", tag = "users", params(("name" = String, Path)), responses(
    (status = 204), (status = 404, body = Problem)))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult<StatusCode> {
    caller.must_be(Role::Admin)?;
    let user = app.auth().users.remove_unless_last_admin(&name).await?;
    // They are invalid without their user; this deletes them.
    app.auth().tokens.revoke_all(&user).await?;
    let before = UserView::from(user);
    app.audit().note(&caller, Change::new("user.delete", &name).from(&before)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns a role. Fails for the role guest, which only tokens have.
fn person_role(role: Role) -> ApiResult<Role> {
    if role == Role::Guest {
        let sentence = "the role of a user is viewer, operator or admin; guest is for tokens only";
        return Err(Problem::refused(sentence).field("role", "viewer, operator or admin"));
    }
    Ok(role)
}
