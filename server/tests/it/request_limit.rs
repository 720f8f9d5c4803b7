//! Request limit: the number of concurrent requests of one caller. (Finding F17 of the security review.)

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::poll;
use futures_util::stream::pending;
use http_body_util::BodyExt as _;
use punctual_server::config::{ConnectionsConfig, Networks};
use punctual_server::{AuthSettings, Caller, Mode, Role};
use serde_json::{Value, json};

use crate::site::Site;
use crate::work::idle;

/// Starts a server with a limit of two concurrent requests per caller.
fn limited() -> Site {
    let exempt = Networks::read(vec!["127.0.0.1".to_owned()]).unwrap();
    let limits =
        ConnectionsConfig { requests_per_caller: 2, exempt, ..ConnectionsConfig::default() };
    idle().changed(|app| app.limiting_requests(&limits))
}

fn closed() -> Site {
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    limited().changed(|app| app.authenticating(settings))
}

/// Caller of a request.
#[derive(Clone, Copy)]
enum From<'a> {
    /// A caller whom the mounting application has authenticated.
    Known(&'a str),
    /// A caller with an authorization header.
    Credentials(&'a str),
    /// An anonymous caller from this address.
    Address([u8; 4]),
}

fn request(from: From<'_>, method: &str, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(CONTENT_TYPE, "application/json");
    let mut request = request.body(body).unwrap();
    match from {
        From::Known(name) => {
            let caller = Caller::new(name, Role::Admin).working_on(["*"]);
            request.extensions_mut().insert(caller);
        }
        From::Credentials(credentials) => {
            request.headers_mut().insert(AUTHORIZATION, credentials.parse().unwrap());
        }
        From::Address(address) => {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 4_711))));
        }
    }
    request
}

/// Starts a request whose body is never sent.
async fn start_request<'a>(
    site: &'a Site,
    from: From<'_>,
    path: &str,
) -> Pin<Box<dyn Future<Output = Response> + 'a>> {
    let body = Body::from_stream(pending::<Result<Bytes, Infallible>>());
    let mut held: Pin<Box<dyn Future<Output = Response> + 'a>> =
        Box::pin(site.raw(request(from, "POST", path, body)));
    assert!(poll!(&mut held).is_pending());
    held
}

async fn ask(
    site: &Site,
    from: From<'_>,
    (method, path, body): (&str, &str, Value),
) -> (StatusCode, HeaderMap, Response) {
    let response = site.raw(request(from, method, path, Body::from(body.to_string()))).await;
    (response.status(), response.headers().clone(), response)
}

async fn get_status(site: &Site, from: From<'_>) -> StatusCode {
    ask(site, from, ("GET", "/api/v1/jobs", Value::Null)).await.0
}

// spec: C-6
#[tokio::test]
async fn a_caller_has_a_limit_of_concurrent_requests() {
    let site = limited();
    let greedy = From::Known("greedy");
    let first = start_request(&site, greedy, "/api/v1/messages").await;
    let _second = start_request(&site, greedy, "/api/v1/messages").await;
    let (status, headers, response) =
        ask(&site, greedy, ("GET", "/api/v1/jobs", Value::Null)).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(headers[RETRY_AFTER], "1");
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("server.connections.requests_per_caller"), "{text}");
    assert_eq!(
        get_status(&site, From::Known("ada")).await,
        StatusCode::OK,
        "there is room for others"
    );
    drop(first);
    assert_eq!(get_status(&site, greedy).await, StatusCode::OK, "one has ended");
    let metrics = site.get("/metrics").await.text;
    assert!(metrics.contains("punctual_http_requests_refused_total 1"), "{metrics}");
}

// spec: C-6
#[tokio::test]
async fn health_streams_and_claims_are_not_counted() {
    let site = limited();
    let greedy = From::Known("greedy");
    let mut streams = Vec::new();
    for _ in 0..3 {
        let (status, _, stream) = ask(&site, greedy, ("GET", "/api/v1/events", Value::Null)).await;
        assert_eq!(status, StatusCode::OK);
        streams.push(stream);
    }
    let _held = [
        start_request(&site, greedy, "/api/v1/messages").await,
        start_request(&site, greedy, "/api/v1/messages").await,
    ];
    assert_eq!(get_status(&site, greedy).await, StatusCode::TOO_MANY_REQUESTS);
    let claim = json!({ "worker": "mine", "queue": "default" });
    for call in [
        ("GET", "/api/v1/health", Value::Null),
        ("GET", "/health/live", Value::Null),
        ("GET", "/api/v1/events", Value::Null),
        ("POST", "/api/v1/work/claim", claim),
    ] {
        let path = call.1;
        assert_ne!(ask(&site, greedy, call).await.0, StatusCode::TOO_MANY_REQUESTS, "{path}");
    }
}

// spec: C-6
#[tokio::test]
async fn tokens_of_one_owner_are_counted_together() {
    let site = closed();
    let admin = site.as_role(Role::Admin);
    let mut bearers = Vec::new();
    for name in ["greedy", "ada"] {
        let user = json!({ "name": name, "role": "operator", "password": "correct horse battery" });
        assert_eq!(admin.post("/api/v1/users", &user).await.status, StatusCode::CREATED);
        let login = json!({ "name": name, "password": "correct horse battery" });
        let session = site.post("/api/v1/session", &login).await;
        let cookie = session.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
        for _ in 0..2 {
            let token_request = json!({ "name": "ci", "scopes": ["operate"] }).to_string();
            let request = Request::post("/api/v1/tokens").header(CONTENT_TYPE, "application/json");
            let request = request.header("cookie", cookie);
            let request = request.header("x-csrf-token", session.json["csrf"].as_str().unwrap());
            let made = site.send(request.body(Body::from(token_request)).unwrap()).await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
            bearers.push(format!("Bearer {}", made.json["secret"].as_str().unwrap()));
        }
    }
    let _first = start_request(&site, From::Credentials(&bearers[0]), "/api/v1/messages").await;
    let _second = start_request(&site, From::Credentials(&bearers[1]), "/api/v1/messages").await;
    for bearer in &bearers[..2] {
        assert_eq!(
            get_status(&site, From::Credentials(bearer)).await,
            StatusCode::TOO_MANY_REQUESTS
        );
    }
    assert_eq!(
        get_status(&site, From::Credentials(&bearers[2])).await,
        StatusCode::OK,
        "another owner"
    );
}

// spec: C-6
#[tokio::test]
async fn anonymous_callers_are_counted_by_address() {
    let site = closed();
    let (greedy, other) = (From::Address([192, 0, 2, 1]), From::Address([192, 0, 2, 2]));
    let _first = start_request(&site, greedy, "/api/v1/session").await;
    let _second = start_request(&site, greedy, "/api/v1/session").await;
    assert_eq!(get_status(&site, greedy).await, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        get_status(&site, other).await,
        StatusCode::UNAUTHORIZED,
        "there is room for others"
    );
    // Before credentials are checked, so also with invalid ones.
    let mut guess = request(greedy, "GET", "/api/v1/jobs", Body::empty());
    guess.headers_mut().insert(AUTHORIZATION, "Bearer pct_0_0".parse().unwrap());
    assert_eq!(site.raw(guess).await.status(), StatusCode::TOO_MANY_REQUESTS);
    // Many callers share the address of a proxy.
    let proxy = From::Address([127, 0, 0, 1]);
    let _held = [
        start_request(&site, proxy, "/api/v1/session").await,
        start_request(&site, proxy, "/api/v1/session").await,
    ];
    assert_eq!(get_status(&site, proxy).await, StatusCode::UNAUTHORIZED);
}
