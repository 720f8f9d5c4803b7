//! Alerts: in health, on the overview, in events and in metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual::{Builder, Context, Event, HandlerError, Job, Overlap, Retry};
use serde_json::{Value, json};

use crate::running_server::{settle, start, until};
use crate::site::Site;
use crate::work::publish;

/// Starts a site with a job of every minute that fails while the flag is set.
fn site() -> (Site, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(true));
    let switch = fails.clone();
    let run = move |context: Context| {
        let fails = switch.load(Ordering::Relaxed);
        async move {
            context.log("looked at the ledger");
            if fails { Err(HandlerError::new("the ledger is not in balance")) } else { Ok(()) }
        }
    };
    let job = Job::cron("ledger", "* * * * *").retry(Retry::none());
    let site = Site::with(|builder| {
        let link = |options: &mut punctual::Options| {
            options.dashboard_url = Some("https://punctual.example.com/ops/".to_owned());
        };
        builder.options(link).job(job, run)
    });
    (site, fails)
}

fn alert<'a>(health: &'a Value, kind: &str) -> Option<&'a Value> {
    health["alerts"].as_array()?.iter().find(|alert| alert["kind"] == kind)
}

// Findings P4 of the newcomer's review and 4 of the dashboard's: healthy in spite of failing jobs.
#[tokio::test]
async fn a_failing_job_is_in_health_and_on_the_overview_until_it_succeeds() {
    let (site, fails) = site();
    let mut events = site.app.punctual.events().listen();
    start(&site).await;
    let twice = |health: &Value| health["failing_jobs"][0]["failures"].as_u64() >= Some(2);
    let health = until(&site, "/api/v1/health", twice).await;
    assert_eq!(health["condition"], "degraded", "{health}");
    let failing = &health["failing_jobs"][0];
    assert_eq!(
        (&failing["name"], &failing["error"]),
        (&json!("ledger"), &json!("the ledger is not in balance"))
    );
    assert_eq!(
        failing["since"].as_str().map(|at| &at[..16]),
        Some("2026-03-01T12:01"),
        "{failing}"
    );
    let text = alert(&health, "job_failing").unwrap()["text"].as_str().unwrap().to_owned();
    assert!(text.contains("ledger") && text.contains("not in balance"), "{text}");
    assert!(alert(&health, "dead_letters").is_some(), "{health}");
    let open = site.get("/health").await;
    assert_eq!(
        (open.status.as_u16(), &open.json["components"]["failing_jobs"]["count"]),
        (200, &json!(1))
    );
    assert_eq!(site.get("/health/ready").await.status, 200, "degraded is still ready");
    let overview = site.get("/api/v1/overview").await.json;
    assert_eq!(overview["failing"][0]["name"], "ledger", "{overview}");
    let failures = "punctual_job_consecutive_failures{job_name=\"ledger\"} ";
    let success = "punctual_job_last_success_timestamp_seconds{job_name=";
    let metrics = site.get("/metrics").await.text;
    assert!(metrics.contains(failures), "{metrics}");
    assert!(!metrics.contains(success), "{metrics}");
    fails.store(false, Ordering::Relaxed);
    let well = |health: &Value| alert(health, "job_failing").is_none();
    until(&site, "/api/v1/health", well).await;
    let metrics = site.get("/metrics").await.text;
    assert!(metrics.contains(&format!("{failures}0")), "{metrics}");
    assert!(metrics.contains(&format!("{success}\"ledger\"}} 17")), "{metrics}");
    for _ in 0..10 {
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    let mut reported = Vec::new();
    while let Ok(event) = events.try_recv() {
        match &*event {
            Event::AlertRaised { alert, subject, .. } if alert == "job_failing" => {
                reported.push(format!("raised {subject:?}"));
            }
            Event::AlertCleared { alert, subject } if alert == "job_failing" => {
                reported.push(format!("cleared {subject:?}"));
            }
            _ => {}
        }
    }
    assert_eq!(reported, ["raised Some(\"ledger\")", "cleared Some(\"ledger\")"], "once each");
}

// Only the first 200 jobs whose last run did not succeed were checked, paused ones included, and the response did not
// report that there were more.
#[tokio::test]
async fn a_partial_count_of_failing_jobs_is_marked_as_such() {
    let name = |number: usize| format!("job-{number:03}");
    let site = Site::with(|builder| {
        let fails = async |_: Context| Err::<(), _>(HandlerError::new("no"));
        let declare = |builder: Builder, number| {
            let job = Job::cron(name(number), "* * * * *").topic("t");
            builder.declare(job.retry(Retry::none()).overlap(Overlap::Allow { parallel_max: None }))
        };
        (0..212).fold(builder.queue("default", 300).handler("t", fails), declare)
    });
    start(&site).await;
    let more = |health: &Value| health["failing_more"] == true;
    let health = until(&site, "/api/v1/health", more).await;
    // The first ones by name are paused, and do not count towards the limit.
    let reason = json!({ "reason": "maintenance" });
    let pause = async |number| {
        let path = format!("/api/v1/jobs/{}/pause", name(number));
        assert_eq!(site.post(&path, &reason).await.status, 200);
    };
    for number in 0..11 {
        pause(number).await;
    }
    let holds = |health: &Value| {
        health["failing_count"] == 200 && !health["failing_jobs"].to_string().contains("job-010")
    };
    let health_paused = until(&site, "/api/v1/health", holds).await;
    for health in [&health, &health_paused] {
        assert_eq!(health["failing_more"], true, "201 jobs fail");
        let alert = alert(health, "job_failing").unwrap();
        assert_eq!((&alert["count"], &alert["more"]), (&json!(200), &json!(true)));
        let text = alert["text"].as_str().unwrap();
        assert!(text.starts_with("200 or more jobs fail: "), "{text}");
        assert_eq!(health["components"]["failing_jobs"]["more"], true);
    }
    let overview = site.get("/api/v1/overview").await.json;
    assert_eq!(overview["health"]["failing_count"], 200);
    assert_eq!(overview["health"]["failing_more"], true);
    pause(11).await;
    let all = |health: &Value| health["failing_count"] == 200 && health["failing_more"] == false;
    let health = until(&site, "/api/v1/health", all).await;
    assert!(
        alert(&health, "job_failing").unwrap()["text"].as_str().unwrap().starts_with("200 jobs")
    );
}

// Finding P2 of the newcomer's review: an alert did not name the failed job.
#[tokio::test]
async fn the_event_of_a_dead_message_names_its_job_output_and_link() {
    let (site, _) = site();
    let mut events = site.app.punctual.events().listen();
    start(&site).await;
    until(&site, "/api/v1/messages?state=dead", |list| list["items"][0].is_object()).await;
    let mut received = std::iter::from_fn(|| events.try_recv().ok());
    let dead = received.find(|event| event.name() == "message.dead").unwrap().to_json();
    assert_eq!((&dead["job"], &dead["queue"]), (&json!("ledger"), &json!("default")));
    assert_eq!((&dead["attempts"], &dead["nominal"]), (&json!(1), &json!("2026-03-01T12:01:00Z")));
    assert_eq!(dead["output"], "looked at the ledger");
    let link = format!(
        "https://punctual.example.com/ops/#/messages/{}",
        dead["message"].as_str().unwrap()
    );
    assert_eq!(dead["link"], link);
}

#[tokio::test]
async fn waiting_queues_are_reported_with_the_reason() {
    let site = Site::with(|builder| builder.queue("default", 1));
    start(&site).await;
    publish(&site, &json!({ "topic": "t", "queue": "nobody" })).await;
    let reason = json!({ "reason": "maintenance" });
    assert_eq!(site.post("/api/v1/queues/default/pause", &reason).await.status, 200);
    publish(&site, &json!({ "topic": "t", "queue": "default" })).await;
    let both = |health: &Value| {
        alert(health, "queue_without_worker").is_some() && alert(health, "queue_paused").is_some()
    };
    let health = until(&site, "/api/v1/health", both).await;
    assert_eq!(health["condition"], "degraded");
    assert_eq!(alert(&health, "queue_without_worker").unwrap()["subjects"], json!(["nobody"]));
    assert_eq!(alert(&health, "queue_paused").unwrap()["subjects"], json!(["default"]));
    assert_eq!(health["components"]["waiting_queues"]["count"], 2);
}

#[tokio::test]
async fn a_server_without_alerts_is_healthy() {
    let site =
        Site::with(|builder| builder.handler("t", async |_: Context| {}).queue("default", 1));
    start(&site).await;
    publish(&site, &json!({ "topic": "t" })).await;
    until(&site, "/api/v1/messages?state=done", |list| list["items"][0].is_object()).await;
    let health = site.get("/api/v1/health").await.json;
    assert_eq!((&health["condition"], &health["alerts"]), (&json!("healthy"), &json!([])));
}
