//! Jobs over the API, on every storage.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use punctual::SystemClock;
use punctual_server::router;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::test_storage::{TestStorage, app};
use crate::transcript::Transcript;
use crate::work;

// spec: C-7
pub(crate) async fn defined(transcript: &mut Transcript) {
    let spec = json!({"name": "nightly", "cron": "0 2 * * *", "zone": "Europe/Berlin", "topic": "report",
        "tags": ["report"], "description": "Counts", "retry": 3, "timeout": "5m", "misfire": "fire_once",
        "payload": {"day": 1}, "queue": "slow", "priority": 7});
    let made = transcript.ask_with("POST /jobs", &[], spec.clone(), 201).await;
    let tag = made.headers["etag"].to_str().unwrap().to_owned();
    transcript.ask("POST /jobs", spec.clone(), 409).await;
    transcript
        .ask("POST /jobs", json!({"name": "wrong", "cron": "0 25 * * *", "topic": "t"}), 422)
        .await;
    let twin = json!({"name": "a", "every": "10m", "topic": "t", "enabled": false});
    transcript.ask("POST /jobs", twin, 201).await;
    transcript.get("/jobs").await;
    transcript.get("/jobs?tag=report&sort=next").await;
    let seen = [("if-match", tag.as_str())];
    let edit = json!({"cron": "30 3 * * *", "timeout": null});
    let edited = transcript.ask_with("PATCH /jobs/nightly", &seen, edit, 200).await;
    assert_ne!(edited.headers["etag"].to_str().unwrap(), tag);
    transcript.ask_with("PATCH /jobs/nightly", &seen, json!({"retry": 1}), 412).await;
    transcript.ask_with("PUT /jobs/nightly", &seen, spec.clone(), 412).await;
    transcript.ask_with("DELETE /jobs/nightly", &seen, Value::Null, 412).await;
    transcript.get("/jobs/nightly/layers").await;
    transcript.ask("POST /jobs/nightly/reset", json!({"field": "schedule"}), 200).await;
    let mut other = spec;
    other["payload"] = json!({"day": 2});
    transcript.ask("PUT /jobs/nightly", other, 200).await;
    transcript.get("/jobs/nightly").await;
    transcript.ask("DELETE /jobs/nightly", Value::Null, 204).await;
    transcript.ask("GET /jobs/nightly", Value::Null, 404).await;
    transcript.get("/jobs").await;
    transcript.get("/audit").await;
}

// spec: C-7, T-58, T-59
pub(crate) async fn operated(transcript: &mut Transcript) {
    let spec = json!({"name": "hourly", "cron": "0 * * * *", "topic": "report", "queue": "slow"});
    transcript.ask("POST /jobs", spec, 201).await;
    transcript.later(2 * 3_600 + 60);
    let pause = json!({"reason": "a move", "until": "2026-03-01T15:30:00Z"});
    transcript.ask("POST /jobs/hourly/pause", pause, 200).await;
    transcript.get("/jobs?phase=paused").await;
    transcript.ask("POST /jobs/hourly/resume", json!({}), 200).await;
    transcript.ask("POST /jobs/hourly/skip", json!({"nominal": "2026-03-01T16:00:00Z"}), 200).await;
    transcript.ask("POST /jobs/hourly/trigger", json!({"payload": {"day": 9}}), 202).await;
    transcript.ask("POST /jobs/unknown/trigger", json!({}), 404).await;
    transcript.get("/messages?job=hourly").await;
    let range = "from=2026-03-01T12:00:00Z&to=2026-03-01T18:00:00Z";
    transcript.get(&format!("/jobs/hourly/occurrences?{range}")).await;
    transcript.get("/jobs/hourly/upcoming?count=5").await;
    transcript.get("/jobs/hourly/misfire-preview?down=2h").await;
    let backfill = json!({"from": "2026-03-01T08:00:00Z", "to": "2026-03-01T12:00:00Z"});
    let mut dry = backfill.clone();
    dry["dry_run"] = json!(true);
    transcript.ask("POST /jobs/hourly/backfill", dry, 200).await;
    transcript.ask("POST /jobs/hourly/backfill", backfill.clone(), 200).await;
    transcript.ask("POST /jobs/hourly/backfill", backfill, 200).await;
    transcript.get("/messages/count?job=hourly").await;
    transcript.ask("POST /jobs/hourly/cursor", json!({"to": "2026-03-01T17:30:00Z"}), 200).await;
    // Some pending messages are run, so that there is a history.
    for (number, claimed) in work::claim(transcript, "slow", 3).await.iter().enumerate() {
        transcript.later(1);
        match number {
            0 => work::fail(transcript, claimed, "no disk").await,
            _ => work::finish(transcript, claimed).await,
        }
    }
    transcript.get("/jobs/hourly/executions").await;
    transcript.get("/executions?job=hourly&ending=failed").await;
    transcript.get(&format!("/jobs/hourly/occurrences?{range}")).await;
    transcript.get("/jobs/hourly").await;
    transcript.get("/audit?what=job").await;
}

/// Of two concurrent edits of the same version one is refused.
pub(crate) async fn raced(test_storage: &TestStorage) {
    let opened = test_storage.open().await;
    let nodes: Vec<_> =
        (0..2).map(|_| router(app(&opened, Arc::new(SystemClock), |builder| builder))).collect();
    let ask = async |node: usize, method: &str, path: &str, tag: &str, body: Value| {
        let request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        let request = request.header("content-type", "application/json");
        let request = if tag.is_empty() { request } else { request.header("if-match", tag) };
        let request = request.body(Body::from(body.to_string())).unwrap();
        nodes[node].clone().oneshot(request).await.unwrap()
    };
    for round in 0..20 {
        let name = format!("job-{round}");
        let spec = json!({"name": name, "cron": "0 2 * * *", "topic": "t"});
        let made = ask(0, "POST", "/jobs", "", spec).await;
        let tag = made.headers()["etag"].to_str().unwrap().to_owned();
        let path = format!("/jobs/{name}");
        let (one, other) = tokio::join!(
            ask(0, "PATCH", &path, &tag, json!({"timeout": "1m"})),
            ask(1, "PATCH", &path, &tag, json!({"timeout": "2m"})),
        );
        let mut found = [one.status().as_u16(), other.status().as_u16()];
        found.sort_unstable();
        assert_eq!(found, [200, 412], "round {round}");
    }
    opened.close().await.unwrap();
}
