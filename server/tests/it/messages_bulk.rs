//! Bulk actions on messages over HTTP, and batches.

use axum::http::StatusCode;
use punctual::Message;
use punctual::model::{MessageId, Queue, TransportName};
use punctual::uuid::Uuid;
use serde_json::json;

use crate::work::{claim, dead, finish, idle, publish, publish_to};

const BULK: &str = "/api/v1/messages/bulk";

#[tokio::test]
async fn a_dry_run_counts_and_changes_nothing() {
    let site = idle();
    for _ in 0..3 {
        publish_to(&site, "mail").await;
    }
    publish_to(&site, "post").await;
    let mut request = json!({"action": "cancel", "filter": {"topic": "mail"}, "dry_run": true});
    let dry = site.post(BULK, &request).await.json;
    assert_eq!(
        (&dry["count"], &dry["applied"], &dry["more"]),
        (&json!(3), &json!(0), &json!(false))
    );
    assert_eq!(site.get("/api/v1/messages/count?state=pending").await.json["count"], 4);
    request["dry_run"] = json!(false);
    request["limit"] = json!(2);
    let bulk_result = site.post(BULK, &request).await.json;
    assert_eq!((&bulk_result["applied"], &bulk_result["more"]), (&json!(2), &json!(true)));
    let bulk_result = site.post(BULK, &request).await.json;
    assert_eq!((&bulk_result["applied"], &bulk_result["more"]), (&json!(1), &json!(false)));
    assert_eq!(site.get("/api/v1/messages/count?state=pending").await.json["count"], 1);
    let trail = site.app.audit().list(None, 10).await.unwrap();
    assert_eq!(trail.iter().filter(|entry| entry.what == "messages.cancel").count(), 2);
}

#[tokio::test]
async fn narrow_filters_apply_to_bulk_actions() {
    let site = idle();
    let first = dead(&site, "mail", "order 1 is unknown").await;
    let second = dead(&site, "mail", "connection refused").await;
    let request = json!({"action": "redrive", "filter": {"error": "REFUSED"}});
    assert_eq!(site.post(BULK, &request).await.json["applied"], 1);
    let state = async |id| site.get(&format!("/api/v1/messages/{id}")).await.json["state"].clone();
    assert_eq!((state(first).await, state(second).await), (json!("dead"), json!("pending")));
    let request = json!({"action": "delete", "filter": {"search": "order"}});
    assert_eq!(site.post(BULK, &request).await.json["applied"], 1);
    assert_eq!(site.get(&format!("/api/v1/messages/{first}")).await.status, 404);
}

#[tokio::test]
async fn a_repeated_bulk_action_continues_after_the_last_call() {
    let site = idle();
    for _ in 0..5 {
        publish_to(&site, "mail").await;
    }
    for (mut request, field) in [
        (json!({"action": "reschedule", "delay": "2h"}), "due_at"),
        (json!({"action": "reassign", "queue": "bulk", "priority": 1}), "queue"),
    ] {
        request["filter"] = json!({"topic": "mail"});
        request["limit"] = json!(2);
        let mut applied = Vec::new();
        loop {
            let bulk_result = site.post(BULK, &request).await.json;
            applied.push(bulk_result["applied"].as_u64().unwrap());
            if bulk_result["next"].is_null() {
                break;
            }
            request["after"] = bulk_result["next"].clone();
        }
        assert_eq!(applied, [2, 2, 1], "{field}");
    }
    let list = site.get("/api/v1/messages").await.json;
    for one in list["items"].as_array().unwrap() {
        assert_eq!(
            (&one["due_at"], &one["queue"], &one["priority"]),
            (&json!("2026-03-01T14:00:00Z"), &json!("bulk"), &json!(1))
        );
    }
    let trail = site.app.audit().list(None, 1).await.unwrap();
    let after = trail[0].after.as_ref().unwrap();
    assert_eq!(trail[0].what, "messages.reassign");
    assert_eq!((&after["applied"], &after["to"]["queue"]), (&json!(1), &json!("bulk")));
}

// In another queue they would never be sent, or never reach their group.
#[tokio::test]
async fn messages_for_a_transport_keep_their_queue() {
    let site = idle();
    let line = Queue::of_relay(&TransportName::new("post").unwrap());
    let usual = publish_to(&site, "mail").await.parse().unwrap();
    let usual = site.app.punctual.admin().message(usual).await.unwrap().unwrap().message;
    let id = MessageId::from_uuid(Uuid::from_u128(1));
    let message = Message { id, queue: line.clone(), ..(*usual).clone() };
    site.app.storage.enqueue(vec![message.into()], site.clock.now()).await.unwrap();
    let request = json!({"action": "reassign", "queue": "bulk"});
    assert_eq!(site.post(BULK, &request).await.json["applied"], 1);
    let path = format!("/api/v1/messages/{id}/reassign");
    let refused = site.post(&path, &json!({"queue": "bulk"})).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
    assert!(refused.text.contains("change only the priority"), "{}", refused.text);
    assert_eq!(site.post(&path, &json!({"priority": 9})).await.status, 200);
    let shown = site.get(&format!("/api/v1/messages/{id}")).await.json;
    assert_eq!((&shown["queue"], &shown["priority"]), (&json!(line.as_str()), &json!(9)));
}

#[tokio::test]
async fn invalid_bulk_actions_are_refused() {
    let site = idle();
    for (request, part) in [
        (json!({"filter": {}}), "action"),
        (json!({"action": "explode"}), "explode"),
        (json!({"action": "redrive", "filter": {"state": "pending"}}), "pending"),
        (json!({"action": "cancel", "filter": {"state": ["dead"]}}), "dead"),
        (json!({"action": "delete", "filter": {"state": "running"}}), "running"),
        (json!({"action": "cancel", "filter": {"limit": 3}}), "next to the filter"),
        (json!({"action": "cancel", "filter": {"colour": "red"}}), "filter.colour"),
        (json!({"action": "cancel", "filter": {"queue": "a\u{0}"}}), "the queue contains a NUL"),
        (json!({"action": "cancel", "filter": {"key": "a\u{0}"}}), "the key contains a NUL"),
        (json!({"action": "cancel", "filter": []}), "the value is a list; use an object"),
        (json!({"action": "reschedule"}), "due_at"),
        (json!({"action": "reschedule", "delay": "soon"}), "soon"),
        (json!({"action": "reschedule", "delay": "1m", "filter": {"state": "dead"}}), "dead"),
        (json!({"action": "reassign"}), "give `queue` or `priority`"),
        (json!({"action": "reassign", "priority": 12}), "12"),
        (json!({"action": "cancel", "priority": 1}), "is only for the action `reassign`"),
        (json!({"action": "reassign", "delay": "1m"}), "is only for the action `reschedule`"),
        (json!({"action": "reassign", "priority": 1, "after": "x"}), "`after`"),
        (json!({"action": "cancel", "limit": 0}), "between 1 and 10000"),
        (json!({"action": "cancel", "limit": 10_001}), "between 1 and 10000"),
    ] {
        let response = site.post(BULK, &request).await;
        assert_eq!(
            response.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{request}: {}",
            response.text
        );
        assert!(response.text.contains(part), "{request}: {}", response.text);
    }
}

#[tokio::test]
async fn a_batch_is_shown_and_cancelled() {
    let site = idle();
    let publisher = site.app.punctual.publisher();
    let members = (0..3).map(|page| publisher.publish("render", &page));
    let batch = publisher.batch(members).then(publisher.publish("bind", &())).await.unwrap();
    publish(&site, &json!({"topic": "other"})).await;
    let waiting = batch.then[0].id;
    let why = site.get(&format!("/api/v1/messages/{waiting}")).await.json["why"].clone();
    assert_eq!(why["word"], "waits_for_batch", "{why}");
    let claimed = claim(&site, "default").await;
    let first = claimed.iter().find(|one| one.message.topic.as_str() == "render").unwrap();
    finish(&site, first).await;
    let list = site.get("/api/v1/batches").await.json;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let path = format!("/api/v1/batches/{}", batch.id);
    let one = site.get(&path).await.json;
    assert_eq!(one, list["items"][0]);
    assert_eq!((&one["total"], &one["done"], &one["running"]), (&json!(3), &json!(1), &json!(2)));
    let bulk_result = site.post(&format!("{path}/cancel"), &json!({})).await.json;
    assert_eq!((&bulk_result["count"], &bulk_result["requested"]), (&json!(2), &json!(2)));
    let members = site.get(&format!("/api/v1/messages/count?batch={}", batch.id)).await.json;
    assert_eq!(members["count"], 3);
}
