//! Who somebody is: removing a user ends everything they were let in by, and a name that is used again
//! inherits nothing. (Findings F3, F5, F11, F14 and F15 of the security review.)

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use jiff::ToSpan;
use punctual::documents::{ExpectedVersion, NewDocument, PutResult};
use punctual_server::config::Networks;
use punctual_server::{AuthSettings, Mode, Proxy, Role};
use serde_json::{Value, json};

use crate::site::{Answered, Site};
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

/// What somebody asks who shows a header.
async fn ask(
    site: &Site,
    proof: (&str, &str),
    more: &[(&str, &str)],
    (method, path, body): (&str, &str, &Value),
) -> Answered {
    let mut request = Request::builder().method(method).uri(path).header(proof.0, proof.1);
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn look(site: &Site, proof: (&str, &str)) -> u16 {
    ask(site, proof, &[], ("GET", JOBS, &Value::Null)).await.status.as_u16()
}

/// The cookie of somebody who logs in.
async fn cookie(site: &Site, name: &str) -> String {
    let login = json!({ "name": name, "password": PASSWORD });
    let answered = site.post("/api/v1/session", &login).await;
    assert_eq!(answered.status, StatusCode::OK, "{}", answered.text);
    let cookie = answered.headers[SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

fn password(name: &str) -> String {
    use base64::Engine;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{PASSWORD}"));
    format!("Basic {pair}")
}

/// The id and the proof of a token that somebody makes.
async fn token(site: &Site, proof: (&str, &str), scope: &str) -> (String, String) {
    let wanted = json!({ "name": "ci", "scopes": [scope] });
    let made = ask(site, proof, &[], ("POST", "/api/v1/tokens", &wanted)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let text = |name: &str| made.json[name].as_str().unwrap().to_owned();
    (text("id"), format!("Bearer {}", text("secret")))
}

async fn token_of(site: &Site, name: &str, scope: &str) -> (String, String) {
    token(site, (AUTHORIZATION.as_str(), &password(name)), scope).await
}

// spec: C-6
#[tokio::test]
async fn the_tokens_of_a_user_who_was_removed_let_nobody_in() {
    let site = site();
    add(&site, "root", "admin", PASSWORD).await;
    add(&site, "mallory", "admin", PASSWORD).await;
    let (id, bearer) = token_of(&site, "mallory", "admin").await;
    let bearer = (AUTHORIZATION.as_str(), bearer.as_str());
    assert_eq!(look(&site, bearer).await, 200);
    let change = json!({ "disabled": true });
    site.as_role(Role::Admin).call("PATCH", "/api/v1/users/mallory", &change).await;
    assert_eq!(look(&site, bearer).await, 401, "disabled");
    let change = json!({ "disabled": false });
    site.as_role(Role::Admin).call("PATCH", "/api/v1/users/mallory", &change).await;
    assert_eq!(look(&site, bearer).await, 401, "enabled again");
    remove(&site, "mallory").await;
    assert_eq!(look(&site, bearer).await, 401, "removed");
    let user = json!({ "name": "eve", "role": "admin", "password": PASSWORD });
    let refused = ask(&site, bearer, &[], ("POST", "/api/v1/users", &user)).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{}", refused.text);
    // The name comes back, and with it nothing of what was.
    site.clock.set(site.clock.now() + 1.second());
    add(&site, "mallory", "admin", "another horse battery").await;
    assert_eq!(look(&site, bearer).await, 401, "made anew");
    let listed = site.as_role(Role::Admin).get("/api/v1/tokens").await;
    assert!(!listed.text.contains(&id), "{}", listed.text);
}

// spec: C-6
#[tokio::test]
async fn the_sessions_of_a_user_who_was_removed_do_not_rise_again() {
    let site = site();
    add(&site, "root", "admin", PASSWORD).await;
    add(&site, "carol", "admin", PASSWORD).await;
    let cookie = cookie(&site, "carol").await;
    let cookie = (COOKIE.as_str(), cookie.as_str());
    assert_eq!(look(&site, cookie).await, 200);
    remove(&site, "carol").await;
    assert_eq!(look(&site, cookie).await, 401);
    add(&site, "carol", "admin", "another horse battery").await;
    assert_eq!(look(&site, cookie).await, 401, "the new carol is somebody else");
}

// spec: C-6
#[tokio::test]
async fn a_session_ends_after_its_longest_life_however_often_it_is_used() {
    let site = site();
    add(&site, "carol", "viewer", PASSWORD).await;
    let cookie = cookie(&site, "carol").await;
    let cookie = (COOKIE.as_str(), cookie.as_str());
    for day in 0..30 {
        for _ in 0..3 {
            assert_eq!(look(&site, cookie).await, 200, "day {day}");
            site.clock.set(site.clock.now() + 8.hours());
        }
    }
    assert_eq!(look(&site, cookie).await, 401);
}

/// Whether a stream goes on after a second, in which everybody hears a tick or an event.
async fn goes_on(site: &Site, body: &mut Body) -> bool {
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
async fn a_stream_of_events_ends_with_what_let_its_listener_in() {
    let site = site();
    add(&site, "bob", "viewer", PASSWORD).await;
    let (id, bearer) = token_of(&site, "bob", "read").await;
    let cookie = cookie(&site, "bob").await;
    let basic = password("bob");
    let mut by_token = stream(&site, (AUTHORIZATION.as_str(), &bearer)).await;
    let mut by_cookie = stream(&site, (COOKIE.as_str(), &cookie)).await;
    let mut by_password = stream(&site, (AUTHORIZATION.as_str(), &basic)).await;
    for body in [&mut by_token, &mut by_cookie, &mut by_password] {
        assert!(goes_on(&site, body).await);
    }
    let path = format!("/api/v1/tokens/{id}");
    site.as_role(Role::Admin).call("DELETE", &path, &Value::Null).await;
    assert!(!goes_on(&site, &mut by_token).await, "its token was revoked");
    assert!(goes_on(&site, &mut by_cookie).await);
    remove(&site, "bob").await;
    assert!(!goes_on(&site, &mut by_cookie).await, "its user is gone");
    assert!(!goes_on(&site, &mut by_password).await, "its user is gone");
}

// spec: C-6, C-8
#[tokio::test]
async fn a_user_who_was_disabled_gets_nothing_back_when_they_may_log_in_again() {
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
    for proof in proofs {
        let mut body = stream(&site, proof).await;
        assert!(goes_on(&site, &mut body).await);
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
        assert!(!goes_on(&site, body).await, "also when nobody looked in between");
    }
    assert_eq!(look(&site, proofs[0]).await, 401, "the token");
    assert_eq!(look(&site, proofs[1]).await, 401, "the session");
    // It ends with the change itself: a server that ends before it has removed the token leaves nothing that works.
    let again = NewDocument::new("token", &id, kept.body);
    let put = documents.put(again, ExpectedVersion::New, now).await.unwrap();
    assert_eq!(put, PutResult::Stored(1));
    assert_eq!(look(&site, proofs[0]).await, 401, "the token, had it not been removed");
    assert_eq!(look(&site, proofs[2]).await, 200, "the password is still theirs");
    let fresh = token_of(&site, "bob", "read").await.1;
    assert_eq!(look(&site, (AUTHORIZATION.as_str(), &fresh)).await, 200);
    let fresh = cookie(&site, "bob").await;
    assert_eq!(look(&site, (COOKIE.as_str(), &fresh)).await, 200);
}

// spec: C-6
#[tokio::test]
async fn two_tokens_of_one_user_and_name_are_told_apart_in_the_trail() {
    let site = site();
    add(&site, "ada", "operator", PASSWORD).await;
    let mut identities = Vec::new();
    for _ in 0..2 {
        let (id, bearer) = token_of(&site, "ada", "operate").await;
        let proof = (AUTHORIZATION.as_str(), bearer.as_str());
        let pause = json!({ "reason": "test" });
        ask(&site, proof, &[], ("POST", "/api/v1/queues/default/pause", &pause)).await;
        let sent = json!({ "topic": "t" });
        ask(&site, proof, &[], ("POST", "/api/v1/messages", &sent)).await;
        identities.push(format!("token {id}"));
    }
    let admin = site.as_role(Role::Admin);
    let audit = admin.get("/api/v1/audit?who=ada%20(token%20ci)").await;
    let entries = audit.json["items"].as_array().unwrap();
    let said: Vec<(&str, &str)> = entries
        .iter()
        .rev()
        .map(|one| (one["what"].as_str().unwrap(), one["identity"].as_str().unwrap()))
        .collect();
    let (first, second) = (identities[0].as_str(), identities[1].as_str());
    assert_ne!(first, second);
    assert_eq!(
        said,
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
        let proof = (AUTHORIZATION.as_str(), bearer.as_str());
        let sent = ask(&site, proof, &key, ("POST", "/api/v1/messages", &body)).await;
        assert_eq!(sent.status, StatusCode::CREATED, "{}", sent.text);
        assert!(!sent.headers.contains_key("idempotent-replay"), "{}", sent.text);
        ids.push(sent.json["id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
    let view = json!({ "page": "messages", "query": "topic=t" });
    let proof = |index: usize| (AUTHORIZATION.as_str(), bearers[index].as_str());
    ask(&site, proof(0), &[], ("PUT", "/api/v1/views/mine", &view)).await;
    let views = ask(&site, proof(1), &[], ("GET", "/api/v1/views", &Value::Null)).await;
    assert_eq!(views.json["items"], json!([]));
    for (index, name) in ["ada", "bob"].into_iter().enumerate() {
        let pause = ("POST", "/api/v1/queues/default/pause", &json!({ "reason": "test" }));
        ask(&site, proof(index), &[], pause).await;
        let audit = site.as_role(Role::Admin).get("/api/v1/audit?limit=1").await;
        assert_eq!(audit.json["items"][0]["who"], format!("{name} (token ci)"), "{}", audit.text);
    }
}

/// A server behind a proxy that says who comes, and in `x-role` which role they have when it is configured so.
fn proxied(role_header: Option<&str>) -> Site {
    let proxy = Proxy {
        header: "x-user".to_owned(),
        role_header: role_header.map(str::to_owned),
        trusted: Networks::read(vec!["127.0.0.1".to_owned()]).unwrap(),
    };
    let settings = AuthSettings { mode: Mode::Proxy(proxy), ..AuthSettings::default() };
    idle().changed(|app| app.authenticating(settings))
}

/// What ann asks, whom the proxy says to have a role.
async fn come(site: &Site, role: &str, (method, path, body): (&str, &str, &Value)) -> Answered {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("x-user", "ann").header("x-role", role);
    let request = request.header(CONTENT_TYPE, "application/json");
    let mut request = request.body(Body::from(body.to_string())).unwrap();
    let from = std::net::SocketAddr::from(([127, 0, 0, 1], 4_711));
    request.extensions_mut().insert(axum::extract::ConnectInfo(from));
    site.send(request).await
}

/// A stream of ann's, whom the proxy says to be an admin.
async fn proxied_stream(site: &Site) -> Body {
    let request = Request::get("/api/v1/events").header("x-user", "ann").header("x-role", "admin");
    let mut request = request.body(Body::empty()).unwrap();
    let from = std::net::SocketAddr::from(([127, 0, 0, 1], 4_711));
    request.extensions_mut().insert(axum::extract::ConnectInfo(from));
    let response = site.raw(request).await;
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body()
}

/// What a token of ann's with the scope `admin` shows.
async fn token_of_ann(site: &Site) -> String {
    let wanted = json!({ "name": "ci", "scopes": ["admin"] });
    let made = come(site, "admin", ("POST", "/api/v1/tokens", &wanted)).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    format!("Bearer {}", made.json["secret"].as_str().unwrap())
}

// spec: C-6
#[tokio::test]
async fn behind_a_proxy_a_token_never_allows_more_than_its_owner_has_there() {
    let site = proxied(Some("x-role"));
    let bearer = token_of_ann(&site).await;
    let users = async || {
        let proof = (AUTHORIZATION.as_str(), bearer.as_str());
        ask(&site, proof, &[], ("GET", "/api/v1/users", &Value::Null)).await.status.as_u16()
    };
    assert_eq!(users().await, 200);
    come(&site, "viewer", ("GET", JOBS, &Value::Null)).await;
    assert_eq!(users().await, 403, "ann is a viewer now");
    // Who does not come any more is forgotten, and the tokens with them.
    site.clock.set(site.clock.now() + (91 * 24).hours());
    assert_eq!(users().await, 401);
}

// spec: C-6
#[tokio::test]
async fn behind_a_proxy_a_user_who_is_disabled_is_refused_and_so_are_their_tokens() {
    for role_header in [None, Some("x-role")] {
        let site = proxied(role_header);
        add(&site, "ann", "admin", PASSWORD).await;
        add(&site, "root", "admin", PASSWORD).await;
        let bearer = token_of_ann(&site).await;
        let bearer = (AUTHORIZATION.as_str(), bearer.as_str());
        assert_eq!(look(&site, bearer).await, 200);
        let mut by_token = stream(&site, bearer).await;
        assert!(goes_on(&site, &mut by_token).await);
        let change = async |change: Value| {
            let admin = site.as_role(Role::Admin);
            let changed = admin.call("PATCH", "/api/v1/users/ann", &change).await;
            assert_eq!(changed.status, StatusCode::OK, "{}", changed.text);
        };
        change(json!({ "disabled": true })).await;
        let refused = come(&site, "admin", ("GET", JOBS, &Value::Null)).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{role_header:?}: {}", refused.text);
        assert!(refused.text.contains("is disabled"), "{}", refused.text);
        assert_eq!(look(&site, bearer).await, 401, "{role_header:?}");
        assert!(!goes_on(&site, &mut by_token).await, "{role_header:?}");
        change(json!({ "disabled": false })).await;
        assert_eq!(come(&site, "admin", ("GET", JOBS, &Value::Null)).await.status, 200);
        assert_eq!(look(&site, bearer).await, 401, "{role_header:?}: enabled again");
        let fresh = token_of_ann(&site).await;
        assert_eq!(look(&site, (AUTHORIZATION.as_str(), &fresh)).await, 200, "{role_header:?}");
        // The stream of a person whom the proxy lets through ends as well, however short they were disabled.
        let mut by_header = proxied_stream(&site).await;
        assert!(goes_on(&site, &mut by_header).await);
        change(json!({ "disabled": true })).await;
        change(json!({ "disabled": false })).await;
        assert!(!goes_on(&site, &mut by_header).await, "{role_header:?}");
    }
}

// spec: C-6
#[tokio::test]
async fn behind_a_proxy_that_says_no_role_a_token_follows_the_user_of_this_server() {
    let site = proxied(None);
    add(&site, "ann", "admin", PASSWORD).await;
    add(&site, "root", "admin", PASSWORD).await;
    let bearer = token_of_ann(&site).await;
    let users = async || {
        let proof = (AUTHORIZATION.as_str(), bearer.as_str());
        ask(&site, proof, &[], ("GET", "/api/v1/users", &Value::Null)).await.status.as_u16()
    };
    assert_eq!(users().await, 200);
    remove(&site, "ann").await;
    assert_eq!(users().await, 403, "those without a user are viewers");
}
