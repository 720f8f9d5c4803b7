//! Removed messages: messages with an idempotency key that were deleted or replaced between a crash and the repeat
//! are not created again.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;

use crate::repeats::{count, crash, send};
use crate::site::Site;
use crate::work::{claim, dead_letter, idle, publish};

const PUBLISH: &str = "POST /api/v1/messages";
const BATCH: &str = "POST /api/v1/messages/batch";

/// Deletes all messages in one of the ways of the API.
async fn remove_all(site: &Site, way: &str, id: &str) {
    let (method, path, body) = match way {
        "one" => ("DELETE", format!("/api/v1/messages/{id}"), json!({})),
        "by post" => ("POST", format!("/api/v1/messages/{id}/delete"), json!({})),
        "bulk" => {
            let body = json!({ "action": "delete", "filter": {} });
            ("POST", "/api/v1/messages/bulk".to_owned(), body)
        }
        "purge" => ("POST", "/api/v1/queues/default/purge".to_owned(), json!({ "dry_run": false })),
        _ => {
            for claimed in claim(site, "default").await {
                dead_letter(site, &claimed, "no").await;
            }
            ("POST", "/api/v1/dead-letters/discard".to_owned(), json!({ "filter": {} }))
        }
    };
    let response = site.call(method, &path, &body).await;
    assert!(response.status.is_success(), "{way}: {}", response.text);
}

#[tokio::test]
async fn a_deleted_message_is_not_created_again() {
    for way in ["one", "by post", "bulk", "purge", "discard"] {
        let site = idle();
        let body = json!({"topic": "mail"});
        let first = send(&site, PUBLISH, &body).await;
        remove_all(&site, way, first.json["id"].as_str().unwrap()).await;
        assert_eq!(count(&site).await, 0, "{way}");
        crash(&site).await;
        // As long as the record of its key exists.
        site.clock.advance(Duration::from_secs(23 * 3_600));
        let again = send(&site, PUBLISH, &body).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text), "{way}");
        assert_eq!(count(&site).await, 0, "{way}: it is not made a second time");
    }
}

#[tokio::test]
async fn a_batch_with_deleted_messages_is_not_created_again() {
    let site = idle();
    let body = json!({"items": vec![json!({"topic": "mail"}); 5]});
    let first = send(&site, BATCH, &body).await;
    for place in [0, 3, 4] {
        remove_all(&site, "one", first.json["items"][place]["id"].as_str().unwrap()).await;
    }
    crash(&site).await;
    let again = send(&site, BATCH, &body).await;
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert_eq!(count(&site).await, 2);
}

#[tokio::test]
async fn a_replaced_message_does_not_replace_the_later_one() {
    for batch in [false, true] {
        let site = idle();
        let item = json!({"topic": "mail", "dedupe": "d", "replace": true});
        let old = publish(&site, &item).await;
        site.clock.advance(Duration::from_secs(1));
        let body = if batch { json!({ "items": [item] }) } else { item.clone() };
        let line = if batch { BATCH } else { PUBLISH };
        let first = send(&site, line, &body).await;
        assert_eq!(first.status, StatusCode::CREATED);
        assert!(!first.text.contains(&old), "it has replaced what came before");
        site.clock.advance(Duration::from_secs(1));
        let later = publish(&site, &item).await;
        crash(&site).await;
        let again = send(&site, line, &body).await;
        assert_eq!(again.status, StatusCode::OK, "a duplicate: {}", again.text);
        assert!(again.text.contains(&later), "{}", again.text);
        assert_eq!(count(&site).await, 1);
        assert_eq!(claim(&site, "default").await[0].message.id.to_string(), later);
    }
}

#[tokio::test]
async fn the_deletion_of_an_ordinary_id_leaves_no_record() {
    let site = idle();
    let id = publish(&site, &json!({"topic": "mail"})).await;
    remove_all(&site, "one", &id).await;
    let range = punctual::backend::documents::KeyRange::default();
    let now = site.clock.now();
    let kept = site.app.documents.list("idempotency_removed", range, now).await.unwrap();
    // One in 65,536 ids looks like one derived from a key.
    assert!(kept.is_empty(), "{kept:?}");
}
