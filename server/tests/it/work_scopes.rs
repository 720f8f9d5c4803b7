//! Scope `work`: who may claim from which queues, and which messages are never claimed. (Finding F8 of the
//! security review.)

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use punctual::Roles;
use punctual_server::{AuthSettings, Mode, Role};
use serde_json::{Value, json};

use crate::running_server::{settle, start};
use crate::site::{Site, TestResponse};

const WORKER: &str = "0198a3a5-7d5e-7000-8000-00000000000a";

/// Starts a server without handlers and with authentication.
async fn site() -> Site {
    let roles = Roles { worker: false, ..Roles::ALL };
    let site = Site::with(|builder| builder.roles(roles));
    start(&site).await;
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    site.changed(|app| app.authenticating(settings))
}

async fn token(site: &Site, scopes: &[&str], queues: Value) -> String {
    let token_request = json!({ "name": "t", "scopes": scopes, "queues": queues });
    let made = site.as_role(Role::Admin).post("/api/v1/tokens", &token_request).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    assert_eq!(made.json["queues"], queues);
    made.json["secret"].as_str().unwrap().to_owned()
}

async fn work(site: &Site, secret: &str, call: &str, body: &Value) -> TestResponse {
    let request = Request::post(format!("/api/v1/work/{call}"));
    let request = request.header(AUTHORIZATION, format!("Bearer {secret}"));
    let request = request.header(CONTENT_TYPE, "application/json");
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn claim(site: &Site, secret: &str, queue: &str) -> TestResponse {
    work(site, secret, "claim", &json!({ "queue": queue, "worker": WORKER, "limit": 10 })).await
}

async fn publish(site: &Site, queue: &str) {
    let message = json!({ "topic": "greet", "queue": queue });
    let sent = site.as_role(Role::Operator).post("/api/v1/messages", &message).await;
    assert_eq!(sent.status, StatusCode::CREATED, "{}", sent.text);
}

// spec: C-6
#[tokio::test]
async fn a_worker_claims_and_settles_only_in_the_queues_of_its_token() {
    let site = site().await;
    let python = token(&site, &["work"], json!(["python", "reports"])).await;
    let other = token(&site, &["work"], json!(["other"])).await;
    let every = token(&site, &["work"], json!(["*"])).await;
    publish(&site, "python").await;
    let refused = claim(&site, &other, "python").await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert!(refused.text.contains("may work on other"), "{}", refused.text);
    let claimed = claim(&site, &python, "python").await;
    assert_eq!(claimed.status, StatusCode::OK, "{}", claimed.text);
    let item = &claimed.json["items"][0];
    let (message, lease) = (&item["message"]["id"], &item["lease"]["token"]);
    let held = json!({ "worker": WORKER, "message": message, "token": lease });
    let with = |name: &str, value: Value| {
        let mut body = held.clone();
        body[name] = value;
        body
    };
    let calls = [
        ("extend", json!({ "worker": WORKER, "leases": [{ "message": message, "token": lease }] })),
        ("progress", with("percent", json!(10))),
        ("settle", with("outcome", json!("done"))),
    ];
    for (call, body) in &calls {
        let refused = work(&site, &other, call, body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{call}: {}", refused.text);
    }
    for (call, body) in &calls {
        let done = work(&site, &python, call, body).await;
        assert_eq!(done.status, StatusCode::OK, "{call}: {}", done.text);
        let state = &done.json["items"][0]["state"];
        let state = if state.is_null() { &done.json["state"] } else { state };
        assert!(state == "held" || state == "applied", "{call}: {}", done.text);
    }
    publish(&site, "other").await;
    let claimed = claim(&site, &every, "other").await;
    assert_eq!(claimed.json["items"].as_array().unwrap().len(), 1, "{}", claimed.text);
}

// spec: C-6, T-56
#[tokio::test]
async fn no_role_implies_the_scope_work() {
    let site = site().await;
    publish(&site, "python").await;
    let body = json!({ "queue": "python", "worker": WORKER });
    for role in [Role::Viewer, Role::Operator, Role::Admin] {
        let refused = site.as_role(role).post("/api/v1/work/claim", &body).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{role}: {}", refused.text);
        assert!(refused.text.contains("a token with the scope work"), "{}", refused.text);
    }
    let admin = token(&site, &["admin", "publish"], json!([])).await;
    assert_eq!(claim(&site, &admin, "python").await.status, StatusCode::FORBIDDEN);
}

// spec: C-6
#[tokio::test]
async fn a_token_with_the_scope_work_has_queues_and_is_created_by_an_admin() {
    let site = site().await;
    let make = async |role: Role, scopes: Value, queues: Value| {
        let token_request = json!({ "name": "t", "scopes": scopes, "queues": queues });
        let made = site.as_role(role).post("/api/v1/tokens", &token_request).await;
        (made.status.as_u16(), made.json["errors"][0]["field"].clone())
    };
    let (work, read) = (json!(["work"]), json!(["read"]));
    let many: Vec<String> = (0..101).map(|number| format!("q{number}")).collect();
    let wrong = json!("queues");
    for (scopes, queues, expected) in [
        (&work, json!([]), (422, &wrong)),
        (&work, json!(["~relay/kafka"]), (422, &wrong)),
        (&work, json!([""]), (422, &wrong)),
        (&work, json!(many), (422, &wrong)),
        (&read, json!(["python"]), (422, &wrong)),
        (&read, json!([]), (201, &Value::Null)),
        (&work, json!(["python"]), (201, &Value::Null)),
    ] {
        let (status, field) = make(Role::Admin, scopes.clone(), queues.clone()).await;
        assert_eq!((status, &field), expected, "{scopes} {queues}");
    }
    // Bodies for workers are hidden from operators.
    assert_eq!(make(Role::Operator, work, json!(["python"])).await.0, 403);
    let listed = site.as_role(Role::Admin).get("/api/v1/tokens").await;
    let queues: Vec<&Value> =
        listed.json["items"].as_array().unwrap().iter().map(|token| &token["queues"]).collect();
    assert!(queues.contains(&&json!(["python"])), "{}", listed.text);
}

// spec: C-6
#[tokio::test]
async fn messages_of_the_server_are_never_claimed_over_http() {
    let site = site().await;
    let secret = token(&site, &["work"], json!(["*"])).await;
    let admin = site.as_role(Role::Admin);
    let job = json!({ "name": "ping", "cron": "0 2 * * *", "queue": "python",
        "http": { "url": "https://example.com", "headers": { "X-Plain": "plain-secret" } } });
    let made = admin.post("/api/v1/jobs", &job).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let run = admin.post("/api/v1/jobs/ping/trigger", &json!({})).await;
    assert!(run.status.is_success(), "{}", run.text);
    let claimed = claim(&site, &secret, "python").await;
    assert_eq!(claimed.json["items"], json!([]), "{}", claimed.text);
    // Nor while it waits, during which the queue is polled every second.
    let body = json!({ "queue": "python", "worker": WORKER, "limit": 10, "wait": "5s" });
    let waiting = async {
        for _ in 0..6 {
            settle().await;
            site.clock.advance(Duration::from_secs(1));
        }
    };
    let (claimed, ()) = tokio::join!(work(&site, &secret, "claim", &body), waiting);
    assert_eq!(claimed.json["items"], json!([]), "{}", claimed.text);
    let shown = admin.get("/api/v1/messages?queue=python").await;
    let message = &shown.json["items"][0];
    assert_eq!((&message["state"], &message["attempt"]), (&json!("pending"), &json!(0)));
    // Other messages of the queue are claimed.
    publish(&site, "python").await;
    let claimed = claim(&site, &secret, "python").await;
    assert_eq!(claimed.json["items"].as_array().unwrap().len(), 1, "{}", claimed.text);
    assert!(!claimed.text.contains("plain-secret"), "{}", claimed.text);
}
