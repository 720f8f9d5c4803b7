//! Session: log in, log out, the current caller, and the own password.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::audit::Change;
use crate::auth::{
    BROWSER_COOKIE, BROWSER_TTL, COOKIE_NAME, CallAddress, Login, Mode, PASSWORD_LENGTH_MIN,
    browser_cookie, cookie, csrf_of, log_in,
};
use crate::caller::{AuthenticationMethod, Caller, MaybeCaller, Role};
use crate::extract::Body;
use crate::problem::{ApiResult, Problem};

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show, begin, end)).routes(routes!(password))
}

/// The current session.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SessionView {
    /// Whether the caller is authenticated.
    authenticated: bool,
    /// The caller; null when not authenticated.
    user: Option<SessionUser>,
    /// Token that changes must send as `X-CSRF-Token` when the session cookie is used.
    csrf: Option<String>,
    /// Auth mode: `none`, `password`, `proxy` or `oidc`.
    auth: &'static str,
    /// Name of the identity provider in mode `oidc`; its login starts at `session/oidc`.
    provider: Option<String>,
    /// Smallest number of characters of a password.
    password_length_min: usize,
    /// Version of the server.
    version: &'static str,
    /// Whether the server runs in demo mode.
    demo: bool,
}

/// An authenticated caller.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SessionUser {
    /// Name of the user or token.
    name: String,
    /// Role of the caller.
    role: Role,
}

/// Credentials of a user.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Login)]
pub(crate) struct LoginRequest {
    /// Name of the user.
    name: String,
    /// Password of the user.
    password: String,
}

/// Change of the own password.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPassword {
    /// Current password.
    old: String,
    /// New password.
    new: String,
    /// Whether to revoke the caller's tokens as well. Default: false.
    #[serde(default)]
    revoke_tokens: bool,
}

fn view(app: &App, caller: Option<Caller>) -> SessionView {
    let csrf = caller.as_ref().and_then(|caller| caller.csrf.clone());
    SessionView {
        authenticated: caller.is_some(),
        user: caller
            .map(|caller| SessionUser { name: caller.person().to_owned(), role: caller.role }),
        csrf,
        auth: app.auth().word(),
        provider: app.auth().provider_name().map(str::to_owned),
        password_length_min: PASSWORD_LENGTH_MIN,
        version: env!("CARGO_PKG_VERSION"),
        demo: app.is_demo(),
    }
}

/// Returns the current session; works without credentials.
#[utoipa::path(get, path = "/session", tag = "session", security(()), responses((status = 200, body = SessionView)))]
async fn show(State(app): State<App>, MaybeCaller(caller): MaybeCaller) -> Json<SessionView> {
    Json(view(&app, caller))
}

/// Logs in with name and password, and starts a session.
#[utoipa::path(post, path = "/session", tag = "session", security(()), request_body = LoginRequest, responses(
    (status = 200, body = SessionView), (status = 401, body = Problem), (status = 429, body = Problem),
    (status = 503, body = Problem)))]
async fn begin(
    State(app): State<App>,
    CallAddress(from): CallAddress,
    headers: HeaderMap,
    Body(request): Body<LoginRequest>,
) -> ApiResult<Response> {
    let auth = app.auth();
    if auth.settings.mode != Mode::Password {
        let sentence = match auth.provider_name() {
            Some(name) => format!("users sign in with {name} here; programs use a token"),
            None => format!("login is not available; the auth mode is {}", auth.word()),
        };
        return Err(Problem::conflict(sentence));
    }
    let browser = browser_cookie(&headers);
    let (name, password) = (&request.name, &request.password);
    let user = log_in(&app, Login { name, password, from, browser: browser.clone() }).await?;
    if let Some(old) = cookie(&headers) {
        auth.sessions.end(&old).await?;
    }
    let now = app.clock.now();
    auth.users.change(&user.name, |user| user.last_login_at = Some(now)).await?;
    let secret = auth.sessions.begin(&user).await?;
    let (csrf, id) = (Some(csrf_of(&secret)), user.id.clone());
    let authentication = AuthenticationMethod::Session { secret: secret.clone(), id };
    let caller = Caller { from, csrf, authentication, ..Caller::new(&user.name, user.role) };
    app.audit().note(&caller, Change::new("session.begin", &user.name)).await?;
    let browser = auth.browsers.remember(browser.as_deref(), &user).await?;
    let cookies = AppendHeaders([
        (SET_COOKIE, session_cookie(&app, &headers, &secret)?),
        (SET_COOKIE, set_cookie(&app, &headers, BROWSER_COOKIE, &browser, BROWSER_TTL)?),
    ]);
    Ok((cookies, Json(view(&app, Some(caller)))).into_response())
}

/// Logs out and ends the session.
#[utoipa::path(delete, path = "/session", tag = "session", responses((status = 204)))]
async fn end(
    State(app): State<App>,
    MaybeCaller(caller): MaybeCaller,
    headers: HeaderMap,
) -> ApiResult<Response> {
    if let Some(secret) = cookie(&headers)
        && app.auth().sessions.end(&secret).await?
        && let Some(caller) = caller
    {
        app.audit().note(&caller, Change::new("session.end", caller.person())).await?;
    }
    let removal =
        format!("{COOKIE_NAME}=; Path={}; Max-Age=0; HttpOnly; SameSite=Strict", path(&app));
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, header(&removal)?)]).into_response())
}

/// Changes the caller's own password. Ends all other sessions, and revokes the tokens with `revoke_tokens`.
#[utoipa::path(post, path = "/session/password", tag = "session", request_body = NewPassword, responses(
    (status = 204), (status = 401, body = Problem), (status = 422, body = Problem)))]
async fn password(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<NewPassword>,
) -> ApiResult<Response> {
    caller.must_be(Role::Viewer)?;
    let auth = app.auth();
    let (name, password, browser) = (&caller.name, &request.old, browser_cookie(&headers));
    let user = log_in(&app, Login { name, password, from: caller.from, browser }).await?;
    let hash = auth.hash(&request.new, caller.from).await?;
    let change = |user: &mut crate::auth::User| {
        user.hash.clone_from(&hash);
        user.generation += 1;
        user.tokens_generation += u64::from(request.revoke_tokens);
    };
    let (_, user) = auth.users.change(&user.name, change).await?;
    app.audit().note(&caller, Change::new("user.password", &user.name)).await?;
    if request.revoke_tokens {
        auth.tokens.revoke_ended(&user).await?;
    }
    if let Some(old) = cookie(&headers) {
        auth.sessions.end(&old).await?;
    }
    let secret = auth.sessions.begin(&user).await?;
    let cookie = [(SET_COOKIE, session_cookie(&app, &headers, &secret)?)];
    Ok((StatusCode::NO_CONTENT, cookie).into_response())
}

/// Returns the cookie of a session.
pub(super) fn session_cookie(
    app: &App,
    headers: &HeaderMap,
    secret: &str,
) -> ApiResult<HeaderValue> {
    set_cookie(app, headers, COOKIE_NAME, secret, app.auth().settings.session_ttl)
}

fn set_cookie(
    app: &App,
    headers: &HeaderMap,
    name: &str,
    value: &str,
    max_age: Duration,
) -> ApiResult<HeaderValue> {
    let forwarded = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
    let is_secure = forwarded == Some("https") || app.auth().is_secure() || app.is_encrypted();
    let secure = if is_secure { "; Secure" } else { "" };
    header(&format!(
        "{name}={value}; Path={}; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
        path(app),
        max_age.as_secs()
    ))
}

fn path(app: &App) -> String {
    format!("{}/", app.auth().settings.prefix.trim_end_matches('/'))
}

pub(super) fn header(text: &str) -> ApiResult<HeaderValue> {
    HeaderValue::from_str(text)
        .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a cookie cannot be written"))
}
