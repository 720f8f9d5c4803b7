//! Publishing of messages over HTTP.

use axum::http::StatusCode;
use punctual_server::Redaction;
use serde_json::{Value, json};

use crate::site::Site;
use crate::work::{idle, publish};

async fn shown(site: &Site, id: &str) -> Value {
    site.get(&format!("/api/v1/messages/{id}")).await.json
}

#[tokio::test]
async fn a_published_message_has_the_requested_properties() {
    let site = idle();
    let request = json!({"topic": "mail", "text": "hello", "queue": "slow", "priority": 9,
        "at": "2026-03-02T00:00:00Z", "key": "ada", "dedupe": "once"});
    let id = publish(&site, &request).await;
    let message = shown(&site, &id).await;
    for (field, value) in [
        ("topic", json!("mail")),
        ("queue", json!("slow")),
        ("priority", json!(9)),
        ("due_at", json!("2026-03-02T00:00:00Z")),
        ("key", json!("ada")),
        ("dedupe", json!("once")),
        ("source", json!("published")),
        ("size", json!(5)),
    ] {
        assert_eq!(message[field], value, "{field}");
    }
    assert_eq!(message["body"]["text"], "hello");
    let again = site.post("/api/v1/messages", &request).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text);
    assert_eq!((&again.json["id"], &again.json["duplicate_of"]), (&json!(id), &json!(id)));
}

#[tokio::test]
async fn the_id_of_a_duplicate_is_that_of_the_unfinished_message() {
    let site = idle();
    let request = json!({"topic": "mail", "dedupe": "once"});
    let id = publish(&site, &request).await;
    let items = json!({"items": [request, {"topic": "mail"}]});
    let mixed = site.post("/api/v1/messages/batch", &items).await;
    assert_eq!(mixed.status, StatusCode::CREATED, "{}", mixed.text);
    let [first, second] = [&mixed.json["items"][0], &mixed.json["items"][1]];
    assert_eq!((&first["id"], &first["duplicate_of"]), (&json!(id), &json!(id)));
    assert_eq!(second["duplicate_of"], Value::Null);
    let all = site.post("/api/v1/messages/batch", &json!({"items": [request, request]})).await;
    assert_eq!(all.status, StatusCode::OK, "{}", all.text);
    for item in all.json["items"].as_array().unwrap() {
        let path = format!("/api/v1/messages/{}", item["id"].as_str().unwrap());
        assert_eq!(site.get(&path).await.status, StatusCode::OK, "it leads somewhere");
    }
    let clone =
        site.post(&format!("/api/v1/messages/{id}/clone"), &json!({"dedupe": "once"})).await;
    assert_eq!((clone.status, &clone.json["id"]), (StatusCode::OK, &json!(id)));
    assert_eq!(site.get("/api/v1/messages/count").await.json["count"], 2);
}

#[tokio::test]
async fn a_message_replaces_a_pending_one_with_the_same_dedupe() {
    let site = idle();
    let old = publish(&site, &json!({"topic": "mail", "dedupe": "d", "text": "old"})).await;
    let new = json!({"topic": "mail", "dedupe": "d", "text": "new", "replace": true});
    let new = publish(&site, &new).await;
    assert_ne!(old, new);
    assert_eq!(site.get(&format!("/api/v1/messages/{old}")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(shown(&site, &new).await["body"]["text"], "new");
    assert_eq!(crate::work::claim(&site, "default").await.len(), 1);
    let late = json!({"topic": "mail", "dedupe": "d", "text": "late", "replace": true});
    let late = site.post("/api/v1/messages", &late).await;
    assert_eq!(
        (late.status, &late.json["id"]),
        (StatusCode::OK, &json!(new)),
        "a running one stays"
    );
    let alone = site.post("/api/v1/messages", &json!({"topic": "mail", "replace": true})).await;
    assert_eq!(alone.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", alone.text);
    assert_eq!(alone.json["errors"][0]["field"], "replace");
}

#[tokio::test]
async fn a_body_is_json_text_or_bytes() {
    let site = idle();
    for (request, field, value) in [
        (json!({"topic": "t", "body": {"a": 1}}), "json", json!({"a": 1})),
        (json!({"topic": "t", "json": "text"}), "json", json!("text")),
        (json!({"topic": "t", "text": "plain"}), "text", json!("plain")),
        (json!({"topic": "t", "base64": "/wA="}), "base64", json!("/wA=")),
        (json!({"topic": "t"}), "json", Value::Null),
    ] {
        let id = publish(&site, &request).await;
        assert_eq!(shown(&site, &id).await["body"][field], value, "{request}");
    }
    let typed = json!({"topic": "t", "text": "<a/>", "content_type": "application/xml"});
    let id = publish(&site, &typed).await;
    assert_eq!(shown(&site, &id).await["body"]["content_type"], "application/xml");
}

#[tokio::test]
async fn invalid_messages_are_refused_with_a_hint() {
    let site = idle();
    for (request, part) in [
        (json!({}), "needs a `topic`"),
        (json!({"topic": " "}), "must not be empty"),
        (json!({"topic": "t", "text": "a", "json": 1}), "give at most one"),
        (json!({"topic": "t", "json": 1, "body": 1}), "give at most one"),
        (json!({"topic": "t", "base64": "?"}), "base64"),
        (json!({"topic": "t", "delay": "5"}), "unit"),
        (json!({"topic": "t", "delay": "5m", "at": "2026-03-02T00:00:00Z"}), "not both"),
        (json!({"topic": "t", "at": "2020-01-01T00:00:00Z"}), "past"),
        (json!({"topic": "t", "priority": 10}), "priority"),
        (json!({"topic": "t", "queue": "~relay/x"}), "which is reserved"),
        (json!({"topic": "t", "headers": {"punctual-x": "1"}}), "which is reserved"),
        (json!({"topic": "t", "timeout": "soon"}), "timeout"),
        (json!({"topic": "t", "retry": {"waits": ["x"]}}), "retry.waits"),
        (json!({"topic": "t", "prio": 1}), "prio"),
    ] {
        let response = site.post("/api/v1/messages", &request).await;
        assert_eq!(
            response.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{request}: {}",
            response.text
        );
        let detail = response.json["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{request}: {detail:?} has no {part:?}");
    }
    let nowhere = json!({"topic": "t", "transport": "nats"});
    assert_eq!(site.post("/api/v1/messages", &nowhere).await.status, StatusCode::NOT_FOUND);
    assert_eq!(site.get("/api/v1/messages/count").await.json["count"], 0);
}

#[tokio::test]
async fn a_batch_is_published_completely_or_not_at_all() {
    let site = idle();
    let items = json!({"items": [{"topic": "a"}, {"topic": "b", "dedupe": "x"}, {"topic": "b", "dedupe": "x"}]});
    let response = site.post("/api/v1/messages/batch", &items).await;
    assert_eq!(response.status, StatusCode::CREATED, "{}", response.text);
    assert_eq!(response.json["items"][2]["duplicate_of"], response.json["items"][1]["id"]);
    let wrong = json!({"items": [{"topic": "a"}, {"topic": "b", "delay": "x"}]});
    let refused = site.post("/api/v1/messages/batch", &wrong).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused.json["errors"][0]["field"], "items[1].delay");
    let count = site.get("/api/v1/messages/count").await.json;
    assert_eq!(count["count"], 2, "nothing of the refused one was stored");
    for items in [json!([]), Value::from(vec![json!({"topic": "a"}); 1_001])] {
        let refused = site.post("/api/v1/messages/batch", &json!({ "items": items })).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
}

#[tokio::test]
async fn a_clone_differs_only_by_its_edits() {
    let site = idle().changed(|app| app.redacting(Redaction::new(&["password"]).unwrap()));
    let request = json!({"topic": "mail", "json": {"password": "p", "to": "ada"}, "key": "ada",
        "dedupe": "once", "headers": {"authorization": "Bearer t"}, "retry": 1});
    let id = publish(&site, &request).await;
    let clone = format!("/api/v1/messages/{id}/clone");
    let response = site.post(&clone, &json!({"queue": "slow", "delay": "1m"})).await;
    assert_eq!(response.status, StatusCode::CREATED, "{}", response.text);
    let copy = shown(&site, response.json["id"].as_str().unwrap()).await;
    assert_eq!(
        (&copy["queue"], &copy["key"], &copy["dedupe"]),
        (&json!("slow"), &json!("ada"), &Value::Null)
    );
    assert_eq!((&copy["attempts_max"], &copy["correlation"]), (&json!(2), &json!(id)));
    let id_of_copy = copy["id"].as_str().unwrap().parse().unwrap();
    let stored = site.app.punctual.admin().message(id_of_copy).await.unwrap().unwrap().message;
    assert_eq!(stored.body.read::<Value>().unwrap(), json!({"password": "p", "to": "ada"}));
    assert_eq!(stored.headers.get("authorization"), Some("Bearer t"), "hidden, and yet sent on");
    let edited = site.post(&clone, &json!({"json": {"to": "bob"}})).await.json;
    let edited = shown(&site, edited["id"].as_str().unwrap()).await;
    assert_eq!(edited["body"]["json"], json!({"to": "bob"}));
    let seen = shown(&site, &id).await["body"]["json"].clone();
    let refused = site.post(&clone, &json!({ "json": seen })).await;
    assert_eq!(
        refused.status,
        StatusCode::UNPROCESSABLE_ENTITY,
        "a hidden value is not sent on as text"
    );
    let refused = site.post(&clone, &json!({"content_type": "text/plain"})).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
}
