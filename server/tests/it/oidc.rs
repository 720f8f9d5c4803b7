//! `OpenID` Connect: sign-ins from the redirect to the session, and everything that must be refused.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{Request, StatusCode};
use jiff::ToSpan;
use punctual::{Job, Occurrence};
use punctual_server::config::Sources;
use punctual_server::{Assembly, AuthSettings, Mode, Oidc, Role, router};
use serde_json::{Value, json};
use url::Url;

use crate::provider::{CLIENT, Provider, SECRET, Signer};
use crate::site::{Site, TestResponse};

const START_PATH: &str = "/api/v1/session/oidc";

pub(crate) fn settings(issuer: &str) -> Oidc {
    Oidc {
        issuer: issuer.to_owned(),
        client_id: CLIENT.to_owned(),
        client_secret: Some(SECRET.to_owned()),
        public_url: "https://punctual.example.com/ops".to_owned(),
        scopes: vec!["openid".to_owned(), "groups".to_owned()],
        name: "Example".to_owned(),
        role_claim: Some("groups".to_owned()),
        roles: BTreeMap::from([
            ("on-call".to_owned(), Role::Operator),
            ("bosses".to_owned(), Role::Admin),
        ]),
        role_default: None,
        outgoing: punctual_server::OutgoingCalls::default(),
    }
}

pub(crate) fn site_of(oidc: Oidc) -> Site {
    let nightly = |_: Occurrence| async {};
    let site = Site::with(|builder| builder.job(Job::cron("nightly", "0 2 * * *"), nightly));
    let settings = AuthSettings { mode: Mode::Oidc(oidc), ..AuthSettings::default() };
    site.changed(|app| app.authenticating(settings))
}

/// Starts a server and its identity provider.
async fn site(signer: Signer) -> (Site, Provider) {
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    let provider = Provider::start(signer, now).await;
    (site_of(settings(&provider.issuer)), provider)
}

async fn ask(site: &Site, path: &str, headers: &[(&str, &str)]) -> TestResponse {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    site.send(request.body(Body::empty()).unwrap()).await
}

/// Starts a sign-in; returns the cookie and the parameters of the redirect.
async fn start_sign_in(site: &Site) -> (String, BTreeMap<String, String>) {
    let response = site.get(START_PATH).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", response.text);
    let cookie = response.headers[SET_COOKIE].to_str().unwrap();
    for part in [
        "; HttpOnly",
        "; SameSite=Lax",
        "; Secure",
        "; Max-Age=600",
        "; Path=/ops/api/v1/session/oidc/callback",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let to = Url::parse(response.headers[LOCATION].to_str().unwrap()).unwrap();
    (cookie.split(';').next().unwrap().to_owned(), to.query_pairs().into_owned().collect())
}

/// Calls the callback with a code and the cookie of the redirect.
async fn callback(site: &Site, cookie: &str, code: &str, state: &str) -> TestResponse {
    let path = format!("{START_PATH}/callback?code={code}&state={state}&session_state=more");
    ask(site, &path, &[(COOKIE.as_str(), cookie)]).await
}

/// Runs a whole sign-in with a code.
async fn sign_in_with(site: &Site, provider: &Provider, code: &str) -> TestResponse {
    let (cookie, asked) = start_sign_in(site).await;
    provider.lets_in(asked["nonce"].clone(), asked["code_challenge"].clone());
    callback(site, &cookie, code, &asked["state"]).await
}

async fn sign_in(site: &Site, provider: &Provider) -> TestResponse {
    sign_in_with(site, provider, "good").await
}

/// Returns the session cookie of a response, if any.
fn session_of(response: &TestResponse) -> Option<String> {
    let cookies = response.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
    let mut sessions = cookies.filter(|cookie| cookie.starts_with("punctual_session="));
    sessions.next().map(|cookie| {
        assert!(cookie.contains("SameSite=Strict; Secure"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    })
}

async fn audited(site: &Site, what: &str) -> Vec<Value> {
    let trail = site.as_role(Role::Admin).get(&format!("/api/v1/audit?what={what}")).await;
    trail.json["items"].as_array().unwrap().clone()
}

// spec: C-6
#[tokio::test]
async fn a_sign_in_creates_a_session() {
    for signer in Signer::accepted() {
        let (site, provider) = site(signer).await;
        let before = site.get("/api/v1/session").await.json;
        assert_eq!((&before["auth"], &before["provider"]), (&json!("oidc"), &json!("Example")));
        let (_, asked) = start_sign_in(&site).await;
        for (name, value) in [
            ("tenant", "a"),
            ("response_type", "code"),
            ("client_id", CLIENT),
            ("redirect_uri", "https://punctual.example.com/ops/api/v1/session/oidc/callback"),
            ("scope", "openid groups"),
            ("code_challenge_method", "S256"),
        ] {
            assert_eq!(asked[name], value);
        }
        let response = sign_in(&site, &provider).await;
        assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", response.text);
        assert_eq!(response.headers[LOCATION], "https://punctual.example.com/ops/");
        let cookie = session_of(&response).unwrap();
        let cookie = [(COOKIE.as_str(), cookie.as_str())];
        let shown = ask(&site, "/api/v1/session", &cookie).await.json;
        assert_eq!(shown["user"], json!({ "name": "ada", "role": "operator" }));
        assert_eq!(ask(&site, "/api/v1/jobs", &cookie).await.status, StatusCode::OK);
        let resume = |csrf: &str| {
            Request::post("/api/v1/jobs/nightly/resume")
                .header(COOKIE, cookie[0].1)
                .header("x-csrf-token", csrf)
                .body(Body::empty())
                .unwrap()
        };
        assert_eq!(site.send(resume("guess")).await.status, StatusCode::FORBIDDEN);
        let csrf = shown["csrf"].as_str().unwrap();
        assert_ne!(site.send(resume(csrf)).await.status, StatusCode::FORBIDDEN);
        assert_eq!(audited(&site, "session.begin").await[0]["who"], "ada");
        let name = json!({ "name": "ada", "password": "" });
        let response = site.post("/api/v1/session", &name).await;
        assert_eq!(response.status, StatusCode::CONFLICT, "{}", response.text);
    }
}

// spec: C-6
#[tokio::test]
async fn the_callback_needs_the_same_browser_and_has_a_timeout() {
    let (site, provider) = site(Signer::curve()).await;
    let (cookie, asked) = start_sign_in(&site).await;
    let (other, _) = start_sign_in(&site).await;
    provider.lets_in(asked["nonce"].clone(), asked["code_challenge"].clone());
    let state = asked["state"].as_str();
    for (cookie, state) in
        [(other.as_str(), state), ("a=b", state), (&cookie, "guess"), (&cookie, "")]
    {
        let response = callback(&site, cookie, "good", state).await;
        assert_eq!(response.status, StatusCode::BAD_REQUEST, "{}", response.text);
        assert!(session_of(&response).is_none());
    }
    let path =
        format!("{START_PATH}/callback?code=good&state={state}&iss=https://other.example.com");
    let response = ask(&site, &path, &[(COOKIE.as_str(), &cookie)]).await;
    assert!(response.text.contains("another provider"), "{}", response.text);
    let path = format!("{START_PATH}/callback?error=access_denied&state={state}");
    let response = ask(&site, &path, &[(COOKIE.as_str(), &cookie)]).await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
    assert!(response.text.contains("access_denied"), "{}", response.text);
    site.clock.set(site.clock.now() + 10.minutes());
    let response = callback(&site, &cookie, "good", state).await;
    assert!(response.text.contains("too long ago"), "{}", response.text);
}

// spec: C-6
#[tokio::test]
async fn an_id_token_with_any_invalid_claim_is_refused() {
    let second = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
    for (claim, value, words) in [
        ("nonce", json!("another"), "another sign-in attempt"),
        ("exp", json!(second("2026-03-01T11:58:59Z")), "has expired"),
        ("aud", json!("another-client"), "another audience"),
        ("iss", json!("https://other.example.com"), "another issuer"),
        ("sub", json!(""), "has no subject"),
    ] {
        let (site, provider) = site(Signer::curve()).await;
        provider.says(claim, value);
        let response = sign_in(&site, &provider).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{claim}: {}", response.text);
        assert!(response.text.contains(words), "{claim}: {}", response.text);
        assert!(session_of(&response).is_none());
    }
    for (signer, words) in [
        (Signer::None, "algorithm \\\"none\\\""),
        (Signer::Shared, "algorithm \\\"HS256\\\""),
        (Signer::curve(), "signature is wrong"),
    ] {
        let (site, provider) = site(Signer::curve()).await;
        // The published key would be the old one, with the same id.
        provider.signs(signer, "first", false);
        let response = sign_in(&site, &provider).await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{}", response.text);
        assert!(response.text.contains(words), "{}", response.text);
        assert!(session_of(&response).is_none());
    }
}

// spec: C-6
#[tokio::test]
async fn a_new_key_is_fetched_once_and_unknown_keys_are_rate_limited() {
    let (site, provider) = site(Signer::rsa()).await;
    for _ in 0..2 {
        assert!(session_of(&sign_in(&site, &provider).await).is_some());
    }
    assert_eq!(provider.keys_asked(), 1);
    provider.signs(Signer::curve(), "second", true);
    assert!(session_of(&sign_in(&site, &provider).await).is_some());
    assert_eq!(provider.keys_asked(), 2);
    provider.signs(Signer::curve(), "third", false);
    let response = sign_in(&site, &provider).await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
    assert!(response.text.contains("does not publish"), "{}", response.text);
    assert_eq!(provider.keys_asked(), 3);
}

// spec: C-6
#[tokio::test]
async fn the_role_is_updated_at_each_sign_in() {
    let (site, provider) = site(Signer::curve()).await;
    provider.says("groups", json!(["on-call", "bosses"]));
    let first = session_of(&sign_in(&site, &provider).await).unwrap();
    let users = ask(&site, "/api/v1/users", &[(COOKIE.as_str(), &first)]).await;
    assert_eq!(users.json["items"][0]["role"], "admin", "{}", users.text);
    provider.says("groups", json!(["staff"]));
    let refused = sign_in(&site, &provider).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text);
    assert!(refused.text.contains("auth.oidc_role_default"), "{}", refused.text);
    // Sign-ins that were started before are refused as well.
    let again = ask(&site, "/api/v1/jobs", &[(COOKIE.as_str(), &first)]).await;
    assert_eq!(again.status, StatusCode::UNAUTHORIZED);
    assert_eq!(audited(&site, "session.refuse").await[0]["target"], "ada");
    let oidc = Oidc { role_default: Some(Role::Viewer), ..settings(&provider.issuer) };
    let site = site_of(oidc);
    let cookie = session_of(&sign_in(&site, &provider).await).unwrap();
    let shown = ask(&site, "/api/v1/session", &[(COOKIE.as_str(), &cookie)]).await;
    assert_eq!(shown.json["user"]["role"], "viewer");
}

// spec: C-6
#[tokio::test]
async fn a_name_belongs_to_its_first_subject() {
    let (site, provider) = site(Signer::curve()).await;
    let admin = site.as_role(Role::Admin);
    assert!(session_of(&sign_in(&site, &provider).await).is_some());
    provider.says("sub", json!("another person"));
    let refused = sign_in(&site, &provider).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.text.contains("belongs to another user"), "{}", refused.text);
    let bob = json!({ "name": "bob", "role": "admin", "password": "correct horse battery" });
    assert_eq!(admin.post("/api/v1/users", &bob).await.status, StatusCode::CREATED);
    provider.says("preferred_username", json!("bob"));
    assert_eq!(sign_in(&site, &provider).await.status, StatusCode::FORBIDDEN);
    provider.says("sub", json!("1815"));
    provider.says("preferred_username", json!("ada"));
    admin.call("PATCH", "/api/v1/users/ada", &json!({ "disabled": true })).await;
    let refused = sign_in(&site, &provider).await;
    assert!(refused.text.contains("is disabled"), "{}", refused.text);
}

// spec: C-6
#[tokio::test]
async fn an_unreachable_provider_is_reported_until_it_is_back() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unreachable = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let response = site_of(settings(&unreachable)).get(START_PATH).await;
    assert_eq!(response.status, StatusCode::BAD_GATEWAY, "{}", response.text);
    assert!(response.text.contains(&unreachable), "{}", response.text);
    assert!(response.text.contains("try again"), "{}", response.text);
    let (site, provider) = site(Signer::curve()).await;
    provider.is_down(true);
    let page = ask(&site, START_PATH, &[(ACCEPT.as_str(), "text/html,*/*")]).await;
    assert_eq!(page.status, StatusCode::BAD_GATEWAY);
    assert_eq!(page.headers[CONTENT_TYPE], "text/html; charset=utf-8");
    assert!(page.text.contains("returned 500") && page.text.contains("Back"), "{}", page.text);
    provider.is_down(false);
    // The provider is not called again for a moment.
    assert_eq!(site.get(START_PATH).await.status, StatusCode::BAD_GATEWAY);
    site.clock.set(site.clock.now() + 5.seconds());
    assert!(session_of(&sign_in(&site, &provider).await).is_some());
}

// spec: C-6
#[tokio::test]
async fn guessed_codes_are_throttled() {
    let (site, provider) = site(Signer::curve()).await;
    for _ in 0..20 {
        let response = sign_in_with(&site, &provider, "guess").await;
        assert_eq!(response.status, StatusCode::UNAUTHORIZED, "{}", response.text);
        assert!(response.text.contains("invalid_grant"), "{}", response.text);
    }
    let response = sign_in(&site, &provider).await;
    assert_eq!(response.status, StatusCode::TOO_MANY_REQUESTS, "{}", response.text);
    site.clock.set(site.clock.now() + 1.second());
    assert!(session_of(&sign_in(&site, &provider).await).is_some());
}

// spec: C-6
#[tokio::test]
async fn a_wrong_secret_and_a_wrong_mode_are_reported() {
    let (_, provider) = site(Signer::curve()).await;
    let oidc = Oidc { client_secret: Some("wrong".to_owned()), ..settings(&provider.issuer) };
    let response = sign_in(&site_of(oidc), &provider).await;
    assert_eq!(response.status, StatusCode::BAD_GATEWAY);
    assert!(response.text.contains("auth.oidc_client_secret"), "{}", response.text);
    assert!(!response.text.contains("wrong"), "{}", response.text);
    let other = Site::with(|builder| builder);
    assert_eq!(other.get(START_PATH).await.status, StatusCode::CONFLICT);
}

// spec: C-6
#[tokio::test]
async fn oidc_is_configured_by_the_file_alone() {
    let provider = Provider::start(Signer::rsa(), "2026-03-01T12:00:00Z".parse().unwrap()).await;
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\npublic_url = \"http://localhost:8080\"\n\
         [storage]\naddress = \"memory:\"\n[auth]\nmode = \"oidc\"\noidc_issuer = \"{}\"\n\
         oidc_client_id = \"punctual\"\noidc_client_secret = \"s\"\noidc_role_default = \"viewer\"\n",
        provider.issuer
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.toml");
    std::fs::write(&file, text).unwrap();
    let sources = Sources { file: Some(file), ..Sources::default() };
    let loaded = sources.load().unwrap();
    let running = Assembly { loaded, sources, demo: false }.start().await.unwrap();
    let site = Site { router: router(running.app().clone()), ..Site::with(|builder| builder) };
    assert_eq!(site.get("/api/v1/session").await.json["provider"], "127.0.0.1");
    let response = site.get(START_PATH).await;
    assert_eq!(response.status, StatusCode::SEE_OTHER, "{}", response.text);
    assert!(response.headers[LOCATION].to_str().unwrap().starts_with(&provider.issuer));
    running.shutdown().await;
}
