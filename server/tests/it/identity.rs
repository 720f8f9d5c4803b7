//! Identity: the removal of a user ends sessions, tokens and streams, and a reused name inherits nothing. (Findings F3,
//! F5, F11, F14 and F15 of the security review.)

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use jiff::ToSpan;
use punctual::backend::documents::{ExpectedVersion, NewDocument, PutResult};
use punctual_server::config::Networks;
use punctual_server::{AuthSettings, Mode, Proxy, Role};
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};
use crate::work::idle;

const PASSWORD: &str = "correct horse battery";
const JOBS: &str = "/api/v1/jobs";

fn site() -> Site {
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    idle().changed(|app| app.authenticating(settings))
}

async fn add(site: &Site, name: &str, role: &str, password: &str) {
    let user = json!({ "name": name, "role": role, "password": password });
    let made = site.as_role(Role::Admin).post("/api/v1/users", &user).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
}

async fn remove(site: &Site, name: &str) {
    let path = format!("/api/v1/users/{name}");
    let removed = site.as_role(Role::Admin).call("DELETE", &path, &Value::Null).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{}", removed.text);
}

/// Sends a request with a header.
async fn ask(
    site: &Site,
    credentials: (&str, &str),
    more: &[(&str, &str)],
    (method, path, body): (&str, &str, &Value),
) -> TestResponse {
    let mut request =
        Request::builder().method(method).uri(path).header(credentials.0, credentials.1);
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn get_status(site: &Site, credentials: (&str, &str)) -> u16 {
    ask(site, credentials, &[], ("GET", JOBS, &Value::Null)).await.status.as_u16()
}

/// Logs a user in and returns the cookie.
async fn cookie(site: &Site, name: &str) -> String {
    let login = json!({ "name": name, "password": PASSWORD });
    let reply = site.post("/api/v1/session", &login).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let cookie = reply.headers[SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

fn password(name: &str) -> String {
    use base64::Engine;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{PASSWORD}"));
    format!("Basic {pair}")
}

/// Creates a token and returns its id and its header.
async fn token(site: &Site, credentials: (&str, &str), scope: &str) -> (String, String) {
    let token_request = json!({ "name": "ci", "scopes": [scope] });
    let made = ask(site, credentials, &[], ("POST", "/api/v1/tokens", &token_request)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let text = |name: &str| made.json[name].as_str().unwrap().to_owned();
    (text("id"), format!("Bearer {}", text("secret")))
}

async fn token_of(site: &Site, name: &str, scope: &str) -> (String, String) {
    token(site, (AUTHORIZATION.as_str(), &password(name)), scope).await
}

// spec: C-6
#[tokio::test]
async fn tokens_of_a_removed_user_are_refused() {
    let site = site();
    add(&site, "root", "admin", PASSWORD).await;
    add(&site, "mallory", "admin", PASSWORD).await;
    let (id, bearer) = token_of(&site, "mallory", "admin").await;
    let bearer = (AUTHORIZATION.as_str(), bearer.as_str());
    assert_eq!(get_status(&site, bearer).await, 200);
    let change = json!({ "disabled": true });
    site.as_role(Role::Admin).call("PATCH", "/api/v1/users/mallory", &change).await;
    assert_eq!(get_status(&site, bearer).await, 401, "disabled");
    let change = json!({ "disabled": false });
    site.as_role(Role::Admin).call("PATCH", "/api/v1/users/mallory", &change).await;
    assert_eq!(get_status(&site, bearer).await, 401, "enabled again");
    remove(&site, "mallory").await;
    assert_eq!(get_status(&site, bearer).await, 401, "removed");
    let user = json!({ "name": "eve", "role": "admin", "password": PASSWORD });
    let refused = ask(&site, bearer, &[], ("POST", "/api/v1/users", &user)).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{}", refused.text);
    // A new user of the same name gets nothing of the old one.
    site.clock.set(site.clock.now() + 1.second());
    add(&site, "mallory", "admin", "another horse battery").await;
    assert_eq!(get_status(&site, bearer).await, 401, "created again");
    let listed = site.as_role(Role::Admin).get("/api/v1/tokens").await;
    assert!(!listed.text.contains(&id), "{}", listed.text);
}

// spec: C-6
#[tokio::test]
async fn sessions_of_a_removed_user_stay_ended() {
    let site = site();
    add(&site, "root", "admin", PASSWORD).await;
    add(&site, "carol", "admin", PASSWORD).await;
    let cookie = cookie(&site, "carol").await;
    let cookie = (COOKIE.as_str(), cookie.as_str());
    assert_eq!(get_status(&site, cookie).await, 200);
    remove(&site, "carol").await;
    assert_eq!(get_status(&site, cookie).await, 401);
    add(&site, "carol", "admin", "another horse battery").await;
    assert_eq!(get_status(&site, cookie).await, 401, "the new carol is another user");
}

// spec: C-6
#[tokio::test]
async fn a_session_ends_after_its_maximum_lifetime() {
    let site = site();
    add(&site, "carol", "viewer", PASSWORD).await;
    let cookie = cookie(&site, "carol").await;
    let cookie = (COOKIE.as_str(), cookie.as_str());
    for day in 0..30 {
        for _ in 0..3 {
            assert_eq!(get_status(&site, cookie).await, 200, "day {day}");
            site.clock.set(site.clock.now() + 8.hours());
        }
    }
    assert_eq!(get_status(&site, cookie).await, 401);
}

/// Returns whether a stream is open after a second, in which every client receives a tick or an event.
async fn stays_open(site: &Site, body: &mut Body) -> bool {
    site.clock.advance(Duration::from_secs(1));
    let published = site.as_role(Role::Admin);
    published.post("/api/v1/messages", &json!({ "topic": "t" })).await;
    match body.frame().await {
        None => false,
        Some(frame) => !frame.unwrap().into_data().unwrap().is_empty(),
    }
}

async fn stream(site: &Site, (name, value): (&str, &str)) -> Body {
    let request = Request::get("/api/v1/events").header(name, value).body(Body::empty()).unwrap();
    let response = site.raw(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body()
}

// spec: C-6, C-8
#[tokio::test]
async fn an_event_stream_ends_with_its_credentials() {
    let site = site();
    add(&site, "bob", "viewer", PASSWORD).await;
    let (id, bearer) = token_of(&site, "bob", "read").await;
    let cookie = cookie(&site, "bob").await;
    let basic = password("bob");
    let mut by_token = stream(&site, (AUTHORIZATION.as_str(), &bearer)).await;
    let mut by_cookie = stream(&site, (COOKIE.as_str(), &cookie)).await;
    let mut by_password = stream(&site, (AUTHORIZATION.as_str(), &basic)).await;
    for body in [&mut by_token, &mut by_cookie, &mut by_password] {
        assert!(stays_open(&site, body).await);
    }
    let path = format!("/api/v1/tokens/{id}");
    site.as_role(Role::Admin).call("DELETE", &path, &Value::Null).await;
    assert!(!stays_open(&site, &mut by_token).await, "its token was revoked");
    assert!(stays_open(&site, &mut by_cookie).await);
    remove(&site, "bob").await;
    assert!(!stays_open(&site, &mut by_cookie).await, "its user is gone");
    assert!(!stays_open(&site, &mut by_password).await, "its user is gone");
}

// spec: C-6, C-8
#[tokio::test]
async fn enabling_a_disabled_user_restores_no_tokens_or_sessions() {
    let site = site();
    add(&site, "bob", "viewer", PASSWORD).await;
    let (id, bearer) = token_of(&site, "bob", "read").await;
    let (old, basic) = (cookie(&site, "bob").await, password("bob"));
    let proofs = [
        (AUTHORIZATION.as_str(), bearer.as_str()),
        (COOKIE.as_str(), old.as_str()),
        (AUTHORIZATION.as_str(), basic.as_str()),
    ];
    let mut streams = Vec::new();
    for credentials in proofs {
        let mut body = stream(&site, credentials).await;
        assert!(stays_open(&site, &mut body).await);
        streams.push(body);
    }
    let (documents, now) = (site.app.documents.clone(), site.clock.now());
    let kept = documents.get("token", &id, now).await.unwrap().unwrap();
    let change = async |disabled: bool| {
        let change = json!({ "disabled": disabled });
        let changed = site.as_role(Role::Admin).call("PATCH", "/api/v1/users/bob", &change).await;
        assert_eq!(changed.status, StatusCode::OK, "{}", changed.text);
    };
    change(true).await;
    let listed = site.as_role(Role::Admin).get("/api/v1/tokens").await;
    assert!(!listed.text.contains(&id), "{}", listed.text);
    change(false).await;
    for body in &mut streams {
        assert!(!stays_open(&site, body).await, "also without a request in between");
    }
    assert_eq!(get_status(&site, proofs[0]).await, 401, "the token");
    assert_eq!(get_status(&site, proofs[1]).await, 401, "the session");
    // The change itself ends the token: it is invalid even when the server stops before removing it.
    let again = NewDocument::new("token", &id, kept.body);
    let put = documents.put(again, ExpectedVersion::New, now).await.unwrap();
    assert_eq!(put, PutResult::Stored(1));
    assert_eq!(get_status(&site, proofs[0]).await, 401, "the token, had it not been removed");
    assert_eq!(get_status(&site, proofs[2]).await, 200, "the password is still theirs");
    let fresh = token_of(&site, "bob", "read").await.1;
    assert_eq!(get_status(&site, (AUTHORIZATION.as_str(), &fresh)).await, 200);
    let fresh = cookie(&site, "bob").await;
    assert_eq!(get_status(&site, (COOKIE.as_str(), &fresh)).await, 200);
}

// spec: C-6
#[tokio::test]
async fn two_tokens_of_one_user_and_name_are_distinct_in_the_audit_log() {
    let site = site();
    add(&site, "ada", "operator", PASSWORD).await;
    let mut identities = Vec::new();
    for _ in 0..2 {
        let (id, bearer) = token_of(&site, "ada", "operate").await;
        let credentials = (AUTHORIZATION.as_str(), bearer.as_str());
        let pause = json!({ "reason": "test" });
        ask(&site, credentials, &[], ("POST", "/api/v1/queues/default/pause", &pause)).await;
        let sent = json!({ "topic": "t" });
        ask(&site, credentials, &[], ("POST", "/api/v1/messages", &sent)).await;
        identities.push(format!("token {id}"));
    }
    let admin = site.as_role(Role::Admin);
    let audit = admin.get("/api/v1/audit?who=ada%20(token%20ci)").await;
    let entries = audit.json["items"].as_array().unwrap();
    let recorded: Vec<(&str, &str)> = entries
        .iter()
        .rev()
        .map(|one| (one["what"].as_str().unwrap(), one["identity"].as_str().unwrap()))
        .collect();
    let (first, second) = (identities[0].as_str(), identities[1].as_str());
    assert_ne!(first, second);
    assert_eq!(
        recorded,
        [
            ("queue.pause", first),
            ("message.publish", first),
            ("queue.pause", second),
            ("message.publish", second)
        ]
    );
    let of_one = admin.get(&format!("/api/v1/audit?who={}", first.replace(' ', "%20"))).await;
    assert_eq!(of_one.json["items"].as_array().unwrap().len(), 2, "{}", of_one.text);
    let fake = json!({ "name": "ada (token ci)", "role": "viewer", "password": PASSWORD });
    let refused = admin.post("/api/v1/users", &fake).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
}

// spec: C-6
#[tokio::test]
async fn two_tokens_of_one_name_share_nothing() {
    let site = site();
    let mut bearers = Vec::new();
    for name in ["ada", "bob"] {
        add(&site, name, "operator", PASSWORD).await;
        bearers.push(token_of(&site, name, "operate").await.1);
    }
    let (body, key) = (json!({ "topic": "t" }), [("idempotency-key", "one")]);
    let mut ids = Vec::new();
    for bearer in &bearers {
        let credentials = (AUTHORIZATION.as_str(), bearer.as_str());
        let sent = ask(&site, credentials, &key, ("POST", "/api/v1/messages", &body)).await;
        assert_eq!(sent.status, StatusCode::CREATED, "{}", sent.text);
        assert!(!sent.headers.contains_key("idempotent-replay"), "{}", sent.text);
        ids.push(sent.json["id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
    let view = json!({ "page": "messages", "query": "topic=t" });
    let credentials = |index: usize| (AUTHORIZATION.as_str(), bearers[index].as_str());
    ask(&site, credentials(0), &[], ("PUT", "/api/v1/views/mine", &view)).await;
    let views = ask(&site, credentials(1), &[], ("GET", "/api/v1/views", &Value::Null)).await;
    assert_eq!(views.json["items"], json!([]));
    for (index, name) in ["ada", "bob"].into_iter().enumerate() {
        let pause = ("POST", "/api/v1/queues/default/pause", &json!({ "reason": "test" }));
        ask(&site, credentials(index), &[], pause).await;
        let audit = site.as_role(Role::Admin).get("/api/v1/audit?limit=1").await;
        assert_eq!(audit.json["items"][0]["who"], format!("{name} (token ci)"), "{}", audit.text);
    }
}

/// Starts a server behind a proxy that sends the user name, and the role in the given header.
fn proxied(role_header: Option<&str>) -> Site {
    let proxy = Proxy {
        header: "x-user".to_owned(),
        role_header: role_header.map(str::to_owned),
        trusted: Networks::read(vec!["127.0.0.1".to_owned()]).unwrap(),
    };
    let settings = AuthSettings { mode: Mode::Proxy(proxy), ..AuthSettings::default() };
    idle().changed(|app| app.authenticating(settings))
}

/// Sends a request of ann with a role from the proxy.
async fn request_as_ann(
    site: &Site,
    role: &str,
    (method, path, body): (&str, &str, &Value),
) -> TestResponse {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("x-user", "ann").header("x-role", role);
    let request = request.header(CONTENT_TYPE, "application/json");
    let mut request = request.body(Body::from(body.to_string())).unwrap();
    let from = std::net::SocketAddr::from(([127, 0, 0, 1], 4_711));
    request.extensions_mut().insert(axum::extract::ConnectInfo(from));
    site.send(request).await
}

/// Opens a stream of ann, an admin according to the proxy.
async fn proxied_stream(site: &Site) -> Body {
    let request = Request::get("/api/v1/events").header("x-user", "ann").header("x-role", "admin");
    let mut request = request.body(Body::empty()).unwrap();
    let from = std::net::SocketAddr::from(([127, 0, 0, 1], 4_711));
    request.extensions_mut().insert(axum::extract::ConnectInfo(from));
    let response = site.raw(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body()
}

/// Creates a token of ann with the scope `admin` and returns its header.
async fn token_of_ann(site: &Site) -> String {
    let token_request = json!({ "name": "ci", "scopes": ["admin"] });
    let made = request_as_ann(site, "admin", ("POST", "/api/v1/tokens", &token_request)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    format!("Bearer {}", made.json["secret"].as_str().unwrap())
}

// spec: C-6
#[tokio::test]
async fn behind_a_proxy_a_token_never_exceeds_the_role_of_its_owner() {
    let site = proxied(Some("x-role"));
    let bearer = token_of_ann(&site).await;
    let users = async || {
        let credentials = (AUTHORIZATION.as_str(), bearer.as_str());
        ask(&site, credentials, &[], ("GET", "/api/v1/users", &Value::Null)).await.status.as_u16()
    };
    assert_eq!(users().await, 200);
    request_as_ann(&site, "viewer", ("GET", JOBS, &Value::Null)).await;
    assert_eq!(users().await, 403, "ann is a viewer now");
    // A user who no longer calls is removed, with the tokens.
    site.clock.set(site.clock.now() + (91 * 24).hours());
    assert_eq!(users().await, 401);
}

// spec: C-6
#[tokio::test]
async fn behind_a_proxy_a_disabled_user_and_their_tokens_are_refused() {
    for role_header in [None, Some("x-role")] {
        let site = proxied(role_header);
        add(&site, "ann", "admin", PASSWORD).await;
        add(&site, "root", "admin", PASSWORD).await;
        let bearer = token_of_ann(&site).await;
        let bearer = (AUTHORIZATION.as_str(), bearer.as_str());
        assert_eq!(get_status(&site, bearer).await, 200);
        let mut by_token = stream(&site, bearer).await;
        assert!(stays_open(&site, &mut by_token).await);
        let change = async |change: Value| {
            let admin = site.as_role(Role::Admin);
            let changed = admin.call("PATCH", "/api/v1/users/ann", &change).await;
            assert_eq!(changed.status, StatusCode::OK, "{}", changed.text);
        };
        change(json!({ "disabled": true })).await;
        let refused = request_as_ann(&site, "admin", ("GET", JOBS, &Value::Null)).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{role_header:?}: {}", refused.text);
        assert!(refused.text.contains("is disabled"), "{}", refused.text);
        assert_eq!(get_status(&site, bearer).await, 401, "{role_header:?}");
        assert!(!stays_open(&site, &mut by_token).await, "{role_header:?}");
        change(json!({ "disabled": false })).await;
        assert_eq!(request_as_ann(&site, "admin", ("GET", JOBS, &Value::Null)).await.status, 200);
        assert_eq!(get_status(&site, bearer).await, 401, "{role_header:?}: enabled again");
        let fresh = token_of_ann(&site).await;
        assert_eq!(
            get_status(&site, (AUTHORIZATION.as_str(), &fresh)).await,
            200,
            "{role_header:?}"
        );
        // The stream of a proxied user ends as well, even when the user was disabled only for a moment.
        let mut by_header = proxied_stream(&site).await;
        assert!(stays_open(&site, &mut by_header).await);
        change(json!({ "disabled": true })).await;
        change(json!({ "disabled": false })).await;
        assert!(!stays_open(&site, &mut by_header).await, "{role_header:?}");
    }
}

// spec: C-6
#[tokio::test]
async fn behind_a_proxy_without_roles_a_token_follows_the_local_user() {
    let site = proxied(None);
    add(&site, "ann", "admin", PASSWORD).await;
    add(&site, "root", "admin", PASSWORD).await;
    let bearer = token_of_ann(&site).await;
    let users = async || {
        let credentials = (AUTHORIZATION.as_str(), bearer.as_str());
        ask(&site, credentials, &[], ("GET", "/api/v1/users", &Value::Null)).await.status.as_u16()
    };
    assert_eq!(users().await, 200);
    remove(&site, "ann").await;
    assert_eq!(users().await, 403, "those without a user are viewers");
}
