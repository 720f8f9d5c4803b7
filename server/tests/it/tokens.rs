//! Tokens of viewers, and tokens whose owner loses rights.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use punctual_server::{AuthSettings, Mode, Role};
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};
use crate::work::idle;

const PASSWORD: &str = "correct horse battery";

async fn site(role: &str) -> Site {
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    let site = idle().changed(|app| app.authenticating(settings));
    let user = json!({ "name": "bob", "role": role, "password": PASSWORD });
    let made = site.as_role(Role::Admin).post("/api/v1/users", &user).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    site
}

/// Sends a request of bob, with the password or a token.
async fn ask(
    site: &Site,
    credentials: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> TestResponse {
    let request = Request::builder().method(method).uri(path).header(AUTHORIZATION, credentials);
    let request = request.header(CONTENT_TYPE, "application/json");
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

fn by_password() -> String {
    use base64::Engine;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("bob:{PASSWORD}"));
    format!("Basic {pair}")
}

async fn token(site: &Site, scope: &str) -> TestResponse {
    let token_request = json!({ "name": "command line", "scopes": [scope], "expires_in": "90d" });
    ask(site, &by_password(), "POST", "/api/v1/tokens", &token_request).await
}

fn bearer(made: &TestResponse) -> String {
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    format!("Bearer {}", made.json["secret"].as_str().unwrap())
}

// spec: C-6
#[tokio::test]
async fn a_viewer_creates_and_revokes_read_only_tokens() {
    let site = site("viewer").await;
    for scope in ["operate", "work", "publish", "admin"] {
        assert_eq!(token(&site, scope).await.status, StatusCode::FORBIDDEN, "{scope}");
    }
    let made = token(&site, "read").await;
    let bearer = bearer(&made);
    assert_eq!(ask(&site, &bearer, "GET", "/api/v1/jobs", &Value::Null).await.status, 200);
    let message = json!({ "topic": "t" });
    let refused = ask(&site, &bearer, "POST", "/api/v1/messages", &message).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let listed = ask(&site, &bearer, "GET", "/api/v1/tokens", &Value::Null).await;
    assert_eq!(listed.json["items"][0]["user"], "bob", "{}", listed.text);
    let path = format!("/api/v1/tokens/{}", made.json["id"].as_str().unwrap());
    let foreign = site.as_role(Role::Viewer).call("DELETE", &path, &json!({})).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN, "another viewer cannot");
    // As a logout does.
    let revoked = ask(&site, &bearer, "DELETE", &path, &Value::Null).await;
    assert_eq!(revoked.status, StatusCode::NO_CONTENT, "{}", revoked.text);
    assert_eq!(ask(&site, &bearer, "GET", "/api/v1/jobs", &Value::Null).await.status, 401);
}

// spec: C-6
#[tokio::test]
async fn a_token_loses_the_rights_that_its_owner_loses() {
    let site = site("operator").await;
    let (publishes, operates) = (token(&site, "publish").await, token(&site, "operate").await);
    let message = json!({ "topic": "t" });
    let publish = async |credentials: &str| {
        ask(&site, credentials, "POST", "/api/v1/messages", &message).await.status.as_u16()
    };
    assert_eq!((publish(&bearer(&publishes)).await, publish(&bearer(&operates)).await), (201, 201));
    let less = json!({ "role": "viewer" });
    site.as_role(Role::Admin).call("PATCH", "/api/v1/users/bob", &less).await;
    assert_eq!((publish(&bearer(&publishes)).await, publish(&bearer(&operates)).await), (403, 403));
}

// Finding F30 of the security review.
#[tokio::test]
async fn a_token_expires_after_a_year_by_default() {
    let site = site("viewer").await;
    for (expires_in, days) in
        [(json!(null), Some(365)), (json!("90d"), Some(90)), (json!("never"), None)]
    {
        let token_request = json!({ "name": "ci", "scopes": ["read"], "expires_in": expires_in });
        let made = ask(&site, &by_password(), "POST", "/api/v1/tokens", &token_request).await;
        let ends: Option<punctual::jiff::Timestamp> =
            serde_json::from_value(made.json["expires_at"].clone()).unwrap();
        let length = days.map(|days: i64| punctual::jiff::SignedDuration::from_hours(days * 24));
        assert_eq!(
            ends.map(|ends| ends.duration_since(punctual::Clock::now(&*site.clock))),
            length
        );
    }
}

// Finding F30 of the security review.
#[tokio::test]
async fn a_new_password_keeps_tokens_unless_they_are_revoked_too() {
    let site = site("viewer").await;
    let admin = site.as_role(Role::Admin);
    let works = async |bearer: &str| {
        ask(&site, bearer, "GET", "/api/v1/jobs", &Value::Null).await.status == StatusCode::OK
    };
    let change =
        |revoke: bool| json!({ "old": PASSWORD, "new": PASSWORD, "revoke_tokens": revoke });
    let path = "/api/v1/session/password";
    let mut bearers = Vec::new();
    for _ in 0..2 {
        bearers.push(bearer(&token(&site, "read").await));
    }
    let kept = ask(&site, &by_password(), "POST", path, &change(false)).await;
    assert_eq!(kept.status, StatusCode::NO_CONTENT, "{}", kept.text);
    assert!(works(&bearers[0]).await && works(&bearers[1]).await);
    let ended = ask(&site, &by_password(), "POST", path, &change(true)).await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT, "{}", ended.text);
    assert!(!works(&bearers[0]).await && !works(&bearers[1]).await);
    let again = bearer(&token(&site, "read").await);
    let reset = json!({ "password": "another good one", "revoke_tokens": true });
    assert_eq!(admin.call("PATCH", "/api/v1/users/bob", &reset).await.status, StatusCode::OK);
    assert!(!works(&again).await);
}
