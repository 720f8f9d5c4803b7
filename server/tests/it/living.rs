//! Servers that run: with the manual clock, moved until something is so; and with the real one, where real
//! sockets are.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use punctual::clock::{Clock, add, within};
use punctual::{Builder, MemoryStorage, Punctual, SystemClock};
use punctual_server::{App, Parts, attend, router};
use serde_json::Value;
use tower::ServiceExt;

use crate::site::Site;

/// Longer than anything here takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// How long it is waited for an event before the answer is asked for again.
const MOMENT: Duration = Duration::from_millis(50);

/// Lets everything that can go on go on.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Starts a server with everything in its background.
pub(crate) async fn start(site: &Site) {
    site.app.punctual.start().await.unwrap();
    tokio::spawn(attend(site.app.clone()));
    settle().await;
}

/// Asks until the answer is as it should be, a second later each time.
pub(crate) async fn until(site: &Site, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = String::new();
    for _ in 0..180 {
        let answered = site.get(path).await;
        if answered.status.is_success() && is_so(&answered.json) {
            return answered.json;
        }
        last = answered.text;
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    panic!("{path} never was as expected; the last answer: {last}");
}

/// A server on the real clock.
pub(crate) struct Living {
    pub(crate) app: App,
    pub(crate) router: Router,
}

impl Living {
    /// Builds and starts one; `change` gets the storage too.
    pub(crate) async fn start(
        change: impl FnOnce(Builder, &Arc<MemoryStorage>) -> Builder,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let builder = Punctual::builder().storage(storage.clone());
        let punctual = Arc::new(change(builder, &storage).build().unwrap());
        punctual.start().await.unwrap();
        let app = App::new(Parts {
            punctual,
            storage: storage.clone(),
            inspect: storage.clone(),
            documents: storage,
            clock,
        });
        tokio::spawn(attend(app.clone()));
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

    /// Asks after every event until the answer is as it should be, and a moment later as well: an event is
    /// told before what it tells of is written down.
    pub(crate) async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut events = self.app.punctual.events().listen();
        let until = add(SystemClock.now(), TIMEOUT);
        loop {
            let answer = self.get(path).await;
            if is_so(&answer) {
                return answer;
            }
            let now = SystemClock.now();
            assert!(now < until, "{path} never was as expected; the last answer: {answer}");
            let _ = within(&SystemClock, add(now, MOMENT), events.recv()).await;
        }
    }
}
