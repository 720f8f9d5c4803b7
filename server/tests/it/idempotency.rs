//! Idempotency keys.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};
use crate::work::idle;

async fn post(site: &Site, path: &str, key: &str, body: &Value) -> TestResponse {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    let request = request.header("Idempotency-Key", key);
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn count(site: &Site) -> Value {
    site.get("/api/v1/messages/count").await.json["count"].clone()
}

#[tokio::test]
async fn the_same_request_with_the_same_key_is_executed_once() {
    let site = idle();
    let request = json!({"topic": "mail"});
    let first = post(&site, "/api/v1/messages", "k1", &request).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.text);
    assert!(!first.headers.contains_key("idempotent-replay"));
    site.clock.advance(Duration::from_secs(24 * 3_600 - 1));
    let again = post(&site, "/api/v1/messages", "k1", &request).await;
    assert_eq!((again.status, &again.text), (StatusCode::CREATED, &first.text));
    assert_eq!(again.headers["idempotent-replay"], "true");
    assert_eq!(again.headers["content-type"], "application/json");
    assert_eq!(count(&site).await, 1);
    site.clock.advance(Duration::from_secs(1));
    let later = post(&site, "/api/v1/messages", "k1", &request).await;
    assert_eq!(later.status, StatusCode::CREATED);
    assert_eq!(count(&site).await, 2, "a day later it is a new request");
}

#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let site = idle();
    post(&site, "/api/v1/messages", "k1", &json!({"topic": "mail"})).await;
    let (batch, items) = ("/api/v1/messages/batch", json!({"items": [{"topic": "mail"}]}));
    for (path, body) in [("/api/v1/messages", json!({"topic": "post"})), (batch, items)] {
        let other = post(&site, path, "k1", &body).await;
        assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", other.text);
        assert_eq!(other.json["errors"][0]["field"], "Idempotency-Key");
    }
    assert_eq!(count(&site).await, 1);
    let other = post(&site, "/api/v1/messages", "k2", &json!({"topic": "mail"})).await;
    assert_eq!(other.status, StatusCode::CREATED);
    assert_eq!(count(&site).await, 2);
}

#[tokio::test]
async fn a_request_that_was_refused_leaves_its_key_free() {
    let site = idle();
    let refused = post(&site, "/api/v1/messages", "k1", &json!({"topic": " "})).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let right = post(&site, "/api/v1/messages", "k1", &json!({"topic": "mail"})).await;
    assert_eq!(right.status, StatusCode::CREATED, "{}", right.text);
}

#[tokio::test]
async fn of_concurrent_requests_with_one_key_one_is_executed() {
    let site = idle();
    let request = json!({"topic": "mail"});
    let all = (0..20).map(|_| post(&site, "/api/v1/messages", "k1", &request));
    let responses = futures_util::future::join_all(all).await;
    let done: Vec<&TestResponse> =
        responses.iter().filter(|response| response.status == StatusCode::CREATED).collect();
    assert!(!done.is_empty());
    assert!(done.iter().all(|response| response.json["id"] == done[0].json["id"]));
    let rest = responses.iter().filter(|response| response.status != StatusCode::CREATED);
    for response in rest {
        assert_eq!(response.status, StatusCode::CONFLICT, "{}", response.text);
        assert!(response.text.contains("is in flight"));
        assert_eq!(response.headers["retry-after"], "1");
    }
    assert_eq!(count(&site).await, 1);
}

#[tokio::test]
async fn invalid_keys_are_refused_and_reads_need_none() {
    let site = idle();
    for key in ["", " ", &"k".repeat(201)] {
        let response = post(&site, "/api/v1/messages", key, &json!({"topic": "mail"})).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{key:?}");
    }
    assert_eq!(count(&site).await, 0);
    let read = |key: &'static str| {
        let request = Request::get("/api/v1/messages/count").header("Idempotency-Key", key);
        site.send(request.body(Body::empty()).unwrap())
    };
    assert_eq!(read("k1").await.status, StatusCode::OK);
    post(&site, "/api/v1/messages", "k1", &json!({"topic": "mail"})).await;
    let count = read("k1").await;
    assert_eq!(
        (&count.json["count"], count.headers.contains_key("idempotent-replay")),
        (&json!(1), false)
    );
}
