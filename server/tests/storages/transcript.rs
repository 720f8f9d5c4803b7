//! Transcript of requests and responses, so that two storages can be compared. The clock is manual, and random values
//! are replaced by numbers in the order of their first occurrence.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use punctual::ManualClock;
use punctual_backends::OpenedStorage;
use punctual_server::{App, router};
use serde_json::Value;
use tower::ServiceExt;

use crate::clocked::ClockedStorage;
use crate::test_storage::{TestStorage, app};

/// Lengths of an id in characters, with dashes and without.
const ID_LENS: [usize; 2] = [36, 32];

/// A server and the record of its requests and responses.
pub(crate) struct Transcript {
    pub(crate) app: App,
    pub(crate) clock: Arc<ManualClock>,
    opened: OpenedStorage,
    router: Router,
    lines: Vec<String>,
    known: HashMap<String, usize>,
}

/// A response.
pub(crate) struct TestResponse {
    pub(crate) headers: HeaderMap,
    pub(crate) json: Value,
}

impl Transcript {
    pub(crate) async fn on(test_storage: &TestStorage) -> Self {
        let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
        let mut opened = test_storage.open().await;
        opened.storage = Arc::new(ClockedStorage { storage: opened.storage, clock: clock.clone() });
        let app =
            app(&opened, clock.clone(), |builder| builder.queue("slow", 4).only_named_queues());
        let router = router(app.clone());
        Self { app, clock, opened, router, lines: Vec::new(), known: HashMap::new() }
    }

    pub(crate) fn later(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Sends a request, checks its status and records the response.
    pub(crate) async fn ask(&mut self, what: &str, body: Value, status: u16) -> Value {
        self.ask_with(what, &[], body, status).await.json
    }

    /// Sends a GET request and records the response.
    pub(crate) async fn get(&mut self, path: &str) -> Value {
        self.ask(&format!("GET {path}"), Value::Null, 200).await
    }

    /// Sends a request with headers and records the response.
    pub(crate) async fn ask_with(
        &mut self,
        what: &str,
        headers: &[(&str, &str)],
        body: Value,
        status: u16,
    ) -> TestResponse {
        let (method, path) = what.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let content = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.header("content-type", "application/json");
        let response =
            self.router.clone().oneshot(request.body(Body::from(content)).unwrap()).await.unwrap();
        let (found, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut json: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        assert_eq!(found, status, "{what} {body}: {}", String::from_utf8_lossy(&bytes));
        let received = json.clone();
        // Secrets are random.
        if let Some(secret) = json.get_mut("secret") {
            *secret = Value::from("(secret)");
        }
        let line = format!("{what} {body}\n{found} {json:#}");
        let line = self.named(&line);
        self.lines.push(line);
        TestResponse { headers, json: received }
    }

    /// Returns a text with every id replaced by a number.
    fn named(&mut self, text: &str) -> String {
        let mut named = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let mut parts = ID_LENS.iter().filter_map(|length| rest.get(..*length));
            let id = parts.find(|part| uuid::Uuid::parse_str(part).is_ok());
            if let Some(id) = id {
                let next = self.known.len() + 1;
                let number = *self.known.entry(id.to_owned()).or_insert(next);
                let _ = write!(named, "(id {number})");
                rest = &rest[id.len()..];
            } else {
                named.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        named
    }

    /// Closes the storage and returns the record.
    pub(crate) async fn end(self) -> Vec<String> {
        drop((self.app, self.router));
        self.opened.close().await.unwrap();
        self.lines
    }
}
