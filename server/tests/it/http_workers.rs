//! HTTP workers.

use std::time::Duration;

use axum::http::StatusCode;
use punctual::Roles;
use serde_json::{Value, json};

use crate::running_server::{settle, start, until};
use crate::site::Site;
use crate::work::publish;

const WORKER: &str = "0198a3a5-7d5e-7000-8000-00000000000a";
const OTHER: &str = "0198a3a5-7d5e-7000-8000-00000000000b";

/// Starts a server without handlers.
async fn site() -> Site {
    let roles = Roles { worker: false, ..Roles::ALL };
    let site = Site::with(|builder| builder.roles(roles));
    start(&site).await;
    site
}

async fn claim(site: &Site, worker: &str) -> Value {
    let request = json!({ "queue": "python", "worker": worker, "lease": "10s" });
    let response = site.post("/api/v1/work/claim", &request).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text);
    response.json
}

fn lease_of(item: &Value) -> (Value, Value) {
    (item["message"]["id"].clone(), item["lease"]["token"].clone())
}

async fn state(site: &Site, call: &str, request: &Value) -> Value {
    let response = site.post(&format!("/api/v1/work/{call}"), request).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text);
    response.json
}

#[tokio::test]
async fn a_message_is_claimed_extended_reported_on_and_settled() {
    let site = site().await;
    let id = publish(
        &site,
        &json!({ "topic": "greet", "queue": "python", "json": { "password": "p", "n": 1 },
            "headers": { "tenant": "acme" } }),
    )
    .await;
    let claimed = claim(&site, WORKER).await;
    let item = &claimed["items"][0];
    assert_eq!((&claimed["worker"], &item["message"]["id"]), (&json!(WORKER), &json!(id)));
    // A worker gets the whole body, without redaction.
    assert_eq!(item["message"]["body"]["json"], json!({ "password": "p", "n": 1 }));
    assert_eq!(item["message"]["headers"]["tenant"], "acme");
    assert_eq!((&item["attempt"], &item["message"]["state"]), (&json!(1), &json!("running")));
    let (message, token) = lease_of(item);
    let lease = json!({ "worker": WORKER, "leases": [{ "message": message, "token": token }] });
    assert_eq!(state(&site, "extend", &lease).await["items"][0]["state"], "held");
    let progress = json!({ "worker": WORKER, "message": message, "token": token, "percent": 40,
        "note": "halfway", "checkpoint": { "row": 7 } });
    assert_eq!(state(&site, "progress", &progress).await["state"], "held");
    let shown = site.get(&format!("/api/v1/messages/{id}")).await.json;
    assert_eq!(
        (&shown["progress"]["percent"], &shown["checkpoint"]["json"]["row"]),
        (&json!(40), &json!(7))
    );
    let done = json!({ "worker": WORKER, "message": message, "token": token, "outcome": "done",
        "note": "said hello", "log": ["one", "two"], "result": { "ok": true } });
    assert_eq!(state(&site, "settle", &done).await["state"], "applied");
    assert_eq!(state(&site, "settle", &done).await["state"], "lost", "a token counts once");
    let shown = site.get(&format!("/api/v1/messages/{id}")).await.json;
    assert_eq!(
        (&shown["state"], &shown["executions"][0]["note"]),
        (&json!("done"), &json!("said hello"))
    );
    assert_eq!(shown["executions"][0]["process"], WORKER);
}

#[tokio::test]
async fn every_outcome_leads_to_its_state() {
    let site = site().await;
    let cases = [
        (json!({ "outcome": "done" }), "done"),
        (json!({ "outcome": "fail", "error": "no route" }), "pending"),
        (json!({ "outcome": "retry", "delay": "1h", "error": "busy" }), "pending"),
        (json!({ "outcome": "snooze", "delay": "1h" }), "pending"),
        (json!({ "outcome": "discard", "error": "of no use" }), "dead"),
        (json!({ "outcome": "cancel" }), "cancelled"),
    ];
    for (report, state_after) in cases {
        let id = publish(&site, &json!({ "topic": "t", "queue": "python" })).await;
        let (message, token) = lease_of(&claim(&site, WORKER).await["items"][0]);
        let mut request = report.clone();
        request["worker"] = WORKER.into();
        request["message"] = message;
        request["token"] = token;
        assert_eq!(state(&site, "settle", &request).await["state"], "applied", "{report}");
        let shown = site.get(&format!("/api/v1/messages/{id}")).await.json;
        assert_eq!(shown["state"], state_after, "{report}");
        let snoozed = report["outcome"] == "snooze";
        assert_eq!(shown["attempt"] == json!(0), snoozed, "a snooze spends no attempt: {shown}");
    }
}

#[tokio::test]
async fn the_message_of_a_lost_worker_goes_to_the_next() {
    let site = site().await;
    publish(&site, &json!({ "topic": "greet", "queue": "python" })).await;
    let (message, token) = lease_of(&claim(&site, WORKER).await["items"][0]);
    assert!(claim(&site, OTHER).await["items"].as_array().unwrap().is_empty());
    let freed = |list: &Value| list["items"][0]["state"] == "pending";
    let list = until(&site, "/api/v1/messages?queue=python", freed).await;
    assert_eq!(list["items"][0]["crashes"], 1);
    let mut claimed = claim(&site, OTHER).await;
    for _ in 0..120 {
        if claimed["items"][0].is_object() {
            break;
        }
        site.clock.advance(Duration::from_secs(1));
        settle().await;
        claimed = claim(&site, OTHER).await;
    }
    let (again, fresh) = lease_of(&claimed["items"][0]);
    assert_eq!(again, message);
    let old = json!({ "worker": WORKER, "message": message, "token": token, "outcome": "done" });
    assert_eq!(state(&site, "settle", &old).await["state"], "lost", "an old token changes nothing");
    let new = json!({ "worker": OTHER, "message": message, "token": fresh, "outcome": "done" });
    assert_eq!(state(&site, "settle", &new).await["state"], "applied");
}

#[tokio::test]
async fn a_claim_waits_for_a_message_up_to_its_timeout() {
    let site = site().await;
    let request = json!({ "queue": "python", "worker": WORKER, "wait": "30s" });
    let polling = site.post("/api/v1/work/claim", &request);
    let publishing = async {
        settle().await;
        publish(&site, &json!({ "topic": "greet", "queue": "python" })).await
    };
    let (response, id) = tokio::join!(polling, publishing);
    assert_eq!(response.json["items"][0]["message"]["id"], json!(id));
    let before = site.clock.now();
    let polling = site.post("/api/v1/work/claim", &request);
    let waiting = async {
        for _ in 0..30 {
            settle().await;
            site.clock.advance(Duration::from_secs(1));
        }
    };
    let (response, ()) = tokio::join!(polling, waiting);
    assert!(response.json["items"].as_array().unwrap().is_empty(), "{}", response.text);
    assert!(site.clock.now() >= punctual::clock::add(before, Duration::from_secs(30)));
}

#[tokio::test]
async fn a_message_for_a_disconnected_worker_is_released() {
    let site = site().await;
    {
        let request = json!({ "queue": "python", "worker": WORKER, "wait": "30s" });
        tokio::select! {
            biased;
            response = site.post("/api/v1/work/claim", &request) => panic!("{}", response.text),
            () = settle() => {}
        }
        // The connection breaks.
    }
    let id = publish(&site, &json!({ "topic": "greet", "queue": "python" })).await;
    settle().await;
    let claimed = claim(&site, OTHER).await;
    assert_eq!(claimed["items"][0]["message"]["id"], json!(id), "{claimed}");
    assert_eq!(claimed["items"][0]["attempt"], 1, "no attempt was spent");
}

#[tokio::test]
async fn invalid_requests_are_refused_by_name() {
    let site = site().await;
    publish(&site, &json!({ "topic": "greet", "queue": "python" })).await;
    let (message, token) = lease_of(&claim(&site, WORKER).await["items"][0]);
    let with = |more: Value| {
        let mut request = json!({ "worker": WORKER, "message": message, "token": token });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let claims = |more: Value| {
        let mut request = json!({ "worker": WORKER, "queue": "python" });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    for (call, request, field) in [
        ("claim", claims(json!({ "limit": 0 })), "limit"),
        ("claim", claims(json!({ "limit": 101 })), "limit"),
        ("claim", claims(json!({ "wait": "61s" })), "wait"),
        ("claim", claims(json!({ "wait": "soon" })), "wait"),
        ("claim", claims(json!({ "lease": "25h" })), "lease"),
        ("claim", claims(json!({ "lease": "0s" })), "lease"),
        ("claim", claims(json!({ "queue": "~relay/kafka" })), "queue"),
        ("claim", claims(json!({ "worker": " " })), "worker"),
        ("claim", claims(json!({ "colour": "red" })), "colour"),
        ("extend", json!({ "worker": WORKER, "leases": [] }), "leases"),
        (
            "extend",
            json!({ "worker": WORKER, "leases": [{ "message": "x", "token": "y" }] }),
            "leases[0].token",
        ),
        ("progress", with(json!({ "percent": 101 })), "percent"),
        ("settle", with(json!({ "outcome": "exploded" })), "outcome"),
        ("settle", with(json!({ "outcome": "snooze" })), "delay"),
        ("settle", with(json!({ "outcome": "discard" })), "error"),
        ("settle", with(json!({ "outcome": "done", "token": "7" })), "token"),
        ("settle", with(json!({ "outcome": "done", "message": WORKER })), "token"),
    ] {
        let response = site.post(&format!("/api/v1/work/{call}"), &request).await;
        assert_eq!(response.status, 422, "{call} {request}: {}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
    }
    let list = site.get("/api/v1/messages?queue=python").await.json;
    assert_eq!(list["items"][0]["state"], "running", "nothing changed");
}

#[tokio::test]
async fn workers_are_listed_quieted_and_removed() {
    let site = site().await;
    claim(&site, WORKER).await;
    let list = site.get("/api/v1/workers").await.json;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{list}");
    let http = items.iter().find(|one| one["process"] == WORKER).unwrap();
    assert_eq!((&http["kind"], &http["queues"][0]["name"]), (&json!("http"), &json!("python")));
    let ours = items.iter().find(|one| one["kind"] == "server").unwrap();
    assert_eq!(ours["pid"], std::process::id());
    assert!(ours["memory_bytes"].as_u64().is_none_or(|bytes| bytes > 1 << 20));
    let quiet = |worker: &str, verb: &str| format!("/api/v1/workers/{worker}/{verb}");
    assert_eq!(site.post(&quiet(WORKER, "quiet"), &json!({})).await.status, 204);
    publish(&site, &json!({ "topic": "greet", "queue": "python" })).await;
    assert!(claim(&site, WORKER).await["items"].as_array().unwrap().is_empty());
    assert_eq!(site.post(&quiet(WORKER, "wake"), &json!({})).await.status, 204);
    assert_eq!(claim(&site, WORKER).await["items"].as_array().unwrap().len(), 1);
    assert_eq!(site.post(&quiet(OTHER, "quiet"), &json!({})).await.status, 404);
    // The second route is the former name of the first one.
    for route in ["deregister", "bye"] {
        claim(&site, WORKER).await;
        let path = format!("/api/v1/work/{route}");
        assert_eq!(site.post(&path, &json!({ "worker": WORKER })).await.status, 204, "{route}");
        let list = site.get("/api/v1/workers").await.json;
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{route}: {list}");
    }
}

#[tokio::test]
async fn a_worker_without_heartbeats_is_removed() {
    let site = site().await;
    claim(&site, "reports-1").await;
    let alone = |list: &Value| list["items"].as_array().unwrap().len() == 1;
    assert!(!alone(&site.get("/api/v1/workers").await.json));
    let list = until(&site, "/api/v1/workers", alone).await;
    assert_eq!(list["items"][0]["kind"], "server", "a node that beats stays");
}

// spec: T-29
#[tokio::test]
async fn messages_without_a_handler_are_left_to_http_workers() {
    let site = Site::with(|builder| builder.handler("mail", async || {}).queue("default", 4));
    start(&site).await;
    let id = publish(&site, &json!({ "topic": "greet" })).await;
    let path = format!("/api/v1/messages/{id}");
    for _ in 0..90 {
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    let shown = site.get(&path).await.json;
    assert_eq!((&shown["state"], &shown["attempt"]), (&json!("pending"), &json!(0)), "{shown}");
    assert_eq!(shown["attempts_max"], 5, "the limit that is in force");
    assert_eq!(shown["why"]["word"], "no_handler");
    let health = site.get("/health").await.json;
    assert_eq!(health["condition"], "degraded", "{health}");
    let reasons = health["reasons"].as_array().unwrap().iter();
    let named = reasons.filter(|reason| reason.as_str().unwrap().contains("holds a message"));
    assert_eq!(named.count(), 1, "it is reported once: {health}");
    let reason = health["reasons"][0].as_str().unwrap();
    for part in ["\"default\"", "\"greet\"", "no known process"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    let request = json!({ "queue": "default", "worker": WORKER });
    let claimed = site.post("/api/v1/work/claim", &request).await.json;
    let item = &claimed["items"][0];
    assert_eq!((&item["message"]["id"], &item["attempt"]), (&json!(id), &json!(1)), "{claimed}");
    assert_eq!((&item["attempts_max"], &item["message"]["attempts_max"]), (&json!(5), &json!(5)));
    until(&site, "/health", |health| health["condition"] == "healthy").await;
}

#[tokio::test]
async fn a_worker_claims_only_its_topics() {
    let site = site().await;
    let publish_to = async |topic: &str| publish(&site, &json!({ "topic": topic })).await;
    publish_to("fax").await;
    let mail = publish_to("mail").await;
    let claim = async |topics: Value| {
        let request = json!({ "queue": "default", "worker": WORKER, "limit": 9, "topics": topics });
        site.post("/api/v1/work/claim", &request).await
    };
    let claimed = claim(json!(["mail", "post"])).await.json;
    assert_eq!(claimed["items"].as_array().unwrap().len(), 1, "{claimed}");
    assert_eq!(claimed["items"][0]["message"]["id"], json!(mail));
    let many: Vec<String> = (0..101).map(|number| format!("t{number}")).collect();
    for (topics, problem) in [
        (json!([]), "name 1 to 100"),
        (json!(many), "name 1 to 100"),
        (json!(["mail", ""]), "topics[1]"),
        (json!(["punctual.http"]), "which is reserved"),
    ] {
        let response = claim(topics).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", response.text);
        assert!(response.text.contains(problem), "{}", response.text);
    }
    let workers = site.get("/api/v1/workers").await.text;
    assert!(workers.contains("post"), "{workers}");
}
