//! Running servers: with the manual clock, and with the real clock where real sockets are used.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use punctual::clock::{Clock, add, within};
use punctual::{Builder, MemoryStorage, Punctual, SystemClock};
use punctual_server::{App, AppParts, router, run_background};
use serde_json::Value;
use tower::ServiceExt;

use crate::site::Site;

/// Timeout that is long enough on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Longest wait for an event before the next request.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Yields until all ready tasks have run.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Starts a server with its background tasks.
pub(crate) async fn start(site: &Site) {
    site.app.punctual.start().await.unwrap();
    tokio::spawn(run_background(site.app.clone()));
    settle().await;
}

/// Repeats a request until the response is as expected, advancing the clock by a second each time.
pub(crate) async fn until(site: &Site, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = String::new();
    for _ in 0..180 {
        let reply = site.get(path).await;
        if reply.status.is_success() && holds(&reply.json) {
            return reply.json;
        }
        last = reply.text;
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    panic!("{path} never was as expected; the last response: {last}");
}

/// Server on the real clock.
pub(crate) struct LiveServer {
    pub(crate) app: App,
    pub(crate) router: Router,
}

impl LiveServer {
    /// Builds and starts a server; `change` gets the storage too.
    pub(crate) async fn start(
        change: impl FnOnce(Builder, &Arc<MemoryStorage>) -> Builder,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let builder = Punctual::builder().storage(storage.clone());
        let punctual = Arc::new(change(builder, &storage).build().unwrap());
        punctual.start().await.unwrap();
        let app = App::new(AppParts {
            punctual,
            storage: storage.clone(),
            inspect: storage.clone(),
            documents: storage,
            clock,
        });
        tokio::spawn(run_background(app.clone()));
        let router = router(app.clone());
        Self { app, router }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(CONTENT_TYPE, "application/json");
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).await.1
    }

    /// Repeats a request after every event until the response is as expected. It also repeats after an interval,
    /// because an event is sent before its change is stored.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut events = self.app.punctual.events().listen();
        let until = add(SystemClock.now(), TIMEOUT);
        loop {
            let response = self.get(path).await;
            if holds(&response) {
                return response;
            }
            let now = SystemClock.now();
            assert!(now < until, "{path} never was as expected; the last response: {response}");
            let _ = within(&SystemClock, add(now, CHECK_INTERVAL), events.recv()).await;
        }
    }
}
