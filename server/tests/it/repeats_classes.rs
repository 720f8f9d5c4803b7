//! Classes of repeats: why each operation may be repeated after a crash, and tests of the classes. `repeats_all.rs`
//! repeats every operation.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use punctual::{Builder, Job, Occurrence};
use serde_json::{Value, json};

use crate::repeats::{count, crash, send};
use crate::site::Site;
use crate::work::{claim, dead_letter, idle, publish};

/// Operations that create something with an id derived from the key.
pub(crate) const DERIVED: [&str; 6] = [
    "POST messages",
    "POST messages/batch",
    "POST messages/{id}/clone",
    "POST jobs/{name}/trigger",
    "POST tokens",
    "POST webhooks",
];
/// Operations that set a state; a repeat sets the same state, or finds it set.
pub(crate) const SAME_STATE: [&str; 30] = [
    "DELETE jobs/{name}",
    "DELETE messages/{id}",
    "DELETE tokens/{id}",
    "DELETE users/{name}",
    "DELETE views/{name}",
    "DELETE webhooks/{id}",
    "PATCH jobs/{name}",
    "PATCH users/{name}",
    "PATCH webhooks/{id}",
    "POST batches/{id}/cancel",
    "POST jobs",
    "POST jobs/{name}/backfill",
    "POST jobs/{name}/pause",
    "POST jobs/{name}/reset",
    "POST jobs/{name}/resume",
    "POST messages/{id}/cancel",
    "POST messages/{id}/delete",
    "POST messages/{id}/reassign",
    "POST messages/{id}/reschedule",
    "POST queues/{name}/concurrency",
    "POST queues/{name}/pause",
    "POST queues/{name}/resume",
    "POST session/password",
    "POST subscriptions/{id}/pause",
    "POST subscriptions/{id}/resume",
    "POST users",
    "POST workers/{process}/quiet",
    "POST workers/{process}/wake",
    "PUT jobs/{name}",
    "PUT views/{name}",
];
/// Operations on existing things; a repeat skips, or is refused for, what was added or changed after the first request.
pub(crate) const GUARDED: [&str; 11] = [
    "POST dead-letters/discard",
    "POST dead-letters/redrive",
    "POST jobs/{name}/cursor",
    "POST jobs/{name}/planned/cancel",
    "POST jobs/{name}/planned/pause",
    "POST jobs/{name}/planned/resume",
    "POST jobs/{name}/planned/trigger",
    "POST jobs/{name}/skip",
    "POST messages/bulk",
    "POST messages/{id}/redrive",
    "POST queues/{name}/purge",
];
/// Operations on leases: a message that was claimed without a response becomes due again when its lease ends, and only
/// the current token settles.
const LEASED: [&str; 5] = [
    "POST work/claim",
    "POST work/deregister",
    "POST work/extend",
    "POST work/progress",
    "POST work/settle",
];
/// Operations that run again after a crash: a session and a test delivery are created twice, and the rest
/// changes nothing.
const DONE_AGAIN: [&str; 4] =
    ["DELETE session", "POST schedule/preview", "POST session", "POST webhooks/{id}/test"];

#[tokio::test]
async fn every_change_has_a_class() {
    let document = idle().get("/api/openapi.json").await.json;
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["post", "put", "patch", "delete"] {
            if item[method].is_object() {
                let path = path.trim_start_matches("/api/v1/");
                found.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
    }
    let classes = [&DERIVED[..], &SAME_STATE, &GUARDED, &LEASED, &DONE_AGAIN];
    let known: Vec<String> = classes.concat().iter().map(ToString::to_string).collect();
    let named: BTreeSet<String> = known.iter().cloned().collect();
    assert_eq!(known.len(), named.len(), "one class each");
    assert_eq!(found, named, "say why a new change may be repeated");
}

async fn nothing(_: Occurrence) {}

fn hourly(builder: Builder) -> Builder {
    builder.job(Job::cron("hourly", "0 * * * *"), nothing)
}

#[tokio::test]
async fn a_trigger_that_is_repeated_runs_its_job_once() {
    let site = Site::started(hourly).await;
    let line = "POST /api/v1/jobs/hourly/trigger";
    let first = send(&site, line, &json!({})).await;
    assert_eq!(first.status, StatusCode::ACCEPTED, "{}", first.text);
    crash(&site).await;
    site.clock.advance(Duration::from_secs(30));
    let again = send(&site, line, &json!({})).await;
    assert_eq!((again.status, &again.text), (first.status, &first.text), "not an overlap");
    assert_eq!(count(&site).await, 1);
}

#[tokio::test]
async fn a_token_or_a_webhook_is_created_once_and_its_caller_gets_the_secret() {
    for (path, body) in [
        ("/api/v1/tokens", json!({"name": "ci", "scopes": ["read"]})),
        ("/api/v1/webhooks", json!({"url": "https://example.com/x", "events": ["message.dead"]})),
    ] {
        let site = idle();
        let line = format!("POST {path}");
        let first = send(&site, &line, &body).await;
        assert_eq!(first.status, StatusCode::CREATED, "{path}: {}", first.text);
        crash(&site).await;
        let again = send(&site, &line, &body).await;
        assert_eq!(again.status, StatusCode::CREATED, "{path}: {}", again.text);
        assert_ne!(again.json["secret"], first.json["secret"], "{path}");
        let all = site.get(path).await.json;
        assert_eq!(all["items"].as_array().unwrap().len(), 1, "{path}: {all}");
    }
}

#[tokio::test]
async fn a_repeat_that_finds_the_requested_state_succeeds() {
    let site = idle();
    for (line, status) in [
        ("POST /api/v1/messages/{id}/cancel", StatusCode::OK),
        ("POST /api/v1/messages/{id}/delete", StatusCode::OK),
        ("DELETE /api/v1/messages/{id}", StatusCode::NO_CONTENT),
    ] {
        let site = site.another();
        let id = publish(&site, &json!({"topic": "mail", "queue": "later"})).await;
        let line = line.replace("{id}", &id);
        let first = send(&site, &line, &json!({})).await;
        assert_eq!(first.status, status, "{line}: {}", first.text);
        crash(&site).await;
        let again = send(&site, &line, &json!({})).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text), "{line}");
        forget(&site).await;
    }
}

/// Deletes the record of the key for the next case.
async fn forget(site: &Site) {
    site.clock.advance(Duration::from_secs(25 * 3_600));
    site.app.documents.expire(100, site.clock.now()).await.unwrap();
}

#[tokio::test]
async fn a_delay_of_a_reschedule_counts_from_the_first_request() {
    let site = idle();
    let id = publish(&site, &json!({"topic": "mail", "delay": "1h"})).await;
    let line = format!("POST /api/v1/messages/{id}/reschedule");
    send(&site, &line, &json!({"delay": "2h"})).await;
    crash(&site).await;
    site.clock.advance(Duration::from_secs(600));
    let again = send(&site, &line, &json!({"delay": "2h"})).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.text);
    let message = site.get(&format!("/api/v1/messages/{id}")).await.json;
    assert!(message.to_string().contains("2026-03-01T14:00:00Z"), "{message}");
}

/// Makes everything that is due a dead letter.
async fn kill(site: &Site) {
    for claimed in claim(site, "default").await {
        dead_letter(site, &claimed, "no").await;
    }
}

#[tokio::test]
async fn a_repeat_does_not_redrive_messages_that_died_again() {
    let site = idle();
    let id = publish(&site, &json!({"topic": "mail"})).await;
    kill(&site).await;
    for (line, body) in [
        (format!("POST /api/v1/messages/{id}/redrive"), json!({})),
        ("POST /api/v1/messages/bulk".to_owned(), json!({"action": "redrive", "filter": {}})),
        ("POST /api/v1/dead-letters/redrive".to_owned(), json!({"ids": [id]})),
        ("POST /api/v1/dead-letters/redrive".to_owned(), json!({"filter": {"topic": "mail"}})),
    ] {
        site.clock.advance(Duration::from_secs(1));
        let first = send(&site, &line, &body).await;
        assert_eq!(first.status, StatusCode::OK, "{line}: {}", first.text);
        crash(&site).await;
        let while_pending = send(&site, &line, &body).await;
        assert_eq!(while_pending.status, StatusCode::OK, "{line}: {}", while_pending.text);
        site.clock.advance(Duration::from_secs(1));
        kill(&site).await;
        crash(&site).await;
        let again = send(&site, &line, &body).await;
        assert_eq!(again.status, StatusCode::OK, "{line}: {}", again.text);
        assert!(claim(&site, "default").await.is_empty(), "{line}: {}", again.text);
        forget(&site).await;
    }
}

#[tokio::test]
async fn a_repeated_bulk_action_skips_later_messages() {
    for (line, body) in [
        ("POST /api/v1/queues/default/purge", json!({"dry_run": false})),
        ("POST /api/v1/messages/bulk", json!({"action": "delete", "filter": {"topic": "mail"}})),
    ] {
        let site = idle();
        publish(&site, &json!({"topic": "mail"})).await;
        let first = send(&site, line, &body).await;
        assert_eq!(first.json["applied"], 1, "{}", first.text);
        site.clock.advance(Duration::from_secs(1));
        publish(&site, &json!({"topic": "mail"})).await;
        crash(&site).await;
        let again = send(&site, line, &body).await;
        assert_eq!((again.status, &again.json["applied"]), (StatusCode::OK, &json!(0)));
        assert_eq!(count(&site).await, 1, "{line}");
    }
}

#[tokio::test]
async fn a_cursor_is_not_moved_twice_and_the_next_is_not_skipped_twice() {
    for (path, body) in [("cursor", json!({"to": "2026-03-01T15:00:00Z"})), ("skip", json!({}))] {
        let site = Site::started(hourly).await;
        site.clock.advance(Duration::from_secs(60));
        let line = format!("POST /api/v1/jobs/hourly/{path}");
        let key_seen = send(&site, &line, &body).await;
        assert_eq!(key_seen.status, StatusCode::OK, "{path}: {}", key_seen.text);
        let before: Value = site.get("/api/v1/jobs/hourly").await.json["next_at"].clone();
        // The change is stored a moment after the key was received.
        backdate(&site).await;
        let again = send(&site, &line, &body).await;
        assert_eq!(again.status, StatusCode::CONFLICT, "{path}: {}", again.text);
        assert!(again.text.contains("was changed after the first use"), "{}", again.text);
        assert_eq!(site.get("/api/v1/jobs/hourly").await.json["next_at"], before);
    }
}

/// Simulates a crash of a request that was received a second before its effect.
async fn backdate(site: &Site) {
    use punctual::backend::documents::{KeyRange, NewDocument};
    crash(site).await;
    let now = site.clock.now();
    let all = site.app.documents.list("idempotency", KeyRange::default(), now).await.unwrap();
    let mut body = all[0].body.clone();
    body["first_at"] = json!(now - Duration::from_secs(1));
    let draft = NewDocument::new("idempotency", all[0].key.clone(), body);
    let draft = draft.expires_at(all[0].expires_at.unwrap());
    site.app.documents.put_all(vec![draft], now).await.unwrap();
}
