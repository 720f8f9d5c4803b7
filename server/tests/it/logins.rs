//! Logins: password guesses are throttled by their source, also in parallel, without locking others out; they are
//! counted and audited. (Findings F6, F10 and F13 of the security review.)

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{Request, StatusCode};
use base64::Engine;
use futures_util::future::join_all;
use punctual_server::config::Networks;
use punctual_server::{AuthSettings, Mode, Role};
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};
use crate::work::idle;

const PASSWORD: &str = "correct horse battery";
const WRONG: &str = "wrong horse battery";
const PROXY: [u8; 4] = [10, 0, 0, 1];

/// Starts a server with these users behind a trusted proxy.
async fn site(names: &[&str]) -> Site {
    let forwarders = Networks::read(vec!["10.0.0.0/8".to_owned()]).unwrap();
    let mode = Mode::Password;
    let settings = AuthSettings { mode, forwarders, ..AuthSettings::default() };
    let site = idle().changed(|app| app.authenticating(settings));
    for name in names {
        let user = json!({ "name": name, "role": "admin", "password": PASSWORD });
        let made = site.as_role(Role::Admin).post("/api/v1/users", &user).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    }
    site
}

/// Sends a request from an address, with headers.
async fn from(
    site: &Site,
    address: [u8; 4],
    headers: &[(&str, &str)],
    (method, path, body): (&str, &str, &Value),
) -> TestResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    let mut request = request.body(Body::from(body.to_string())).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 4_711))));
    site.send(request).await
}

async fn log_in(site: &Site, address: [u8; 4], name: &str, password: &str) -> TestResponse {
    log_in_with(site, address, &[], (name, password)).await
}

async fn log_in_with(
    site: &Site,
    address: [u8; 4],
    headers: &[(&str, &str)],
    (name, password): (&str, &str),
) -> TestResponse {
    let login = json!({ "name": name, "password": password });
    from(site, address, headers, ("POST", "/api/v1/session", &login)).await
}

/// Sends a call with basic authentication through the proxy.
async fn basic(site: &Site, caller: &str, name: &str, password: &str) -> u16 {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
    let basic = format!("Basic {pair}");
    let headers = [(AUTHORIZATION.as_str(), basic.as_str()), ("x-forwarded-for", caller)];
    from(site, PROXY, &headers, ("GET", "/api/v1/jobs", &Value::Null)).await.status.as_u16()
}

fn count(responses: &[TestResponse], status: StatusCode) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}

async fn metric(site: &Site, result: &str) -> u64 {
    let text = site.as_role(Role::Viewer).get("/metrics").await.text;
    let line = format!("punctual_logins_total{{result=\"{result}\"}} ");
    let found = text.lines().find_map(|one| one.strip_prefix(line.as_str()));
    found.unwrap_or_else(|| panic!("no {line:?} in\n{text}")).parse().unwrap()
}

// spec: C-6
#[tokio::test]
async fn an_address_that_tries_many_names_is_throttled() {
    let site = site(&[]).await;
    let mut responses = Vec::new();
    for number in 0..30 {
        responses.push(log_in(&site, [192, 0, 2, 7], &format!("user{number}"), WRONG).await);
    }
    assert_eq!(count(&responses, StatusCode::UNAUTHORIZED), 20);
    assert_eq!(count(&responses, StatusCode::TOO_MANY_REQUESTS), 10);
    let elsewhere = log_in(&site, [192, 0, 2, 8], "user1", WRONG).await;
    assert_eq!(elsewhere.status, StatusCode::UNAUTHORIZED, "{}", elsewhere.text);
}

// spec: C-6
#[tokio::test]
async fn of_a_hundred_concurrent_guesses_only_a_few_are_checked() {
    let site = site(&["ada", "bob"]).await;
    let guesses = (0..100).map(|_| log_in(&site, [192, 0, 2, 7], "ada", WRONG));
    let responses = join_all(guesses).await;
    assert_eq!(count(&responses, StatusCode::UNAUTHORIZED), 5, "only these were hashed");
    assert_eq!(count(&responses, StatusCode::TOO_MANY_REQUESTS), 95);
    let refused = responses.iter().find(|one| one.status == StatusCode::TOO_MANY_REQUESTS).unwrap();
    assert!(refused.headers.contains_key("retry-after"), "{}", refused.text);
    // Many concurrent requests with the right password succeed.
    let right = (0..10).map(|_| log_in(&site, [192, 0, 2, 8], "bob", PASSWORD));
    assert_eq!(count(&join_all(right).await, StatusCode::OK), 10);
}

// spec: C-6
#[tokio::test]
async fn a_distributed_flood_of_guesses_keeps_the_queue_short() {
    let site = site(&["ada"]).await;
    let guesses = (0..200_u8).map(|last| log_in(&site, [192, 0, 2, last], "eve", WRONG));
    let responses = join_all(guesses).await;
    let (looked_at, busy) = (
        count(&responses, StatusCode::UNAUTHORIZED),
        count(&responses, StatusCode::SERVICE_UNAVAILABLE),
    );
    assert_eq!(looked_at + busy, 200);
    assert!(looked_at < 100, "what waits is bounded, not {looked_at}");
    let refused = responses.iter().find(|one| one.status == StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.unwrap().headers["retry-after"], "1");
    assert_eq!(metric(&site, "busy").await, busy as u64);
}

// spec: C-6
#[tokio::test]
async fn guesses_of_others_do_not_lock_a_user_out() {
    let site = site(&["ada"]).await;
    // Three networks are blocked.
    for last in 1..4 {
        for _ in 0..8 {
            log_in(&site, [198, 51, 100, last], "ada", WRONG).await;
        }
    }
    let walled = log_in(&site, [198, 51, 100, 1], "ada", PASSWORD).await;
    assert_eq!(walled.status, StatusCode::TOO_MANY_REQUESTS, "{}", walled.text);
    let right = log_in(&site, [192, 0, 2, 7], "ada", PASSWORD).await;
    assert_eq!(right.status, StatusCode::OK, "{}", right.text);
    // Guesses from many addresses delay the name by a second at most.
    for last in 10..15 {
        log_in(&site, [198, 51, 100, last], "ada", WRONG).await;
    }
    let delayed = log_in(&site, [192, 0, 2, 8], "ada", PASSWORD);
    let mut delayed = std::pin::pin!(delayed);
    assert!(futures_util::poll!(&mut delayed).is_pending());
    site.clock.advance(std::time::Duration::from_secs(1));
    let right = delayed.await;
    assert_eq!(right.status, StatusCode::OK, "{}", right.text);
}

// spec: C-6
#[tokio::test]
async fn a_known_browser_is_not_throttled_by_the_guesses_of_others() {
    let site = site(&["ada", "bob"]).await;
    let address = [192, 0, 2, 7];
    let first = log_in(&site, address, "ada", PASSWORD).await;
    let cookies: Vec<&str> =
        first.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap()).collect();
    let browser = cookies.iter().find(|cookie| cookie.starts_with("punctual_browser=")).unwrap();
    assert!(browser.contains("HttpOnly") && browser.contains("SameSite=Strict"), "{browser}");
    let browser = [(COOKIE.as_str(), browser.split(';').next().unwrap())];
    // Another client guesses from the same address until it is blocked.
    for number in 0..40 {
        log_in(&site, address, &format!("user{}", number / 4), WRONG).await;
        log_in(&site, address, "ada", WRONG).await;
    }
    assert_eq!(log_in(&site, address, "ada", PASSWORD).await.status, 429);
    let known = log_in_with(&site, address, &browser, ("ada", PASSWORD)).await;
    assert_eq!(known.status, StatusCode::OK, "{}", known.text);
    // The cookie does not authenticate, applies to ada only, and its own guesses are throttled.
    let other = log_in_with(&site, address, &browser, ("bob", PASSWORD)).await;
    assert_eq!(other.status, StatusCode::TOO_MANY_REQUESTS, "{}", other.text);
    let jobs = from(&site, address, &browser, ("GET", "/api/v1/jobs", &Value::Null)).await;
    assert_eq!(jobs.status, StatusCode::UNAUTHORIZED, "{}", jobs.text);
    for status in [401, 401, 401, 401, 401, 429] {
        let guess = log_in_with(&site, address, &browser, ("ada", WRONG)).await;
        assert_eq!(guess.status.as_u16(), status, "{}", guess.text);
    }
}

// spec: C-6
#[tokio::test]
async fn guesses_behind_a_trusted_forwarder_do_not_lock_others() {
    let site = site(&["ada"]).await;
    for number in 0..30 {
        basic(&site, "192.0.2.7", &format!("user{number}"), WRONG).await;
    }
    assert_eq!(basic(&site, "192.0.2.7", "ada", PASSWORD).await, 429, "it is slowed itself");
    assert_eq!(basic(&site, "192.0.2.8", "ada", PASSWORD).await, 200);
    // Addresses that the caller sends before the one of the forwarder are ignored.
    assert_eq!(basic(&site, "192.0.2.99, 192.0.2.7", "ada", PASSWORD).await, 429);
}

// spec: C-6
#[tokio::test]
async fn a_success_clears_its_name_from_its_address_and_not_the_address() {
    let site = site(&["ada"]).await;
    let address = [192, 0, 2, 7];
    for _ in 0..4 {
        assert_eq!(log_in(&site, address, "ada", WRONG).await.status, 401);
    }
    for number in 0..15 {
        log_in(&site, address, &format!("user{number}"), WRONG).await;
    }
    assert_eq!(log_in(&site, address, "ada", PASSWORD).await.status, 200);
    // One more from this address is the twentieth.
    assert_eq!(log_in(&site, address, "ada", WRONG).await.status, 401);
    assert_eq!(log_in(&site, address, "ada", WRONG).await.status, 429);
}

// spec: C-6
#[tokio::test]
async fn logins_refusals_and_logouts_are_audited_and_counted() {
    let site = site(&["ada"]).await;
    let forwarded = [("x-forwarded-for", "192.0.2.7")];
    for _ in 0..6 {
        log_in_with(&site, PROXY, &forwarded, ("ada", WRONG)).await;
    }
    let session = log_in_with(&site, PROXY, &[("x-forwarded-for", "192.0.2.8")], ("ada", PASSWORD));
    let session = session.await;
    assert_eq!(session.status, StatusCode::OK, "{}", session.text);
    let cookie = session.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap();
    let csrf = session.json["csrf"].as_str().unwrap();
    let out = [(COOKIE.as_str(), cookie), ("x-csrf-token", csrf)];
    from(&site, PROXY, &out, ("DELETE", "/api/v1/session", &Value::Null)).await;
    let trail = site.as_role(Role::Admin).get("/api/v1/audit?what=session").await;
    let items: Vec<(&str, &str, &Value)> = trail.json["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            (item["what"].as_str().unwrap(), item["target"].as_str().unwrap(), &item["from"])
        })
        .collect();
    assert_eq!(
        items,
        [
            ("session.end", "ada", &json!("10.0.0.1")),
            ("session.begin", "ada", &json!("192.0.2.8")),
            ("session.refuse", "ada", &json!("192.0.2.7")),
        ],
        "the other five are counted, and written after a minute"
    );
    assert_eq!(metric(&site, "wrong").await, 5);
    assert_eq!(metric(&site, "throttled").await, 1);
    assert_eq!(metric(&site, "accepted").await, 1);
}
