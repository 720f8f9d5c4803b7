//! Abuse: one test for each finding of the security review that has no better place.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use punctual::backend::documents::KeyRange;
use punctual_server::{AuthSettings, Caller, Mode, Role};
use serde_json::{Value, json};

use crate::site::Site;
use crate::work::idle;

fn closed() -> Site {
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    idle().changed(|app| app.authenticating(settings))
}

async fn add(site: &Site, name: &str, role: &str) {
    let user = json!({ "name": name, "role": role, "password": "correct horse battery" });
    let made = site.as_role(Role::Admin).post("/api/v1/users", &user).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
}

fn as_caller(mut request: Request<Body>, name: &str, role: Role) -> Request<Body> {
    request.extensions_mut().insert(Caller::new(name, role));
    request
}

// Finding F17.
// spec: C-8
#[tokio::test]
async fn one_caller_cannot_use_all_event_streams() {
    let site = idle();
    let listen = async |name: &str| {
        let request = Request::get("/api/v1/events").body(Body::empty()).unwrap();
        site.raw(as_caller(request, name, Role::Viewer)).await
    };
    let mut streams = Vec::new();
    for _ in 0..50 {
        let stream = listen("greedy").await;
        assert_eq!(stream.status(), StatusCode::OK);
        streams.push(stream);
    }
    assert_eq!(listen("greedy").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(listen("ada").await.status(), StatusCode::OK, "there is room for others");
    streams.pop();
    assert_eq!(listen("greedy").await.status(), StatusCode::OK, "one was ended");
}

// Finding F17: a viewer may create any number of tokens.
// spec: C-8
#[tokio::test]
async fn tokens_share_the_stream_limit_of_their_owner() {
    let site = closed();
    let mut proofs = Vec::new();
    for name in ["greedy", "ada"] {
        add(&site, name, "viewer").await;
        let basic = STANDARD.encode(format!("{name}:correct horse battery"));
        proofs.push(format!("Basic {basic}"));
    }
    let send = async |request: axum::http::request::Builder, credentials: &str, body: Value| {
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = request.header(AUTHORIZATION, credentials);
        site.raw(request.body(Body::from(body.to_string())).unwrap()).await
    };
    let mut bearers = Vec::new();
    for _ in 0..3 {
        let token_request = json!({ "name": "ci", "scopes": ["read"] });
        let made = send(Request::post("/api/v1/tokens"), &proofs[0], token_request).await;
        assert_eq!(made.status(), StatusCode::CREATED);
        let bytes = made.into_body().collect().await.unwrap().to_bytes();
        let made: Value = serde_json::from_slice(&bytes).unwrap();
        bearers.push(format!("Bearer {}", made["secret"].as_str().unwrap()));
    }
    let listen = async |credentials: &str| {
        send(Request::get("/api/v1/events"), credentials, Value::Null).await
    };
    let mut streams = Vec::new();
    for number in 0..50 {
        let stream = listen(&bearers[number % 3]).await;
        assert_eq!(stream.status(), StatusCode::OK, "{number}");
        streams.push(stream);
    }
    for credentials in bearers.iter().chain([&proofs[0]]) {
        assert_eq!(listen(credentials).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(listen(&proofs[1]).await.status(), StatusCode::OK, "there is room for others");
    streams.pop();
    assert_eq!(listen(&bearers[2]).await.status(), StatusCode::OK, "one was ended");
}

// Finding F18.
// spec: C-6
#[tokio::test]
async fn a_worker_cannot_act_as_a_server() {
    let site = idle();
    let server = site.app.punctual.process_id().to_string();
    for (path, body) in [
        ("/api/v1/work/deregister", json!({ "worker": server })),
        ("/api/v1/work/bye", json!({ "worker": server })),
        ("/api/v1/work/claim", json!({ "worker": server, "queue": "default" })),
    ] {
        let refused = site.post(path, &body).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{path}: {}", refused.text);
        assert!(refused.text.contains("is a server"), "{}", refused.text);
    }
    // Nor with the lease of another worker: `extend` would record a heartbeat of a dead server.
    crate::running_server::start(&site).await;
    crate::work::publish(&site, &json!({ "topic": "t", "queue": "mine" })).await;
    let claim = json!({ "worker": "mine", "queue": "mine" });
    let claimed = site.post("/api/v1/work/claim", &claim).await;
    let item = &claimed.json["items"][0];
    let (message, token) = (&item["message"]["id"], &item["lease"]["token"]);
    let other = site.another();
    crate::running_server::start(&other).await;
    for server in [&server, &other.app.punctual.process_id().to_string()] {
        for (path, body) in [
            (
                "/api/v1/work/extend",
                json!({ "worker": server, "leases": [{ "message": message, "token": token }] }),
            ),
            (
                "/api/v1/work/progress",
                json!({ "worker": server, "message": message, "token": token, "percent": 1 }),
            ),
            (
                "/api/v1/work/settle",
                json!({ "worker": server, "message": message, "token": token, "outcome": "done" }),
            ),
        ] {
            let refused = site.post(path, &body).await;
            assert_eq!(refused.status, StatusCode::CONFLICT, "{path}: {}", refused.text);
            assert!(refused.text.contains("is a server"), "{}", refused.text);
        }
    }
    let done = json!({ "worker": "mine", "message": message, "token": token, "outcome": "done" });
    let settled = site.post("/api/v1/work/settle", &done).await;
    assert_eq!(settled.json["state"], "applied", "{}", settled.text);
    let gone = site.post("/api/v1/work/deregister", &json!({ "worker": "mine" })).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text);
}

// Finding F19.
// spec: C-6
#[tokio::test]
async fn a_request_with_a_password_is_not_stored() {
    let site = closed();
    let fingerprint = async |key: &str, name: &str, password: &str| {
        let user = json!({ "name": name, "role": "viewer", "password": password });
        let request = Request::post("/api/v1/users").header(CONTENT_TYPE, "application/json");
        let request = request.header("Idempotency-Key", key);
        let request = request.body(Body::from(user.to_string())).unwrap();
        let made = site.send(as_caller(request, "ada", Role::Admin)).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        let range = KeyRange { limit: 10, ..KeyRange::default() };
        let kept = site.app.documents.list("idempotency", range, site.clock.now()).await.unwrap();
        kept.iter().map(|one| one.body["fingerprint"].as_str().unwrap().to_owned()).collect()
    };
    let _: Vec<String> = fingerprint("one", "bob", "correct horse battery").await;
    let kept: Vec<String> = fingerprint("two", "eve", "another horse battery").await;
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0], kept[1], "no hash of what was sent");
}

// Finding F20.
// spec: C-6
#[tokio::test]
async fn the_last_admin_cannot_lose_the_role() {
    let site = closed();
    add(&site, "ada", "admin").await;
    add(&site, "bob", "operator").await;
    let admin = site.as_role(Role::Admin);
    let ada = "/api/v1/users/ada";
    for change in [json!({ "role": "viewer" }), json!({ "disabled": true })] {
        let refused = admin.call("PATCH", ada, &change).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{change}: {}", refused.text);
    }
    let refused = admin.call("DELETE", ada, &Value::Null).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    let promoted = admin.call("PATCH", "/api/v1/users/bob", &json!({ "role": "admin" })).await;
    assert_eq!(promoted.status, StatusCode::OK, "{}", promoted.text);
    let removed = admin.call("DELETE", ada, &Value::Null).await;
    assert_eq!(removed.status, StatusCode::NO_CONTENT, "{}", removed.text);
}

// Finding F23: a token in an address ends up in logs.
// spec: C-6
#[tokio::test]
async fn a_token_in_the_query_is_refused() {
    let site = closed();
    let made = site
        .as_role(Role::Admin)
        .post("/api/v1/tokens", &json!({ "name": "t", "scopes": ["read"] }))
        .await;
    let secret = made.json["secret"].as_str().unwrap();
    let shown = site.get(&format!("/api/v1/events?token={secret}")).await;
    assert_eq!(shown.status, StatusCode::UNAUTHORIZED, "{}", shown.text);
    let request = Request::get("/api/v1/jobs").header(AUTHORIZATION, format!("Bearer {secret}"));
    assert_eq!(site.send(request.body(Body::empty()).unwrap()).await.status, StatusCode::OK);
}

// Finding F24.
// spec: T-56
#[tokio::test]
async fn operators_act_on_jobs_and_admins_change_them() {
    let site = idle();
    let job = json!({ "name": "nightly", "cron": "0 2 * * *", "topic": "t" });
    site.as_role(Role::Admin).post("/api/v1/jobs", &job).await;
    let edit = json!({ "cron": "0 3 * * *" });
    for (role, status) in [(Role::Operator, StatusCode::FORBIDDEN), (Role::Admin, StatusCode::OK)] {
        let site = site.as_role(role);
        assert_eq!(site.call("PATCH", "/api/v1/jobs/nightly", &edit).await.status, status);
        assert_eq!(site.post("/api/v1/jobs/nightly/reset", &json!({})).await.status, status);
        let pause = site.post("/api/v1/jobs/nightly/pause", &json!({ "reason": "x" })).await;
        assert_eq!(pause.status, StatusCode::OK, "{}", pause.text);
    }
}

// Finding F26.
// spec: C-6
#[tokio::test]
async fn callers_of_a_mounting_application_are_protected_from_cross_site_requests() {
    let site = idle();
    let post = async |site_header: &str| {
        let request = Request::post("/api/v1/messages").header(CONTENT_TYPE, "application/json");
        let request = request.header("sec-fetch-site", site_header);
        let request = request.body(Body::from("{\"topic\":\"t\"}")).unwrap();
        site.send(as_caller(request, "ada", Role::Admin)).await.status
    };
    assert_eq!(post("same-origin").await, StatusCode::CREATED);
    assert_eq!(post("cross-site").await, StatusCode::FORBIDDEN);
    let message = json!({ "topic": "t", "json": { "password": "hush" } });
    let sent = site.post("/api/v1/messages", &message).await;
    let path = format!("/api/v1/messages/{}", sent.json["id"].as_str().unwrap());
    assert!(!site.get(&path).await.text.contains("hush"), "a mounted dashboard hides it as well");
}

// Finding F27.
// spec: C-6
#[tokio::test]
async fn a_request_with_an_idempotency_key_has_the_same_size_limit() {
    let site = idle();
    let post = async |path: &str, length: usize| {
        let body = json!({ "topic": "t", "text": "x".repeat(length) });
        let body = if path.ends_with("batch") { json!({ "items": [body] }) } else { body };
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let request = request.header("Idempotency-Key", "k").body(Body::from(body.to_string()));
        site.send(request.unwrap()).await.status
    };
    assert_eq!(post("/api/v1/messages", 1 << 20).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_ne!(post("/api/v1/messages/batch", 1 << 20).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(post("/api/v1/messages/batch", 16 << 20).await, StatusCode::PAYLOAD_TOO_LARGE);
}
