//! Site: a server without a socket, whose requests go straight into the router.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use punctual::{Builder, ManualClock, MemoryStorage, Punctual};
use punctual_server::{App, AppParts, Caller, Role, router};
use serde_json::Value;
use tower::ServiceExt;

/// A server and its clock.
pub(crate) struct Site {
    pub(crate) app: App,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) router: Router,
    pub(crate) role: Option<Role>,
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) json: Value,
    pub(crate) text: String,
}

impl Site {
    /// Builds a server without starting it.
    pub(crate) fn with(change: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
        let storage = Arc::new(MemoryStorage::new(clock.clone()));
        let builder = Punctual::builder().storage(storage.clone()).clock(clock.clone());
        let punctual = Arc::new(change(builder).build().unwrap());
        let parts = AppParts {
            punctual,
            storage: storage.clone(),
            inspect: storage.clone(),
            documents: storage,
            clock: clock.clone(),
        };
        let app = App::new(parts);
        let router = router(app.clone());
        Self { app, clock, router, role: None }
    }

    /// Returns the same server, called with a role.
    pub(crate) fn as_role(&self, role: Role) -> Self {
        let (app, clock, router) = (self.app.clone(), self.clock.clone(), self.router.clone());
        Self { app, clock, router, role: Some(role) }
    }

    /// Returns the same server with a changed application.
    pub(crate) fn changed(self, change: impl FnOnce(App) -> App) -> Self {
        let app = change(self.app);
        let router = router(app.clone());
        Self { app, router, ..self }
    }

    /// Builds another node on the same storage.
    pub(crate) fn another(&self) -> Self {
        let (app, clock) = (&self.app, self.clock.clone());
        let builder = Punctual::builder().stores(app.storage.clone(), app.inspect.clone());
        let punctual = Arc::new(builder.clock(clock.clone()).build().unwrap());
        let app = App::new(AppParts { punctual, ..AppParts::clone(app) });
        let router = router(app.clone());
        Self { app, clock, router, role: None }
    }

    /// Sends a request and returns the unread response, for streams.
    pub(crate) async fn raw(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(&self, mut request: Request<Body>) -> TestResponse {
        if let Some(role) = self.role {
            let name = role.to_string();
            request.extensions_mut().insert(Caller::new(name, role));
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        TestResponse { status, headers, json, text }
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.call("POST", path, body).await
    }
}
