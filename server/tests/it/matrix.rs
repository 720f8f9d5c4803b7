//! Matrix of permissions: every operation by every kind of caller, and every topic by every scope. A new operation,
//! route or topic fails these tests until it has a rule.

mod callers;
mod rules;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use punctual::{Job, Occurrence};
use punctual_server::config::Networks;
use punctual_server::{
    Access, AuthSettings, COMMAND_TOPIC, Caller, EVERY_QUEUE, HTTP_TOPIC, Mode, PUBLISH_TOPIC,
    Proxy, Role, TEST_TOPIC, WEBHOOK_TOPIC,
};
use serde_json::{Value, json};

use self::callers::{Kind, callers};
use self::rules::{RULES, Rule, body};
use crate::site::Site;

/// Id that does not exist.
const NOTHING: &str = "0198a3a5-7d5e-7000-8000-0000000000ff";
const SCOPES: [Kind; 5] =
    [Kind::TokenRead, Kind::TokenWork, Kind::TokenPublish, Kind::TokenOperate, Kind::TokenAdmin];

fn site() -> Site {
    let nightly = |_: Occurrence| async {};
    let site = Site::with(|builder| builder.job(Job::cron("nightly", "0 2 * * *"), nightly));
    let settings = AuthSettings { mode: Mode::Password, ..AuthSettings::default() };
    site.changed(|app| app.authenticating(settings))
}

/// Returns the operations of the description, such as `GET /api/v1/jobs`. Those that end a session are last.
async fn operations(site: &Site) -> Vec<String> {
    let request = Request::get("/api/openapi.json").body(Body::empty()).unwrap();
    let document = site.send(request).await.json;
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys();
        all.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    all.sort_by_key(|one| one.ends_with("/session") && !one.starts_with("GET"));
    all
}

/// Returns a request of an operation on something that does not exist.
fn request(operation: &str, headers: &[(&'static str, String)], prefix: &str) -> Request<Body> {
    let (method, path) = operation.split_once(' ').unwrap();
    let pieces = path.split('/').map(|piece| match piece {
        "{name}" => "nothing",
        piece if piece.starts_with('{') => NOTHING,
        piece => piece,
    });
    let mut path = pieces.collect::<Vec<_>>().join("/");
    path.push_str(match path.rsplit('/').next() {
        Some("misfire-preview") => "?down=1h",
        Some("series") => "?name=throughput",
        _ => "",
    });
    let mut request = Request::builder().method(method).uri(format!("{prefix}{path}"));
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.header(CONTENT_TYPE, "application/json");
    let body = if method == "GET" { Value::Null } else { body(operation) };
    request.body(Body::from(if body.is_null() { String::new() } else { body.to_string() })).unwrap()
}

/// Sends a request without reading a stream; returns the status, and whether the caller was admitted.
async fn ask(site: &Site, request: Request<Body>) -> (StatusCode, bool) {
    let is_password = request.uri().path().ends_with("/session/password");
    let status = site.raw(request).await.status();
    // The old password is wrong on purpose.
    let is_let =
        status != StatusCode::FORBIDDEN && (status != StatusCode::UNAUTHORIZED || is_password);
    (status, is_let)
}

// spec: C-6, T-56
#[tokio::test]
async fn every_operation_admits_exactly_the_callers_of_its_rule() {
    let site = site();
    let callers = callers(&site).await;
    let operations = operations(&site).await;
    let listed: BTreeSet<&str> = RULES.iter().map(|(operation, _)| *operation).collect();
    let described: BTreeSet<&str> = operations.iter().map(String::as_str).collect();
    let missing: Vec<_> = described.difference(&listed).collect();
    assert!(missing.is_empty(), "operations without a rule: {missing:?}");
    let gone: Vec<_> = listed.difference(&described).collect();
    assert!(gone.is_empty(), "rules without an operation: {gone:?}");
    let mut wrong = Vec::new();
    for operation in &operations {
        let rule = RULES.iter().find(|(one, _)| one == operation).unwrap().1;
        for (kind, headers) in &callers {
            let (status, is_let) = ask(&site, request(operation, headers, "")).await;
            let expected = kind.expected(rule, operation);
            let is_as_expected = match expected {
                None => is_let,
                // The role of an authenticated caller is checked before anything else.
                Some(refusal) => status == refusal,
            };
            if !is_as_expected {
                wrong.push(format!("{operation} by {kind:?}: {status}, expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// spec: C-6
#[tokio::test]
async fn a_mounted_router_applies_the_same_rules_to_the_callers_of_the_application() {
    let access = Access::by(|request| {
        let user = request.headers.get("x-user")?.to_str().ok()?;
        match user {
            "worker" => Some(Caller::new(user, Role::Guest).working_on([EVERY_QUEUE])),
            user => Some(Caller::new(user, Role::parse(user)?)),
        }
    });
    let site = Site::with(|builder| builder);
    let site = site.changed(|app| app.authenticating_with(Arc::new(access)));
    let nested = axum::Router::new().nest("/inside", site.router.clone());
    let site = Site { router: nested, ..site };
    let mut wrong = Vec::new();
    for (operation, rule) in RULES {
        for (user, allowed) in [
            ("unknown", false),
            ("worker", matches!(rule, Rule::Public | Rule::Worker)),
            ("viewer", matches!(rule, Rule::Public | Rule::Viewer)),
            (
                "operator",
                matches!(rule, Rule::Public | Rule::Viewer | Rule::Operator | Rule::Publisher),
            ),
            ("admin", !matches!(rule, Rule::Worker)),
        ] {
            let headers = [("x-user", user.to_owned())];
            let (status, is_let) = ask(&site, request(operation, &headers, "/inside")).await;
            if is_let != allowed {
                wrong.push(format!("{operation} by {user}: {status}, expected {allowed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// spec: C-6
#[tokio::test]
async fn behind_a_proxy_the_same_rules_apply_to_its_roles() {
    let proxy = Proxy {
        header: "x-user".to_owned(),
        role_header: Some("x-role".to_owned()),
        trusted: Networks::read(vec!["127.0.0.1".to_owned()]).unwrap(),
    };
    let settings = AuthSettings { mode: Mode::Proxy(proxy), ..AuthSettings::default() };
    let site = Site::with(|builder| builder).changed(|app| app.authenticating(settings));
    let mut wrong = Vec::new();
    for (operation, rule) in RULES {
        for (role, peer) in [
            ("viewer", [127, 0, 0, 1]),
            ("operator", [127, 0, 0, 1]),
            ("admin", [127, 0, 0, 1]),
            ("", [127, 0, 0, 1]),
            ("admin", [127, 0, 0, 2]),
        ] {
            let mut headers = vec![("x-role", role.to_owned())];
            headers.extend((!role.is_empty()).then(|| ("x-user", "ann".to_owned())));
            let mut request = request(operation, &headers, "");
            let peer = std::net::SocketAddr::from((peer, 4_711));
            request.extensions_mut().insert(axum::extract::ConnectInfo(peer));
            let is_known = !role.is_empty() && peer.ip().to_string() == "127.0.0.1";
            let (status, is_let) = ask(&site, request).await;
            let is_as_expected = match Role::parse(role).filter(|_| is_known) {
                None if rule == Rule::Public => is_let,
                None => status == StatusCode::UNAUTHORIZED,
                Some(role) => is_let == is_for(rule, role),
            };
            if !is_as_expected {
                wrong.push(format!("{operation} by {role:?} from {peer}: {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns whether a rule admits a user of a role.
fn is_for(rule: Rule, role: Role) -> bool {
    match rule {
        Rule::Probe | Rule::Public => true,
        Rule::Viewer => role >= Role::Viewer,
        Rule::Operator | Rule::Publisher => role >= Role::Operator,
        Rule::Admin => role >= Role::Admin,
        Rule::Worker => false,
    }
}

/// Routes outside the description, with their rules.
const OTHERS: [(&str, &str, Rule); 11] = [
    ("\"/\"", "GET /", Rule::Public),
    ("\"/api/docs\"", "GET /api/docs", Rule::Public),
    ("\"/api/docs/\"", "GET /api/docs/", Rule::Public),
    ("\"/{*path}\"", "GET /app.js", Rule::Public),
    ("DOCUMENT", "GET /api/openapi.json", Rule::Public),
    ("ROOT_DOCUMENT", "GET /openapi.json", Rule::Public),
    ("DEREGISTER_ALIAS", "POST /api/v1/work/bye", Rule::Worker),
    ("\"/metrics\"", "GET /metrics", Rule::Viewer),
    ("\"/health\"", "GET /health", Rule::Probe),
    ("\"/health/live\"", "GET /health/live", Rule::Probe),
    ("\"/health/ready\"", "GET /health/ready", Rule::Probe),
];

/// Arguments of routes of messages, which are no HTTP routes.
const OF_MESSAGES: [&str; 2] = ["topics", "&topic"];
/// Other ways to respond to a request, by the file that uses them. The API is all in the description, the whole router is
/// put below a prefix twice, and what has no route gets a 404.
const NO_ROUTES: [(&str, &str); 4] = [
    ("api.rs", ".nest("),
    ("assembly.rs", ".nest_service("),
    ("mount.rs", ".nest_service("),
    ("http_layers.rs", ".fallback("),
];

/// Calls `found` with the text and the path of every source file of the server.
fn sources(folder: &Path, found: &mut impl FnMut(&str, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found(&path.to_string_lossy(), &std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn source_folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

// spec: C-6
#[tokio::test]
async fn every_other_route_has_a_rule_too() {
    let (mut routes, mut others) = (BTreeSet::new(), BTreeSet::new());
    sources(&source_folder(), &mut |path, text| {
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let parts = text.split(".route(").skip(1);
        let first = parts.filter_map(|rest| rest.split([',', ')']).next()).map(str::trim);
        routes.extend(first.filter(|one| !OF_MESSAGES.contains(one)).map(str::to_owned));
        // Other ways to respond: what they return is known by its file, and by its description here.
        for way in
            [".route_service(", ".nest(", ".nest_service(", ".fallback(", ".fallback_service("]
        {
            if text.contains(way) {
                let file = path.rsplit("/src/").next().unwrap();
                others.insert((file.to_owned(), way.to_owned()));
            }
        }
    });
    let listed = OTHERS.iter().map(|(route, ..)| (*route).to_owned()).collect();
    assert_eq!(routes, listed, "a route that is not in the description needs a rule here");
    let ways = NO_ROUTES.iter().map(|(file, way)| ((*file).to_owned(), (*way).to_owned()));
    assert_eq!(others, ways.collect(), "what responds here needs a rule, or a reason");
    let site = site();
    let callers = callers(&site).await;
    let mut wrong = Vec::new();
    for (_, operation, rule) in OTHERS {
        for (kind, headers) in &callers {
            let (status, is_let) = ask(&site, request(operation, headers, "")).await;
            let expected = kind.expected(rule, operation);
            if expected.map_or(!is_let, |refusal| status != refusal) {
                wrong.push(format!("{operation} by {kind:?}: {status}, expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The topics of the server.
const TOPICS: [&str; 4] = [HTTP_TOPIC, COMMAND_TOPIC, PUBLISH_TOPIC, WEBHOOK_TOPIC];

/// Returns every way to send to a topic: its name, path and body.
fn ways(topic: &str, clone: &str) -> [(&'static str, &'static str, String, Value); 6] {
    let name = format!("job-{topic}").replace('.', "-");
    let publish = json!({ "topic": topic });
    let job = json!({ "name": name, "every": "1h", "topic": topic });
    let publishing =
        json!({ "name": format!("{name}-publish"), "every": "1h", "publish": publish });
    let jobs = "/api/v1/jobs".to_owned();
    let replacing = json!({ "name": "replaced", "every": "1h", "topic": topic });
    [
        ("publish", "POST", "/api/v1/messages".to_owned(), publish.clone()),
        ("batch", "POST", "/api/v1/messages/batch".to_owned(), json!({ "items": [publish] })),
        ("clone", "POST", clone.to_owned(), publish),
        ("job", "POST", jobs.clone(), job),
        ("publishing job", "POST", jobs.clone(), publishing),
        ("replaced job", "PUT", format!("{jobs}/replaced"), replacing),
    ]
}

// spec: C-6, T-56
#[tokio::test]
async fn every_topic_accepts_messages_by_the_scopes_of_its_rule() {
    let mut topics = BTreeSet::new();
    sources(&source_folder(), &mut |_, text| {
        let parts = text.split("_TOPIC: &str = \"").skip(1);
        topics.extend(parts.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    });
    let listed = TOPICS.iter().copied().chain([TEST_TOPIC]).map(str::to_owned).collect();
    assert_eq!(topics, listed, "a topic of the server needs a rule here");
    let site = site();
    let callers = callers(&site).await;
    let message =
        site.as_role(Role::Admin).post("/api/v1/messages", &json!({ "topic": "a" })).await;
    let job = json!({ "name": "replaced", "every": "2h", "topic": "a" });
    let made = site.as_role(Role::Admin).post("/api/v1/jobs", &job).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let clone = format!("/api/v1/messages/{}/clone", message.json["id"].as_str().unwrap());
    for topic in
        TOPICS.into_iter().chain(["punctual.", "punctual.new", "mail", "punctualx", TEST_TOPIC])
    {
        let is_own = topic.starts_with("punctual.");
        for (kind, headers) in callers.iter().filter(|(kind, _)| SCOPES.contains(kind)) {
            let sends = matches!(kind, Kind::TokenPublish | Kind::TokenOperate | Kind::TokenAdmin);
            let defines = matches!(kind, Kind::TokenAdmin);
            for (way, method, path, body) in ways(topic, &clone) {
                let may = if path.starts_with("/api/v1/jobs") { defines } else { sends };
                let request = Request::builder().method(method).uri(&path);
                let mut request = request.header(CONTENT_TYPE, "application/json");
                for (name, value) in headers {
                    request = request.header(*name, value);
                }
                let response = site.send(request.body(Body::from(body.to_string())).unwrap()).await;
                let expected = match (may, is_own) {
                    (false, _) => StatusCode::FORBIDDEN,
                    (true, true) => StatusCode::UNPROCESSABLE_ENTITY,
                    (true, false) if method == "PUT" => StatusCode::OK,
                    (true, false) => StatusCode::CREATED,
                };
                let text = &response.text;
                assert_eq!(response.status, expected, "{way} to {topic} by {kind:?}: {text}");
            }
        }
    }
    let filter = "/api/v1/messages?topic=punctual.http";
    let stored = site.as_role(Role::Viewer).get(filter).await;
    assert_eq!(stored.json["items"], json!([]), "nothing was sent to a topic of the server");
}
