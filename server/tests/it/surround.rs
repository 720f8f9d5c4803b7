//! What surrounds every request.

use axum::body::Body;
use axum::http::{Request, StatusCode};

use crate::site::Site;

#[tokio::test]
async fn what_is_not_there_or_not_possible_is_a_problem_document() {
    let site = Site::with(|builder| builder);
    for (method, path, status) in [
        ("GET", "/api/v1/nothing", StatusCode::NOT_FOUND),
        ("POST", "/api/v1/calendar", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let answered = site.call(method, path, &serde_json::json!({})).await;
        assert_eq!(answered.status, status, "{method} {path}: {}", answered.text);
        assert_eq!(answered.json["status"], status.as_u16(), "{}", answered.text);
    }
}

#[tokio::test]
async fn a_huge_body_is_refused_and_a_browser_is_protected() {
    let site = Site::with(|builder| builder);
    let body = format!("{{\"topic\":\"x\",\"text\":\"{}\"}}", "x".repeat(2 << 20));
    let request = Request::post("/api/v1/messages").header("content-type", "application/json");
    let answered = site.send(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(answered.status, StatusCode::PAYLOAD_TOO_LARGE, "{}", answered.text);
    let page = site.get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for name in ["x-content-type-options", "x-frame-options", "referrer-policy"] {
        assert!(page.headers.contains_key(name), "{name}");
    }
    let answered = site.get("/api/v1/jobs").await;
    assert!(answered.headers.contains_key("content-security-policy"));
}
