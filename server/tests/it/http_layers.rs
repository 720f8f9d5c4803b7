//! HTTP layers of every request: problem documents, limits and security headers.

use axum::body::Body;
use axum::http::{Request, StatusCode};

use crate::site::Site;

#[tokio::test]
async fn unknown_routes_and_methods_are_problem_documents() {
    let site = Site::with(|builder| builder);
    for (method, path, status) in [
        ("GET", "/api/v1/nothing", StatusCode::NOT_FOUND),
        ("POST", "/api/v1/calendar", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let response = site.call(method, path, &serde_json::json!({})).await;
        assert_eq!(response.status, status, "{method} {path}: {}", response.text);
        assert_eq!(response.json["status"], status.as_u16(), "{}", response.text);
    }
}

#[tokio::test]
async fn a_huge_body_is_refused_and_security_headers_are_set() {
    let site = Site::with(|builder| builder);
    let body = format!("{{\"topic\":\"x\",\"text\":\"{}\"}}", "x".repeat(2 << 20));
    let request = Request::post("/api/v1/messages").header("content-type", "application/json");
    let response = site.send(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE, "{}", response.text);
    let page = site.get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for name in ["x-content-type-options", "x-frame-options", "referrer-policy"] {
        assert!(page.headers.contains_key(name), "{name}");
    }
    let response = site.get("/api/v1/jobs").await;
    assert!(response.headers.contains_key("content-security-policy"));
}
