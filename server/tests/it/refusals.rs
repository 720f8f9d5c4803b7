//! Refusals of bad input, for every operation of the description: a problem document with the right status, and no
//! change. New operations are tested automatically.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use punctual::{Job, Occurrence};
use punctual_server::{AuthSettings, Mode, Role};
use serde_json::{Map, Value, json};

use crate::description::resolved;
use crate::site::{Site, TestResponse};

/// Name that no path, field or header has.
const UNKNOWN: &str = "no_such_thing";
/// Id that does not exist.
const NOTHING: &str = "0198a3a5-7d5e-7000-8000-0000000000ff";
/// Body size above the limit of every operation.
const HUGE: usize = (16 << 20) + 2;
/// Paths that every role may change, or that need no role.
const FREE: [&str; 3] = ["/api/v1/session", "/api/v1/schedule/preview", "/api/v1/views"];
/// Paths where every user may change only own entries; others' are reported as not found.
const OWN: [&str; 1] = ["/api/v1/tokens"];
/// Paths that accept any name: queues and views exist implicitly, and one-time jobs are planned under any name.
const ANY_NAME: [&str; 3] = ["/api/v1/queues/", "/api/v1/views/", "/api/v1/jobs/{name}/planned"];

/// One operation of the description.
struct Operation {
    method: String,
    path: String,
    /// Schema of the body, if any.
    body: Option<Value>,
    /// All methods of the path.
    methods: Vec<String>,
}

impl Operation {
    /// Returns the path with a value in place of every parameter.
    fn at(&self, part: &str) -> String {
        let pieces =
            self.path.split('/').map(|piece| if piece.starts_with('{') { part } else { piece });
        pieces.collect::<Vec<_>>().join("/")
    }

    fn has_parts(&self) -> bool {
        self.path.contains('{')
    }

    fn changes(&self) -> bool {
        self.method != "GET"
    }

    fn is_among(&self, paths: &[&str]) -> bool {
        paths.iter().any(|path| self.path.starts_with(path))
    }
}

/// Starts a server with authentication, a job, a message and their history.
async fn site() -> Site {
    let nightly = |_: Occurrence| async {};
    let site = Site::with(|builder| builder.job(Job::cron("nightly", "0 2 * * *"), nightly));
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    let site = site.changed(|app| app.authenticating(settings));
    let made = site.as_role(Role::Admin).post("/api/v1/messages", &json!({ "topic": "t" })).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    site
}

async fn description(site: &Site) -> Value {
    let response = site.get("/api/openapi.json").await;
    assert_eq!(response.status, StatusCode::OK);
    response.json
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods: Vec<String> =
            item.as_object().unwrap().keys().map(|key| key.to_uppercase()).collect();
        for method in &methods {
            let body = &item[method.to_lowercase()]["requestBody"]["content"]["application/json"]["schema"];
            let body = (!body.is_null()).then(|| resolved(document, body).clone());
            let (method, path, methods) = (method.clone(), path.clone(), methods.clone());
            all.push(Operation { method, path, body, methods });
        }
    }
    assert!(all.len() > 80, "{}", all.len());
    all
}

async fn ask(
    site: &Site,
    one: &Operation,
    path: &str,
    kind: Option<&str>,
    body: Vec<u8>,
) -> TestResponse {
    let mut request = Request::builder().method(one.method.as_str()).uri(path);
    if let Some(kind) = kind {
        request = request.header(CONTENT_TYPE, kind);
    }
    site.send(request.body(Body::from(body)).unwrap()).await
}

/// Asserts a problem document with this status.
fn assert_problem(one: &Operation, what: &str, response: &TestResponse, status: u16) {
    let place =
        format!("{} {} with {what}: {} {}", one.method, one.path, response.status, response.text);
    assert_eq!(response.status, status, "{place}");
    assert_eq!(response.headers[CONTENT_TYPE], "application/problem+json", "{place}");
    assert_eq!(response.json["status"], status, "{place}");
    assert!(response.json["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{place}");
}

/// Returns all views in which a change would be visible.
async fn everything(site: &Site) -> Vec<Value> {
    let admin = site.as_role(Role::Admin);
    let mut all = Vec::new();
    for subject in ["jobs", "messages", "users", "tokens", "webhooks", "views", "audit", "batches"]
    {
        let response = admin.get(&format!("/api/v1/{subject}")).await;
        assert_eq!(response.status, StatusCode::OK, "{subject}: {}", response.text);
        all.push(response.json);
    }
    all
}

/// Returns a value that a schema does not allow; none when it allows all.
fn wrong(document: &Value, schema: &Value) -> Option<Value> {
    let schema = resolved(document, schema);
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(choices) = choices {
        let all = [json!(7), json!({ UNKNOWN: 7 }), json!([{ UNKNOWN: 7 }]), json!(true)];
        let fits = |value: &Value| choices.iter().any(|one| may_be(document, one, value));
        return all.into_iter().find(|value| !fits(value));
    }
    let all = [json!(true), json!("x"), json!({ UNKNOWN: 7 })];
    all.into_iter().find(|value| !may_be(document, schema, value))
}

/// Returns whether a schema allows the type of a value.
fn may_be(document: &Value, schema: &Value, value: &Value) -> bool {
    let schema = resolved(document, schema);
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match &schema["type"] {
        Value::String(only) => only == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => schema["allOf"]
            .as_array()
            .is_none_or(|parts| parts.iter().any(|one| may_be(document, one, value))),
    }
}

#[tokio::test]
async fn an_unknown_method_is_refused_with_the_allowed_ones() {
    let site = site().await.as_role(Role::Admin);
    for one in operations(&description(&site).await) {
        let other = ["DELETE", "PATCH", "PUT", "POST", "GET"];
        let other =
            other.iter().find(|method| !one.methods.iter().any(|has| has == *method)).unwrap();
        let request = Request::builder().method(*other).uri(one.at(NOTHING));
        let response = site.send(request.body(Body::empty()).unwrap()).await;
        assert_problem(&one, other, &response, 405);
        let allowed = response.headers[ALLOW].to_str().unwrap();
        let mut allowed: Vec<&str> =
            allowed.split(',').map(str::trim).filter(|word| *word != "HEAD").collect();
        let mut methods = one.methods.clone();
        allowed.sort_unstable();
        methods.sort_unstable();
        assert_eq!(allowed, methods, "{}", one.path);
    }
}

#[tokio::test]
async fn a_path_that_is_not_utf_8_or_contains_nul_is_refused() {
    let site = site().await.as_role(Role::Admin);
    let before = everything(&site).await;
    for one in operations(&description(&site).await).iter().filter(|one| one.has_parts()) {
        for part in ["%FF", "%00", "a%C3%28b"] {
            let body = one.body.as_ref().map_or_else(Vec::new, |_| b"{}".to_vec());
            let response = ask(&site, one, &one.at(part), Some("application/json"), body).await;
            assert_problem(one, part, &response, 400);
        }
    }
    assert_eq!(everything(&site).await, before);
}

#[tokio::test]
async fn a_body_that_is_not_json_or_too_long_or_of_another_type_is_refused() {
    let site = site().await.as_role(Role::Admin);
    let before = everything(&site).await;
    let json = Some("application/json");
    let mut huge = b"{\"".to_vec();
    huge.resize(HUGE, b'x');
    let table: [(&str, Option<&str>, Vec<u8>, u16); 6] = [
        ("half a body", json, b"{\"".to_vec(), 400),
        ("a body that is not UTF-8", json, b"{\"a\xff\xfe\":1}".to_vec(), 400),
        ("a body of no type", None, b"{}".to_vec(), 415),
        ("a text", Some("text/plain"), b"{}".to_vec(), 415),
        ("a list", json, b"[]".to_vec(), 422),
        ("a huge body", json, huge, 413),
    ];
    let all = operations(&description(&site).await);
    for one in all.iter().filter(|one| one.body.is_some()) {
        for (what, kind, body, status) in &table {
            let response = ask(&site, one, &one.at(NOTHING), *kind, body.clone()).await;
            assert_problem(one, what, &response, *status);
        }
    }
    assert_eq!(everything(&site).await, before);
}

#[tokio::test]
async fn fields_that_are_unknown_missing_or_of_another_type_are_refused_by_name() {
    let site = site().await.as_role(Role::Admin);
    let document = description(&site).await;
    let before = everything(&site).await;
    let mut tried = 0;
    for one in &operations(&document) {
        let Some(schema) = &one.body else { continue };
        let send = async |body: Value| {
            let body = body.to_string().into_bytes();
            ask(&site, one, &one.at(NOTHING), Some("application/json"), body).await
        };
        assert_problem(one, "an unknown field", &send(json!({ UNKNOWN: 1 })).await, 422);
        if schema["required"].as_array().is_some_and(|required| !required.is_empty()) {
            assert_problem(one, "no field", &send(json!({})).await, 422);
        }
        for (name, field) in schema["properties"].as_object().unwrap_or(&Map::new()) {
            let Some(value) = wrong(&document, field) else { continue };
            let response = send(json!({ name: value })).await;
            assert_problem(one, &format!("{name} = {value}"), &response, 422);
            assert!(
                response.text.contains(name.as_str()),
                "{} {name}: {}",
                one.path,
                response.text
            );
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
    assert_eq!(everything(&site).await, before);
}

#[tokio::test]
async fn unknown_names_and_ids_are_not_found() {
    let site = site().await.as_role(Role::Admin);
    let before = everything(&site).await;
    for one in operations(&description(&site).await) {
        if !one.has_parts() || one.is_among(&ANY_NAME) {
            continue;
        }
        let body = match one.path.rsplit('/').next().unwrap() {
            "pause" => json!({ "reason": "a test" }),
            "cursor" => json!({ "to": "2026-04-01T00:00:00Z" }),
            "backfill" => json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z" }),
            "reschedule" => json!({ "delay": "1h" }),
            "reassign" => json!({ "priority": 9 }),
            // PUT creates the job.
            "{name}" if one.method == "PUT" => continue,
            "misfire-preview" => Value::Null,
            _ => json!({}),
        };
        let path = match one.path.rsplit('/').next().unwrap() {
            "misfire-preview" => format!("{}?down=1h", one.at(NOTHING)),
            _ => one.at(NOTHING),
        };
        let body = if one.body.is_some() { body.to_string().into_bytes() } else { Vec::new() };
        let response = ask(&site, &one, &path, Some("application/json"), body).await;
        assert_problem(&one, "an unknown id", &response, 404);
    }
    assert_eq!(everything(&site).await, before);
}

// spec: C-6, T-56
#[tokio::test]
async fn anonymous_callers_cannot_read_and_viewers_cannot_change() {
    let site = site().await;
    let before = everything(&site).await;
    let viewer = site.as_role(Role::Viewer);
    for one in operations(&description(&site).await).iter().filter(|one| !one.is_among(&FREE)) {
        let json = Some("application/json");
        let response = ask(&site, one, &one.at("nightly"), json, b"{}".to_vec()).await;
        assert_problem(one, "anonymous", &response, 401);
        if one.changes() {
            let response = ask(&viewer, one, &one.at("nightly"), json, b"{}".to_vec()).await;
            // An invalid body is reported before the permission is checked.
            let incomplete = response.status == StatusCode::UNPROCESSABLE_ENTITY;
            let refused = if one.is_among(&OWN) { 404 } else { 403 };
            assert_problem(one, "a viewer", &response, if incomplete { 422 } else { refused });
        }
    }
    assert_eq!(everything(&site).await, before);
}

#[tokio::test]
async fn an_invalid_idempotency_key_is_refused_by_every_change() {
    let site = site().await.as_role(Role::Admin);
    let before = everything(&site).await;
    for one in operations(&description(&site).await).iter().filter(|one| one.changes()) {
        let request = Request::builder().method(one.method.as_str()).uri(one.at(NOTHING));
        let request = request.header("idempotency-key", "x".repeat(201));
        let response = site.send(request.body(Body::empty()).unwrap()).await;
        assert_problem(one, "a long key", &response, 422);
        assert_eq!(response.json["errors"][0]["field"], "Idempotency-Key");
    }
    assert_eq!(everything(&site).await, before);
}
