//! Job actions over HTTP: trigger, pause, resume, skip, cursor.

use axum::http::StatusCode;
use punctual::{Builder, Context, Job, Occurrence};
use punctual_server::Role;
use serde_json::{Value, json};

use crate::site::Site;

async fn nothing(_: Occurrence) {}

fn hourly(builder: Builder) -> Builder {
    builder.job(Job::cron("hourly", "0 * * * *"), nothing)
}

/// Adds a job whose runs take longer than the tests wait.
fn slow(builder: Builder) -> Builder {
    builder.job(Job::cron("slow", "0 * * * *"), |_: Occurrence, context: Context| async move {
        context.cancellation().cancelled().await;
    })
}

// spec: C-7, T-58
#[tokio::test]
async fn a_trigger_runs_the_job_now_as_manual_and_leaves_its_schedule_alone() {
    let site = Site::started(hourly).await;
    let response =
        site.as_role(Role::Operator).post("/api/v1/jobs/hourly/trigger", &json!({})).await;
    assert_eq!(response.status, StatusCode::ACCEPTED, "{}", response.text);
    site.settled().await;
    let job = site.get("/api/v1/jobs/hourly").await.json;
    assert_eq!(job["last"]["source"], "manual", "{job}");
    assert_eq!(job["last"]["message"], response.json["message"]);
    assert_eq!(job["next_at"], "2026-03-01T13:00:00Z");
    assert_eq!(response.json["paused"], false);
    let noted = &site.app.audit().list(None, 1).await.unwrap()[0];
    assert_eq!((noted.what.as_str(), noted.who.as_str()), ("job.trigger", "operator"));
    assert_eq!(noted.target, "hourly");
}

// spec: T-58
#[tokio::test]
async fn a_trigger_of_a_paused_job_runs_it_and_reports_the_pause() {
    let site = Site::started(hourly).await;
    site.post("/api/v1/jobs/hourly/pause", &json!({"reason": "audit"})).await;
    let response = site.post("/api/v1/jobs/hourly/trigger", &json!({})).await;
    assert_eq!((response.status, &response.json["paused"]), (StatusCode::ACCEPTED, &json!(true)));
    site.settled().await;
    let job = site.get("/api/v1/jobs/hourly").await.json;
    assert_eq!((&job["phase"], &job["last"]["source"]), (&json!("paused"), &json!("manual")));
}

// spec: T-58
#[tokio::test]
async fn a_trigger_respects_the_overlap_policy_unless_it_is_ignored() {
    let site = Site::started(slow).await;
    let path = "/api/v1/jobs/slow/trigger";
    assert_eq!(site.post(path, &json!({})).await.status, StatusCode::ACCEPTED);
    let second = site.post(path, &json!({})).await;
    assert_eq!(second.status, StatusCode::CONFLICT, "{}", second.text);
    assert!(second.text.contains("1 run of the job") && second.text.contains("ignore_overlap"));
    let third = site.post(path, &json!({"ignore_overlap": true})).await;
    assert_eq!(third.status, StatusCode::ACCEPTED, "{}", third.text);
    site.settled().await;
    assert_eq!(site.get("/api/v1/jobs/slow").await.json["running"], 2);
}

#[tokio::test]
async fn a_trigger_may_have_its_own_payload() {
    let site = Site::started(|builder| {
        let refuse = |payload: Value| async move {
            Err::<(), _>(std::io::Error::other(format!("got {payload}")))
        };
        builder.job(Job::cron("report", "0 * * * *").payload(&json!({"day": 1})), refuse)
    })
    .await;
    site.post("/api/v1/jobs/report/trigger", &json!({"payload": {"day": 9}})).await;
    site.settled().await;
    let job = site.get("/api/v1/jobs/report").await.json;
    assert!(job["last"]["note"].as_str().unwrap().contains(r#"{"day":9}"#), "{job}");
    assert_eq!(job["payload"], json!({"day": 1}), "only this once");
}

// spec: C-7, T-56, T-59
#[tokio::test]
async fn a_pause_has_an_author_and_a_reason_and_survives_a_restart() {
    let site = Site::started(hourly).await;
    let body = json!({"reason": " audit ", "until": "2026-03-01T14:30:00Z"});
    let paused = site.as_role(Role::Operator).post("/api/v1/jobs/hourly/pause", &body).await;
    assert_eq!(paused.status, StatusCode::OK, "{}", paused.text);
    assert_eq!(paused.json["phase"], "paused");
    assert_eq!(
        paused.json["paused"],
        json!({"by": "operator", "reason": "audit", "at": "2026-03-01T12:00:00Z", "until": "2026-03-01T14:30:00Z"})
    );
    assert_eq!(paused.json["next_at"], json!(null));
    // The next start declares the job again, and keeps the pause.
    let again = punctual::Punctual::builder()
        .stores(site.app.storage.clone(), site.app.inspect.clone())
        .clock(site.clock.clone());
    let again = hourly(again).build().unwrap();
    again.start().await.unwrap();
    site.settled().await;
    assert_eq!(site.get("/api/v1/jobs/hourly").await.json["phase"], "paused");
    again.shutdown().await;
    let resumed = site.post("/api/v1/jobs/hourly/resume", &json!({})).await;
    assert_eq!((resumed.status, &resumed.json["phase"]), (StatusCode::OK, &json!("active")));
    let what: Vec<String> =
        site.app.audit().list(None, 9).await.unwrap().into_iter().map(|one| one.what).collect();
    assert_eq!(what, ["job.resume", "job.pause"], "newest first");
}

#[tokio::test]
async fn a_pause_without_a_reason_or_with_an_end_in_the_past_is_refused() {
    let site = Site::started(hourly).await;
    for (body, field) in [
        (json!({}), "reason"),
        (json!({"reason": "  "}), "reason"),
        (json!({"reason": 7}), "reason"),
        (json!({"reason": "x".repeat(2_000)}), "reason"),
        (json!({"reason": "x", "until": "yesterday"}), "until"),
        (json!({"reason": "x", "until": "2026-03-01T12:00:00Z"}), "until"),
        (json!({"reason": "x", "colour": 1}), "colour"),
    ] {
        let response = site.post("/api/v1/jobs/hourly/pause", &body).await;
        assert_eq!(response.status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {}", response.text);
        assert!(response.text.contains(field), "{body} {}", response.text);
    }
    assert_eq!(site.get("/api/v1/jobs/hourly").await.json["phase"], "active");
}

#[tokio::test]
async fn the_next_occurrence_or_a_given_one_is_skipped() {
    let site = Site::started(hourly).await;
    let path = "/api/v1/jobs/hourly/skip";
    let next = site.post(path, &json!({})).await;
    assert_eq!(
        (next.status, &next.json["nominal"]),
        (StatusCode::OK, &json!("2026-03-01T13:00:00Z"))
    );
    let named = site.post(path, &json!({"nominal": "2026-03-01T16:00:00Z"})).await;
    assert_eq!(named.status, StatusCode::OK, "{}", named.text);
    let job = site.get("/api/v1/jobs/hourly").await.json;
    assert_eq!(job["next_at"], "2026-03-01T14:00:00Z");
    assert_eq!(job["skips"], json!(["2026-03-01T16:00:00Z"]));
    let none = site.post(path, &json!({"nominal": "2026-03-01T16:30:00Z"})).await;
    assert_eq!(none.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", none.text);
    assert!(none.text.contains("the next one is 2026-03-01T17:00:00Z"), "{}", none.text);
    let past = site.post(path, &json!({"nominal": "2026-03-01T13:00:00Z"})).await;
    assert_eq!(past.status, StatusCode::CONFLICT, "{}", past.text);
}

#[tokio::test]
async fn a_cursor_moves_forward_and_skipped_occurrences_are_in_the_history() {
    let site = Site::started(hourly).await;
    let path = "/api/v1/jobs/hourly/cursor";
    let moved = site.post(path, &json!({"to": "2026-03-01T14:10:00Z"})).await;
    assert_eq!(moved.status, StatusCode::OK, "{}", moved.text);
    assert_eq!(moved.json["cursor"], "2026-03-01T15:00:00Z");
    let skipped = site.get("/api/v1/jobs/hourly/executions?ending=skipped").await.json;
    assert_eq!(skipped["items"].as_array().unwrap().len(), 2, "{skipped}");
    assert_eq!(skipped["items"][0]["reason"], "skipped by an operator");
    let pause = json!({"reason": "x"});
    site.post("/api/v1/jobs/hourly/pause", &pause).await;
    let back = site.post(path, &json!({"to": "2026-02-01T00:00:00Z"})).await;
    assert_eq!(back.status, StatusCode::CONFLICT, "{}", back.text);
    let wrong = site.post(path, &json!({})).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", wrong.text);
}
