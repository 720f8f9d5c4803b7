//! Queues over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use punctual::model::Queue;
use punctual::{Context, Punctual};
use punctual_server::{App, AppParts, queues};
use serde_json::{Value, json};

use crate::site::Site;
use crate::work::{claim, dead, finish, publish};

/// Builds a process with two queues, without starting it.
fn working() -> Site {
    let handler = |_: Context| async {};
    Site::with(|builder| builder.handler("mail", handler).queue("default", 4).queue("slow", 2))
}

/// Builds another node on the same storage.
fn beside(site: &Site) -> App {
    let builder = Punctual::builder().stores(site.app.storage.clone(), site.app.inspect.clone());
    let builder = builder.clock(site.clock.clone()).handler("mail", |_: Context| async {});
    let punctual = Arc::new(builder.queue("slow", 2).only_named_queues().build().unwrap());
    App::new(AppParts { punctual, ..AppParts::clone(&site.app) })
}

fn is_paused(app: &App, queue: &str) -> bool {
    let queue = Queue::new(queue).unwrap();
    app.punctual.queues().list().iter().any(|status| status.queue == queue && status.paused)
}

async fn queue(site: &Site, name: &str) -> Value {
    site.get(&format!("/api/v1/queues/{name}")).await.json
}

#[tokio::test]
async fn a_queue_shows_its_counts() {
    let site = working();
    dead(&site, "mail", "no").await;
    for key in ["ada", "ada", "bob"] {
        publish(&site, &json!({"topic": "mail", "key": key})).await;
    }
    publish(&site, &json!({"topic": "mail", "delay": "1h"})).await;
    let claimed = claim(&site, "default").await;
    finish(&site, &claimed[0]).await;
    site.clock.advance(Duration::from_secs(30));
    publish(&site, &json!({"topic": "mail", "key": "ada"})).await;
    site.clock.advance(Duration::from_secs(10));
    let shown = queue(&site, "default").await;
    for (field, value) in [
        ("pending", json!(2)),
        ("ready", json!(1)),
        ("scheduled", json!(1)),
        ("is_exact", json!(true)),
        ("running", json!(2)),
        ("dead", json!(1)),
        ("oldest_due_at", json!("2026-03-01T12:00:30Z")),
        ("oldest_age_ms", json!(10_000)),
        ("concurrency", json!(4)),
        ("running_here", json!(0)),
        ("paused", Value::Null),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["rate"], json!({"in_per_s": 0.1, "out_per_s": 2.0 / 60.0}));
    let spark: Vec<u64> = serde_json::from_value(shown["spark"].clone()).unwrap();
    assert_eq!((spark.len(), spark[59]), (60, 2));
    assert_eq!(shown["keys"][0]["key"], "ada");
    let list = site.get("/api/v1/queues").await.json;
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "slow"], "also one in which nothing waits");
    assert_eq!(site.get("/api/v1/queues/none").await.status, StatusCode::NOT_FOUND);
}

// Of 5,001 pending messages only the newest 5,000 are read; the rest was counted as due.
#[tokio::test]
async fn counts_above_the_scan_limit_are_marked_as_bounds() {
    let site = working();
    let publisher = site.app.punctual.publisher();
    let hour = Duration::from_secs(3_600);
    for number in 0..51_u32 {
        let count = if number == 0 { 1 } else { 100 };
        let some = (0..count).map(|_| publisher.publish("mail", &()).after(hour)).collect();
        publisher.publish_all(some).await.unwrap();
    }
    let shown = queue(&site, "default").await;
    assert_eq!((&shown["pending"], &shown["is_exact"]), (&json!(5_001), &json!(false)));
    assert_eq!((&shown["ready"], &shown["scheduled"]), (&json!(1), &json!(5_000)), "{shown}");
}

#[tokio::test]
async fn a_pause_takes_effect_immediately_and_ends_automatically() {
    let site = working();
    let request = json!({"reason": "a move", "until": "2026-03-01T12:10:00Z"});
    let response = site.post("/api/v1/queues/slow/pause", &request).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text);
    let pause = json!({"by": "local", "reason": "a move", "at": "2026-03-01T12:00:00Z", "until": "2026-03-01T12:10:00Z"});
    assert_eq!(response.json["paused"], pause);
    assert!(is_paused(&site.app, "slow") && !is_paused(&site.app, "default"));
    assert_eq!(queue(&site, "slow").await["paused"], pause);
    site.clock.advance(Duration::from_secs(600));
    assert_eq!(queue(&site, "slow").await["paused"], Value::Null);
    let following = tokio::spawn(queues::follow(site.app.clone()));
    until(|| !is_paused(&site.app, "slow")).await;
    following.abort();
}

/// Waits until a condition holds, while tasks make progress.
async fn until(condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it did not come to be");
}

#[tokio::test]
async fn other_nodes_apply_a_pause() {
    let site = working();
    let other = beside(&site);
    let following = tokio::spawn(queues::follow(other.clone()));
    until(|| site.clock.sleepers() > 0).await;
    let pause = json!({"reason": "a move"});
    assert_eq!(site.post("/api/v1/queues/slow/pause", &pause).await.status, 200);
    let max = json!({"max": 7});
    assert_eq!(site.post("/api/v1/queues/slow/concurrency", &max).await.status, 200);
    assert!(!is_paused(&other, "slow"), "it has not heard yet");
    site.clock.advance(Duration::from_secs(1));
    until(|| is_paused(&other, "slow")).await;
    let status = other.punctual.queues().list();
    let slow = status.iter().find(|status| status.queue.as_str() == "slow").unwrap();
    assert_eq!(slow.concurrency, 7);
    until(|| site.clock.sleepers() > 0).await;
    assert_eq!(site.post("/api/v1/queues/slow/resume", &json!({})).await.status, 200);
    assert!(!is_paused(&site.app, "slow"));
    site.clock.advance(Duration::from_secs(1));
    until(|| !is_paused(&other, "slow")).await;
    following.abort();
}

#[tokio::test]
async fn a_pause_of_the_application_is_not_changed() {
    let site = working();
    site.app.punctual.queues().pause("slow").unwrap();
    let pause = json!({"reason": "a move"});
    site.post("/api/v1/queues/default/pause", &pause).await;
    site.post("/api/v1/queues/default/resume", &json!({})).await;
    assert!(is_paused(&site.app, "slow") && !is_paused(&site.app, "default"));
}

#[tokio::test]
async fn a_purge_deletes_pending_messages() {
    let site = working();
    for _ in 0..3 {
        publish(&site, &json!({"topic": "mail", "queue": "slow"})).await;
    }
    publish(&site, &json!({"topic": "mail"})).await;
    let purge = "/api/v1/queues/slow/purge";
    let dry = site.post(purge, &json!({"dry_run": true})).await.json;
    assert_eq!((&dry["count"], &dry["applied"]), (&json!(3), &json!(0)));
    let bulk_result = site.post(purge, &json!({"dry_run": false, "reason": "stale"})).await.json;
    assert_eq!(bulk_result["applied"], 3);
    assert_eq!(site.get("/api/v1/messages/count").await.json["count"], 1);
    let trail = site.app.audit().list(None, 1).await.unwrap();
    assert_eq!((trail[0].what.as_str(), trail[0].target.as_str()), ("queue.purge", "slow"));
}

#[tokio::test]
async fn invalid_requests_are_refused() {
    let site = working();
    for (action, request, field) in [
        ("pause", json!({}), "reason"),
        ("pause", json!({"reason": " "}), "reason"),
        ("pause", json!({"reason": "x", "until": "2026-03-01T12:00:00Z"}), "until"),
        ("pause", json!({"reason": "x", "until": "soon"}), "until"),
        ("concurrency", json!({"max": 0}), "max"),
        ("concurrency", json!({"max": 10_001}), "max"),
        ("concurrency", json!({"max": -1}), "max"),
        ("purge", json!({}), "dry_run"),
    ] {
        let response = site.post(&format!("/api/v1/queues/slow/{action}"), &request).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{action} {request}");
        assert!(response.text.contains(field), "{action} {request}: {}", response.text);
    }
    assert!(!is_paused(&site.app, "slow"));
    assert_eq!(site.app.audit().list(None, 1).await.unwrap().len(), 0);
}
