//! The live stream.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use punctual::{Context, HandlerError};
use serde_json::Value;

use crate::living::{settle, start};
use crate::site::Site;
use crate::work::publish_to;

/// One who listens.
pub(crate) struct Ear {
    body: Body,
    text: String,
}

impl Ear {
    pub(crate) async fn open(site: &Site, query: &str) -> Self {
        let request = Request::get(format!("/api/v1/events{query}")).body(Body::empty()).unwrap();
        let response = site.raw(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        Self { body: response.into_body(), text: String::new() }
    }

    /// Takes in what is there.
    pub(crate) async fn hear(&mut self) {
        for _ in 0..200 {
            tokio::select! {
                biased;
                frame = self.body.frame() => match frame {
                    Some(frame) => {
                        let data = frame.unwrap().into_data().unwrap();
                        self.text.push_str(std::str::from_utf8(&data).unwrap());
                    }
                    None => return,
                },
                () = tokio::task::yield_now() => {}
            }
        }
    }

    /// What was heard: kind and data, in order.
    pub(crate) fn heard(&self) -> Vec<(String, Value)> {
        let blocks = self.text.split("\n\n").filter(|block| block.contains("data: "));
        let field = |block: &str, name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned()
        };
        blocks
            .map(|block| {
                let data = serde_json::from_str(&field(block, "data: ")).unwrap();
                (field(block, "event: "), data)
            })
            .collect()
    }

    fn kinds(&self) -> Vec<String> {
        self.heard().into_iter().map(|(kind, _)| kind).collect()
    }
}

fn site() -> Site {
    Site::with(|builder| {
        let fail = async |_: Context| Err::<(), _>(HandlerError::new("no route").permanent());
        builder
            .handler("mail", fail)
            .handler("sms", async |_: Context| {})
            .job(punctual::Job::cron("nightly", "0 2 * * *"), async |_: Context| {
                Err::<(), _>(HandlerError::new("disk full").permanent())
            })
    })
}

// spec: C-4, C-8
#[tokio::test]
async fn a_listener_hears_of_one_topic_or_kind_or_job_only() {
    let site = site();
    start(&site).await;
    let mut all = Ear::open(&site, "").await;
    let mut mail = Ear::open(&site, "?topic=mail&kinds=attempt.*").await;
    let mut nightly = Ear::open(&site, "?job=nightly").await;
    publish_to(&site, "mail").await;
    publish_to(&site, "sms").await;
    site.app.punctual.admin().trigger("nightly", true).await.unwrap();
    settle().await;
    for ear in [&mut all, &mut mail, &mut nightly] {
        ear.hear().await;
    }
    for kind in [
        "message.enqueued",
        "attempt.started",
        "attempt.failed",
        "message.dead",
        "attempt.succeeded",
    ] {
        assert!(all.kinds().contains(&kind.to_owned()), "{kind} in {:?}", all.kinds());
    }
    assert_eq!(mail.kinds(), ["attempt.started", "attempt.failed"]);
    assert!(nightly.kinds().contains(&"attempt.failed".to_owned()), "{:?}", nightly.kinds());
    // Events that do not name the job are about a message of it.
    assert!(nightly.kinds().contains(&"message.dead".to_owned()), "{:?}", nightly.kinds());
    let other = |(_, data): &(String, Value)| data["topic"] == "mail" || data["topic"] == "sms";
    assert!(!nightly.heard().iter().any(other), "{:?}", nightly.heard());
}

#[tokio::test]
async fn every_second_has_a_tick_with_counts_and_rates() {
    let site = site();
    start(&site).await;
    let mut ear = Ear::open(&site, "?kinds=message.dead").await;
    for _ in 0..3 {
        publish_to(&site, "sms").await;
        settle().await;
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    ear.hear().await;
    let heard = ear.heard();
    let ticks: Vec<&Value> =
        heard.iter().filter(|(kind, _)| kind == "tick").map(|(_, data)| data).collect();
    // A watch keeps the newest only, so a listener that was not read from may skip some.
    let last = ticks.last().unwrap_or_else(|| panic!("no tick in {heard:?}"));
    assert_eq!(last["counts"]["done"], 3, "{last}");
    assert!(last["rates"]["in_per_s"].as_f64().unwrap() > 0.0, "{last}");
}

#[tokio::test]
async fn the_stream_ends_with_the_process_and_unknown_kinds_are_refused() {
    let site = site();
    start(&site).await;
    let answered = site.get("/api/v1/events?kinds=job.exploded").await;
    assert_eq!(
        (answered.status, &answered.json["errors"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &"kinds".into())
    );
    let mut ear = Ear::open(&site, "").await;
    site.app.punctual.shutdown().await;
    ear.hear().await;
    assert_eq!(ear.kinds().last().unwrap(), "process.stopped");
    assert!(ear.body.frame().await.is_none(), "nothing comes after the end");
    assert_eq!(site.get("/api/v1/events").await.status, 503);
}
