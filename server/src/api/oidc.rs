//! `OpenID` Connect login: the redirect of a browser to the identity provider, and the callback. Users see both pages,
//! so browsers receive errors as HTML.

use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::session::{header, session_cookie};
use crate::app::App;
use crate::audit::Change;
use crate::auth::{Attempt, CallAddress, Person, cookie, csrf_of, note_login};
use crate::caller::{Caller, Role};
use crate::extract::Query;
use crate::problem::{ApiResult, Problem};

/// Target of a refused sign-in in the audit trail, because its user is unknown.
const SIGN_IN: &str = "sign-in";

/// Returns the routes of this module.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(redirect)).routes(routes!(callback))
}

/// Query parameters of the callback; others are ignored.
#[derive(Debug, Deserialize, IntoParams)]
struct CallbackQuery {
    /// Authorization code.
    code: Option<String>,
    /// State that this server sent to the provider.
    state: Option<String>,
    /// Error code of the provider, if any.
    error: Option<String>,
    /// Issuer identifier of the provider, if sent.
    iss: Option<String>,
}

/// Redirects the browser to the identity provider.
#[utoipa::path(get, operation_id = "start_oidc_session", path = "/session/oidc", tag = "session", security(()), responses(
    (status = 303), (status = 409, body = Problem), (status = 502, body = Problem)))]
async fn redirect(State(app): State<App>, headers: HeaderMap) -> Response {
    page_or_problem(&app, &headers, provider_redirect(&app).await)
}

/// Completes the login after the redirect from the identity provider, and starts a session.
#[utoipa::path(get, operation_id = "finish_oidc_session", path = "/session/oidc/callback", tag = "session", security(()), params(CallbackQuery), responses(
    (status = 303), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
    (status = 409, body = Problem), (status = 429, body = Problem), (status = 502, body = Problem)))]
async fn callback(
    State(app): State<App>,
    parts: Parts,
    Query(returned): Query<CallbackQuery>,
) -> Response {
    let mut response =
        page_or_problem(&app, &parts.headers, complete_login(&app, &parts, &returned).await);
    // Removes the browser's copy of the attempt, the only one there is. That an attempt succeeds only once is up to
    // the provider, which accepts each code once.
    if let Ok(provider) = app.auth().provider() {
        let settings = provider.settings();
        let removal = Attempt::no_cookie(&settings.cookie_path(), settings.is_secure());
        if let Ok(removal) = header(&removal) {
            response.headers_mut().append(SET_COOKIE, removal);
        }
    }
    response
}

async fn provider_redirect(app: &App) -> ApiResult<Response> {
    let provider = app.auth().provider()?;
    let attempt = Attempt::new(app.clock.now());
    let to = provider.address(&attempt).await?;
    let settings = provider.settings();
    let cookie = attempt.cookie(&settings.cookie_path(), settings.is_secure());
    let headers = [(LOCATION, header(&to)?), (SET_COOKIE, header(&cookie)?)];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

async fn complete_login(app: &App, parts: &Parts, returned: &CallbackQuery) -> ApiResult<Response> {
    let auth = app.auth();
    let settings = auth.provider()?.settings();
    let attempt = Attempt::of(&parts.headers, app.clock.now());
    let attempt = attempt.filter(|one| returned.state.as_ref().is_some_and(|it| one.has_state(it)));
    let attempt = attempt.ok_or_else(|| {
        Problem::malformed(format!(
            "this browser has not started to sign in, or too long ago; sign in again at {}",
            settings.home()
        ))
    })?;
    let is_other =
        |iss: &String| iss.trim_end_matches('/') != settings.issuer.trim_end_matches('/');
    if returned.iss.as_ref().is_some_and(is_other) {
        return Err(Problem::malformed("the response is from another provider; sign in again"));
    }
    let Some(code) = returned.code.as_ref().filter(|_| returned.error.is_none()) else {
        let why: String = returned.error.iter().flat_map(|why| why.chars()).take(100).collect();
        let sentence = format!("the identity provider refused the login ({why:?}); sign in again");
        return Err(Problem::new(StatusCode::UNAUTHORIZED, sentence));
    };
    let from = parts.extensions.get::<CallAddress>().and_then(|address| address.0);
    let known = auth.identify_by_provider(code, &attempt, from).await;
    note_login(app, SIGN_IN, from, known.as_ref().err()).await;
    let person = known?;
    let secret = begin(app, &person, Caller { from, ..guest(&person) }, &parts.headers).await?;
    let headers = [
        (LOCATION, header(&settings.home())?),
        (SET_COOKIE, session_cookie(app, &parts.headers, &secret)?),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Starts the session of a user in place of the one this browser had. The audit trail records success and refusal.
async fn begin(app: &App, person: &Person, who: Caller, headers: &HeaderMap) -> ApiResult<String> {
    let auth = app.auth();
    let user = match auth.sign_in_user(person).await {
        Ok(user) => user,
        Err(problem) => {
            let change = Change::new("session.refuse", &person.name).because(problem.detail());
            app.audit().note(&who, change).await?;
            return Err(problem);
        }
    };
    if let Some(old) = cookie(headers) {
        auth.sessions.end(&old).await?;
    }
    let secret = auth.sessions.begin(&user).await?;
    let caller = Caller { role: user.role, csrf: Some(csrf_of(&secret)), ..who };
    app.audit().note(&caller, Change::new("session.begin", &user.name)).await?;
    Ok(secret)
}

fn guest(person: &Person) -> Caller {
    Caller::new(&person.name, Role::Guest)
}

/// Returns the response, with an HTML page in place of a problem for browsers.
fn page_or_problem(app: &App, headers: &HeaderMap, result: ApiResult<Response>) -> Response {
    let mut response = match result {
        Ok(response) => response,
        Err(problem) if accepts_html(headers) => error_page(app, &problem),
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

fn error_page(app: &App, problem: &Problem) -> Response {
    let home = app.auth().provider().map(|one| one.settings().home()).unwrap_or_default();
    let text = format!(
        "<!doctype html><html lang=\"en\"><title>Punctual</title><h1>You are not signed in</h1><p>{}</p><p><a href=\"{}\">Back</a></p></html>",
        escaped(problem.detail()),
        escaped(&home)
    );
    (problem.status(), [(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
