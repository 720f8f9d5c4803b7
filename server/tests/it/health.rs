//! How a node is.

use std::time::Duration;

use serde_json::json;

use crate::living::{settle, start};
use crate::site::Site;
use crate::work::{claim, dead, idle, publish_to};

// spec: H-47, H-50, H-51
#[tokio::test]
async fn a_node_that_ticks_is_healthy_with_its_data() {
    let site = idle();
    start(&site).await;
    let answered = site.get("/health").await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    let json = &answered.json;
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
    let answered = site.get("/health").await;
    assert_eq!(answered.status, 503, "{}", answered.text);
    assert_eq!(answered.json["components"]["scheduler"]["condition"], "unhealthy");
    assert_eq!(answered.json["components"]["storage"]["condition"], "healthy");
    assert_eq!(site.get("/health/ready").await.status, 503);
    assert_eq!(site.get("/health/live").await.status, 200);
}

// spec: H-48, H-50, H-52
#[tokio::test]
async fn stale_messages_degrade_it_and_looking_changes_nothing() {
    let site = Site::with(|builder| builder.roles(punctual::Roles::NONE));
    start(&site).await;
    dead(&site, "mail", "no route").await;
    publish_to(&site, "mail").await;
    assert_eq!(claim(&site, "default").await.len(), 1);
    // Nobody here rescues what was left behind.
    site.clock.advance(Duration::from_secs(61));
    settle().await;
    for _ in 0..2 {
        let answered = site.get("/health").await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        let json = &answered.json;
        assert_eq!((&json["condition"], &json["stale_count"]), (&json!("degraded"), &json!(1)));
        assert_eq!(json["components"]["stale_jobs"]["condition"], "degraded");
        assert_eq!(json["components"]["dead_letters"]["count"], 1);
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
}
