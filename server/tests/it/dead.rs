//! Dead letters over HTTP.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;

use crate::work::{dead, idle, publish_to};

#[tokio::test]
async fn the_same_failure_is_one_group() {
    let site = idle();
    dead(&site, "mail", "order 1 is unknown").await;
    site.clock.advance(Duration::from_secs(2 * 3_600));
    let newest = dead(&site, "mail", "order 22 is unknown").await;
    dead(&site, "post", "order 3 is unknown").await;
    let groups = site.get("/api/v1/dead-letters/groups").await.json;
    assert_eq!((&groups["scanned"], &groups["more"]), (&json!(3), &json!(false)));
    assert_eq!(groups["items"].as_array().unwrap().len(), 2);
    let group = &groups["items"][0];
    assert_eq!((&group["topic"], &group["count"]), (&json!("mail"), &json!(2)));
    assert_eq!(
        (&group["error"], &group["reason"]),
        (&json!("order 22 is unknown"), &json!("attempts spent"))
    );
    assert_eq!(group["sample_id"], newest.to_string());
    assert_eq!(
        (&group["first_at"], &group["last_at"]),
        (&json!("2026-03-01T12:00:00Z"), &json!("2026-03-01T14:00:00Z"))
    );
    let hours: Vec<u64> = serde_json::from_value(group["per_hour"].clone()).unwrap();
    assert_eq!((hours.len(), hours[23], hours[21], hours.iter().sum::<u64>()), (24, 1, 1, 2));
    let fingerprint = group["fingerprint"].as_str().unwrap();
    let list = site.get(&format!("/api/v1/dead-letters?group={fingerprint}")).await.json;
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let list = site.get("/api/v1/dead-letters?topic=post").await.json;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

// spec: T-6, T-34
#[tokio::test]
async fn a_group_is_redriven_or_discarded() {
    let site = idle();
    for number in 0..3 {
        dead(&site, "mail", &format!("order {number} is unknown")).await;
    }
    let other = dead(&site, "mail", "connection refused").await;
    publish_to(&site, "mail").await;
    let groups = site.get("/api/v1/dead-letters/groups").await.json;
    let fingerprint = groups["items"][0]["fingerprint"].clone();
    let mut request = json!({"fingerprint": fingerprint, "dry_run": true});
    let dry = site.post("/api/v1/dead-letters/redrive", &request).await.json;
    assert_eq!((&dry["count"], &dry["applied"]), (&json!(3), &json!(0)));
    request["dry_run"] = json!(false);
    request["limit"] = json!(2);
    let bulk_result = site.post("/api/v1/dead-letters/redrive", &request).await.json;
    assert_eq!((&bulk_result["applied"], &bulk_result["more"]), (&json!(2), &json!(true)));
    request["note"] = json!("not needed");
    let bulk_result = site.post("/api/v1/dead-letters/discard", &request).await.json;
    assert_eq!(bulk_result["applied"], 1, "what was sent again is not dead any more");
    let count = site.get("/api/v1/messages/count?state=pending").await.json;
    assert_eq!(count["count"], 3);
    let entry = site.app.audit().list(None, 1).await.unwrap().remove(0);
    assert_eq!(
        (entry.what.as_str(), entry.reason.as_deref()),
        ("messages.discard", Some("not needed"))
    );
    let left = site.get("/api/v1/dead-letters").await.json;
    assert_eq!(left["items"][0]["id"], other.to_string());
}

#[tokio::test]
async fn dead_letters_are_selected_by_group_filter_or_ids() {
    let site = idle();
    let first = dead(&site, "mail", "a").await;
    let second = dead(&site, "post", "b").await;
    let alive = publish_to(&site, "mail").await;
    let request = json!({"ids": [first, alive]});
    let bulk_result = site.post("/api/v1/dead-letters/discard", &request).await.json;
    assert_eq!(
        (&bulk_result["count"], &bulk_result["applied"]),
        (&json!(1), &json!(1)),
        "only what is dead"
    );
    assert_eq!(site.get(&format!("/api/v1/messages/{alive}")).await.status, 200);
    let request = json!({"filter": {"topic": "post"}});
    assert_eq!(site.post("/api/v1/dead-letters/redrive", &request).await.json["applied"], 1);
    assert_eq!(site.get(&format!("/api/v1/messages/{second}")).await.json["source"], "redriven");
    for request in [
        json!({}),
        json!({"ids": []}),
        json!({"ids": ["seven"]}),
        json!({"ids": [first], "fingerprint": "x"}),
        json!({"filter": {"state": "pending"}}),
        json!({"fingerprint": "x", "limit": 0}),
        json!({"group": "x"}),
    ] {
        let response = site.post("/api/v1/dead-letters/redrive", &request).await;
        assert_eq!(
            response.status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{request}: {}",
            response.text
        );
    }
}
