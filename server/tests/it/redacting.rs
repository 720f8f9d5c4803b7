//! What nobody gets to see, and what comes back when a view is sent back.

use punctual_server::{HIDDEN, Redaction, Role};
use serde_json::{Value, json};

use crate::site::Site;
use crate::work::{idle, publish};

fn site() -> Site {
    let rules = Redaction::new(&["pin"]).unwrap().of_topics(&["salaries", "health.*"]).unwrap();
    idle().changed(|app| app.redacting(rules))
}

/// What is stored in a job, secrets included.
async fn stored(site: &Site) -> Value {
    let name = punctual::model::JobName::new("pay").unwrap();
    let record = site.app.inspect.job(&name).await.unwrap().unwrap();
    serde_json::from_slice(&record.declared.body.bytes).unwrap()
}

#[tokio::test]
async fn bodies_of_hidden_topics_are_shown_to_nobody() {
    let site = site();
    for (topic, hidden) in [("salaries", true), ("health.report", true), ("mail", false)] {
        let id = publish(&site, &json!({"topic": topic, "json": {"paid": 4711, "pin": 17}})).await;
        for role in [Role::Viewer, Role::Admin] {
            let shown = site.as_role(role).get(&format!("/api/v1/messages/{id}")).await;
            assert_eq!(shown.text.contains("4711"), !hidden, "{topic}: {}", shown.text);
            assert_eq!(shown.json["body"]["redacted"], true);
            assert_eq!(shown.json["size"], 22, "how long it is may be known: {}", shown.text);
        }
        // A clone keeps the content that its maker has not seen, and refuses what was shown instead.
        let path = format!("/api/v1/messages/{id}/clone");
        let clone = site.post(&path, &json!({})).await.json;
        let copy = clone["id"].as_str().unwrap().parse().unwrap();
        let record = site.app.inspect.message(copy).await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&record.message.body.bytes).contains("4711"));
        assert_eq!(site.post(&path, &json!({"text": HIDDEN})).await.status, 422);
    }
}

#[tokio::test]
async fn a_job_that_publishes_to_a_hidden_topic_keeps_what_was_sent_back_hidden() {
    let site = site();
    let mut spec = json!({"name": "pay", "every": "1h", "payload": {"paid": 4711},
        "publish": {"topic": "salaries", "body": {"sum": 815}}});
    let made = site.post("/api/v1/jobs", &spec).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for path in ["/api/v1/jobs/pay", "/api/v1/jobs", "/api/v1/audit"] {
        let shown = site.get(path).await.text;
        assert!(!shown.contains("4711") && !shown.contains("815"), "{path}: {shown}");
    }
    let before = stored(&site).await;
    spec["payload"] = json!(HIDDEN);
    spec["publish"]["body"] = json!(HIDDEN);
    spec["every"] = json!("2h");
    let replaced = site.call("PUT", "/api/v1/jobs/pay", &spec).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text);
    assert_eq!(replaced.json["every_ms"], 7_200_000);
    assert_eq!(stored(&site).await, before);
    // Nothing is stored that a new job could mean.
    spec["name"] = json!("pay-again");
    let refused = site.post("/api/v1/jobs", &spec).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_eq!(refused.json["errors"][0]["field"], "payload", "{}", refused.text);
}

#[tokio::test]
async fn a_value_hidden_within_a_payload_comes_back_when_the_rest_is_as_it_was() {
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
