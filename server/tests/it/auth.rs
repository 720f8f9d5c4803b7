//! Authentication: logins, sessions, roles, tokens and the protection of browsers.

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{Request, StatusCode};
use jiff::ToSpan;
use punctual::{Job, Occurrence};
use punctual_server::{AuthSettings, Mode, Role};
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};

const PASSWORD: &str = "correct horse battery";

/// Starts a server with password authentication, an admin `ada` and a viewer `bob`.
async fn site() -> Site {
    let nightly = |_: Occurrence| async {};
    let site = Site::with(|builder| builder.job(Job::cron("nightly", "0 2 * * *"), nightly));
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    let site = site.changed(|app| app.authenticating(settings));
    let admin = site.as_role(Role::Admin);
    for (name, role) in [("ada", "admin"), ("bob", "viewer")] {
        let user = json!({ "name": name, "role": role, "password": PASSWORD });
        let response = admin.post("/api/v1/users", &user).await;
        assert_eq!(response.status, StatusCode::CREATED, "{}", response.text);
    }
    site
}

async fn log_in(site: &Site, name: &str, password: &str) -> TestResponse {
    site.post("/api/v1/session", &json!({ "name": name, "password": password })).await
}

/// Logs a user in and returns the cookie and the CSRF token.
async fn session(site: &Site, name: &str) -> (String, String) {
    let response = log_in(site, name, PASSWORD).await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text);
    let cookie = response.headers[SET_COOKIE].to_str().unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (cookie, response.json["csrf"].as_str().unwrap().to_owned())
}

async fn with(site: &Site, method: &str, path: &str, headers: &[(&str, &str)]) -> TestResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    site.send(request.body(Body::from("{}")).unwrap()).await
}

// spec: C-6, T-56
#[tokio::test]
async fn a_request_without_credentials_is_refused() {
    let site = site().await;
    let response = site.get("/api/v1/jobs").await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
    assert_eq!(response.headers[CONTENT_TYPE], "application/problem+json");
    let response = site.get("/api/v1/session").await;
    assert_eq!(response.json["authenticated"], false);
    assert_eq!(response.json["auth"], "password");
    let (wrong, unknown) = (
        log_in(&site, "ada", "wrong password").await,
        log_in(&site, "eve", "wrong password").await,
    );
    assert_eq!(
        (wrong.status, unknown.status),
        (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED)
    );
    assert_eq!(wrong.json["detail"], unknown.json["detail"]);
}

// spec: C-6
#[tokio::test]
async fn a_cookie_reads_and_changes_only_with_the_token_of_the_page() {
    let site = site().await;
    let (cookie, csrf) = session(&site, "ada").await;
    let cookie = (COOKIE.as_str(), cookie.as_str());
    assert_eq!(with(&site, "GET", "/api/v1/jobs", &[cookie]).await.status, StatusCode::OK);
    let pause = "/api/v1/jobs/nightly/resume";
    let refused = with(&site, "POST", pause, &[cookie]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert!(refused.text.contains("X-CSRF-Token"), "{}", refused.text);
    let wrong = with(&site, "POST", pause, &[cookie, ("x-csrf-token", "guess")]).await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    let foreign = [cookie, ("x-csrf-token", csrf.as_str()), ("sec-fetch-site", "cross-site")];
    assert_eq!(with(&site, "POST", pause, &foreign).await.status, StatusCode::FORBIDDEN);
    let shown = with(&site, "GET", "/api/v1/session", &[cookie]).await;
    assert_eq!(shown.json["csrf"], csrf);
    assert_eq!(shown.json["user"], json!({ "name": "ada", "role": "admin" }));
}

// spec: C-6
#[tokio::test]
async fn an_unused_session_expires_and_a_used_one_is_renewed() {
    let site = site().await;
    let (cookie, _) = session(&site, "ada").await;
    let cookie = [(COOKIE.as_str(), cookie.as_str())];
    for _ in 0..4 {
        site.clock.set(site.clock.now() + 8.hours());
        assert_eq!(with(&site, "GET", "/api/v1/jobs", &cookie).await.status, StatusCode::OK);
    }
    site.clock.set(site.clock.now() + 13.hours());
    let response = with(&site, "GET", "/api/v1/jobs", &cookie).await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
}

// spec: C-6
#[tokio::test]
async fn logging_out_and_every_change_of_rights_end_sessions() {
    let site = site().await;
    let admin = site.as_role(Role::Admin);
    let other = json!({ "name": "eve", "role": "admin", "password": PASSWORD });
    admin.post("/api/v1/users", &other).await;
    let (cookie, csrf) = session(&site, "ada").await;
    let headers = [(COOKIE.as_str(), cookie.as_str()), ("x-csrf-token", csrf.as_str())];
    let out = with(&site, "DELETE", "/api/v1/session", &headers).await;
    assert_eq!(out.status, StatusCode::NO_CONTENT);
    assert_eq!(with(&site, "GET", "/api/v1/jobs", &headers).await.status, StatusCode::UNAUTHORIZED);
    for change in [
        json!({ "role": "operator" }),
        json!({ "password": "another long password" }),
        json!({ "disabled": true }),
    ] {
        let reset = json!({ "password": PASSWORD, "disabled": false });
        admin.call("PATCH", "/api/v1/users/ada", &reset).await;
        let (cookie, _) = session(&site, "ada").await;
        let headers = [(COOKIE.as_str(), cookie.as_str())];
        assert_eq!(with(&site, "GET", "/api/v1/jobs", &headers).await.status, StatusCode::OK);
        admin.call("PATCH", "/api/v1/users/ada", &change).await;
        let response = with(&site, "GET", "/api/v1/jobs", &headers).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{change}");
    }
    assert_eq!(log_in(&site, "ada", PASSWORD).await.status, StatusCode::UNAUTHORIZED);
}

// spec: C-6
#[tokio::test]
async fn password_guesses_are_throttled() {
    let site = site().await;
    for _ in 0..5 {
        assert_eq!(log_in(&site, "ada", "wrong password").await.status, StatusCode::UNAUTHORIZED);
    }
    let response = log_in(&site, "ada", PASSWORD).await;
    assert_eq!(response.status, StatusCode::TOO_MANY_REQUESTS, "{}", response.text);
    assert_eq!(response.headers["retry-after"], "1");
    site.clock.set(site.clock.now() + 1.second());
    assert_eq!(log_in(&site, "ada", PASSWORD).await.status, StatusCode::OK);
}

// spec: C-6
#[tokio::test]
async fn a_token_allows_its_scopes_and_its_secret_is_not_stored() {
    let site = site().await;
    let admin = site.as_role(Role::Admin);
    let mut secrets = Vec::new();
    for scopes in [json!(["read"]), json!(["publish"]), json!(["operate"])] {
        let token = json!({ "name": "ci", "scopes": scopes, "expires_in": "1h" });
        let made = admin.post("/api/v1/tokens", &token).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        secrets.push(made.json["secret"].as_str().unwrap().to_owned());
    }
    let listed = admin.get("/api/v1/tokens").await;
    for secret in &secrets {
        assert!(secret.starts_with("pct_") && !listed.text.contains(secret.as_str()));
    }
    let ask = |secret: String, method: &'static str, path: &'static str| {
        let (site, bearer) = (&site, format!("Bearer {secret}"));
        async move { with(site, method, path, &[(AUTHORIZATION.as_str(), &bearer)]).await.status }
    };
    let [read, publish, operate] = secrets.try_into().unwrap();
    let trigger = "/api/v1/jobs/nightly/resume";
    assert_eq!(ask(read.clone(), "GET", "/api/v1/jobs").await, StatusCode::OK);
    assert_eq!(ask(read.clone(), "POST", trigger).await, StatusCode::FORBIDDEN);
    assert_eq!(ask(publish.clone(), "GET", "/api/v1/jobs").await, StatusCode::FORBIDDEN);
    // Allowed to publish: what is refused is the empty message.
    assert_eq!(ask(publish, "POST", "/api/v1/messages").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_ne!(ask(operate, "POST", trigger).await, StatusCode::FORBIDDEN);
    let altered = format!("{read}x");
    assert_eq!(ask(altered, "GET", "/api/v1/jobs").await, StatusCode::UNAUTHORIZED);
    site.clock.set(site.clock.now() + 2.hours());
    assert_eq!(ask(read, "GET", "/api/v1/jobs").await, StatusCode::UNAUTHORIZED);
}

// spec: C-6, T-56
#[tokio::test]
async fn a_viewer_cannot_change_anything_and_an_anonymous_caller_cannot_read() {
    let site = site().await;
    let document = site.get("/api/openapi.json").await.json;
    let viewer = site.as_role(Role::Viewer);
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let real = path.replace("{name}", "nightly").replace("{id}", "nightly");
        for method in operations.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let method = method.to_uppercase();
            // Logins, reads with a body, and saved views are open to viewers.
            let free = ["/api/v1/session", "/api/v1/schedule/preview", "/api/v1/views"];
            if free.iter().any(|free| path.starts_with(free)) {
                continue;
            }
            let anonymous = site.call(&method, &real, &json!({})).await;
            assert_eq!(
                anonymous.status,
                StatusCode::UNAUTHORIZED,
                "{method} {path}: {}",
                anonymous.text
            );
            if method != "GET" {
                let response = viewer.call(&method, &real, &json!({})).await;
                let is_refused = response.status == StatusCode::FORBIDDEN
                    // An unreadable body is refused before authentication.
                    || response.status == StatusCode::UNPROCESSABLE_ENTITY
                    || response.status == StatusCode::BAD_REQUEST
                    // A viewer may revoke own tokens, and has none.
                    || (path.starts_with("/api/v1/tokens") && response.status == StatusCode::NOT_FOUND);
                assert!(is_refused, "{method} {path}: {} {}", response.status, response.text);
            }
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
    let audit = site.as_role(Role::Admin).get("/api/v1/audit?who=viewer").await;
    assert_eq!(audit.json["items"], json!([]));
}

// spec: C-6
#[tokio::test]
async fn programs_may_use_basic_authentication() {
    use base64::Engine as _;
    let site = site().await;
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("bob:{PASSWORD}"));
    let basic = format!("Basic {pair}");
    let response = with(&site, "GET", "/api/v1/jobs", &[(AUTHORIZATION.as_str(), &basic)]).await;
    assert_eq!(response.status, StatusCode::OK);
    let response = with(&site, "GET", "/api/v1/users", &[(AUTHORIZATION.as_str(), &basic)]).await;
    assert_eq!(response.status, StatusCode::FORBIDDEN);
    let response = with(&site, "GET", "/api/v1/jobs", &[(AUTHORIZATION.as_str(), "Magic x")]).await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_change_of_a_user_is_audited_with_before_and_after() {
    let site = site().await;
    let admin = site.as_role(Role::Admin);
    admin.call("PATCH", "/api/v1/users/bob", &json!({ "role": "operator" })).await;
    let trail = admin.get("/api/v1/audit?what=user.change").await;
    let entry = &trail.json["items"][0];
    assert_eq!((&entry["target"], &entry["who"]), (&json!("bob"), &json!("admin")));
    assert_eq!(entry["before"]["role"], "viewer");
    assert_eq!(entry["after"]["role"], "operator");
    assert!(!trail.text.contains("argon2"), "{}", trail.text);
    let page = admin.get("/api/v1/audit?limit=1").await;
    let next = page.json["next"].as_str().unwrap();
    let second = admin.get(&format!("/api/v1/audit?limit=1&after={next}")).await;
    assert_ne!(page.json["items"][0]["id"], second.json["items"][0]["id"]);
}

#[tokio::test]
async fn users_are_validated_before_they_are_created() {
    let site = site().await;
    let admin = site.as_role(Role::Admin);
    let table: [(Value, StatusCode); 6] = [
        (json!({ "name": "ada", "role": "viewer", "password": PASSWORD }), StatusCode::CONFLICT),
        (
            json!({ "name": "x", "role": "viewer", "password": "short" }),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (
            json!({ "name": "a:b", "role": "viewer", "password": PASSWORD }),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (
            json!({ "name": "x", "role": "guest", "password": PASSWORD }),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (
            json!({ "name": "x", "role": "king", "password": PASSWORD }),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
        (json!({ "name": "x", "password": PASSWORD }), StatusCode::UNPROCESSABLE_ENTITY),
    ];
    for (user, status) in table {
        let response = admin.post("/api/v1/users", &user).await;
        assert_eq!(response.status, status, "{user}: {}", response.text);
    }
    assert_eq!(admin.get("/api/v1/users/unknown").await.status, StatusCode::NOT_FOUND);
    assert_eq!(admin.get("/api/v1/users").await.json["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn behind_a_proxy_that_terminates_tls_cookies_are_secure_and_hsts_is_sent() {
    let site = site().await;
    for (proto, is_secure) in [(Some("https"), true), (Some("http"), false), (None, false)] {
        let request = Request::post("/api/v1/session").header(CONTENT_TYPE, "application/json");
        let request = match proto {
            Some(proto) => request.header("x-forwarded-proto", proto),
            None => request,
        };
        let login = json!({ "name": "ada", "password": PASSWORD }).to_string();
        let response = site.send(request.body(Body::from(login)).unwrap()).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.text);
        let cookies: Vec<&str> =
            response.headers.get_all(SET_COOKIE).iter().map(|one| one.to_str().unwrap()).collect();
        assert_eq!(cookies.len(), 2, "{cookies:?}");
        for cookie in cookies {
            assert_eq!(cookie.contains("; Secure"), is_secure, "{proto:?}: {cookie}");
        }
        let insists = response.headers.contains_key("strict-transport-security");
        assert_eq!(insists, is_secure, "{proto:?}");
    }
}
