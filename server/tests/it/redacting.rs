//! Redaction: values that are never shown, and their restoration when a view is sent back.

use axum::http::StatusCode;
use punctual::{Context, HandlerError};
use punctual_server::{HIDDEN, Redaction, Role};
use serde_json::{Value, json};

use crate::events::EventClient;
use crate::running_server::{settle, start};
use crate::site::Site;
use crate::work::{idle, publish, publish_to};

fn rules() -> Redaction {
    Redaction::new(&["pin"]).unwrap().of_topics(&["salaries", "health.*"]).unwrap()
}

fn site() -> Site {
    idle().changed(|app| app.redacting(rules()))
}

/// Returns the stored definition of a job, secrets included.
async fn stored(site: &Site) -> Value {
    let name = punctual::model::JobName::new("pay").unwrap();
    let record = site.app.inspect.job(&name).await.unwrap().unwrap();
    serde_json::from_slice(&record.declared.body.bytes).unwrap()
}

#[tokio::test]
async fn bodies_of_redacted_topics_are_never_shown() {
    let site = site();
    for (topic, hidden) in [("salaries", true), ("health.report", true), ("mail", false)] {
        let id = publish(&site, &json!({"topic": topic, "json": {"paid": 4711, "pin": 17}})).await;
        for role in [Role::Viewer, Role::Admin] {
            let shown = site.as_role(role).get(&format!("/api/v1/messages/{id}")).await;
            assert_eq!(shown.text.contains("4711"), !hidden, "{topic}: {}", shown.text);
            assert_eq!(shown.json["body"]["redacted"], true);
            assert_eq!(shown.json["size"], 22, "how long it is may be known: {}", shown.text);
        }
        // A clone keeps the redacted body, and refuses the placeholder as a body.
        let path = format!("/api/v1/messages/{id}/clone");
        let clone = site.post(&path, &json!({})).await.json;
        let copy = clone["id"].as_str().unwrap().parse().unwrap();
        let record = site.app.inspect.message(copy).await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&record.message.body.bytes).contains("4711"));
        assert_eq!(site.post(&path, &json!({"text": HIDDEN})).await.status, 422);
    }
}

#[tokio::test]
async fn a_job_that_publishes_to_a_redacted_topic_keeps_its_value() {
    let site = site();
    let mut spec = json!({"name": "pay", "every": "1h", "payload": {"paid": 4711},
        "publish": {"topic": "salaries", "body": {"sum": 815_815_815}}});
    let made = site.post("/api/v1/jobs", &spec).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for path in ["/api/v1/jobs/pay", "/api/v1/jobs", "/api/v1/audit"] {
        let shown = site.get(path).await.text;
        assert!(!shown.contains("4711") && !shown.contains("815815815"), "{path}: {shown}");
    }
    let before = stored(&site).await;
    spec["payload"] = json!(HIDDEN);
    spec["publish"]["body"] = json!(HIDDEN);
    spec["every"] = json!("2h");
    let replaced = site.call("PUT", "/api/v1/jobs/pay", &spec).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text);
    assert_eq!(replaced.json["every_ms"], 7_200_000);
    assert_eq!(stored(&site).await, before);
    // A new job has no stored value that the placeholder could stand for.
    spec["name"] = json!("pay-again");
    let refused = site.post("/api/v1/jobs", &spec).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_eq!(refused.json["errors"][0]["field"], "payload", "{}", refused.text);
}

#[tokio::test]
async fn a_redacted_value_is_restored_when_the_rest_is_unchanged() {
    let site = site();
    let spec =
        |payload: Value| json!({"name": "pay", "every": "1h", "topic": "t", "payload": payload});
    site.post("/api/v1/jobs", &spec(json!({"pin": 17, "who": "ada"}))).await;
    let shown = site.get("/api/v1/jobs/pay").await.json["payload"].clone();
    assert_eq!(shown, json!({"pin": HIDDEN, "who": "ada"}));
    let replaced = site.call("PUT", "/api/v1/jobs/pay", &spec(shown)).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text);
    assert_eq!(stored(&site).await, json!({"pin": 17, "who": "ada"}));
    let other = spec(json!({"pin": HIDDEN, "who": "bob"}));
    assert_eq!(site.call("PUT", "/api/v1/jobs/pay", &other).await.status, 422);
}

// Finding F7 of the security review.
// spec: C-6
#[tokio::test]
async fn redacted_values_cannot_be_found_by_filters_or_copied_by_clones() {
    let site = site();
    let (viewer, operator) = (site.as_role(Role::Viewer), site.as_role(Role::Operator));
    let message = json!({"topic": "salaries", "json": {"paid": 4711}});
    let sent = site.as_role(Role::Admin).post("/api/v1/messages", &message).await;
    let id = sent.json["id"].as_str().unwrap();
    for guess in ["paid:4711", "paid:4712"] {
        let found = viewer.get(&format!("/api/v1/messages?topic=salaries&payload={guess}")).await;
        assert_eq!(found.json["items"], json!([]), "{guess}: {}", found.text);
    }
    let clone = format!("/api/v1/messages/{id}/clone");
    let open = operator.post(&clone, &json!({"topic": "open"})).await;
    assert_eq!(open.status, StatusCode::FORBIDDEN, "{}", open.text);
    let again = operator.post(&clone, &json!({})).await;
    assert_eq!(again.status, StatusCode::CREATED, "under its own topic it stays hidden");
    let replaced = operator.post(&clone, &json!({"topic": "open", "json": {"paid": 0}})).await;
    assert_eq!(replaced.status, StatusCode::CREATED, "{}", replaced.text);
    let headers = json!({"X-Key": "s3cr3t-key"});
    let job = json!({"name": "ping", "cron": "0 2 * * *",
        "http": {"url": "https://example.com", "headers": headers}});
    let admin = site.as_role(Role::Admin);
    assert_eq!(admin.post("/api/v1/jobs", &job).await.status, StatusCode::CREATED);
    assert!(admin.post("/api/v1/jobs/ping/trigger", &json!({})).await.status.is_success());
    for (guess, count) in
        [("target.http.headers.X-Key:s3cr3t-key", 0), ("target.http.url:https://example.com", 1)]
    {
        let found = viewer.get(&format!("/api/v1/messages?payload={guess}")).await;
        assert_eq!(found.json["items"].as_array().unwrap().len(), count, "{guess}");
    }
}

// Finding F7: an error of a handler may quote the body.
// spec: C-6, C-8
#[tokio::test]
async fn the_event_stream_redacts_errors_of_redacted_topics() {
    let fail = async |context: Context| {
        context.log("paid 4711");
        Err::<(), _>(HandlerError::new("no account").permanent())
    };
    let site = Site::with(|builder| builder.handler("salaries", fail).handler("mail", fail));
    let site = site.changed(|app| app.redacting(rules()));
    start(&site).await;
    for (query, topic, output) in [
        ("", "salaries", HIDDEN),
        ("?kinds=message.dead&topic=salaries", "salaries", HIDDEN),
        ("?kinds=message.dead", "mail", "paid 4711"),
    ] {
        let mut client = EventClient::open(&site, query).await;
        publish_to(&site, topic).await;
        settle().await;
        client.read().await;
        let received = client.received();
        let (_, dead) = received.iter().find(|(kind, _)| kind == "message.dead").unwrap();
        assert_eq!((&dead["topic"], &dead["output"]), (&json!(topic), &json!(output)), "{query}");
        let shows = received.iter().any(|(_, data)| data.to_string().contains("4711"));
        assert_eq!(shows, output != HIDDEN, "{query}: {received:?}");
    }
}
