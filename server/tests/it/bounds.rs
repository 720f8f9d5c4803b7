//! Bounds: no request computes without a limit. Each response is fast, and the process keeps working. (Finding F2 of
//! the security review.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::client::PauseRequest;
use punctual::clock::{Clock, between};
use punctual::{Job, Occurrence, SystemClock};
use serde_json::{Value, json};

use crate::running_server::LiveServer;

/// Longest time of a response. The best of a few tries counts, because other programs run on this machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
const TRIES: usize = 3;
/// More rounds than two seconds take on any machine.
const ROUNDS_MAX: usize = 1_000;

/// Endpoints that stream, and GET endpoints that change something.
const LEFT_OUT: [&str; 3] =
    ["/api/v1/events", "/api/v1/session/oidc", "/api/v1/session/oidc/callback"];

/// Starts a server with a job of every second, and a thousand others that were once evaluated without a limit.
async fn crowded() -> (LiveServer, Arc<AtomicU64>) {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let count = move |_: Occurrence| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {}
    };
    let every_second = Job::cron("runs", "* * * * * *");
    let live = LiveServer::start(|builder, _| builder.job(every_second, count)).await;
    let admin = live.app.punctual.admin();
    let kinds = [
        ("paused", "* * * * * *"),
        ("ends-late", "* * * * *"),
        ("disabled", "*/5 * * * *"),
        ("never", "0 0 31 2 *"),
    ];
    let name = |kind: &str, number: usize| format!("{kind}-{number}");
    let jobs = kinds.iter().flat_map(|(kind, cron)| {
        (0..250).map(move |number| Job::cron(name(kind, number), *cron).topic("unhandled"))
    });
    admin.reconcile("crowd", jobs.collect()).await.unwrap();
    for (kind, until) in
        [("paused", None), ("ends-late", Some("2999-01-01T00:00:00Z")), ("disabled", None)]
    {
        for number in 0..250 {
            let until = until.map(|text| text.parse().unwrap());
            let pause = PauseRequest { by: "ada".into(), reason: "test".into(), until };
            admin.pause(name(kind, number), pause).await.unwrap();
        }
    }
    (live, runs)
}

/// Returns every path of a GET operation, with names that exist.
async fn paths(live: &LiveServer) -> Vec<String> {
    let document = live.get("/api/openapi.json").await;
    let published =
        live.call("POST", "/api/v1/messages", &serde_json::json!({ "topic": "t" })).await;
    let message = published.1["id"].as_str().unwrap().to_owned();
    for path in LEFT_OUT {
        assert!(document["paths"][path]["get"].is_object(), "{path} does not exist");
    }
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        if item["get"].is_null() || LEFT_OUT.contains(&path.as_str()) {
            continue;
        }
        if path.contains("/jobs/{name}") {
            for job in ["runs", "paused-1", "ends-late-1", "disabled-1", "never-1"] {
                found.push(path.replace("{name}", job));
            }
            continue;
        }
        let named = path.replace("{id}", &message).replace("{name}", "default");
        assert!(!named.contains('{'), "{path} has a part that this test does not know");
        found.push(named);
    }
    let far = "from=2026-01-01T00:00:00Z&to=2026-12-31T00:00:00Z";
    found.push(format!("/api/v1/calendar?{far}&limit=10000"));
    for job in ["paused-1", "ends-late-1", "never-1"] {
        found.push(format!("/api/v1/jobs/{job}/occurrences?{far}&limit=1000"));
        found.push(format!("/api/v1/jobs/{job}/upcoming?count=1000"));
        found.push(format!("/api/v1/jobs/{job}/misfire-preview?down=366d"));
    }
    found
}

/// Returns the status and the shortest time of a few requests.
async fn quickest(
    live: &LiveServer,
    (method, path): (&str, &str),
    body: &Value,
) -> (u16, Duration) {
    let (mut quickest, mut last) = (Duration::MAX, 0);
    for _ in 0..TRIES {
        let began = SystemClock.now();
        let (status, response) = live.call(method, path, body).await;
        assert!(status < 500, "{path} {body}: {status} {response}");
        (quickest, last) = (quickest.min(between(began, SystemClock.now())), status);
        if quickest < ANSWERED_WITHIN {
            break;
        }
    }
    (last, quickest)
}

// spec: C-7
#[tokio::test]
async fn every_response_is_fast_and_the_process_keeps_working() {
    let (live, runs) = crowded().await;
    let began = SystemClock.now();
    let paths = paths(&live).await;
    assert!(paths.len() > 40, "{paths:?}");
    let before = runs.load(Ordering::Relaxed);
    let mut ran = 0;
    for _ in 0..ROUNDS_MAX {
        for path in &paths {
            let (_, took) = quickest(&live, ("GET", path), &Value::Null).await;
            assert!(took < ANSWERED_WITHIN, "{path} took {took:?}");
            // As between requests over a socket.
            tokio::task::yield_now().await;
        }
        // Before any other wait: all of this runs on one thread, as does the job of every second.
        ran = runs.load(Ordering::Relaxed) - before;
        if ran >= 2 {
            break;
        }
    }
    let took = between(began, SystemClock.now());
    assert!(ran >= 2, "the job ran {ran} times in the {took:?} of the walk");
}

/// Returns requests that change jobs by a walk over a schedule, as worst as a caller can choose them, each with its
/// status.
fn changes() -> Vec<(String, Value, u16)> {
    let backfill = |job: &str, to: &str, status| {
        let body = json!({"from": "2000-01-01T00:00:00Z", "to": to, "which": "all", "max": 10_000,
            "dry_run": true});
        (format!("/api/v1/jobs/{job}/backfill"), body, status)
    };
    let cursor = |job: &str, to: &str, status| {
        (format!("/api/v1/jobs/{job}/cursor"), json!({ "to": to }), status)
    };
    vec![
        backfill("paused-1", "2000-01-02T00:00:00Z", 200),
        backfill("paused-1", "2025-01-01T00:00:00Z", 422),
        backfill("ends-late-1", "2025-01-01T00:00:00Z", 422),
        backfill("never-1", "2025-01-01T00:00:00Z", 200),
        backfill("february-30", "2025-01-01T00:00:00Z", 200),
        cursor("paused-1", "2999-01-01T00:00:00Z", 200),
        cursor("busy", "2999-01-01T00:00:00Z", 200),
        cursor("busy", "2026-01-01T00:00:00Z", 200),
        cursor("never-1", "2999-01-01T00:00:00Z", 422),
        cursor("february-30", "2999-01-01T00:00:00Z", 422),
    ]
}

// Finding F2: only reads were bounded.
// spec: C-7
#[tokio::test]
async fn a_backfill_and_a_moved_cursor_are_bounded_too() {
    let (live, runs) = crowded().await;
    let admin = live.app.punctual.admin();
    let jobs = vec![
        Job::cron("busy", "* * * * * *").topic("unhandled"),
        Job::cron("february-30", "0 0 30 2 *").topic("unhandled"),
    ];
    admin.reconcile("more", jobs).await.unwrap();
    let (before, mut ran) = (runs.load(Ordering::Relaxed), 0);
    for _ in 0..ROUNDS_MAX {
        for (path, body, status) in changes() {
            let (answered, took) = quickest(&live, ("POST", &path), &body).await;
            assert_eq!(answered, status, "{path} {body}");
            assert!(took < ANSWERED_WITHIN, "{path} {body} took {took:?}");
            tokio::task::yield_now().await;
        }
        ran = runs.load(Ordering::Relaxed) - before;
        if ran >= 2 {
            break;
        }
    }
    assert!(ran >= 2, "the job ran {ran} times meanwhile");
}

// spec: C-7
#[tokio::test]
async fn the_calendar_shows_the_range_of_a_pause() {
    let site = crate::work::idle();
    let jobs = vec![
        Job::cron("open", "0 * * * *").topic("t"),
        Job::cron("paused", "0 * * * *").topic("t"),
        Job::cron("resumes", "0 * * * *").topic("t"),
    ];
    let admin = site.app.punctual.admin();
    admin.reconcile("file", jobs).await.unwrap();
    for (name, until) in [("paused", None), ("resumes", Some("2026-03-01T15:00:00Z"))] {
        let until = until.map(|text| text.parse().unwrap());
        let pause = PauseRequest { by: "ada".into(), reason: "test".into(), until };
        admin.pause(name, pause).await.unwrap();
    }
    let shown = site.get("/api/v1/calendar?to=2026-03-01T18:00:00Z").await.json;
    let runs: Vec<(&str, &str)> = shown["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (&run["at"].as_str().unwrap()[11..13], run["job"].as_str().unwrap()))
        .collect();
    let open = ["13", "14", "15", "16", "17"].map(|hour| (hour, "open"));
    let mut expected = open.to_vec();
    expected.extend([("16", "resumes"), ("17", "resumes")]);
    expected.sort_unstable();
    assert_eq!(runs, expected);
    assert_eq!(shown["more"], false);
}
