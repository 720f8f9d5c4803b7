//! Planned one-time jobs over HTTP.

use axum::http::StatusCode;
use punctual::{Builder, Job, Retry};
use punctual_server::Role;
use serde_json::{Value, json};

use crate::site::Site;

const HOUR: std::time::Duration = std::time::Duration::from_secs(3_600);

fn reminding(builder: Builder) -> Builder {
    builder.handler("remind", |_: Option<String>| std::future::ready(()))
}

/// Starts a site with two reminders, due in one and in two hours.
async fn planned() -> Site {
    let site = Site::started(reminding).await;
    let jobs = site.app.punctual.jobs();
    jobs.once("remind").after(HOUR).key("order-7").await.unwrap();
    jobs.once("remind").after(HOUR * 2).key("order-8").await.unwrap();
    site
}

// spec: T-75
#[tokio::test]
async fn planned_jobs_are_listed_paused_and_resumed_by_name_and_key() {
    let site = planned().await;
    let operator = site.as_role(Role::Operator);
    let published = json!({"topic": "remind", "key": "order-7", "delay": "1h"});
    assert_eq!(site.post("/api/v1/messages", &published).await.status, StatusCode::CREATED);
    let path = "/api/v1/jobs/remind/planned";
    let listed = site.get(path).await.json;
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "a message is none: {listed}");
    let request = json!({"key": "order-7", "reason": "outage"});
    let paused = operator.post(&format!("{path}/pause"), &request).await;
    assert_eq!(paused.status, StatusCode::OK, "{}", paused.text);
    assert_eq!(paused.json["messages"].as_array().unwrap().len(), 1, "{}", paused.text);
    let listed = site.get(&format!("{path}?key=order-7")).await.json;
    let one = &listed["items"][0];
    assert_eq!(
        (&one["paused"]["by"], &one["paused"]["reason"]),
        (&json!("operator"), &json!("outage"))
    );
    assert_eq!(one["due_at"], "2026-03-01T13:00:00Z", "its own time: {one}");
    let resumed = operator.post(&format!("{path}/resume"), &json!({})).await;
    assert_eq!((&resumed.json["were_paused"], &resumed.json["unchanged"]), (&json!(1), &json!(1)));
    let listed = site.get(&format!("{path}?key=order-7")).await.json;
    assert_eq!(listed["items"][0]["paused"], json!(null));
    let what: Vec<String> =
        site.app.audit().list(None, 2).await.unwrap().into_iter().map(|one| one.what).collect();
    assert_eq!(what, ["planned_jobs.resume", "planned_jobs.pause"], "newest first");
}

// spec: T-75
#[tokio::test]
async fn planned_jobs_are_triggered_and_cancelled_by_name_and_key() {
    let site = planned().await;
    let path = "/api/v1/jobs/remind/planned";
    let triggered = site.post(&format!("{path}/trigger"), &json!({"key": "order-7"})).await;
    assert_eq!(triggered.status, StatusCode::OK, "{}", triggered.text);
    site.settled().await;
    let message = triggered.json["messages"][0].as_str().unwrap();
    assert_eq!(site.get(&format!("/api/v1/messages/{message}")).await.json["state"], "done");
    let cancelled = site.post(&format!("{path}/cancel"), &json!({"key": "order-8"})).await;
    assert_eq!(cancelled.json, json!({"cancelled": 1}), "{}", cancelled.text);
    assert_eq!(site.get(path).await.json["items"], json!([]));
    let none = site.post(&format!("{path}/trigger"), &json!({"key": "order-8"})).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND, "{}", none.text);
    assert!(none.text.contains("is planned"), "{}", none.text);
    let none = site.post(&format!("{path}/pause"), &json!({"reason": " "})).await;
    assert_eq!(none.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", none.text);
}

// spec: T-75
#[tokio::test]
async fn planned_jobs_of_all_names_are_listed_and_counted() {
    let site = planned().await;
    let jobs = site.app.punctual.jobs();
    jobs.once("remind-twice").after(HOUR).await.unwrap();
    let published = json!({"topic": "remind", "delay": "1h"});
    assert_eq!(site.post("/api/v1/messages", &published).await.status, StatusCode::CREATED);
    let path = "/api/v1/messages?planned=true&state=pending,running";
    let listed = site.get(path).await.json;
    let names: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["job"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["remind-twice", "remind", "remind"], "newest first: {listed}");
    assert!(listed["items"].as_array().unwrap().iter().all(|one| one["planned"] == true));
    let first = site.get(&format!("{path}&limit=1")).await.json;
    let next = first["next"].as_str().unwrap();
    let rest = site.get(&format!("{path}&after={next}")).await.json;
    assert_eq!(rest["items"].as_array().unwrap().len(), 2, "{rest}");
    let counted = site.get("/api/v1/messages/count?planned=true&state=pending").await.json;
    assert_eq!(counted, json!({"count": 3, "more": false, "estimate": false}));
    let about = site.get(&format!("{path}&key=order-7")).await.json;
    assert_eq!(about["items"].as_array().unwrap().len(), 1, "{about}");
}

// spec: T-75
#[tokio::test]
async fn a_name_used_only_by_planned_jobs_refers_to_their_list() {
    let site = planned().await;
    let response = site.get("/api/v1/jobs/remind").await;
    assert_eq!(response.status, StatusCode::NOT_FOUND, "{}", response.text);
    let detail = response.json["detail"].as_str().unwrap();
    assert_eq!(
        detail,
        "no job \"remind\" is defined, but 2 one-time jobs of this name are planned; \
         see GET /api/v1/jobs/remind/planned"
    );
    site.app.punctual.jobs().cancel("remind", "order-7").await.unwrap();
    let text = site.get("/api/v1/jobs/remind").await.text;
    assert!(text.contains("1 one-time job of this name is planned"), "{text}");
    site.app.punctual.jobs().cancel("remind", "order-8").await.unwrap();
    let text = site.get("/api/v1/jobs/remind").await.text;
    assert!(text.contains("there is no job"), "{text}");
}

// spec: T-75
#[tokio::test]
async fn a_redriven_planned_job_is_still_listed() {
    let site = Site::started(|builder| {
        builder.handler("remind", |_: Option<String>| std::future::ready(Err::<(), _>("refused")))
    })
    .await;
    let retry = Retry::none();
    let sent = site.app.punctual.jobs().once("remind").key("order-7").retry(retry).await.unwrap();
    site.settled().await;
    let message = format!("/api/v1/messages/{}", sent.id);
    assert_eq!(site.get(&message).await.json["state"], "dead");
    let redriven = site.post(&format!("{message}/redrive"), &json!({})).await;
    assert_eq!(redriven.status, StatusCode::OK, "{}", redriven.text);
    let redriven = site.get(&message).await.json;
    assert_eq!((&redriven["source"], &redriven["planned"]), (&json!("redriven"), &json!(true)));
}

// spec: T-75
#[tokio::test]
async fn a_redriven_planned_job_is_no_occurrence_of_the_job_of_its_name() {
    let site = Site::started(|builder| {
        builder
            .handler("remind", |_: Option<String>| std::future::ready(Err::<(), _>("refused")))
            .declare(Job::cron("remind", "0 * * * *"))
    })
    .await;
    let (jobs, retry) = (site.app.punctual.jobs(), Retry::none());
    let sent = jobs.once("remind").after(HOUR / 3).retry(retry).await.unwrap();
    site.advance_to("2026-03-01T12:30:00Z").await;
    let redriven = site.post(&format!("/api/v1/messages/{}/redrive", sent.id), &json!({})).await;
    assert_eq!(redriven.status, StatusCode::OK, "{}", redriven.text);
    site.advance_to("2026-03-01T13:30:00Z").await;
    let path = "/api/v1/jobs/remind/occurrences?to=2026-03-01T13:30:00Z";
    let decided = site.get(path).await.json;
    let nominals: Vec<&Value> =
        decided["items"].as_array().unwrap().iter().map(|one| &one["nominal"]).collect();
    assert_eq!(nominals, ["2026-03-01T13:00:00Z"], "{decided}");
}
