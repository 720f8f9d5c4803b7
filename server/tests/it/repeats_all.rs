//! Repeats of every operation after a crash: alone, and after another caller has changed the same thing. A new
//! operation is tested here as soon as it has a class.

use std::time::Duration;

use punctual::inspect::PageRequest;
use serde_json::{Value, json};

use crate::audit_entries::{Fixture, call, inside, worker};
use crate::repeats::crash;
use crate::repeats_classes::{DERIVED, GUARDED, SAME_STATE};
use crate::site::TestResponse;

/// Status of a repeat that cannot return the first response: the change is made, and not made again.
const SAYS: [(&str, u16); 8] = [
    ("DELETE jobs/{name}", 404),
    ("DELETE tokens/{id}", 404),
    ("DELETE users/{name}", 404),
    ("DELETE views/{name}", 404),
    ("DELETE webhooks/{id}", 404),
    ("POST jobs", 409),
    // The old password is no longer valid.
    ("POST session/password", 401),
    ("POST users", 409),
];
/// Views whose counts are compared.
const SHOWN: [&str; 6] = ["messages/count", "jobs", "tokens", "users", "webhooks", "views"];

/// Changes of another caller that a repeat would undo, so that it is refused: the operation, the other operation and
/// its body.
const OVERTAKEN: [(&str, &str, &str); 19] = [
    ("PATCH jobs/{name}", "PATCH jobs/{name}", r#"{"every":"5h"}"#),
    ("PATCH users/{name}", "PATCH users/{name}", r#"{"role":"admin"}"#),
    ("PATCH webhooks/{id}", "PATCH webhooks/{id}", r#"{"events":["message.dead"]}"#),
    ("POST jobs/{name}/pause", "POST jobs/{name}/resume", "{}"),
    ("POST jobs/{name}/planned/pause", "POST jobs/{name}/planned/resume", "{}"),
    ("POST jobs/{name}/planned/resume", "POST jobs/{name}/planned/pause", r#"{"reason":"wait"}"#),
    ("POST jobs/{name}/planned/trigger", "POST jobs/{name}/planned/pause", r#"{"reason":"wait"}"#),
    ("POST jobs/{name}/reset", "PATCH jobs/{name}", r#"{"every":"5h"}"#),
    ("POST jobs/{name}/resume", "POST jobs/{name}/pause", r#"{"reason":"wait"}"#),
    ("POST messages/{id}/reassign", "POST messages/{id}/reassign", r#"{"priority":1}"#),
    ("POST messages/{id}/reschedule", "POST messages/{id}/reschedule", r#"{"delay":"7h"}"#),
    ("POST queues/{name}/concurrency", "POST queues/{name}/concurrency", r#"{"max":9}"#),
    ("POST queues/{name}/pause", "POST queues/{name}/resume", "{}"),
    ("POST queues/{name}/resume", "POST queues/{name}/pause", r#"{"reason":"wait"}"#),
    ("POST subscriptions/{id}/pause", "POST subscriptions/{id}/resume", "{}"),
    ("POST subscriptions/{id}/resume", "POST subscriptions/{id}/pause", "{}"),
    ("POST workers/{process}/quiet", "POST workers/{process}/wake", "{}"),
    ("POST workers/{process}/wake", "POST workers/{process}/quiet", "{}"),
    ("PUT jobs/{name}", "PUT jobs/{name}", r#"{"name":"own","every":"5h","topic":"t"}"#),
];

/// An operation with its own fixture and the key `k1`.
struct RepeatedRequest {
    fixture: Fixture,
    operation: &'static str,
    credentials: Vec<(&'static str, String)>,
}

impl RepeatedRequest {
    async fn new(operation: &'static str) -> Self {
        let fixture = Fixture::new(operation).await;
        if let Some(job) = operation.strip_suffix("/resume") {
            let (path, body) = fixture.request(&format!("{job}/pause"));
            call(&fixture.site, ("POST", &path, &body), &worker()).await;
        }
        let is_session = operation == "POST session/password";
        let mut credentials = if is_session { fixture.session().await } else { worker() };
        credentials.push(("idempotency-key", "k1".to_owned()));
        Self { fixture, operation, credentials }
    }

    async fn send(&self) -> TestResponse {
        let (method, _) = self.operation.split_once(' ').unwrap();
        let (path, body) = self.fixture.request(self.operation);
        call(&self.fixture.site, (method, &path, &body), &self.credentials).await
    }

    /// Returns the counts of [`SHOWN`].
    async fn shown(&self) -> Vec<Value> {
        let mut shown = Vec::new();
        for path in SHOWN {
            let path = format!("/api/v1/{path}");
            let response = call(&self.fixture.site, ("GET", &path, &json!({})), &worker()).await;
            assert!(response.status.is_success(), "{path}: {}", response.text);
            let items = response.json["items"].as_array().map(Vec::len);
            shown.push(items.map_or_else(|| response.json["count"].clone(), |count| json!(count)));
        }
        shown
    }
}

#[tokio::test]
async fn every_change_is_made_once_when_it_is_repeated() {
    let mut wrong = Vec::new();
    for operation in [&DERIVED[..], &SAME_STATE, &GUARDED].concat() {
        let repeated = RepeatedRequest::new(operation).await;
        let first = repeated.send().await;
        if !first.status.is_success() {
            wrong.push(format!("{operation}: no request for it is known here: {}", first.text));
            continue;
        }
        let shown = repeated.shown().await;
        crash(&repeated.fixture.site).await;
        let again = repeated.send().await;
        let expected = SAYS.iter().find(|(one, _)| *one == operation).map(|(_, status)| *status);
        if again.status.as_u16() != expected.unwrap_or(first.status.as_u16()) {
            wrong.push(format!(
                "{operation}: {} after {}: {}",
                again.status, first.status, again.text
            ));
        }
        let now = repeated.shown().await;
        if now != shown {
            wrong.push(format!("{operation}: {now:?} of {SHOWN:?}, and before {shown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_repeat_does_not_undo_a_later_change_of_another_caller() {
    let mut wrong = Vec::new();
    for (operation, other, body) in OVERTAKEN {
        let repeated = RepeatedRequest::new(operation).await;
        let first = repeated.send().await;
        assert!(first.status.is_success(), "{operation}: {}", first.text);
        repeated.fixture.site.clock.advance(Duration::from_secs(1));
        let (method, _) = other.split_once(' ').unwrap();
        // Both operations are about the same thing.
        let (path, _) = repeated.fixture.request(operation);
        let last = |line: &'static str| line.rsplit('/').next().filter(|last| !last.contains('}'));
        let path = match (last(operation), last(other)) {
            (Some(own), Some(last)) => format!("{}{last}", path.strip_suffix(own).unwrap()),
            (Some(own), None) => path.strip_suffix(own).unwrap().trim_end_matches('/').to_owned(),
            _ => path,
        };
        let body: Value = serde_json::from_str(body).unwrap();
        let changed = call(&repeated.fixture.site, (method, &path, &body), &inside("bob")).await;
        assert!(changed.status.is_success(), "{operation}, {other}: {}", changed.text);
        crash(&repeated.fixture.site).await;
        let again = repeated.send().await;
        if again.status.as_u16() != 409 || !again.text.contains("was changed after the first use") {
            wrong.push(format!("{operation}: {} {}", again.status, again.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_repeat_does_not_act_on_one_time_jobs_planned_later() {
    for operation in GUARDED.iter().filter(|one| one.contains("/planned/")) {
        let repeated = RepeatedRequest::new(operation).await;
        let first = repeated.send().await;
        assert!(first.status.is_success(), "{operation}: {}", first.text);
        repeated.fixture.site.clock.advance(Duration::from_secs(1));
        let jobs = repeated.fixture.site.app.punctual.jobs();
        jobs.once("remind").after(Duration::from_secs(3_600)).key("k").replace().await.unwrap();
        crash(&repeated.fixture.site).await;
        let again = repeated.send().await;
        assert_eq!(again.status.as_u16(), 409, "{operation}: {}", again.text);
        let planned = repeated.fixture.site.app.punctual.jobs().planned("remind");
        let rows = planned.list(PageRequest::first(10)).await.unwrap().rows;
        let newest = rows.iter().max_by_key(|row| row.message.created_at).unwrap();
        assert!(newest.message.due_at > repeated.fixture.site.clock.now(), "{operation}");
    }
}
