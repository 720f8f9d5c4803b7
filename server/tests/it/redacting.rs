//! Redaction: values that are never shown, and their restoration when a view is sent back.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::Queue;
use punctual::{Context, HandlerError};
use punctual_server::{HIDDEN, Redaction, Role};
use serde_json::{Value, json};

use crate::events::EventClient;
use crate::running_server::{settle, start, until};
use crate::site::Site;
use crate::work::{dead, idle, publish};

/// A value in a body; no id contains it.
const SECRET: &str = "4711 EUR";

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
        let id = publish(&site, &json!({"topic": topic, "json": {"paid": 471_104_711, "pin": 17}}))
            .await;
        for role in [Role::Viewer, Role::Admin] {
            let shown = site.as_role(role).get(&format!("/api/v1/messages/{id}")).await;
            assert_eq!(shown.text.contains("471104711"), !hidden, "{topic}: {}", shown.text);
            assert_eq!(shown.json["body"]["redacted"], true);
            assert_eq!(shown.json["size"], 27, "how long it is may be known: {}", shown.text);
        }
        // A clone keeps the redacted body, and refuses the placeholder as a body.
        let path = format!("/api/v1/messages/{id}/clone");
        let clone = site.post(&path, &json!({})).await.json;
        let copy = clone["id"].as_str().unwrap().parse().unwrap();
        let record = site.app.inspect.message(copy).await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&record.message.body.bytes).contains("471104711"));
        assert_eq!(site.post(&path, &json!({"text": HIDDEN})).await.status, 422);
    }
}

#[tokio::test]
async fn a_job_that_publishes_to_a_redacted_topic_keeps_its_value() {
    let site = site();
    let mut spec = json!({"name": "pay", "every": "1h", "payload": {"paid": 471_104_711},
        "publish": {"topic": "salaries", "body": {"sum": 815_815_815}}});
    let made = site.post("/api/v1/jobs", &spec).await;
    assert_eq!(made.status, 201, "{}", made.text);
    for path in ["/api/v1/jobs/pay", "/api/v1/jobs", "/api/v1/audit"] {
        let shown = site.get(path).await.text;
        assert!(!shown.contains("471104711") && !shown.contains("815815815"), "{path}: {shown}");
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
    let message = json!({"topic": "salaries", "json": {"paid": 471_104_711}});
    let sent = site.as_role(Role::Admin).post("/api/v1/messages", &message).await;
    let id = sent.json["id"].as_str().unwrap();
    for guess in ["paid:471104711", "paid:471104712"] {
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

/// Quotes the body in its log, its progress and its error.
async fn quote(pay: Value, context: Context) -> Result<(), HandlerError> {
    let text = format!("cannot pay {}", pay["paid"].as_str().unwrap());
    context.log(&text);
    context.progress((50, text.clone()));
    let error = HandlerError::new(text);
    let again = pay["again"] == true;
    Err(if again { error.retry_after(Duration::from_secs(3_600)) } else { error.permanent() })
}

/// Builds a server whose handlers quote bodies.
fn quoting() -> Site {
    Site::with(|builder| {
        builder.handler("salaries", quote).handler("health.report", quote).handler("mail", quote)
    })
}

// Finding F7: a handler may quote the body in its error.
// spec: C-6, C-8
#[tokio::test]
async fn the_event_stream_redacts_errors_of_redacted_topics() {
    let site = quoting().changed(|app| app.redacting(rules()));
    start(&site).await;
    let said = format!("cannot pay {SECRET}");
    for (query, topic, text) in [
        ("", "salaries", HIDDEN),
        ("?topic=salaries", "salaries", HIDDEN),
        ("?topic=mail", "mail", &said),
    ] {
        let mut client = EventClient::open(&site, query).await;
        publish(&site, &json!({"topic": topic, "json": {"paid": SECRET}})).await;
        settle().await;
        client.read().await;
        let received = client.received();
        for (kind, field) in [
            ("attempt.failed", "error"),
            ("attempt.progressed", "note"),
            ("message.dead", "error"),
            ("message.dead", "output"),
        ] {
            let (_, event) = received.iter().find(|(of, _)| of == kind).unwrap();
            assert_eq!((&event["topic"], &event[field]), (&json!(topic), &json!(text)), "{kind}");
        }
        let shows = received.iter().any(|(_, event)| event.to_string().contains(SECRET));
        assert_eq!(shows, text != HIDDEN, "{query}: {received:?}");
    }
}

/// Lets a run of each of two jobs fail, one for good and one to be retried, and a message of the same topics.
/// Returns the paths of all GET operations, with names that exist.
async fn failures(site: &Site) -> Vec<String> {
    start(site).await;
    for (name, topic, again) in [("payday", "salaries", false), ("checkup", "health.report", true)]
    {
        let payload = json!({"paid": SECRET, "again": again});
        let job = json!({"name": name, "topic": topic, "payload": payload, "cron": "* * * * *",
            "retry": if again { 3 } else { 0 }});
        let made = site.post("/api/v1/jobs", &job).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        publish(site, &json!({"topic": topic, "json": payload})).await;
    }
    let failing = |health: &Value| health["failing_jobs"][0]["name"] == "payday";
    until(site, "/api/v1/health", failing).await;
    let executions = site.get("/api/v1/executions?job=checkup").await.json;
    let (execution, message) = (&executions["items"][0]["id"], &executions["items"][0]["message"]);
    let document = site.get("/api/openapi.json").await.json;
    let operations = document["paths"].as_object().unwrap().iter();
    let read = operations.filter(|(path, item)| !item["get"].is_null() && !path.contains("/oidc"));
    let paths = read.filter(|(path, _)| !path.ends_with("/events")).flat_map(|(path, _)| {
        let id = if path.contains("/executions/") { execution } else { message };
        let path = path.replace("{id}", id.as_str().unwrap());
        ["payday", "checkup"].map(|job| path.replace("{name}", job))
    });
    paths.collect::<BTreeSet<String>>().into_iter().collect()
}

// Finding F7: errors and logs of handlers were shown everywhere.
// spec: C-6
#[tokio::test]
async fn no_view_shows_what_handlers_of_redacted_topics_wrote() {
    let open = quoting();
    let paths = failures(&open).await;
    let mut shown = Vec::new();
    for path in &paths {
        if open.get(path).await.text.contains(SECRET) {
            shown.push(path.replace("/api/v1/", ""));
        }
    }
    for part in [
        "dead-letters",
        "dead-letters/groups",
        "executions",
        "health",
        "jobs",
        "jobs/checkup/occurrences",
        "jobs/payday",
        "jobs/payday/executions",
        "jobs/payday/occurrences",
        "messages",
        "overview",
    ] {
        assert!(shown.iter().any(|path| path == part), "{part} is not in {shown:?}");
    }
    for part in ["executions/", "messages/"] {
        assert!(shown.iter().any(|path| path.starts_with(part)), "{part} is not in {shown:?}");
    }
    let site = quoting().changed(|app| app.redacting(rules()));
    let mut events = EventClient::open(&site, "").await;
    for path in failures(&site).await {
        for role in [Role::Viewer, Role::Admin] {
            let answer = site.as_role(role).get(&path).await;
            assert!(!answer.text.contains(SECRET), "{path} as {role}: {}", answer.text);
        }
    }
    events.read().await;
    let received = events.received();
    assert!(received.iter().any(|(kind, _)| kind == "alert.raised"), "{received:?}");
    assert!(!received.iter().any(|(_, event)| event.to_string().contains(SECRET)), "{received:?}");
}

// Finding F7: a filter revealed an error by guesses.
// spec: C-6
#[tokio::test]
async fn errors_of_redacted_topics_are_in_no_filter_or_group() {
    let site = site();
    for topic in ["salaries", "mail"] {
        for error in ["no account for ada", "no money"] {
            dead(&site, topic, error).await;
        }
    }
    let viewer = site.as_role(Role::Viewer);
    for (part, count) in [("account", 1), ("no ", 2), ("redacted", 0)] {
        let query = format!("error={part}&topic");
        for path in [
            format!("messages?{query}"),
            format!("messages?search={part}&topic"),
            format!("dead-letters?search={part}&topic"),
        ] {
            for (topic, count) in [("salaries", 0), ("mail", count)] {
                let found =
                    viewer.get(&format!("/api/v1/{path}={topic}").replace(' ', "%20")).await;
                let items = found.json["items"].as_array().map(Vec::len);
                assert_eq!(items, Some(count), "{path}={topic}: {}", found.text);
            }
        }
        let bulk = json!({"action": "redrive", "filter": {"error": part}, "dry_run": true});
        let selected = site.post("/api/v1/messages/bulk", &bulk).await;
        assert_eq!(selected.json["count"], count, "{}", selected.text);
        let redrive = json!({"filter": {"error": part}, "dry_run": true});
        let selected = site.post("/api/v1/dead-letters/redrive", &redrive).await;
        assert_eq!(selected.json["count"], count, "{}", selected.text);
    }
    let groups = viewer.get("/api/v1/dead-letters/groups").await.json;
    let of = |topic: &str| {
        let groups = groups["items"].as_array().unwrap().iter();
        groups.filter(|group| group["topic"] == topic).cloned().collect::<Vec<Value>>()
    };
    assert_eq!(of("mail").len(), 2, "{groups}");
    let [group] = &of("salaries")[..] else { panic!("more than one group: {groups}") };
    assert_eq!((&group["error"], &group["count"]), (&json!(HIDDEN), &json!(2)));
    let redrive = json!({"fingerprint": group["fingerprint"], "dry_run": true});
    let selected = site.post("/api/v1/dead-letters/redrive", &redrive).await;
    assert_eq!(selected.json["count"], 2, "{}", selected.text);
    let group = group["fingerprint"].as_str().unwrap();
    let listed = viewer.get(&format!("/api/v1/dead-letters?group={group}")).await;
    assert_eq!(listed.json["items"].as_array().map(Vec::len), Some(2), "{}", listed.text);
}

// Finding F7: a webhook sent the error of a handler to another system.
// spec: C-6
#[tokio::test]
async fn webhooks_redact_what_handlers_of_redacted_topics_wrote() {
    for (topic, shows) in [("salaries", false), ("mail", true)] {
        let site = quoting().changed(|app| app.redacting(rules()));
        start(&site).await;
        let webhook = json!({"url": "http://127.0.0.1:9/hook", "events": ["*"]});
        assert_eq!(site.post("/api/v1/webhooks", &webhook).await.status, StatusCode::CREATED);
        publish(&site, &json!({"topic": topic, "json": {"paid": SECRET}})).await;
        settle().await;
        let queue = Some(Queue::from("punctual.webhook".to_owned()));
        let filter = MessageFilter { queue, ..MessageFilter::default() };
        let page = PageRequest::first(100);
        let sent = site.app.inspect.messages(filter, page).await.unwrap().rows;
        let sent: Vec<Value> = sent
            .iter()
            .map(|record| serde_json::from_slice(&record.message.body.bytes).unwrap())
            .collect();
        for (kind, field) in [
            ("attempt.failed", "error"),
            ("attempt.progressed", "note"),
            ("message.dead", "error"),
            ("message.dead", "output"),
        ] {
            let notice = sent.iter().find(|notice| notice["event"]["event"] == kind);
            let text = &notice.unwrap_or_else(|| panic!("no {kind}: {sent:?}"))["event"][field];
            let expected = if shows { format!("cannot pay {SECRET}") } else { HIDDEN.to_owned() };
            assert_eq!(*text, expected, "{kind}");
        }
        assert_eq!(json!(sent).to_string().contains(SECRET), shows);
    }
}
