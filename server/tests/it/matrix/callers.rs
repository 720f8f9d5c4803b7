//! Every kind of caller: without a proof, with one that is wrong, and with one of each scope and role.

use axum::body::Body;
use axum::http::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use jiff::ToSpan;
use punctual_server::Role;
use serde_json::{Value, json};

use super::Rule;
use crate::site::{Answered, Site};

pub(super) const PASSWORD: &str = "correct horse battery";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nobody,
    UnknownCookie,
    UnknownToken,
    AlteredToken,
    ExpiredToken,
    RevokedToken,
    BearerAlone,
    JunkBasic,
    OtherScheme,
    /// The session of an admin, without the token of the page.
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

/// What a caller shows.
pub(super) type Proof = Vec<(&'static str, String)>;

impl Kind {
    /// How this caller is refused by a rule; none when they are let in.
    pub(super) fn expected(self, rule: Rule, operation: &str) -> Option<StatusCode> {
        let role = match self {
            Self::Nobody | Self::UnknownCookie => {
                let is_open = matches!(rule, Rule::Probe | Rule::Anybody);
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
            Rule::Probe | Rule::Anybody => true,
            Rule::Viewer => role >= Role::Viewer,
            Rule::Operator => role >= Role::Operator,
            Rule::Admin => role >= Role::Admin,
            Rule::Publisher => role >= Role::Operator || self == Self::TokenPublish,
            Rule::Worker => self == Self::TokenWork,
        };
        (!is_let).then_some(StatusCode::FORBIDDEN)
    }
}

async fn call(site: &Site, proof: &Proof, method: &str, path: &str, body: &Value) -> Answered {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in proof {
        request = request.header(*name, value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

/// The session of somebody who logs in, with the token of the page.
async fn session(site: &Site, name: &str) -> Proof {
    let login = json!({ "name": name, "password": PASSWORD });
    let answered = call(site, &Vec::new(), "POST", "/api/v1/session", &login).await;
    assert_eq!(answered.status, StatusCode::OK, "{}", answered.text);
    let cookie = answered.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
    let csrf = answered.json["csrf"].as_str().unwrap();
    vec![("cookie", cookie.to_owned()), ("x-csrf-token", csrf.to_owned())]
}

fn bearer(secret: &str) -> Proof {
    vec![("authorization", format!("Bearer {secret}"))]
}

/// The id and the secret of a token that an admin makes.
async fn token(site: &Site, admin: &Proof, scope: &str, expires_in: &str) -> (String, String) {
    let mut wanted = json!({ "name": scope, "scopes": [scope], "expires_in": expires_in });
    if scope == "work" {
        wanted["queues"] = json!(["*"]);
    }
    let made = call(site, admin, "POST", "/api/v1/tokens", &wanted).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let text = |name: &str| made.json[name].as_str().unwrap().to_owned();
    (text("id"), text("secret"))
}

/// Everybody, with what they show.
pub(super) async fn callers(site: &Site) -> Vec<(Kind, Proof)> {
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
        (Kind::Nobody, Vec::new()),
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
