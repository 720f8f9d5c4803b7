//! Repeated requests with an idempotency key, after a crash, an error or on another server: one effect, one response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use punctual::backend::documents::{
    Document, DocumentStore, ExpectedVersion, KeyRange, NewDocument, PutResult, RemoveResult,
};
use punctual::builtin::memory_transport;
use punctual::jiff::Timestamp;
use punctual::model::ProcessId;
use punctual::uuid::Uuid;
use punctual::{Error, ManualClock};
use punctual_server::{App, AppParts};
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};
use crate::work::{claim, finish, idle, publish};

const KIND: &str = "idempotency";
const MESSAGES: &str = "/api/v1/messages";
const BATCH: &str = "/api/v1/messages/batch";

/// Sends a request with the key `k1`.
pub(crate) async fn send(site: &Site, line: &str, body: &Value) -> TestResponse {
    let (method, path) = line.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(path);
    let request = request.header(CONTENT_TYPE, "application/json").header("Idempotency-Key", "k1");
    site.send(request.body(Body::from(body.to_string())).unwrap()).await
}

async fn post(site: &Site, path: &str, body: &Value) -> TestResponse {
    send(site, &format!("POST {path}"), body).await
}

pub(crate) async fn count(site: &Site) -> Value {
    site.get("/api/v1/messages/count").await.json["count"].clone()
}

async fn record(site: &Site) -> Document {
    let all = site.app.documents.list(KIND, KeyRange::default(), site.clock.now()).await.unwrap();
    assert_eq!(all.len(), 1, "one key");
    all[0].clone()
}

/// Sets the record of the key to the state after a crash between the effect and the response.
async fn crash_of(site: &Site, owner: impl FnOnce(&mut Value)) {
    let kept = record(site).await;
    let mut body = kept.body;
    body["answer"] = Value::Null;
    body["until"] = json!(site.clock.now() + Duration::from_secs(10));
    owner(&mut body["owner"]);
    let draft = NewDocument::new(KIND, kept.key, body).expires_at(kept.expires_at.unwrap());
    site.app.documents.put_all(vec![draft], site.clock.now()).await.unwrap();
}

/// Simulates a crash of a request of this process, which knows that the request no longer runs.
pub(crate) async fn crash(site: &Site) {
    crash_of(site, |_| {}).await;
}

#[tokio::test]
async fn a_retry_after_a_crash_finds_its_own_messages() {
    for (path, body, messages) in [
        (MESSAGES, json!({"topic": "mail"}), 1),
        (MESSAGES, json!({"topic": "mail", "dedupe": "d", "replace": true}), 1),
        (BATCH, json!({"items": vec![json!({"topic": "mail"}); 30]}), 30),
    ] {
        let site = idle();
        let first = post(&site, path, &body).await;
        assert_eq!(first.status, StatusCode::CREATED, "{}", first.text);
        for rounds in 0..3 {
            crash(&site).await;
            site.clock.advance(Duration::from_secs(60));
            let again = post(&site, path, &body).await;
            assert_eq!((again.status, &again.text), (first.status, &first.text), "{rounds}");
            assert_eq!(again.headers["idempotent-replay"], "true");
            assert_eq!(count(&site).await, messages);
            // The completed request is recorded as well.
            for claimed in claim(&site, "default").await {
                finish(&site, &claimed).await;
            }
        }
        assert!(claim(&site, "default").await.is_empty(), "nothing came a second time");
    }
}

#[tokio::test]
async fn a_batch_keeps_its_order_under_a_key() {
    let site = idle();
    let items: Vec<Value> = (0..200).map(|n| json!({"topic": "mail", "json": n})).collect();
    let sent = post(&site, BATCH, &json!({ "items": items })).await;
    let claimed = claim(&site, "default").await;
    for (place, one) in claimed.iter().enumerate() {
        assert_eq!(sent.json["items"][place]["id"], one.message.id.to_string());
    }
    assert_eq!(claimed.len(), 100);
}

#[tokio::test]
async fn the_request_of_a_dead_process_is_taken_over_immediately_and_of_an_unknown_one_after_its_lease()
 {
    let site = idle();
    let body = json!({"topic": "mail"});
    let first = post(&site, MESSAGES, &body).await;
    let other = site.another();
    // A process of this machine that has exited.
    let ended = |owner: &mut Value| {
        owner["node"] = json!("ended");
        owner["process"]["pid"] = json!(u32::MAX);
    };
    if record(&site).await.body["owner"]["process"].is_object() {
        crash_of(&site, ended).await;
        let again = post(&other, MESSAGES, &body).await;
        assert_eq!((again.status, &again.text), (StatusCode::CREATED, &first.text));
    }
    // A process of another machine, whose state is unknown.
    let elsewhere = |owner: &mut Value| *owner = json!({"node": "elsewhere", "process": null});
    crash_of(&site, elsewhere).await;
    for _ in 0..2 {
        let waiting = post(&other, MESSAGES, &body).await;
        assert_eq!(waiting.status, StatusCode::CONFLICT, "{}", waiting.text);
        assert_eq!(waiting.headers["retry-after"], "1");
        site.clock.advance(Duration::from_secs(5));
    }
    let again = post(&other, MESSAGES, &body).await;
    assert_eq!((again.status, &again.text), (StatusCode::CREATED, &first.text));
    assert_eq!(count(&site).await, 1);
}

#[tokio::test]
async fn a_delay_and_an_instant_count_from_the_first_request() {
    for when in [json!({"delay": "5s"}), json!({"at": "2026-03-01T12:00:05Z"})] {
        let mut body = when;
        body["topic"] = json!("mail");
        let site = idle();
        let first = post(&site, MESSAGES, &body).await;
        crash(&site).await;
        site.clock.advance(Duration::from_secs(3_600));
        let again = post(&site, MESSAGES, &body).await;
        assert_eq!((again.status, &again.text), (first.status, &first.text));
        let claimed = claim(&site, "default").await;
        assert_eq!(claimed[0].due_at, "2026-03-01T12:00:05Z".parse::<Timestamp>().unwrap());
    }
}

#[tokio::test]
async fn a_message_for_a_transport_is_stored_and_sent_once() {
    let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let bus = Arc::new(memory_transport(clock, ProcessId::from_uuid(Uuid::from_u128(3))));
    let site = Site::with(|builder| builder.transport("bus", bus));
    let body = json!({"topic": "orders", "transport": "bus"});
    let first = post(&site, MESSAGES, &body).await;
    assert_eq!(first.status, StatusCode::CREATED, "{}", first.text);
    let relayed = claim_line(&site).await;
    assert_eq!(relayed.len(), 1, "the relay sends it");
    finish(&site, &relayed[0]).await;
    crash(&site).await;
    site.clock.advance(Duration::from_secs(60));
    let again = post(&site, MESSAGES, &body).await;
    assert_eq!((again.status, &again.text), (first.status, &first.text));
    assert!(claim_line(&site).await.is_empty(), "it does not leave a second time");
}

async fn claim_line(site: &Site) -> Vec<punctual::backend::storage::ClaimedMessage> {
    use punctual::backend::storage::Claim;
    use punctual::model::{Queue, TransportName};
    let now = site.clock.now();
    let owner = ProcessId::from_uuid(Uuid::from_u128(7));
    let line = Queue::of_relay(&TransportName::new("bus").unwrap());
    let claim = Claim::new(line, owner, 10, now + Duration::from_secs(60));
    site.app.storage.claim(claim, now).await.unwrap()
}

/// Document store that fails on demand.
struct FailingDocuments {
    inner: Arc<dyn DocumentStore>,
    /// Whether unconditional writes fail, which are those of the audit log.
    notes: AtomicBool,
    /// Whether replacements fail, which are those of recorded responses.
    responses: AtomicBool,
}

fn away() -> Error {
    Error::unavailable("the storage is away")
}

#[async_trait]
impl DocumentStore for FailingDocuments {
    async fn put(
        &self,
        draft: NewDocument,
        seen: ExpectedVersion,
        now: Timestamp,
    ) -> punctual::Result<PutResult> {
        if matches!(seen, ExpectedVersion::Version(_)) && self.responses.load(Ordering::Relaxed) {
            return Err(away());
        }
        self.inner.put(draft, seen, now).await
    }

    async fn put_all(&self, drafts: Vec<NewDocument>, now: Timestamp) -> punctual::Result<()> {
        if self.notes.load(Ordering::Relaxed) {
            return Err(away());
        }
        self.inner.put_all(drafts, now).await
    }

    async fn get(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> punctual::Result<Option<Document>> {
        self.inner.get(kind, key, now).await
    }

    async fn list(
        &self,
        kind: &str,
        range: KeyRange,
        now: Timestamp,
    ) -> punctual::Result<Vec<Document>> {
        self.inner.list(kind, range, now).await
    }

    async fn remove(
        &self,
        kind: &str,
        key: &str,
        seen: ExpectedVersion,
    ) -> punctual::Result<RemoveResult> {
        self.inner.remove(kind, key, seen).await
    }

    async fn expire(&self, limit: usize, now: Timestamp) -> punctual::Result<u64> {
        self.inner.expire(limit, now).await
    }
}

fn failing() -> (Site, Arc<FailingDocuments>) {
    let site = idle();
    let inner = site.app.documents.clone();
    let (notes, responses) = (AtomicBool::new(false), AtomicBool::new(false));
    let failing = Arc::new(FailingDocuments { inner, notes, responses });
    let documents = failing.clone();
    let site = site.changed(|app| App::new(AppParts { documents, ..AppParts::clone(&app) }));
    (site, failing)
}

#[tokio::test]
async fn an_error_after_the_effect_keeps_the_key() {
    let (site, documents) = failing();
    let body = json!({"items": [{"topic": "mail"}, {"topic": "post"}]});
    documents.notes.store(true, Ordering::Relaxed);
    let failed = post(&site, BATCH, &body).await;
    assert_eq!(failed.status, StatusCode::SERVICE_UNAVAILABLE, "{}", failed.text);
    assert_eq!(count(&site).await, 2, "the effect is there");
    let other = post(&site, MESSAGES, &json!({"topic": "mail"})).await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "the key is taken");
    documents.notes.store(false, Ordering::Relaxed);
    // The created messages are in the record; here they are deleted without the API.
    for item in record(&site).await.body["made"].as_array().unwrap() {
        let id = item["id"].as_str().unwrap().parse().unwrap();
        site.app.punctual.admin().delete(id).await.unwrap();
    }
    let again = post(&site, BATCH, &body).await;
    assert_eq!(again.status, StatusCode::CREATED, "at once: {}", again.text);
    assert_eq!(count(&site).await, 0, "nothing is made a second time");
    let replayed = post(&site, BATCH, &body).await;
    assert_eq!(replayed.text, again.text);
}

#[tokio::test]
async fn a_response_is_sent_after_it_is_recorded() {
    let (site, documents) = failing();
    let body = json!({"topic": "mail"});
    documents.responses.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let failed = post(&site, MESSAGES, &body).await;
        assert_eq!(failed.status, StatusCode::SERVICE_UNAVAILABLE, "{}", failed.text);
    }
    documents.responses.store(false, Ordering::Relaxed);
    let again = post(&site, MESSAGES, &body).await;
    assert_eq!(again.status, StatusCode::CREATED, "{}", again.text);
    assert_eq!(count(&site).await, 1);
}

#[tokio::test]
async fn a_refused_repeat_does_not_free_its_key() {
    let site = idle();
    let source = publish(&site, &json!({"topic": "mail"})).await;
    let path = format!("/api/v1/messages/{source}/clone");
    let first = post(&site, &path, &json!({})).await;
    assert_eq!(first.status, StatusCode::CREATED);
    let made = first.json["id"].as_str().unwrap().to_owned();
    for id in [&made, &source] {
        // Not over the API, which records what it deletes.
        site.app.punctual.admin().delete(id.parse().unwrap()).await.unwrap();
    }
    crash(&site).await;
    let refused = post(&site, &path, &json!({})).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND, "{}", refused.text);
    let other = post(&site, MESSAGES, &json!({"topic": "mail"})).await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "the key is still taken");
}
