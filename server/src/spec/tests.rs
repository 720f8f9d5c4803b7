//! Job definitions: valid forms and problems.

use serde_json::json;

use super::*;

fn read(value: Value) -> JobSpec {
    serde_json::from_value(value).unwrap()
}

fn refused(value: Value) -> String {
    match serde_json::from_value::<JobSpec>(value) {
        Ok(spec) => spec.builder("nightly").unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_key_is_read_and_written_back() {
    let spec = read(json!({
        "description": "Sends the report", "tags": ["report"], "cron": "0 2 * * *",
        "zone": "Europe/Warsaw", "misfire": {"policy": "fire_all", "catch_up_max": 3},
        "overlap": "allow(3)", "retry": {"retries": 3, "first": "10s"}, "timeout": "5m",
        "when_interrupted": "lost",
        "queue": "reports", "priority": 9, "payload": {"kind": "daily"},
        "http": {"url": "https://example.com/hook", "headers": {"X-Token": {"env": "TOKEN"}},
            "expect": [200, "3xx"], "signature": {"secret": "s3cret"}},
        "jitter": "10%", "expires_after": "1h", "concurrency": 2, "rate": "10/1m"
    }));
    assert!(spec.enabled);
    let _ = spec.builder("nightly").unwrap();
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(read(written), spec);
}

#[test]
fn short_forms_are_read() {
    let spec = read(json!({"every": "5m", "retry": 2, "misfire": "skip_to_next", "topic": "t"}));
    assert_eq!(spec.retry.unwrap().retries, Some(2));
    assert_eq!(spec.misfire.unwrap(), Misfire::skip_to_next());
}

#[test]
fn each_problem_is_reported_with_the_fix() {
    let job = |more: Value| {
        let mut job = json!({"cron": "0 2 * * *", "topic": "t"});
        let members = more.as_object().unwrap().clone();
        job.as_object_mut().unwrap().extend(members);
        job
    };
    for (value, words) in [
        (json!({"topic": "t"}), "set one of cron, every and at"),
        (job(json!({"anchor": "last run"})), "anchor: an anchor needs every"),
        (
            json!({"every": "5m", "anchor": "noon", "topic": "t"}),
            "anchor: \"noon\" is not an anchor; use an",
        ),
        (json!({"every": "5m"}), "set one of http, command, publish and topic"),
        (job(json!({"every": "5m"})), "set only one of cron, every and at"),
        (job(json!({"http": {"url": "http://a"}})), "set only one of http"),
        (job(json!({"zone": "Europe/Warsav"})), "zone: "),
        (job(json!({"cron": "61 * * * *"})), "cron: "),
        (job(json!({"timeout": "5"})), "has no unit"),
        (job(json!({"retry": {"waits": ["1s"], "first": "1s"}})), "set one or the other"),
        (job(json!({"retry": -1})), "is out of range, use 0 or more"),
        (job(json!({"misfire": "sometimes"})), "there is no misfire policy"),
        (job(json!({"overlap": "maybe"})), "there is no overlap policy"),
        (job(json!({"when_interrupted": "never"})), "`never`, expected `again` or `lost`"),
        (job(json!({"priority": 10})), "priority: "),
        (job(json!({"rate": "often"})), "such as 10/1m"),
        (job(json!({"jitter": "200%"})), "1% to 100%"),
        (job(json!({"concurrency": 0})), "use 1 or more"),
        (job(json!({"croon": "x"})), "unknown field `croon`"),
    ] {
        let error = refused(value.clone());
        assert!(error.contains(words), "{value}: {error}");
    }
}

#[test]
fn several_problems_are_reported_together() {
    let spec = read(json!({"cron": "x", "zone": "Nowhere", "priority": 12, "topic": "t"}));
    let fields: Vec<String> = spec.check("nightly").into_iter().map(|one| one.field).collect();
    assert_eq!(fields, ["cron", "zone", "priority"]);
}

#[test]
fn secrets_are_never_shown() {
    let spec = read(json!({
        "every": "5m",
        "http": {"url": "https://a/", "headers": {"Authorization": "Bearer s3cret", "X": {"env": "X"}},
            "signature": {"secret": "s3cret"}}
    }));
    let view = spec.target().unwrap().view();
    assert!(!view.to_string().contains("s3cret"), "{view}");
    assert_eq!((&view["kind"], &view["headers"]["X"]["env"]), (&json!("http"), &json!("X")));
    assert!(!format!("{spec:?}").contains("s3cret"));
}

#[test]
fn a_body_contains_the_target() {
    let http = HttpTarget { url: "https://a/".to_owned(), ..HttpTarget::default() };
    let work = Work { target: Target::Http(http), payload: Some(json!(1)) };
    let body = serde_json::to_vec(&work).unwrap();
    assert_eq!(Work::of(HTTP_TOPIC, &body), work);
    assert_eq!(Work::of("report", b"{\"a\":1}").target, Target::Code("report".to_owned()));
}

#[test]
fn invalid_statuses_are_refused() {
    for text in ["0xx", "6xx", "700xx", "65535xx", "99", "600", "300-200", "-", "xx", ""] {
        let read: Result<Statuses, _> = serde_json::from_value(json!([text]));
        assert!(read.unwrap_err().to_string().contains("is not a status"), "{text}");
    }
    let read: Statuses = serde_json::from_value(json!([204, "3xx", "400-404"])).unwrap();
    assert_eq!(read.to_string(), "204, 300-399, 400-404");
}
