//! Lists of the dashboard with all their filters, over all rows, requested in process through the whole router.
//! Each is requested several times; the first request runs without caches.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use jiff::Timestamp;
use punctual_server::router;
use serde_json::Value;
use tower::ServiceExt as _;

use super::filled_storage::FilledStorage;
use crate::figure::{Figure, percentile};

/// Number of requests of each list.
const REQUESTS: usize = 7;
/// Number of requests of a list that the server caches, and the time that its cache takes to expire.
const CACHED_REQUESTS: usize = 3;
const CACHE_EXPIRY: Duration = Duration::from_millis(2_100);
/// Target of a page, in milliseconds.
const TARGET: &str = "under 20";
/// Largest response body.
const BODY_MAX: usize = 64 << 20;

/// A list by name and path below `/api/v1`.
struct List {
    name: &'static str,
    path: String,
    /// Whether the server caches the response for a short time.
    is_cached: bool,
    /// Target; empty for requests that are no page.
    target: &'static str,
}

fn list(name: &'static str, path: impl Into<String>) -> List {
    List { name, path: path.into(), is_cached: false, target: TARGET }
}

fn cached_list(name: &'static str, path: impl Into<String>) -> List {
    List { is_cached: true, ..list(name, path) }
}

pub(super) async fn measure(filled: &FilledStorage) -> Result<Vec<Figure>> {
    let client = RouterClient { router: router(filled.server.app().clone()) };
    let groups = client.get("/dead-letters/groups").await?.1;
    let group = groups["items"][0]["fingerprint"]
        .as_str()
        .context("there is no group of dead letters")?
        .to_owned();
    let mut figures = Vec::new();
    for one in messages(filled).into_iter().chain(others(filled, &group)) {
        figures.push(client.measure(filled, &one).await?);
    }
    let pages =
        || figures.iter().filter(|figure| figure.target == TARGET).map(|figure| figure.value);
    let slowest = pages().fold(0.0, f64::max);
    let slow = pages().filter(|value| *value >= 20.0).count();
    figures.push(Figure {
        name: format!("{}: the slowest list", filled.name),
        value: slowest,
        unit: "ms",
        target: TARGET,
        how: format!(
            "{slow} of {} lists above; {} rows, filled in {:.0} s",
            pages().count(),
            filled.rows.count,
            filled.took
        ),
    });
    Ok(figures)
}

/// Returns the lists of messages.
fn messages(filled: &FilledStorage) -> Vec<List> {
    let rows = filled.rows;
    let middle = rows.id(rows.count / 2);
    let instant = |number: usize| {
        Timestamp::from_millisecond(rows.at(number)).map(|at| at.to_string()).unwrap_or_default()
    };
    let (half, later) = (instant(rows.count / 2), instant(rows.count / 2 + rows.count / 100));
    let last = instant(rows.count - rows.count / 100);
    vec![
        list("messages", "/messages"),
        list("messages, a page in the middle", format!("/messages?after={middle}")),
        list("messages, pending", "/messages?state=pending"),
        list("messages, running, of which there are none", "/messages?state=running"),
        list("messages, done", "/messages?state=done"),
        list("messages, dead or cancelled", "/messages?state=dead,cancelled"),
        list("messages of a topic", "/messages?topic=topic-3"),
        list("messages of a rare topic", "/messages?topic=rare"),
        list("messages of an unknown topic", "/messages?topic=nothing"),
        list("messages of a queue", "/messages?queue=queue-4"),
        list("messages of a queue, pending", "/messages?queue=queue-4&state=pending"),
        list("messages of an unknown queue", "/messages?queue=nowhere"),
        list("messages of a key", "/messages?key=customer-17"),
        list("messages of an unknown key", "/messages?key=unknown"),
        list("messages of a job", "/messages?job=job-0017"),
        list("messages scheduled for later", "/messages?phase=scheduled"),
        list("messages with an error", "/messages?error=host-c"),
        list("messages with many attempts", "/messages?attempt_min=3"),
        list("messages of the last minutes", format!("/messages?since={last}")),
        list("messages until noon", format!("/messages?until={half}")),
        list("messages of minutes at noon", format!("/messages?since={half}&until={later}")),
        list("messages by a part of the id", format!("/messages?search={middle}")),
        list("messages by a word without matches", "/messages?search=nowhere-at-all"),
        list("messages, one", format!("/messages/{middle}")),
        list("messages, count of pending", "/messages/count?state=pending"),
        list("messages, count of done in a queue", "/messages/count?state=done&queue=queue-4"),
        List {
            target: "",
            ..list("messages, count of a topic, up to 10,000", "/messages/count?topic=topic-3")
        },
    ]
}

/// Returns all other lists.
fn others(filled: &FilledStorage, group: &str) -> Vec<List> {
    let rows = filled.rows;
    let instant = |number: usize| {
        Timestamp::from_millisecond(rows.at(number)).map(|at| at.to_string()).unwrap_or_default()
    };
    let (half, later) = (instant(rows.count / 2), instant(rows.count / 2 + rows.count / 100));
    let now = instant(rows.count);
    vec![
        list("dead letters", "/dead-letters"),
        list("dead letters of a group", format!("/dead-letters?group={group}")),
        list("dead letters of a topic", "/dead-letters?topic=topic-10"),
        cached_list("dead letters, groups", "/dead-letters/groups"),
        list("executions", "/executions"),
        list("executions of a job", "/executions?job=job-0017"),
        list("executions of a rare topic", "/executions?topic=rare"),
        list("executions, failed", "/executions?ending=failed"),
        list("executions, panicked, of which there are none", "/executions?ending=panicked"),
        list("executions of minutes at noon", format!("/executions?since={half}&until={later}")),
        list("jobs", "/jobs"),
        list("jobs by next run", "/jobs?sort=next"),
        list("jobs by last run", "/jobs?sort=last"),
        list("jobs with a word", "/jobs?search=job-01"),
        list("one job", "/jobs/job-0017"),
        list("executions of one job", "/jobs/job-0017/executions"),
        cached_list("queues", "/queues"),
        list("one queue", "/queues/queue-4"),
        list("topics", "/topics"),
        list("workers", "/workers?limit=1000"),
        cached_list("overview", "/overview"),
        list("series, a second each", "/series?name=throughput&step=1s"),
        list("series, a minute each, a week", format!("/series?name=wait&step=1m&to={now}")),
        list("calendar", "/calendar"),
        list("audit", "/audit"),
    ]
}

/// Sends requests to a router in process.
struct RouterClient {
    router: Router,
}

impl RouterClient {
    async fn measure(&self, filled: &FilledStorage, list: &List) -> Result<Figure> {
        let first = self.get(&list.path).await?.0;
        let times = if list.is_cached { CACHED_REQUESTS } else { REQUESTS };
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            if list.is_cached {
                tokio::time::sleep(CACHE_EXPIRY).await;
            }
            took.push(self.get(&list.path).await?.0);
        }
        took.sort_by(f64::total_cmp);
        Ok(Figure {
            name: format!("{}: {}", filled.name, list.name),
            value: percentile(&took, 50),
            unit: "ms",
            target: list.target,
            how: format!(
                "median of {times}, maximum {:.1} ms, first request {first:.1} ms; {}",
                percentile(&took, 100),
                list.path
            ),
        })
    }

    /// Requests a path; returns the time in milliseconds and the body.
    async fn get(&self, path: &str) -> Result<(f64, Value)> {
        let request = Request::get(format!("/api/v1{path}")).body(Body::empty())?;
        let began = Instant::now();
        let response = self.router.clone().oneshot(request).await?;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), BODY_MAX).await?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        anyhow::ensure!(status.is_success(), "{path} returned {status}: {}", text());
        Ok((took, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}
