//! System topics begin with `punctual.` and belong to the server: requests cannot use them.
//! (Finding F1 of the security review.)

use axum::http::StatusCode;
use punctual::Roles;
use punctual_server::{COMMAND_TOPIC, HTTP_TOPIC, PUBLISH_TOPIC, Role, WEBHOOK_TOPIC};
use serde_json::json;

use crate::running_server::{settle, start};
use crate::site::{Site, TestResponse};
use crate::work::idle;

fn is_refused(response: &TestResponse) {
    assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", response.text);
    assert!(response.text.contains("which is reserved"), "{}", response.text);
}

// spec: C-6, T-56
#[tokio::test]
async fn messages_to_topics_of_the_server_are_refused() {
    let site = idle();
    let sent = site.post("/api/v1/messages", &json!({ "topic": "mail" })).await;
    let clone = format!("/api/v1/messages/{}/clone", sent.json["id"].as_str().unwrap());
    for topic in [HTTP_TOPIC, COMMAND_TOPIC, PUBLISH_TOPIC, WEBHOOK_TOPIC, "punctual.anything"] {
        let target = json!({ "command": { "program": "id", "shell": true } });
        let message = json!({ "topic": topic, "json": { "target": target } });
        for role in [Role::Operator, Role::Admin] {
            let site = site.as_role(role);
            is_refused(&site.post("/api/v1/messages", &message).await);
            let items = json!({ "items": [{ "topic": "mail" }, message] });
            is_refused(&site.post("/api/v1/messages/batch", &items).await);
            is_refused(&site.post(&clone, &json!({ "topic": topic })).await);
        }
        let admin = site.as_role(Role::Admin);
        let job = json!({ "name": "j", "cron": "0 2 * * *", "topic": topic });
        is_refused(&admin.post("/api/v1/jobs", &job).await);
        let job = json!({ "name": "j", "cron": "0 2 * * *", "publish": { "topic": topic } });
        is_refused(&admin.post("/api/v1/jobs", &job).await);
    }
    let count = site.get("/api/v1/messages/count").await;
    assert_eq!(count.json["count"], 1, "only the one to mail was stored");
}

// spec: C-6
#[tokio::test]
async fn filters_may_name_the_topics_of_the_server() {
    let site = idle();
    for path in ["messages", "executions"] {
        let listed = site.get(&format!("/api/v1/{path}?topic={HTTP_TOPIC}")).await;
        assert_eq!((listed.status, &listed.json["items"]), (StatusCode::OK, &json!([])));
    }
}

// spec: C-6
#[tokio::test]
async fn a_message_of_a_job_with_a_target_can_be_redriven_but_not_cloned() {
    let site = idle();
    let admin = site.as_role(Role::Admin);
    let job =
        json!({ "name": "ping", "cron": "0 2 * * *", "http": { "url": "https://example.com" } });
    let made = admin.post("/api/v1/jobs", &job).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let run = admin.post("/api/v1/jobs/ping/trigger", &json!({})).await;
    assert!(run.status.is_success(), "{}", run.text);
    let listed = site.get(&format!("/api/v1/messages?topic={HTTP_TOPIC}")).await;
    let id = listed.json["items"][0]["id"].as_str().unwrap().to_owned();
    is_refused(&admin.post(&format!("/api/v1/messages/{id}/clone"), &json!({})).await);
    let cancelled = admin.post(&format!("/api/v1/messages/{id}/cancel"), &json!({})).await;
    assert!(cancelled.status.is_success(), "{}", cancelled.text);
    let redriven = admin.post(&format!("/api/v1/messages/{id}/redrive"), &json!({})).await;
    assert!(redriven.status.is_success(), "{}", redriven.text);
}

// Finding F8: claiming showed the targets of the server, with their secrets.
#[tokio::test]
async fn a_claim_never_returns_a_message_of_a_topic_of_the_server() {
    let site = Site::with(|builder| builder.roles(Roles { worker: false, ..Roles::ALL }));
    start(&site).await;
    let admin = site.as_role(Role::Admin);
    let target = json!({ "url": "https://example.com", "headers": { "X-Plain": "secret" } });
    let job = json!({ "name": "ping", "cron": "0 2 * * *", "http": target });
    let made = admin.post("/api/v1/jobs", &job).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let run = admin.post("/api/v1/jobs/ping/trigger", &json!({})).await;
    assert!(run.status.is_success(), "{}", run.text);
    let sent = site.post("/api/v1/messages", &json!({ "topic": "mail" })).await;
    for wait in ["0s", "5s"] {
        let request =
            json!({ "queue": "default", "worker": "curious", "limit": 100, "wait": wait });
        let claiming = site.post("/api/v1/work/claim", &request);
        let moving = async {
            for _ in 0..10 {
                settle().await;
                site.clock.advance(std::time::Duration::from_secs(1));
            }
        };
        let (claimed, ()) = futures_util::join!(claiming, moving);
        assert!(!claimed.text.contains("secret"), "{}", claimed.text);
        let items = claimed.json["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["message"]["id"] == sent.json["id"]));
    }
    let listed = site.get(&format!("/api/v1/messages?topic={HTTP_TOPIC}")).await.json;
    assert_eq!(listed["items"][0]["state"], "pending");
}
