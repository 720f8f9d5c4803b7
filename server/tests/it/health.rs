//! Health of a node.

use std::time::Duration;

use serde_json::json;

use crate::running_server::{settle, start};
use crate::site::Site;
use crate::work::{claim, dead, idle, publish_to};

// spec: H-47, H-50, H-51
#[tokio::test]
async fn a_node_that_ticks_is_healthy_with_its_data() {
    let site = idle();
    start(&site).await;
    let response = site.get("/health").await;
    assert_eq!(response.status, 200, "{}", response.text);
    let json = &response.json;
    assert_eq!((&json["condition"], &json["stale_count"]), (&json!("healthy"), &json!(0)));
    assert!(json["storage_latency_ms"].is_u64() && json["last_tick_age_ms"].is_u64(), "{json}");
    for component in ["storage", "scheduler", "stale_jobs", "queue_depth", "dead_letters"] {
        assert_eq!(json["components"][component]["condition"], "healthy", "{json}");
    }
    assert_eq!(site.get("/health/live").await.status, 200);
    assert_eq!(site.get("/health/ready").await.status, 200);
}

// spec: H-49
#[tokio::test]
async fn a_node_that_does_not_run_is_unhealthy_and_alive() {
    let site = idle();
    let response = site.get("/health").await;
    assert_eq!(response.status, 503, "{}", response.text);
    assert_eq!(response.json["components"]["scheduler"]["condition"], "unhealthy");
    assert_eq!(response.json["components"]["storage"]["condition"], "healthy");
    assert_eq!(site.get("/health/ready").await.status, 503);
    assert_eq!(site.get("/health/live").await.status, 200);
}

// spec: H-48, H-50, H-52
#[tokio::test]
async fn stale_messages_degrade_health_and_reading_changes_nothing() {
    let site = Site::with(|builder| builder.roles(punctual::Roles::NONE));
    start(&site).await;
    dead(&site, "mail", "no route").await;
    publish_to(&site, "mail").await;
    assert_eq!(claim(&site, "default").await.len(), 1);
    // No process here rescues stale messages.
    site.clock.advance(Duration::from_secs(61));
    settle().await;
    for _ in 0..2 {
        let response = site.get("/health").await;
        assert_eq!(response.status, 200, "{}", response.text);
        let json = &response.json;
        assert_eq!((&json["condition"], &json["stale_count"]), (&json!("degraded"), &json!(1)));
        assert_eq!(json["components"]["stale_jobs"]["condition"], "degraded");
        assert_eq!(json["components"]["dead_letters"]["count"], 1);
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
}

// Finding F30 of the security review.
#[tokio::test]
async fn anonymous_callers_see_only_the_condition() {
    let settings = punctual_server::AuthSettings {
        mode: punctual_server::Mode::Password,
        ..punctual_server::AuthSettings::default()
    };
    let site = idle().changed(|app| app.authenticating(settings));
    start(&site).await;
    assert_eq!(site.get("/health").await.json, json!({ "condition": "healthy" }));
    assert_eq!(site.get("/health/ready").await.json, json!({ "ready": true }));
    let wrong = axum::http::Request::get("/health").header("authorization", "Bearer pct_1_x");
    let wrong = site.send(wrong.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!((wrong.status.as_u16(), wrong.json), (200, json!({ "condition": "healthy" })));
    let viewer = site.as_role(punctual_server::Role::Viewer).get("/health").await;
    assert!(viewer.json["version"].is_string(), "{}", viewer.text);
    assert!(viewer.json["components"].is_object(), "{}", viewer.text);
}

// Finding F30 of the security review.
#[tokio::test]
async fn api_responses_are_not_cached_by_browsers_or_proxies() {
    let site = idle();
    for path in ["/api/v1/session", "/api/v1/jobs", "/health", "/api/v1/nothing"] {
        let response = site.get(path).await;
        assert_eq!(response.headers["cache-control"], "no-store", "{path}");
    }
}
