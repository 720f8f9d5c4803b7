//! Mounted dashboard: the router inside an application.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::routing::get;
use http_body_util::BodyExt;
use punctual::{ManualClock, MemoryStorage, Punctual};
use punctual_server::{Access, Caller, Role, dashboard};
use tower::ServiceExt;

/// Returns an application with its own page and the dashboard.
fn application(access: Access) -> Router {
    let clock = Arc::new(ManualClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    let builder = Punctual::builder()
        .storage(storage.clone())
        .clock(clock)
        .queue("mail", 2)
        .only_named_queues();
    let punctual = Arc::new(builder.build().unwrap());
    Router::new()
        .route("/", get(async || "the shop"))
        .nest_service("/ops/punctual", dashboard(&punctual, &storage, access))
}

async fn ask(
    router: &Router,
    method: Method,
    path: &str,
    user: Option<&str>,
) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path).header("host", "shop.example");
    if let Some(user) = user {
        request = request.header("x-user", user);
    }
    let request =
        request.header("content-type", "application/json").body(Body::from("{}")).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

async fn get_status(router: &Router, path: &str, user: Option<&str>) -> (StatusCode, String) {
    ask(router, Method::GET, path, user).await
}

#[tokio::test]
async fn the_mounted_router_serves_only_its_prefix() {
    let router = application(Access::read_only());
    assert_eq!(get_status(&router, "/", None).await.1, "the shop");
    let (status, page) = get_status(&router, "/ops/punctual/", None).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("<!doctype html>"), "{page}");
    assert!(!page.contains("=\"/"), "a path of the page does not know of the prefix: {page}");
    assert_eq!(get_status(&router, "/ops/punctual", None).await.0, StatusCode::TEMPORARY_REDIRECT);
    for path in ["app.js", "lib/cli_commands.js", "api/v1/overview", "api/v1/jobs", "index.html"] {
        let (status, text) = get_status(&router, &format!("/ops/punctual/{path}"), None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
    }
    assert_eq!(get_status(&router, "/ops/punctual/nowhere", None).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn read_only_access_reads_and_changes_nothing() {
    let router = application(Access::read_only());
    let pause = "/ops/punctual/api/v1/queues/mail/resume";
    let (status, text) = ask(&router, Method::POST, pause, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(text.contains("this needs the role operator"), "{text}");
}

#[tokio::test]
async fn the_application_provides_the_caller() {
    let router = application(Access::by(|request| {
        let user = request.headers.get("x-user")?.to_str().ok()?;
        Some(Caller::new(user, if user == "ada" { Role::Admin } else { Role::Viewer }))
    }));
    let session = "/ops/punctual/api/v1/session";
    let (status, text) = get_status(&router, session, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    let (status, text) = get_status(&router, session, Some("ada")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(text.contains("ada") && text.contains("admin"), "{text}");
    let resume = "/ops/punctual/api/v1/queues/mail/resume";
    assert_eq!(ask(&router, Method::POST, resume, Some("bob")).await.0, StatusCode::FORBIDDEN);
    let (status, text) = ask(&router, Method::POST, resume, Some("ada")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
}
