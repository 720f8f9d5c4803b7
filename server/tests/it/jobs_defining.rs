//! Job definitions over HTTP: created, replaced and deleted ones, and those of code and files.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_MATCH};
use axum::http::{Request, StatusCode};
use punctual::{Builder, Job, Occurrence};
use punctual_server::config::CommandConfig;
use serde_json::{Value, json};

use crate::site::{Site, TestResponse};

fn base(builder: Builder) -> Builder {
    builder
        .job(Job::cron("coded", "0 * * * *"), |_: Occurrence| async {})
        .handler("mail", |_: Value| async {})
}

fn mail(name: &str) -> Value {
    json!({"name": name, "cron": "*/5 * * * *", "topic": "mail", "payload": {"to": "ada"}})
}

async fn with_tag(site: &Site, method: &str, path: &str, tag: &str, body: &Value) -> TestResponse {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, "application/json")
        .header(IF_MATCH, tag)
        .body(Body::from(body.to_string()));
    site.send(request.unwrap()).await
}

// spec: C-7, U-40
#[tokio::test]
async fn a_job_is_created_and_runs() {
    let site = Site::started(base).await;
    let created = site.post("/api/v1/jobs", &mail("greet")).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
    assert_eq!(created.headers["location"], "/api/v1/jobs/greet");
    assert_eq!(
        (&created.json["source"], &created.json["origin"]),
        (&json!("api"), &json!("runtime"))
    );
    assert_eq!(created.json["payload"], json!({"to": "ada"}));
    site.advance_to("2026-03-01T12:05:00Z").await;
    assert_eq!(site.get("/api/v1/jobs/greet").await.json["last"]["ending"], "succeeded");
    let again = site.post("/api/v1/jobs", &mail("greet")).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    assert!(again.text.contains("PUT /api/v1/jobs/greet"), "{}", again.text);
    let coded = site.post("/api/v1/jobs", &mail("coded")).await;
    assert_eq!(coded.status, StatusCode::CONFLICT, "{}", coded.text);
    let noted = &site.app.audit().list(None, 9).await.unwrap()[0];
    assert_eq!((noted.what.as_str(), noted.target.as_str()), ("job.create", "greet"));
}

#[tokio::test]
async fn a_name_with_blanks_is_found_at_its_location() {
    let site = Site::started(base).await;
    let created = site.post("/api/v1/jobs", &mail(" tell ada ")).await;
    assert_eq!((created.status, &created.json["name"]), (StatusCode::CREATED, &json!("tell ada")));
    let place = created.headers["location"].to_str().unwrap();
    assert_eq!(place, "/api/v1/jobs/tell%20ada");
    assert_eq!(site.get(place).await.json["name"], "tell ada");
}

#[tokio::test]
async fn a_job_created_disabled_is_paused() {
    let site = Site::started(base).await;
    let mut spec = mail("later");
    spec["enabled"] = json!(false);
    let created = site.post("/api/v1/jobs", &spec).await;
    assert_eq!((created.status, &created.json["phase"]), (StatusCode::CREATED, &json!("paused")));
}

// spec: C-7
#[tokio::test]
async fn an_invalid_definition_is_refused_field_by_field() {
    let site = Site::started(base).await;
    for (body, field, words) in [
        (json!({"every": "5m", "topic": "t"}), "name", "give the job a name"),
        (json!({"name": "a", "cron": "0 2 * * FRY", "topic": "t"}), "cron", "position 9"),
        (json!({"name": "a", "cron": "61 * * * *", "topic": "t"}), "cron", "minute (position 1)"),
        (
            json!({"name": "a", "cron": "* * * * *", "zone": "Mars", "topic": "t"}),
            "zone",
            "no time zone",
        ),
        (json!({"name": "a", "every": 5, "topic": "t"}), "every", "string"),
        (json!({"name": "a", "every": "5m", "topic": "t", "colour": 1}), "colour", "unknown key"),
        (json!({"name": " ", "every": "5m", "topic": "t"}), "name", "name"),
        (json!({"name": "a", "every": "5m"}), "target", "http, command, publish and topic"),
    ] {
        let response = site.post("/api/v1/jobs", &body).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
        assert!(response.text.contains(words), "{}", response.text);
    }
    let request = Request::post("/api/v1/jobs").header(CONTENT_TYPE, "application/json");
    let torn = site.send(request.body(Body::from("{\"name\":")).unwrap()).await;
    assert_eq!(torn.status, StatusCode::BAD_REQUEST, "{}", torn.text);
    let jobs = site.get("/api/v1/jobs").await.json;
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "nothing was stored: {jobs}");
}

// spec: C-7
#[tokio::test]
async fn a_replaced_definition_keeps_the_changes_of_operators() {
    let site = Site::started(base).await;
    site.post("/api/v1/jobs", &mail("greet")).await;
    site.post("/api/v1/jobs/greet/pause", &json!({"reason": "audit"})).await;
    let spec = json!({"cron": "0 6 * * *", "zone": "Europe/Berlin", "topic": "mail"});
    let replaced = site.call("PUT", "/api/v1/jobs/greet", &spec).await;
    assert_eq!(replaced.status, StatusCode::OK, "{}", replaced.text);
    assert_eq!(replaced.json["cron"], "0 6 * * *");
    assert_eq!(
        (&replaced.json["phase"], &replaced.json["payload"]),
        (&json!("paused"), &json!(null))
    );
    let other = json!({"name": "other", "every": "5m", "topic": "mail"});
    let renamed = site.call("PUT", "/api/v1/jobs/greet", &other).await;
    assert_eq!(renamed.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", renamed.text);
    assert_eq!(renamed.json["errors"][0]["field"], "name");
}

#[tokio::test]
async fn declared_jobs_cannot_be_replaced_over_http() {
    let site = Site::started(base).await;
    let filed = Job::cron("filed", "0 * * * *").topic("mail");
    site.app.punctual.admin().reconcile("punctual.toml", vec![filed]).await.unwrap();
    assert_eq!(site.get("/api/v1/jobs/filed").await.json["source"], "file");
    let spec = json!({"every": "5m", "topic": "mail"});
    for (name, words) in
        [("coded", "PATCH /api/v1/jobs/coded"), ("filed", "the configuration file declares it")]
    {
        for method in ["PUT", "DELETE"] {
            let response = site.call(method, &format!("/api/v1/jobs/{name}"), &spec).await;
            assert_eq!(response.status, StatusCode::CONFLICT, "{method} {}", response.text);
            assert!(response.text.contains(words), "{}", response.text);
        }
    }
    // A job that is no longer declared may be deleted.
    site.app.punctual.admin().reconcile("punctual.toml", Vec::new()).await.unwrap();
    let gone = site.call("DELETE", "/api/v1/jobs/filed", &json!({})).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text);
}

// spec: C-7
#[tokio::test]
async fn a_job_is_deleted_with_its_history() {
    let site = Site::started(base).await;
    site.post("/api/v1/jobs", &mail("greet")).await;
    site.advance_to("2026-03-01T12:05:00Z").await;
    let deleted = site.call("DELETE", "/api/v1/jobs/greet", &json!({})).await;
    assert_eq!((deleted.status, deleted.text.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(site.get("/api/v1/jobs/greet").await.status, StatusCode::NOT_FOUND);
    site.advance_to("2026-03-01T12:06:00Z").await;
    site.post("/api/v1/jobs", &mail("greet")).await;
    assert_eq!(site.get("/api/v1/jobs/greet").await.json["never_run"], true, "as new");
}

#[tokio::test]
async fn an_edit_of_an_outdated_version_is_refused() {
    let site = Site::started(base).await;
    site.post("/api/v1/jobs", &mail("greet")).await;
    let path = "/api/v1/jobs/greet";
    let seen = site.get(path).await;
    let tag = seen.headers[ETAG].to_str().unwrap().to_owned();
    // Running changes the version, but not the definition.
    site.advance_to("2026-03-01T12:05:00Z").await;
    assert_eq!(site.get(path).await.headers[ETAG], tag.as_str());
    let version = format!("\"{}\"", seen.json["version"]);
    let spec = json!({"every": "1h", "topic": "mail"});
    let stale = with_tag(&site, "PUT", path, &version, &spec).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED, "{}", stale.text);
    let edit = json!({"timeout": "9s"});
    let edited = with_tag(&site, "PATCH", path, &tag, &edit).await;
    assert_eq!(edited.status, StatusCode::OK, "{}", edited.text);
    assert_ne!(edited.headers[ETAG], tag.as_str());
    for (method, body) in [("PATCH", &edit), ("PUT", &spec), ("DELETE", &edit)] {
        let refused = with_tag(&site, method, path, &tag, body).await;
        assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED, "{method} {}", refused.text);
        assert!(refused.text.contains("read it again"), "{}", refused.text);
    }
    let version = format!("\"{}\"", site.get(path).await.json["version"]);
    assert_eq!(with_tag(&site, "PUT", path, &version, &spec).await.status, StatusCode::OK);
    assert_eq!(with_tag(&site, "DELETE", path, "*", &spec).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn secrets_are_redacted_and_survive_a_replacement_with_the_redacted_value() {
    let site = Site::started(base).await;
    let http = json!({"url": "https://example.com/", "headers": {"Authorization": "Bearer s3cret"},
        "signature": {"secret": "s3cret"}});
    let spec = json!({"name": "call", "every": "1h", "http": http});
    let created = site.post("/api/v1/jobs", &spec).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
    assert_eq!(created.json["target"]["kind"], "http");
    assert!(!created.text.contains("s3cret"), "{}", created.text);
    let mut shown = created.json["target"].clone();
    shown.as_object_mut().unwrap().remove("kind");
    shown["url"] = json!("https://example.com/other");
    let replaced =
        site.call("PUT", "/api/v1/jobs/call", &json!({"every": "2h", "http": shown})).await;
    assert_eq!(replaced.status, StatusCode::OK, "{}", replaced.text);
    let stored = site.app.punctual.admin().job("call").await.unwrap();
    let body = String::from_utf8_lossy(&stored.job.body.bytes).into_owned();
    assert_eq!(body.matches("s3cret").count(), 2, "{body}");
    assert!(body.contains("/other"));
    let audited = serde_json::to_string(&site.app.audit().list(None, 9).await.unwrap()).unwrap();
    assert!(!audited.contains("s3cret"), "{audited}");
    shown["headers"]["X-New"] = shown["headers"]["Authorization"].clone();
    let lost = site.call("PUT", "/api/v1/jobs/call", &json!({"every": "2h", "http": shown})).await;
    assert_eq!(lost.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", lost.text);
    assert_eq!(lost.json["errors"][0]["field"], "http.headers.X-New");
}

// Finding P16 of the newcomer's review: a job with a program was created while programs were disabled.
// spec: C-7
#[tokio::test]
async fn a_job_with_a_program_is_refused_while_programs_are_off() {
    let site = |enabled| async move {
        let config = CommandConfig { enabled, ..CommandConfig::default() };
        Site::started(base).await.changed(|app| app.running_programs(config))
    };
    let job = json!({"name": "a", "every": "5m", "command": {"program": "ls"}});
    let off = site(false).await;
    let refused = off.post("/api/v1/jobs", &job).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
    assert_eq!(refused.json["errors"][0]["field"], "command", "{}", refused.text);
    assert!(refused.text.contains("set command.enabled = true"), "{}", refused.text);
    assert_eq!(off.post("/api/v1/jobs", &mail("a")).await.status, StatusCode::CREATED);
    let replaced = off.call("PUT", "/api/v1/jobs/a", &job).await;
    assert_eq!(replaced.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", replaced.text);
    let created = site(true).await.post("/api/v1/jobs", &job).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
}
