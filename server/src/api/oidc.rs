//! Signing in by `OpenID` Connect: a browser leaves for the provider, and comes back. Both are pages that
//! people see, so a browser that did not get through is told so in HTML.

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
use crate::problem::{Answer, Problem};

/// What the audit trail calls a refused sign-in, whose name nobody knows.
const SIGN_IN: &str = "sign-in";

/// What this file answers.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(leave)).routes(routes!(come_back))
}

/// What a provider sends a browser back with; whatever else it says is not looked at.
#[derive(Debug, Deserialize, IntoParams)]
struct Returned {
    /// What is exchanged for a token.
    code: Option<String>,
    /// What this server sent along.
    state: Option<String>,
    /// What went wrong, when something did.
    error: Option<String>,
    /// The provider, when it says so.
    iss: Option<String>,
}

/// Sends a browser to the provider.
#[utoipa::path(get, path = "/session/oidc", tag = "session", security(()), responses(
    (status = 303), (status = 409, body = Problem), (status = 502, body = Problem)))]
async fn leave(State(app): State<App>, headers: HeaderMap) -> Response {
    shown(&app, &headers, leaving(&app).await)
}

/// Takes a browser back from the provider, and begins a session.
#[utoipa::path(get, path = "/session/oidc/callback", tag = "session", security(()), params(Returned), responses(
    (status = 303), (status = 400, body = Problem), (status = 401, body = Problem), (status = 403, body = Problem),
    (status = 409, body = Problem), (status = 429, body = Problem), (status = 502, body = Problem)))]
async fn come_back(
    State(app): State<App>,
    parts: Parts,
    Query(returned): Query<Returned>,
) -> Response {
    let mut response = shown(&app, &parts.headers, coming_back(&app, &parts, &returned).await);
    // Removes the browser's copy of the attempt, the only one there is. That an attempt succeeds only once is up to
    // the provider, which accepts each code once.
    if let Ok(provider) = app.auth().provider() {
        let settings = provider.settings();
        let gone = Attempt::no_cookie(&settings.cookie_path(), settings.is_secure());
        if let Ok(gone) = header(&gone) {
            response.headers_mut().append(SET_COOKIE, gone);
        }
    }
    response
}

async fn leaving(app: &App) -> Answer<Response> {
    let provider = app.auth().provider()?;
    let attempt = Attempt::new(app.clock.now());
    let to = provider.address(&attempt).await?;
    let settings = provider.settings();
    let cookie = attempt.cookie(&settings.cookie_path(), settings.is_secure());
    let headers = [(LOCATION, header(&to)?), (SET_COOKIE, header(&cookie)?)];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

async fn coming_back(app: &App, parts: &Parts, returned: &Returned) -> Answer<Response> {
    let auth = app.auth();
    let settings = auth.provider()?.settings();
    let attempt = Attempt::of(&parts.headers, app.clock.now());
    let attempt = attempt.filter(|one| returned.state.as_ref().is_some_and(|it| one.has_state(it)));
    let attempt = attempt.ok_or_else(|| {
        Problem::malformed(format!(
            "this browser has not begun to sign in, or too long ago; begin again at {}",
            settings.home()
        ))
    })?;
    let is_other =
        |iss: &String| iss.trim_end_matches('/') != settings.issuer.trim_end_matches('/');
    if returned.iss.as_ref().is_some_and(is_other) {
        return Err(Problem::malformed("this is the answer of another provider; begin again"));
    }
    let Some(code) = returned.code.as_ref().filter(|_| returned.error.is_none()) else {
        let why: String = returned.error.iter().flat_map(|why| why.chars()).take(100).collect();
        let sentence = format!("the provider did not let you in ({why:?}); sign in again");
        return Err(Problem::new(StatusCode::UNAUTHORIZED, sentence));
    };
    let from = parts.extensions.get::<CallAddress>().and_then(|address| address.0);
    let known = auth.known_by_provider(code, &attempt, from).await;
    note_login(app, SIGN_IN, from, known.as_ref().err()).await;
    let person = known?;
    let secret = begin(app, &person, Caller { from, ..nobody(&person) }, &parts.headers).await?;
    let headers = [
        (LOCATION, header(&settings.home())?),
        (SET_COOKIE, session_cookie(app, &parts.headers, &secret)?),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Begins the session of somebody, in place of the one this browser had; both ways it is noted.
async fn begin(app: &App, person: &Person, who: Caller, headers: &HeaderMap) -> Answer<String> {
    let auth = app.auth();
    let user = match auth.welcome(person).await {
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

fn nobody(person: &Person) -> Caller {
    Caller::new(&person.name, Role::Guest)
}

/// The answer, with a page in place of a problem where people look at it.
fn shown(app: &App, headers: &HeaderMap, answer: Answer<Response>) -> Response {
    let mut response = match answer {
        Ok(response) => response,
        Err(problem) if takes_html(headers) => page(app, &problem),
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn takes_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

fn page(app: &App, problem: &Problem) -> Response {
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
