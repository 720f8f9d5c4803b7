//! Overview and time series.

use std::sync::Arc;
use std::time::Duration;

use punctual::{Context, HandlerError, Job, Occurrence, SystemClock};
use punctual_server::TargetServices;
use punctual_server::config::Config;
use serde_json::{Value, json};

use crate::running_server::{settle, start, until};
use crate::site::Site;
use crate::work::publish_to;

fn site() -> Site {
    Site::with(|builder| {
        let fail = async |_: Context| Err::<(), _>(HandlerError::new("no route").permanent());
        let nightly = |_: Occurrence| async {};
        builder
            .handler("mail", fail)
            .handler("sms", async |_: Context| {})
            .job(Job::cron("nightly", "0 2 * * *"), nightly)
    })
}

#[tokio::test]
async fn the_overview_has_everything_in_one_response() {
    let site = site();
    start(&site).await;
    publish_to(&site, "mail").await;
    publish_to(&site, "sms").await;
    let paused = json!({ "reason": "maintenance" });
    assert_eq!(site.post("/api/v1/queues/slow/pause", &paused).await.status, 200);
    let done = |overview: &Value| {
        overview["counts"]["done"] == 1
            && overview["counts"]["dead"] == 1
            && overview["health"]["condition"] == "degraded"
    };
    let overview = until(&site, "/api/v1/overview", done).await;
    assert_eq!(
        overview["health"]["condition"], "degraded",
        "a message became a dead letter: {overview}"
    );
    assert_eq!(overview["health"]["alerts"][0]["kind"], "dead_letters", "{overview}");
    assert_eq!(overview["dead"]["count"], 1);
    assert_eq!(overview["next"][0], json!({ "job": "nightly", "at": "2026-03-02T02:00:00Z" }));
    assert_eq!(overview["workers"], 1);
    assert!(overview["marks"].as_array().unwrap().iter().any(|mark| mark["kind"] == "deploy"));
    let groups = |overview: &Value| {
        overview["dead"]["groups"][0]["error"] == "no route"
            && overview["problem_queues"][0]["name"] == "slow"
    };
    let overview = until(&site, "/api/v1/overview", groups).await;
    assert!(overview["marks"].as_array().unwrap().iter().any(|mark| mark["kind"] == "pause"));
}

#[tokio::test]
async fn an_idle_overview_is_complete() {
    let site = Site::with(|builder| builder);
    let overview = site.get("/api/v1/overview").await;
    assert_eq!(overview.status, 200, "{}", overview.text);
    assert_eq!(overview.json["counts"]["pending"], 0);
    assert_eq!((&overview.json["late"], &overview.json["running"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn series_count_each_second_and_longer_steps() {
    let site = site();
    start(&site).await;
    for _ in 0..3 {
        publish_to(&site, "sms").await;
        publish_to(&site, "mail").await;
        settle().await;
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    let sum = |series: &Value, name: &str| -> f64 {
        let lines = series["series"].as_array().unwrap();
        let line = lines.iter().find(|line| line["name"] == name).unwrap();
        line["values"].as_array().unwrap().iter().filter_map(Value::as_f64).sum()
    };
    let all = |series: &Value| sum(series, "succeeded") >= 2.9 && sum(series, "failed") >= 2.9;
    let series = until(&site, "/api/v1/series?name=throughput&step=1s", all).await;
    assert_eq!(series["step_ms"], 1_000);
    assert!((sum(&series, "enqueued") - 6.0).abs() < 0.01, "{series}");
    let tens = site.get("/api/v1/series?name=throughput&step=10s").await.json;
    assert!((sum(&tens, "succeeded") * 10.0 - 3.0).abs() < 0.01, "{tens}");
    let heat = site.get("/api/v1/series?name=run&step=10s").await.json;
    let rows = heat["values"].as_array().unwrap();
    let handled: u64 =
        rows.iter().flat_map(|row| row.as_array().unwrap()).filter_map(Value::as_u64).sum();
    assert_eq!(handled, 6, "{heat}");
    assert_eq!(rows[0].as_array().unwrap().len(), heat["buckets_ms"].as_array().unwrap().len() + 1);
    for name in ["wait", "queue_age", "lateness", "concurrency", "retries", "dead", "outbox"] {
        let response = site.get(&format!("/api/v1/series?name={name}")).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let lines = response.json["series"].as_array().unwrap();
        assert!(lines.iter().all(|line| line["values"].as_array().unwrap().len()
            == response.json["times"].as_array().unwrap().len()));
    }
}

#[tokio::test]
async fn figures_outlive_the_process_that_recorded_them() {
    let site = site();
    start(&site).await;
    publish_to(&site, "sms").await;
    settle().await;
    for _ in 0..61 {
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    // Another node on the same storage, which recorded nothing itself.
    let other = site.another();
    let path = "/api/v1/series?name=throughput&step=10s&from=2026-03-01T11:59:00Z";
    let series = other.get(path).await.json;
    let succeeded = &series["series"][0];
    assert_eq!(succeeded["name"], "succeeded");
    let sum: f64 = succeeded["values"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
    assert!((sum * 10.0 - 1.0).abs() < 0.01, "{series}");
}

#[tokio::test]
async fn invalid_ranges_are_refused_by_name() {
    let site = site();
    for (query, field) in [
        ("name=throughput&step=5s", "step"),
        ("name=throughput&from=2026-03-01T12:00:00Z&to=2026-03-01T11:00:00Z", "from"),
        ("name=throughput&step=1s&from=2025-03-01T12:00:00Z", "from"),
    ] {
        let response = site.get(&format!("/api/v1/series?{query}")).await;
        assert_eq!(response.status, 422, "{}", response.text);
        assert_eq!(response.json["errors"][0]["field"], field, "{}", response.text);
    }
    assert_eq!(site.get("/api/v1/series?name=mood").await.status, 422);
    assert_eq!(site.get("/api/v1/series").await.status, 422);
}

// A mounted dashboard must not offer a test message that has no handler.
#[tokio::test]
async fn the_test_message_is_offered_where_it_is_handled() {
    let mounted = site();
    assert_eq!(mounted.get("/api/v1/overview").await.json["handles_test"], false);
    let server = Site::with(|builder| {
        let services = TargetServices::new(&Config::default(), Arc::new(SystemClock)).unwrap();
        services.register(builder)
    });
    assert_eq!(server.get("/api/v1/overview").await.json["handles_test"], true);
}
