//! Kinds of callers: without credentials, with invalid ones, and with those of each scope and role.

use axum::body::Body;
use axum::http::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use jiff::ToSpan;
use punctual_server::Role;
use serde_json::{Value, json};

use super::Rule;
use crate::site::{Site, TestResponse};

pub(super) const PASSWORD: &str = "correct horse battery";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Anonymous,
    UnknownCookie,
    UnknownToken,
    AlteredToken,
    ExpiredToken,
    RevokedToken,
    BearerAlone,
    JunkBasic,
    OtherScheme,
    /// The session of an admin, without the CSRF token.
    CookieWithoutPage,
    TokenRead,
    TokenWork,
    TokenPublish,
    TokenOperate,
    TokenAdmin,
    SessionViewer,
    SessionOperator,
    SessionAdmin,
}

/// Headers with the credentials of a caller.
pub(super) type Credentials = Vec<(&'static str, String)>;

impl Kind {
    /// Returns the status with which a rule refuses this caller; none when it admits the caller.
    pub(super) fn expected(self, rule: Rule, operation: &str) -> Option<StatusCode> {
        let role = match self {
            Self::Anonymous | Self::UnknownCookie => {
                let is_open = matches!(rule, Rule::Probe | Rule::Public);
                return (!is_open).then_some(StatusCode::UNAUTHORIZED);
            }
            Self::UnknownToken
            | Self::AlteredToken
            | Self::ExpiredToken
            | Self::RevokedToken
            | Self::BearerAlone
            | Self::JunkBasic
            | Self::OtherScheme => {
                return (rule != Rule::Probe).then_some(StatusCode::UNAUTHORIZED);
            }
            Self::CookieWithoutPage if !operation.starts_with("GET") => {
                return Some(StatusCode::FORBIDDEN);
            }
            Self::TokenWork | Self::TokenPublish => Role::Guest,
            Self::TokenRead | Self::SessionViewer => Role::Viewer,
            Self::TokenOperate | Self::SessionOperator => Role::Operator,
            Self::TokenAdmin | Self::SessionAdmin | Self::CookieWithoutPage => Role::Admin,
        };
        let is_let = match rule {
            Rule::Probe | Rule::Public => true,
            Rule::Viewer => role >= Role::Viewer,
            Rule::Operator => role >= Role::Operator,
            Rule::Admin => role >= Role::Admin,
            Rule::Publisher => role >= Role::Operator || self == Self::TokenPublish,
            Rule::Worker => self == Self::TokenWork,
        };
        (!is_let).then_some(StatusCode::FORBIDDEN)
    }
}

async fn call(
    site: &Site,
    credentials: &Credentials,
    method: &str,
    path: &str,
    body: &Value,
) -> TestResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in credentials {
        request = request.header(*name, value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

/// Logs a user in and returns the session with its CSRF token.
async fn session(site: &Site, name: &str) -> Credentials {
    let login = json!({ "name": name, "password": PASSWORD });
    let response = call(site, &Vec::new(), "POST", "/api/v1/session", &login).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text);
    let cookie = response.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
    let csrf = response.json["csrf"].as_str().unwrap();
    vec![("cookie", cookie.to_owned()), ("x-csrf-token", csrf.to_owned())]
}

fn bearer(secret: &str) -> Credentials {
    vec![("authorization", format!("Bearer {secret}"))]
}

/// Creates a token as an admin and returns its id and its secret.
async fn token(
    site: &Site,
    admin: &Credentials,
    scope: &str,
    expires_in: &str,
) -> (String, String) {
    let mut token_request = json!({ "name": scope, "scopes": [scope], "expires_in": expires_in });
    if scope == "work" {
        token_request["queues"] = json!(["*"]);
    }
    let made = call(site, admin, "POST", "/api/v1/tokens", &token_request).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let text = |name: &str| made.json[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

/// Returns every kind of caller with its credentials.
pub(super) async fn callers(site: &Site) -> Vec<(Kind, Credentials)> {
    for (name, role) in
        [("ada", "admin"), ("olga", "operator"), ("vera", "viewer"), ("eve", "viewer")]
    {
        let user = json!({ "name": name, "role": role, "password": PASSWORD });
        let made = site.as_role(Role::Admin).post("/api/v1/users", &user).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    }
    let admin = session(site, "ada").await;
    let (_, expired) = token(site, &admin, "admin", "1s").await;
    site.clock.set(site.clock.now() + 2.seconds());
    let (id, revoked) = token(site, &admin, "admin", "1h").await;
    call(site, &admin, "DELETE", &format!("/api/v1/tokens/{id}"), &Value::Null).await;
    let (_, altered) = token(site, &admin, "admin", "1h").await;
    let authorization = |text: &str| vec![("authorization", text.to_owned())];
    let unknown = format!("pct_{}_{}", "0".repeat(32), "x".repeat(43));
    let mut all = vec![
        (Kind::Anonymous, Vec::new()),
        (Kind::UnknownCookie, vec![("cookie", "punctual_session=guess".to_owned())]),
        (Kind::UnknownToken, bearer(&unknown)),
        (Kind::AlteredToken, bearer(&format!("{altered}x"))),
        (Kind::ExpiredToken, bearer(&expired)),
        (Kind::RevokedToken, bearer(&revoked)),
        (Kind::BearerAlone, authorization("Bearer")),
        (Kind::JunkBasic, authorization("Basic junk")),
        (Kind::OtherScheme, authorization("Magic x")),
        (Kind::CookieWithoutPage, vec![session(site, "ada").await.remove(0)]),
    ];
    for (kind, scope) in [
        (Kind::TokenRead, "read"),
        (Kind::TokenWork, "work"),
        (Kind::TokenPublish, "publish"),
        (Kind::TokenOperate, "operate"),
        (Kind::TokenAdmin, "admin"),
    ] {
        all.push((kind, bearer(&token(site, &admin, scope, "1h").await.1)));
    }
    all.push((Kind::SessionViewer, session(site, "vera").await));
    all.push((Kind::SessionOperator, session(site, "olga").await));
    all.push((Kind::SessionAdmin, admin));
    all
}
