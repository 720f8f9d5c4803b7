//! Job overrides over HTTP: values of an operator over a definition.

use axum::http::StatusCode;
use punctual::{Builder, Job, Occurrence};
use serde_json::{Value, json};

use crate::site::Site;

const PATH: &str = "/api/v1/jobs/nightly";

fn nightly(builder: Builder) -> Builder {
    builder.job(Job::cron("nightly", "0 2 * * *").zone("Europe/Berlin"), |_: Occurrence| async {})
}

fn layer<'a>(layers: &'a Value, field: &str) -> &'a Value {
    layers.as_array().unwrap().iter().find(|layer| layer["field"] == field).unwrap()
}

#[tokio::test]
async fn an_edit_overrides_the_definition_and_is_reset_field_by_field() {
    let site = Site::started(nightly).await;
    let edit = json!({"cron": "30 3 * * *", "retry": 3, "timeout": "5m",
        "misfire": {"policy": "fire_all", "catch_up_max": 5}});
    let edited = site.call("PATCH", PATH, &edit).await;
    assert_eq!(edited.status, StatusCode::OK, "{}", edited.text);
    assert_eq!(edited.json["cron"], "30 3 * * *");
    assert_eq!(edited.json["zone"], "Europe/Berlin", "what is not named stays");
    assert_eq!(edited.json["timeout_ms"], 300_000);
    assert_eq!(edited.json["retry"]["attempts_max"], 4);
    assert_eq!(edited.json["misfire"]["catch_up_max"], 5);
    assert_eq!(edited.json["next_at"], "2026-03-02T02:30:00Z");
    let layers = site.get(&format!("{PATH}/layers")).await.json;
    let schedule = layer(&layers, "schedule");
    assert_eq!(schedule["declared"], "0 2 * * *");
    assert_eq!(schedule["overridden"], "30 3 * * *");
    assert_eq!(
        (&schedule["effective"], &schedule["winner"]),
        (&json!("30 3 * * *"), &json!("operator"))
    );
    let reset = site.post(&format!("{PATH}/reset"), &json!({"field": "schedule"})).await;
    assert_eq!(reset.json["cron"], "0 2 * * *", "{}", reset.text);
    assert_eq!(reset.json["timeout_ms"], 300_000);
    let reset = site.post(&format!("{PATH}/reset"), &json!({})).await;
    assert_eq!((&reset.json["timeout_ms"], &reset.json["overridden"]), (&json!(null), &json!([])));
    let what: Vec<String> =
        site.app.audit().list(None, 9).await.unwrap().into_iter().map(|one| one.what).collect();
    assert_eq!(what, ["job.reset", "job.reset", "job.edit"]);
}

#[tokio::test]
async fn null_removes_a_timeout() {
    let site = Site::started(|builder| {
        let job = Job::cron("nightly", "0 2 * * *").timeout(std::time::Duration::from_secs(9));
        builder.job(job, |_: Occurrence| async {})
    })
    .await;
    let edited = site.call("PATCH", PATH, &json!({"timeout": null})).await;
    assert_eq!((edited.status, &edited.json["timeout_ms"]), (StatusCode::OK, &json!(null)));
    assert_eq!(edited.json["overridden"], json!(["timeout"]));
}

#[tokio::test]
async fn an_invalid_edit_is_refused_field_by_field_and_changes_nothing() {
    let site = Site::started(nightly).await;
    for (body, field, words) in [
        (json!({"cron": "0 25 * * *"}), "cron", "hour (position 3)"),
        (json!({"zone": "Europe/Berln"}), "zone", "did you mean Europe/Berlin?"),
        (json!({"every": "5"}), "every", "has no unit"),
        (json!({"cron": "* * * * *", "every": "5m"}), "every", "only one of cron and every"),
        (json!({"timeout": "soon"}), "timeout", "cannot be read"),
        (json!({"retry": {"waits": ["x"]}}), "retry", "cannot be read"),
        (json!({"misfire": "sometimes"}), "misfire", "there is no misfire policy"),
        (json!({"priority": 3}), "priority", "unknown key"),
    ] {
        let response = site.call("PATCH", PATH, &body).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
        assert!(response.text.contains(words), "{}", response.text);
    }
    for body in [json!({}), json!({"every": "5m", "zone": "UTC"})] {
        let response = site.call("PATCH", PATH, &body).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {}", response.text);
    }
    for field in ["colour", "enabled"] {
        let response = site.post(&format!("{PATH}/reset"), &json!({"field": field})).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", response.text);
    }
    assert_eq!(site.get(PATH).await.json["version"], 1);
}
