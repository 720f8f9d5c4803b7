//! Events: the live stream.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use punctual::{Context, HandlerError};
use serde_json::Value;

use crate::running_server::{settle, start};
use crate::site::Site;
use crate::work::publish_to;

/// Client of the event stream.
pub(crate) struct EventClient {
    body: Body,
    text: String,
}

impl EventClient {
    pub(crate) async fn open(site: &Site, query: &str) -> Self {
        let request = Request::get(format!("/api/v1/events{query}")).body(Body::empty()).unwrap();
        let response = site.raw(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
        Self { body: response.into_body(), text: String::new() }
    }

    /// Reads the available data.
    pub(crate) async fn read(&mut self) {
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

    /// Returns the received events: kind and data, in order.
    pub(crate) fn received(&self) -> Vec<(String, Value)> {
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
        self.received().into_iter().map(|(kind, _)| kind).collect()
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
async fn a_stream_can_be_filtered_by_topic_kind_and_job() {
    let site = site();
    start(&site).await;
    let mut all = EventClient::open(&site, "").await;
    let mut mail = EventClient::open(&site, "?topic=mail&kinds=attempt.*").await;
    let mut nightly = EventClient::open(&site, "?job=nightly").await;
    publish_to(&site, "mail").await;
    publish_to(&site, "sms").await;
    site.app.punctual.admin().trigger("nightly", true).await.unwrap();
    settle().await;
    for client in [&mut all, &mut mail, &mut nightly] {
        client.read().await;
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
    // Events without the name of the job are about one of its messages.
    assert!(nightly.kinds().contains(&"message.dead".to_owned()), "{:?}", nightly.kinds());
    let other = |(_, data): &(String, Value)| data["topic"] == "mail" || data["topic"] == "sms";
    assert!(!nightly.received().iter().any(other), "{:?}", nightly.received());
}

#[tokio::test]
async fn every_second_has_a_tick_with_counts_and_rates() {
    let site = site();
    start(&site).await;
    let mut client = EventClient::open(&site, "?kinds=message.dead").await;
    for _ in 0..3 {
        publish_to(&site, "sms").await;
        settle().await;
        site.clock.advance(Duration::from_secs(1));
        settle().await;
    }
    client.read().await;
    let received = client.received();
    let ticks: Vec<&Value> =
        received.iter().filter(|(kind, _)| kind == "tick").map(|(_, data)| data).collect();
    // The channel keeps only the newest value, so a slow client may miss some.
    let last = ticks.last().unwrap_or_else(|| panic!("no tick in {received:?}"));
    assert_eq!(last["counts"]["done"], 3, "{last}");
    assert!(last["rates"]["in_per_s"].as_f64().unwrap() > 0.0, "{last}");
}

#[tokio::test]
async fn the_stream_ends_with_the_process_and_unknown_kinds_are_refused() {
    let site = site();
    start(&site).await;
    let reply = site.get("/api/v1/events?kinds=job.exploded").await;
    assert_eq!(
        (reply.status, &reply.json["errors"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &"kinds".into())
    );
    let mut client = EventClient::open(&site, "").await;
    site.app.punctual.shutdown().await;
    client.read().await;
    assert_eq!(client.kinds().last().unwrap(), "process.stopped");
    assert!(client.body.frame().await.is_none(), "nothing comes after the end");
    assert_eq!(site.get("/api/v1/events").await.status, 503);
}
