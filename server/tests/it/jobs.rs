//! Jobs over HTTP: the list, one job and its history.

use axum::http::StatusCode;
use punctual::{Builder, Job, Occurrence};
use punctual_server::Role;
use serde_json::json;

use crate::running_server::{start, until};
use crate::site::Site;

async fn nothing(_: Occurrence) {}

fn three(builder: Builder) -> Builder {
    builder
        .job(
            Job::cron("nightly", "0 2 * * *").zone("Europe/Berlin").tag("report").priority(7),
            nothing,
        )
        .job(Job::cron("hourly", "0 * * * *").description("Counts everything"), nothing)
        .job(Job::every("often", std::time::Duration::from_mins(10)), |_: Occurrence| async {
            Err::<(), _>(std::io::Error::other("no disk"))
        })
}

fn names(response: &crate::site::TestResponse) -> Vec<&str> {
    let items = response.json["items"].as_array().unwrap();
    items.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

// spec: C-7, T-56, T-57
#[tokio::test]
async fn the_list_is_complete_before_the_first_run() {
    let site = Site::with(three);
    let response = site.get("/api/v1/jobs").await;
    assert_eq!(response.status, StatusCode::OK, "{}", response.text);
    assert_eq!(names(&response), ["hourly", "nightly", "often"]);
    let nightly = &response.json["items"][1];
    for (key, value) in [
        ("phase", json!("active")),
        ("word", json!("never run")),
        ("never_run", json!(true)),
        ("kind", json!("cron")),
        ("cron", json!("0 2 * * *")),
        ("zone", json!("Europe/Berlin")),
        ("next_at", json!("2026-03-02T01:00:00Z")),
        ("source", json!("code")),
        ("priority", json!(7)),
        ("tags", json!(["report"])),
        ("last", json!(null)),
        ("recent", json!([])),
        ("overlap", json!({"policy": "skip", "parallel_max": null})),
    ] {
        assert_eq!(nightly[key], value, "{key} of {nightly}");
    }
    assert_eq!(nightly["misfire"]["policy"], "fire_now");
    assert_eq!(nightly["misfire"]["threshold_ms"], 60_000);
    assert_eq!(nightly["misfire"]["threshold_from"], "default");
    assert_eq!(nightly["target"], json!({"kind": "code", "topic": "nightly"}));
    let one = site.get("/api/v1/jobs/nightly").await;
    assert_eq!((one.status, &one.json["name"]), (StatusCode::OK, &json!("nightly")));
}

// spec: C-7
#[tokio::test]
async fn the_list_is_filtered_sorted_and_paged() {
    let site = Site::started(three).await;
    site.advance_to("2026-03-01T12:10:00Z").await;
    for (query, expected) in [
        ("tag=REPORT", &["nightly"][..]),
        ("search=counts", &["hourly"]),
        ("search=NIGHT", &["nightly"]),
        ("phase=paused", &[]),
        ("phase=active&limit=2", &["hourly", "nightly"]),
        ("limit=2&after=hourly", &["nightly", "often"]),
        ("limit=2&after=nightly", &["often"]),
        ("sort=next", &["often", "hourly", "nightly"]),
        ("sort=next&after=often&limit=1", &["hourly"]),
        ("sort=last", &["often", "hourly", "nightly"]),
        ("app=unknown", &[]),
    ] {
        let response = site.get(&format!("/api/v1/jobs?{query}")).await;
        assert_eq!(names(&response), expected, "{query}");
    }
    let first = site.get("/api/v1/jobs?limit=2").await;
    assert_eq!(first.json["next"], "nightly");
    let last = site.get("/api/v1/jobs?limit=2&after=nightly").await;
    assert_eq!(last.json["next"], json!(null));
}

#[tokio::test]
async fn invalid_list_parameters_are_refused_by_name() {
    let site = Site::with(three);
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("phase=asleep", "phase"),
        ("sort=size", "sort"),
        ("sort=next&after=gone", "after"),
    ] {
        let response = site.get(&format!("/api/v1/jobs?{query}")).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{query} {}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
        assert_eq!(response.headers["content-type"], "application/problem+json");
    }
    let unknown = site.get("/api/v1/jobs?colour=red").await;
    assert_eq!(unknown.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", unknown.text);
}

// spec: C-7, T-56
#[tokio::test]
async fn a_job_shows_its_latest_runs_and_its_history_is_paged() {
    let site = Site::started(three).await;
    site.advance_to("2026-03-01T12:30:00Z").await;
    let often = site.get("/api/v1/jobs/often").await.json;
    assert_eq!((&often["word"], &often["runs"]), (&json!("failed"), &json!(3)), "{often}");
    let nominals: Vec<&str> = often["recent"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["nominal"].as_str().unwrap())
        .collect();
    assert_eq!(
        nominals,
        ["2026-03-01T12:10:00Z", "2026-03-01T12:20:00Z", "2026-03-01T12:30:00Z"],
        "oldest first"
    );
    let page = site.get("/api/v1/jobs/often/executions?limit=2").await.json;
    assert_eq!(page["items"][0]["nominal"], "2026-03-01T12:30:00Z");
    assert!(page["items"][0]["note"].as_str().unwrap().contains("no disk"), "{page}");
    let next = page["next"].as_str().unwrap();
    let rest = site.get(&format!("/api/v1/jobs/often/executions?limit=2&after={next}")).await.json;
    assert_eq!(rest["items"].as_array().unwrap().len(), 1, "{rest}");
    assert_eq!(rest["next"], json!(null));
    let none = site.get("/api/v1/jobs/often/executions?ending=succeeded").await.json;
    assert_eq!(none["items"], json!([]));
    let wrong = site.get("/api/v1/jobs/often/executions?ending=splendid").await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(wrong.json["errors"][0]["field"], "ending");
}

// spec: C-7, T-58
#[tokio::test]
async fn an_unknown_job_is_not_found_on_every_route() {
    let site = Site::with(three);
    let range = json!({"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"});
    let spec = json!({"every": "5m", "topic": "t"});
    for (method, path, body) in [
        ("GET", "", json!({})),
        ("PUT", "", spec),
        ("PATCH", "", json!({"timeout": "5s"})),
        ("DELETE", "", json!({})),
        ("GET", "/layers", json!({})),
        ("GET", "/upcoming", json!({})),
        ("GET", "/occurrences", json!({})),
        ("GET", "/executions", json!({})),
        ("GET", "/misfire-preview?down=2h", json!({})),
        ("POST", "/reset", json!({})),
        ("POST", "/trigger", json!({})),
        ("POST", "/pause", json!({"reason": "x"})),
        ("POST", "/resume", json!({})),
        ("POST", "/skip", json!({})),
        ("POST", "/cursor", json!({"to": "2026-03-02T00:00:00Z"})),
        ("POST", "/backfill", range),
    ] {
        for name in ["unknown", "%20"] {
            let response = site.call(method, &format!("/api/v1/jobs/{name}{path}"), &body).await;
            assert_eq!(response.status, StatusCode::NOT_FOUND, "{method} {path} {}", response.text);
            assert!(response.text.contains("GET /api/v1/jobs"), "{}", response.text);
        }
    }
}

// spec: T-56
#[tokio::test]
async fn a_viewer_cannot_change_jobs() {
    let site = Site::started(three).await;
    let (viewer, operator) = (site.as_role(Role::Viewer), site.as_role(Role::Operator));
    let range = |dry: bool| json!({"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z", "dry_run": dry});
    for (path, body) in [
        ("/trigger", json!({})),
        ("/pause", json!({"reason": "x"})),
        ("/resume", json!({})),
        ("/skip", json!({})),
        ("/cursor", json!({"to": "2026-03-02T00:00:00Z"})),
        ("/backfill", range(false)),
    ] {
        let path = format!("/api/v1/jobs/hourly{path}");
        let response = viewer.post(&path, &body).await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{path} {}", response.text);
        assert!(response.text.contains("this needs the role operator"), "{}", response.text);
    }
    let spec = json!({"name": "new", "every": "5m", "topic": "t"});
    for (method, path) in [("POST", ""), ("PUT", "/hourly"), ("DELETE", "/hourly")] {
        let response = operator.call(method, &format!("/api/v1/jobs{path}"), &spec).await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{method} {}", response.text);
        assert!(response.text.contains("this needs the role admin"), "{}", response.text);
    }
    let edit = viewer.call("PATCH", "/api/v1/jobs/hourly", &json!({"timeout": "5s"})).await;
    assert_eq!(edit.status, StatusCode::FORBIDDEN);
    let dry = viewer.post("/api/v1/jobs/hourly/backfill", &range(true)).await;
    assert_eq!(dry.status, StatusCode::OK, "looking is not acting: {}", dry.text);
    assert_eq!(viewer.get("/api/v1/jobs/hourly").await.json["version"], 1);
    assert_eq!(site.app.audit().list(None, 10).await.unwrap().len(), 0);
}

// Decision 3.31: a page of the history has 20 rows by default.
#[tokio::test]
async fn a_page_of_executions_has_twenty_rows_when_no_limit_is_given() {
    let job = Job::every("often", std::time::Duration::from_secs(1));
    let site = Site::with(|builder| builder.job(job, nothing));
    start(&site).await;
    let count = |list: &serde_json::Value| list["items"].as_array().map_or(0, Vec::len);
    until(&site, "/api/v1/executions?limit=100", |list| count(list) > 20).await;
    for path in ["/api/v1/executions", "/api/v1/jobs/often/executions"] {
        let list = site.get(path).await.json;
        assert_eq!((count(&list), list["next"].is_string()), (20, true), "{path}");
        assert_eq!(count(&site.get(&format!("{path}?limit=21")).await.json), 21, "{path}");
    }
}
