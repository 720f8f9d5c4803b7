//! Messages over HTTP: lists, one message, and actions on it.

use std::time::Duration;

use axum::http::StatusCode;
use punctual::Context;
use punctual_server::{HIDDEN, Redaction};
use serde_json::{Value, json};

use crate::work::{claim, dead, dead_letter, fail, finish, idle, publish, publish_to};

fn ids(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn lists_are_pages_without_offsets() {
    let site = idle();
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(publish_to(&site, "mail").await);
    }
    sent.reverse();
    let first = site.get("/api/v1/messages?limit=2").await.json;
    assert_eq!(ids(&first), sent[..2]);
    let next = first["next"].as_str().unwrap();
    let second = site.get(&format!("/api/v1/messages?limit=3&after={next}")).await.json;
    assert_eq!(ids(&second), sent[2..]);
    assert_eq!((&second["next"], &second["more"]), (&Value::Null, &json!(false)));
}

#[tokio::test]
async fn filters_that_a_storage_does_not_support_are_applied_by_a_scan() {
    let site = idle();
    let first = publish(&site, &json!({"topic": "mail", "key": "Otto"})).await;
    let claimed = claim(&site, "default").await;
    fail(&site, &claimed[0], "Connection REFUSED", Duration::from_secs(60)).await;
    site.clock.advance(Duration::from_secs(10));
    let second = publish(&site, &json!({"topic": "post", "delay": "5m"})).await;
    let third = json!({"topic": "post", "queue": "slow", "json": {"user": {"id": 42}}});
    let third = publish(&site, &third).await;
    for (query, expected) in [
        ("phase=retrying", vec![&first]),
        ("phase=scheduled", vec![&second]),
        ("phase=ready,retrying", vec![&third, &first]),
        ("error=refused", vec![&first]),
        ("attempt_min=1", vec![&first]),
        ("attempt_min=2", vec![]),
        ("since=2026-03-01T12:00:05Z", vec![&third, &second]),
        ("until=2026-03-01T12:00:10Z", vec![&first]),
        ("search=otto", vec![&first]),
        ("search=slow", vec![&third]),
        ("topic=post", vec![&third, &second]),
        ("queue=slow&topic=post", vec![&third]),
        ("key=Otto", vec![&first]),
        ("state=pending&search=post", vec![&third, &second]),
        ("state=dead,done", vec![]),
        ("payload=user.id:42", vec![&third]),
        ("payload=user.id:4", vec![]),
    ] {
        let list = site.get(&format!("/api/v1/messages?{query}")).await;
        assert_eq!(ids(&list.json), expected, "{query}: {}", list.text);
        let count = site.get(&format!("/api/v1/messages/count?{query}")).await.json;
        assert_eq!(
            count,
            json!({"count": expected.len(), "more": false, "estimate": false}),
            "{query}"
        );
    }
}

#[tokio::test]
async fn the_next_page_of_a_narrow_filter_continues_the_scan() {
    let site = idle();
    let mut keyed = Vec::new();
    for number in 0..6 {
        let key = if number % 2 == 0 { "even" } else { "odd" };
        keyed.push(
            publish(&site, &json!({"topic": "mail", "dedupe": format!("{key}-{number}")})).await,
        );
    }
    let first = site.get("/api/v1/messages?search=even&limit=2").await.json;
    assert_eq!(ids(&first), [&keyed[4], &keyed[2]]);
    let next = first["next"].as_str().unwrap();
    let second = site.get(&format!("/api/v1/messages?search=even&limit=2&after={next}")).await.json;
    assert_eq!(ids(&second), [&keyed[0]]);
    assert_eq!(second["next"], Value::Null);
}

#[tokio::test]
async fn a_scan_stops_at_its_limit_and_reports_it() {
    let site = idle();
    let oldest = publish(&site, &json!({"topic": "mail", "key": "needle"})).await;
    let items = json!({ "items": vec![json!({"topic": "hay"}); 1_000] });
    for _ in 0..10 {
        assert_eq!(site.post("/api/v1/messages/batch", &items).await.status, StatusCode::CREATED);
    }
    let first = site.get("/api/v1/messages?search=needle").await.json;
    assert_eq!((ids(&first).len(), &first["more"]), (0, &json!(true)));
    let count = site.get("/api/v1/messages/count?search=hay").await.json;
    assert_eq!(count, json!({"count": 10_000, "more": true, "estimate": false}));
    let next = first["next"].as_str().unwrap();
    let second = site.get(&format!("/api/v1/messages?search=needle&after={next}")).await.json;
    assert_eq!((ids(&second), &second["more"]), (vec![oldest.as_str()], &json!(false)));
}

#[tokio::test]
async fn invalid_filters_are_refused_by_name() {
    let site = idle();
    for (query, field) in [
        ("state=sleeping", "state"),
        ("phase=asleep", "phase"),
        ("batch=7", "batch"),
        ("payload=42", "payload"),
        ("payload=.a:42", "payload"),
        ("since=yesterday", "since"),
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("after=x", "after"),
        ("stat=dead", "stat"),
        ("attempt_min=-1", "attempt_min"),
    ] {
        let response = site.get(&format!("/api/v1/messages?{query}")).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
        assert_eq!(response.json["errors"][0]["field"], field, "{query}: {}", response.text);
        assert_eq!(response.headers["content-type"], "application/problem+json");
    }
}

#[tokio::test]
async fn a_message_is_shown_with_all_its_details() {
    let site = idle();
    let request = json!({"topic": "mail", "json": {"to": "ada"}, "headers": {"tenant": "acme"},
        "key": "ada", "priority": 7, "retry": {"retries": 2, "waits": ["10s"]}, "timeout": "30s"});
    let id = publish(&site, &request).await;
    let claimed = claim(&site, "default").await;
    fail(&site, &claimed[0], "no answer", Duration::from_secs(10)).await;
    let shown = site.get(&format!("/api/v1/messages/{id}")).await.json;
    assert_eq!(shown["body"]["json"], json!({"to": "ada"}));
    assert_eq!(shown["body"]["content_type"], "application/json");
    assert_eq!(shown["headers"], json!({"tenant": "acme"}));
    assert_eq!((&shown["attempt"], &shown["attempts_max"]), (&json!(1), &json!(3)));
    assert_eq!((&shown["state"], &shown["phase"]), (&json!("pending"), &json!("retrying")));
    assert_eq!(shown["executions"][0]["note"], "no answer");
    assert_eq!(shown["why"]["word"], "retrying");
    assert_eq!(shown["due_at"], "2026-03-01T12:00:10Z");
    let execution = shown["executions"][0]["id"].as_str().unwrap();
    let one = site.get(&format!("/api/v1/executions/{execution}")).await.json;
    assert_eq!(one["message"], id.as_str());
}

#[tokio::test]
async fn unknown_and_invalid_ids_are_reported() {
    let site = idle();
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057";
    for path in ["messages", "executions", "batches"] {
        let response = site.get(&format!("/api/v1/{path}/{unknown}")).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{}", response.text);
        assert!(response.json["detail"].as_str().unwrap().contains(unknown));
        let response = site.get(&format!("/api/v1/{path}/seven")).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{}", response.text);
    }
    for action in ["cancel", "redrive", "delete"] {
        let response = site.post(&format!("/api/v1/messages/{unknown}/{action}"), &json!({})).await;
        assert_eq!(response.status, StatusCode::NOT_FOUND, "{action}");
    }
}

#[tokio::test]
async fn redacted_values_are_never_shown() {
    let rules = Redaction::new(&["password", "card.number"]).unwrap();
    let site = idle().changed(|app| app.redacting(rules));
    let request = json!({"topic": "mail", "json": {"password": "hunter2", "card": {"number": 4_111_111_111_u64}},
        "headers": {"Authorization": "Bearer token-of-otto", "tenant": "acme"}});
    let id = publish(&site, &request).await;
    let shown = site.get(&format!("/api/v1/messages/{id}")).await;
    assert_eq!(shown.json["body"]["json"], json!({"password": HIDDEN, "card": {"number": HIDDEN}}));
    assert_eq!(shown.json["body"]["redacted"], true);
    assert_eq!(shown.json["headers"], json!({"Authorization": HIDDEN, "tenant": "acme"}));
    for secret in ["hunter2", "4111111111", "token-of-otto"] {
        assert!(!shown.text.contains(secret), "{secret}");
        let found = site.get(&format!("/api/v1/messages?search={secret}")).await;
        assert_eq!(ids(&found.json), [""; 0], "a search tells nothing of what is hidden");
    }
}

// spec: T-6
#[tokio::test]
async fn actions_respect_the_state_of_a_message() {
    let site = idle();
    let id = publish_to(&site, "mail").await;
    let act = |action: &str| format!("/api/v1/messages/{id}/{action}");
    let refused = site.post(&act("redrive"), &json!({})).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    assert!(refused.json["detail"].as_str().unwrap().contains("pending"));
    let moved = site.post(&act("reschedule"), &json!({"delay": "1h"})).await;
    assert_eq!(moved.json["result"], "applied", "{}", moved.text);
    let shown = site.get(&format!("/api/v1/messages/{id}")).await.json;
    assert_eq!(
        (&shown["due_at"], &shown["phase"]),
        (&json!("2026-03-01T13:00:00Z"), &json!("scheduled"))
    );
    assert_eq!(site.post(&act("reschedule"), &json!({})).await.status, 422);
    let at = json!({"due_at": "2026-03-01T12:00:00Z"});
    assert_eq!(site.post(&act("reschedule"), &at).await.status, 200);
    let claimed = claim(&site, "default").await;
    assert_eq!(site.post(&act("cancel"), &json!({})).await.json["result"], "requested");
    let running = site.call("DELETE", &format!("/api/v1/messages/{id}"), &json!({})).await;
    assert_eq!(running.status, StatusCode::CONFLICT);
    finish(&site, &claimed[0]).await;
    assert_eq!(
        site.post(&act("redrive"), &json!({"reason": "again"})).await.json["result"],
        "applied"
    );
    assert_eq!(site.post(&act("cancel"), &json!({})).await.json["result"], "applied");
    let deleted = site.call("DELETE", &format!("/api/v1/messages/{id}"), &json!({})).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    assert_eq!(site.get(&format!("/api/v1/messages/{id}")).await.status, 404);
    let trail = site.app.audit().list(None, 10).await.unwrap();
    let what: Vec<&str> = trail.iter().map(|entry| entry.what.as_str()).collect();
    let (delete, cancel, move_) = ("message.delete", "message.cancel", "message.reschedule");
    assert_eq!(what, [delete, cancel, "message.redrive", cancel, move_, move_, "message.publish"]);
    assert_eq!(trail[2].reason.as_deref(), Some("again"));
}

#[tokio::test]
async fn a_pending_message_is_moved_to_another_queue_and_priority() {
    let site = idle();
    let id = publish_to(&site, "mail").await;
    let path = format!("/api/v1/messages/{id}/reassign");
    let moved = site.post(&path, &json!({"queue": "bulk", "reason": "it can wait"})).await;
    assert_eq!(moved.json["result"], "applied", "{}", moved.text);
    assert_eq!(site.post(&path, &json!({"priority": 9})).await.status, 200);
    let shown = site.get(&format!("/api/v1/messages/{id}")).await.json;
    assert_eq!((&shown["queue"], &shown["priority"]), (&json!("bulk"), &json!(9)));
    assert!(claim(&site, "default").await.is_empty());
    let trail = site.app.audit().list(None, 10).await.unwrap();
    let noted = |at: usize| (trail[at].before.clone(), trail[at].after.clone());
    assert_eq!(noted(0), (Some(json!({"priority": 5})), Some(json!({"priority": 9}))));
    assert_eq!(noted(1), (Some(json!({"queue": "default"})), Some(json!({"queue": "bulk"}))));
    assert_eq!(trail[1].reason.as_deref(), Some("it can wait"));

    for (request, part) in [
        (json!({}), "give `queue` or `priority`"),
        (json!({"priority": 10}), "priority"),
        (json!({"queue": ""}), "queue"),
        (json!({"queue": "~relay/kafka"}), "queue"),
        (json!({"colour": "red"}), "colour"),
    ] {
        let refused = site.post(&path, &request).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
        assert!(refused.text.contains(part), "{request}: {}", refused.text);
    }
    assert_eq!(claim(&site, "bulk").await.len(), 1);
    let running = site.post(&path, &json!({"priority": 1})).await;
    assert_eq!(running.status, StatusCode::CONFLICT, "{}", running.text);
}

// spec: C-7
#[tokio::test]
async fn executions_are_filtered_by_ending() {
    let site = idle();
    publish_to(&site, "mail").await;
    finish(&site, &claim(&site, "default").await[0]).await;
    site.clock.advance(Duration::from_secs(60));
    let id = dead(&site, "post", "no such order").await;
    for (query, count) in [
        ("", 2),
        ("?ending=failed", 1),
        ("?ending=failed,succeeded", 2),
        ("?topic=mail", 1),
        ("?since=2026-03-01T12:00:30Z", 1),
        ("?until=2026-03-01T12:00:30Z", 1),
        ("?job=nightly", 0),
    ] {
        let list = site.get(&format!("/api/v1/executions{query}")).await;
        assert_eq!(list.json["items"].as_array().unwrap().len(), count, "{query}: {}", list.text);
    }
    let of = site.get(&format!("/api/v1/executions?message={id}")).await.json;
    assert_eq!(of["items"][0]["note"], "no such order");
    let first = site.get("/api/v1/executions?limit=1").await.json;
    assert_eq!(ids(&first), [of["items"][0]["id"].as_str().unwrap()], "the newest first");
    let path = format!("/api/v1/executions?limit=1&after={}", first["next"].as_str().unwrap());
    let second = site.get(&path).await.json;
    assert_eq!((&second["items"][0]["topic"], &second["next"]), (&json!("mail"), &Value::Null));
    let wrong = site.get("/api/v1/executions?ending=exploded").await;
    assert_eq!(
        (wrong.status, &wrong.json["errors"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("ending"))
    );
}

#[tokio::test]
async fn the_explanation_names_the_workers_of_a_queue() {
    let handler = |_: Context| async {};
    let site =
        crate::site::Site::with(|builder| builder.handler("mail", handler).queue("default", 1));
    let why = async |request: Value| {
        let id = publish(&site, &request).await;
        site.get(&format!("/api/v1/messages/{id}")).await.json["why"]["word"].clone()
    };
    assert_eq!(why(json!({"topic": "mail"})).await, "ready");
    assert_eq!(why(json!({"topic": "fax"})).await, "no_handler");
    assert_eq!(why(json!({"topic": "mail", "queue": "slow"})).await, "no_worker");
    assert_eq!(why(json!({"topic": "mail", "delay": "1m"})).await, "waiting_until");
    let pause = json!({"reason": "a move"});
    assert_eq!(site.post("/api/v1/queues/default/pause", &pause).await.status, 200);
    assert_eq!(why(json!({"topic": "mail"})).await, "queue_paused");
    let claimed = claim(&site, "slow").await;
    dead_letter(&site, &claimed[0], "gone").await;
    let id = claimed[0].message.id;
    assert_eq!(site.get(&format!("/api/v1/messages/{id}")).await.json["why"]["word"], "dead");
}
