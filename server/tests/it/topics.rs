//! Topics, transports, subscriptions and the storage over HTTP.

use std::sync::Arc;

use axum::http::StatusCode;
use punctual::builtin::memory_transport;
use punctual::model::ProcessId;
use punctual::uuid::Uuid;
use punctual::{Context, ManualClock};
use punctual_server::Role;
use serde_json::{Value, json};

use crate::site::Site;
use crate::work::{claim, finish, idle, publish_to};

/// Builds a process that receives a topic from a transport.
fn receiving() -> Site {
    let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let bus = Arc::new(memory_transport(clock, ProcessId::from_uuid(Uuid::from_u128(3))));
    let handler = |_: Context| async {};
    Site::with(|builder| {
        builder
            .transport("bus", bus)
            .route("orders", "bus")
            .handler("orders", handler)
            .handler("mail", handler)
            .subscribe("bus", "orders", "billing")
    })
}

#[tokio::test]
async fn topics_list_senders_and_receivers() {
    let site = receiving();
    publish_to(&site, "mail").await;
    publish_to(&site, "fax").await;
    for claimed in claim(&site, "default").await {
        finish(&site, &claimed).await;
    }
    let list = site.get("/api/v1/topics").await.json;
    let of = |name: &str| {
        let items = list["items"].as_array().unwrap();
        items.iter().find(|one| one["topic"] == name).unwrap().clone()
    };
    assert_eq!(
        (&of("orders")["transport"], &of("orders")["groups"]),
        (&json!("bus"), &json!(["billing"]))
    );
    assert_eq!((&of("mail")["handlers"], &of("fax")["handlers"]), (&json!(true), &json!(false)));
    let mail = of("mail");
    assert_eq!(
        (&mail["published"], &mail["handled"], &mail["failed"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(mail["last_at"], "2026-03-01T12:00:00Z");
}

#[tokio::test]
async fn transports_list_capabilities_and_pending_messages() {
    let site = receiving();
    let list = site.get("/api/v1/transports").await;
    let bus = &list.json["items"][0];
    assert_eq!((&bus["name"], &bus["kind"]), (&json!("bus"), &json!("stored")), "{}", list.text);
    assert_eq!(bus["capabilities"]["fan_out"], true);
    assert_eq!(bus["relay"], json!({"depth": 0, "oldest_age_ms": null}));
    assert_eq!((&bus["connected"], &bus["circuit"]), (&json!(false), &json!("closed")));
}

#[tokio::test]
async fn subscriptions_are_paused_and_resumed() {
    let site = receiving();
    let one = site.get("/api/v1/subscriptions").await.json["items"][0].clone();
    assert_eq!(
        (&one["topic"], &one["group"], &one["paused"]),
        (&json!("orders"), &json!("billing"), &json!(false))
    );
    let path = format!("/api/v1/subscriptions/{}", one["id"].as_str().unwrap());
    assert_eq!(site.post(&format!("{path}/pause"), &json!({})).await.json["paused"], true);
    assert!(site.app.punctual.subscriptions().list()[0].paused);
    assert_eq!(site.post(&format!("{path}/resume"), &json!({})).await.json["paused"], false);
    let unknown = site.post("/api/v1/subscriptions/none/pause", &json!({})).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_storage_view_has_its_counts() {
    let site = idle();
    publish_to(&site, "mail").await;
    let storage = site.get("/api/v1/storage").await.json;
    assert_eq!((&storage["kind"], &storage["counts"]["pending"]), (&json!("memory"), &json!(1)));
    assert_eq!(storage["findings"], json!([]));
    let opened = punctual_backends::open("memory:").await.unwrap();
    let site = site.changed(|app| app.stored_in("memory", opened));
    let storage = site.get("/api/v1/storage").await.json;
    let facts = storage["facts"].as_array().unwrap();
    assert!(facts.contains(&json!(["kept", "until this process ends"])), "{storage}");
}

#[tokio::test]
async fn a_full_check_of_the_storage_runs_only_on_request_of_an_operator() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("checked.db").display());
    let opened = punctual_backends::open(&address).await.unwrap();
    let site = idle().changed(|app| app.stored_in("sqlite", opened));
    let is_sound = |storage: &Value| {
        storage["facts"].as_array().unwrap().contains(&json!(["integrity check", "ok"]))
    };
    assert!(!is_sound(&site.get("/api/v1/storage").await.json));
    assert!(is_sound(&site.get("/api/v1/storage?whole=true").await.json));
    let viewer = site.as_role(Role::Viewer);
    assert_eq!(viewer.get("/api/v1/storage").await.status, StatusCode::OK);
    assert_eq!(viewer.get("/api/v1/storage?whole=true").await.status, StatusCode::FORBIDDEN);
}
