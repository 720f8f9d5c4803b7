//! Wrong types: a value of the wrong type in every field of the API and the configuration. The error says what to
//! write, and never names a Rust type.

use punctual_server::config::{Config, EXAMPLE, Sources};
use serde_json::{Map, Value, json};

use crate::description::resolved;
use crate::site::Site;

/// Words of the code that errors must not contain.
const BANNED: [&str; 17] = [
    "struct",
    "enum",
    "variant",
    "usize",
    "u64",
    "u32",
    "u16",
    "i64",
    "i32",
    "f64",
    "a sequence",
    "a map",
    "untagged",
    "newtype",
    "builder",
    "via_default",
    "allow_volatile",
];
/// Keys of tables of a job that the description of the API leaves open.
const OPEN_KEYS: [&str; 7] = [
    "http.headers.X",
    "publish.headers.X",
    "command.env.X",
    "misfire.policy",
    "misfire.threshold",
    "misfire.window",
    "misfire.catch_up_max",
];
/// Largest depth of nested fields that are tested.
const DEPTH_MAX: usize = 4;

pub(crate) fn assert_plain(what: &str, text: &str) {
    for word in BANNED {
        assert!(!text.contains(word), "{what} says {word:?}: {text}");
    }
    let call = text.match_indices("()").any(|(at, _)| {
        text[..at].ends_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '_')
    });
    assert!(!call, "{what} says a call: {text}");
}

/// Returns one value of every JSON type.
fn values() -> [Value; 7] {
    [json!("§"), json!(-7), json!(1.5), json!(true), json!([[]]), json!({ "§": 1 }), json!([{}])]
}

/// Collects the path of each field of a schema, nested objects included.
fn fields(document: &Value, schema: &Value, path: &[String], all: &mut Vec<Vec<String>>) {
    let schema = resolved(document, schema);
    for name in ["oneOf", "anyOf", "allOf"] {
        for one in schema[name].as_array().into_iter().flatten() {
            fields(document, one, path, all);
        }
    }
    if path.len() >= DEPTH_MAX {
        return;
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let mut path = path.to_vec();
        path.push(name.clone());
        if !all.contains(&path) {
            all.push(path.clone());
        }
        fields(document, field, &path, all);
    }
}

fn nested(path: &[String], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |value, name| Value::Object(Map::from_iter([(name.clone(), value)])))
}

#[tokio::test]
async fn no_error_response_names_a_rust_type() {
    let site = Site::with(|builder| builder);
    let document = site.get("/api/openapi.json").await.json;
    let (mut operations, mut refused) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            operations += 1;
            let mut all = vec![Vec::new()];
            fields(&document, schema, &[], &mut all);
            let place = path.replace(['{', '}'], "");
            for field in all {
                for value in values() {
                    let body = nested(&field, value);
                    let response = site.call(&method.to_uppercase(), &place, &body).await;
                    assert_plain(&format!("{method} {path} with {body}"), &response.text);
                    refused += usize::from(response.status.as_u16() == 422);
                }
            }
        }
    }
    assert!(operations > 30 && refused > 1_000, "{operations} {refused}");
}

// Finding P15 of the newcomer's review: the error about an unknown transport mentioned the builder.
#[tokio::test]
async fn an_unknown_transport_is_refused_with_a_hint() {
    let site = Site::with(|builder| builder);
    let message = json!({ "topic": "t", "transport": "nope" });
    let job = json!({ "name": "j", "every": "5m", "publish": message });
    for (path, body) in [
        ("/api/v1/messages", message.clone()),
        ("/api/v1/messages", json!({ "topic": "t", "transport": "nope", "delay": "1h" })),
        ("/api/v1/messages/batch", json!({ "items": [message] })),
        ("/api/v1/jobs", job),
    ] {
        let refused = site.post(path, &body).await;
        assert_plain(&format!("{path} with {body}"), &refused.text);
        if path.starts_with("/api/v1/messages") {
            assert!(refused.text.contains("nope"), "{path}: {}", refused.text);
            assert!(refused.text.contains("[transports.NAME]"), "{path}: {}", refused.text);
        }
    }
}

#[tokio::test]
async fn no_query_error_names_a_rust_type() {
    let site = Site::with(|builder| builder);
    let document = site.get("/api/openapi.json").await.json;
    for (path, item) in document["paths"].as_object().unwrap() {
        let parameters = item["get"]["parameters"].as_array();
        // Streams do not end.
        for parameter in parameters.into_iter().flatten().filter(|_| !path.ends_with("/events")) {
            if parameter["in"] != "query" {
                continue;
            }
            let name = parameter["name"].as_str().unwrap();
            for value in ["x", "-1", "1.5", "", "99999999999999999999"] {
                let place = path.replace(['{', '}'], "");
                let response = site.get(&format!("{place}?{name}={value}")).await;
                assert_plain(&format!("{path}?{name}={value}"), &response.text);
                assert!(!response.text.contains("invalid digit"), "{}", response.text);
            }
        }
    }
}

/// The keys of a job with those of its tables, as the description of the API has them.
pub(crate) async fn job_keys() -> Vec<String> {
    let document = Site::with(|builder| builder).get("/api/openapi.json").await.json;
    let post = &document["paths"]["/api/v1/jobs"]["post"];
    let mut all = Vec::new();
    fields(&document, &post["requestBody"]["content"]["application/json"]["schema"], &[], &mut all);
    let keys: Vec<String> = all.into_iter().map(|path| path.join(".")).collect();
    for known in ["when_interrupted", "payload", "retry.first", "command.input"] {
        assert!(keys.iter().any(|key| key == known), "{known} is missing: {keys:?}");
    }
    keys
}

/// Every key of the example with a value of each kind, and those that it leaves out.
#[tokio::test]
async fn no_configuration_error_names_a_rust_type() {
    let config: Config = Sources::default().read("example.toml", EXAMPLE).unwrap();
    let whole = serde_json::to_value(&config).unwrap();
    let mut all = Vec::new();
    keys(&whole, &[], &mut all);
    let job_keys = job_keys().await.into_iter().chain(OPEN_KEYS.map(ToOwned::to_owned));
    all.extend(job_keys.map(|key| format!("jobs.x.{key}")));
    assert!(all.len() > 100, "{all:?}");
    for key in all {
        for value in
            ["\"§\"", "-7", "1.5", "true", "[[]]", "{ x = 1 }", "[{}]", "2026-01-01T00:00:00Z"]
        {
            let key: Vec<String> = key.split('.').map(|part| format!("{part:?}")).collect();
            let text = format!("{} = {value}", key.join("."));
            if let Err(problems) = Sources::default().read("punctual.toml", &text) {
                assert_plain(&text, &problems.to_string());
            }
        }
    }
}

pub(crate) fn keys(value: &Value, path: &[&str], all: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
        all.push(path.join("."));
        keys(value, &path, all);
    }
}

// P15: values that are valid in a configuration are valid over HTTP, and the other way round.
#[tokio::test]
async fn retry_has_the_same_form_in_configuration_and_api() {
    let site = Site::with(|builder| builder);
    for (number, (json, toml)) in [
        (json!(3), "3"),
        (json!(["10s", "1m"]), "[\"10s\", \"1m\"]"),
        (json!({ "waits": ["10s"] }), "{ waits = [\"10s\"] }"),
        (
            json!({ "retries": 5, "first": "10s", "cap": "1h" }),
            "{ retries = 5, first = \"10s\", cap = \"1h\" }",
        ),
        (json!({ "unlimited": true }), "{ unlimited = true }"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("[jobs.a]\nevery = \"5m\"\ntopic = \"t\"\nretry = {toml}");
        Sources::default().read("punctual.toml", &text).unwrap();
        let message = json!({ "topic": "t", "retry": json });
        let sent = site.post("/api/v1/messages", &message).await;
        assert_eq!(sent.status.as_u16(), 201, "{json}: {}", sent.text);
        let job =
            json!({ "name": format!("j{number}"), "every": "5m", "topic": "t", "retry": json });
        let made = site.post("/api/v1/jobs", &job).await;
        assert_eq!(made.status.as_u16(), 201, "{json}: {}", made.text);
    }
    let past = json!({ "topic": "t", "at": "2020-01-01T00:00:00Z" });
    let refused = site.post("/api/v1/messages", &past).await;
    assert!(refused.text.contains("is in the past"), "{}", refused.text);
    assert_plain("a message in the past", &refused.text);
}
