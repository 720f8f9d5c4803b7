//! Every list of the dashboard, with every filter it has, among all rows: asked in process, through the whole
//! router. Each is asked several times; the first time nothing is known yet.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use jiff::Timestamp;
use punctual_server::router;
use serde_json::Value;
use tower::ServiceExt as _;

use super::filled::Filled;
use crate::figure::{Figure, percentile};

/// How often each list is asked for.
const TIMES: usize = 7;
/// How often what is remembered for a moment is asked for, and how long it is left alone before.
const TIMES_REMEMBERED: usize = 3;
const REST: Duration = Duration::from_millis(2_100);
/// What is asked of a page.
const ASKED: &str = "under 20";
/// The most bytes of an answer.
const ANSWER_MAX: usize = 64 << 20;

/// A list, by name and path; what is behind `/api/v1`.
struct List {
    name: &'static str,
    path: String,
    /// Whether the server remembers the answer for a moment.
    is_remembered: bool,
    /// What was asked for; nothing of what is no page.
    asked: &'static str,
}

fn list(name: &'static str, path: impl Into<String>) -> List {
    List { name, path: path.into(), is_remembered: false, asked: ASKED }
}

fn remembered(name: &'static str, path: impl Into<String>) -> List {
    List { is_remembered: true, ..list(name, path) }
}

pub(super) async fn measure(filled: &Filled) -> Result<Vec<Figure>> {
    let asking = Asking { router: router(filled.server.app().clone()) };
    let groups = asking.ask("/dead-letters/groups").await?.1;
    let group = groups["items"][0]["fingerprint"].as_str().context("there is no group")?.to_owned();
    let mut figures = Vec::new();
    for one in messages(filled).into_iter().chain(others(filled, &group)) {
        figures.push(asking.measure(filled, &one).await?);
    }
    let pages = || figures.iter().filter(|figure| figure.asked == ASKED).map(|figure| figure.value);
    let slowest = pages().fold(0.0, f64::max);
    let slow = pages().filter(|value| *value >= 20.0).count();
    figures.push(Figure {
        name: format!("{}: the slowest list", filled.name),
        value: slowest,
        unit: "ms",
        asked: ASKED,
        how: format!(
            "{slow} of {} lists above; {} rows, filled in {:.0} s",
            pages().count(),
            filled.rows.count,
            filled.took
        ),
    });
    Ok(figures)
}

/// Lists of messages.
fn messages(filled: &Filled) -> Vec<List> {
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
        list("messages about a key", "/messages?key=customer-17"),
        list("messages about an unknown key", "/messages?key=nobody"),
        list("messages of a job", "/messages?job=job-0017"),
        list("messages that are for later", "/messages?phase=scheduled"),
        list("messages with an error", "/messages?error=host-c"),
        list("messages with many attempts", "/messages?attempt_min=3"),
        list("messages of the last minutes", format!("/messages?since={last}")),
        list("messages until noon", format!("/messages?until={half}")),
        list("messages of minutes at noon", format!("/messages?since={half}&until={later}")),
        list("messages by a part of the id", format!("/messages?search={middle}")),
        list("messages by a word that is nowhere", "/messages?search=nowhere-at-all"),
        list("messages, one", format!("/messages/{middle}")),
        list("messages, how many pending", "/messages/count?state=pending"),
        list("messages, how many done of a queue", "/messages/count?state=done&queue=queue-4"),
        List {
            asked: "",
            ..list("messages, how many of a topic, up to 10,000", "/messages/count?topic=topic-3")
        },
    ]
}

/// All other lists.
fn others(filled: &Filled, group: &str) -> Vec<List> {
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
        remembered("dead letters, groups", "/dead-letters/groups"),
        list("executions", "/executions"),
        list("executions of a job", "/executions?job=job-0017"),
        list("executions of a rare topic", "/executions?topic=rare"),
        list("executions, failed", "/executions?ending=failed"),
        list("executions, panicked, of which there are none", "/executions?ending=panicked"),
        list("executions of minutes at noon", format!("/executions?since={half}&until={later}")),
        list("jobs", "/jobs"),
        list("jobs, whose next run comes first", "/jobs?sort=next"),
        list("jobs, who ran last", "/jobs?sort=last"),
        list("jobs with a word", "/jobs?search=job-01"),
        list("one job", "/jobs/job-0017"),
        list("executions of one job", "/jobs/job-0017/executions"),
        remembered("queues", "/queues"),
        list("one queue", "/queues/queue-4"),
        list("topics", "/topics"),
        list("workers", "/workers?limit=1000"),
        remembered("overview", "/overview"),
        list("series, a second each", "/series?name=throughput&step=1s"),
        list("series, a minute each, a week", format!("/series?name=wait&step=1m&to={now}")),
        list("calendar", "/calendar"),
        list("audit", "/audit"),
    ]
}

/// Asks a router.
struct Asking {
    router: Router,
}

impl Asking {
    async fn measure(&self, filled: &Filled, list: &List) -> Result<Figure> {
        let first = self.ask(&list.path).await?.0;
        let times = if list.is_remembered { TIMES_REMEMBERED } else { TIMES };
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            if list.is_remembered {
                tokio::time::sleep(REST).await;
            }
            took.push(self.ask(&list.path).await?.0);
        }
        took.sort_by(f64::total_cmp);
        Ok(Figure {
            name: format!("{}: {}", filled.name, list.name),
            value: percentile(&took, 50),
            unit: "ms",
            asked: list.asked,
            how: format!(
                "median of {times}, the longest {:.1} ms, before them {first:.1} ms; {}",
                percentile(&took, 100),
                list.path
            ),
        })
    }

    /// Asks once; answers how many milliseconds it took, and what was said.
    async fn ask(&self, path: &str) -> Result<(f64, Value)> {
        let request = Request::get(format!("/api/v1{path}")).body(Body::empty())?;
        let began = Instant::now();
        let response = self.router.clone().oneshot(request).await?;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), ANSWER_MAX).await?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        anyhow::ensure!(status.is_success(), "{path} answers {status}: {}", text());
        Ok((took, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}
