//! Saved views and settings.

use punctual_server::{Identity, Meters};
use serde_json::json;

use crate::work::idle;

#[tokio::test]
async fn a_view_is_saved_replaced_and_deleted() {
    let site = idle();
    let view = json!({ "page": "messages", "query": "state:dead topic:mail" });
    let response = site.call("PUT", "/api/v1/views/Failing%20mail", &view).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let again = json!({ "name": "Failing mail", "page": "messages", "query": "state:dead" });
    assert_eq!(site.call("PUT", "/api/v1/views/Failing%20mail", &again).await.status, 200);
    let list = site.get("/api/v1/views").await.json;
    assert_eq!(list["items"], json!([again]));
    let wrong = json!({ "name": "x", "page": "messages", "query": "" });
    assert_eq!(site.call("PUT", "/api/v1/views/y", &wrong).await.status, 422);
    let empty = json!({ "page": "", "query": "" });
    assert_eq!(site.call("PUT", "/api/v1/views/y", &empty).await.status, 422);
    assert_eq!(site.call("DELETE", "/api/v1/views/Failing%20mail", &json!({})).await.status, 204);
    assert_eq!(site.call("DELETE", "/api/v1/views/Failing%20mail", &json!({})).await.status, 404);
}

#[tokio::test]
async fn settings_are_those_of_the_node() {
    let settings = json!({ "storage": { "address": "postgres://(hidden)@db/punctual" } });
    let given = Some(settings.clone());
    let site = idle().changed(|app| app.on_node(Identity::default(), Meters::default(), given));
    assert_eq!(site.get("/api/v1/settings").await.json, settings);
    let rules = idle().get("/api/v1/settings").await.json;
    assert!(rules["redact"]["names"].is_array(), "{rules}");
}
