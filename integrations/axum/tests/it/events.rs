//! Event stream: the events, the number of missed ones, the limit of listeners, and the end.

use axum::Router;
use axum::body::BodyDataStream;
use axum::http::StatusCode;
use futures_util::StreamExt;
use punctual::Event;
use punctual_axum::{Routes, router};
use serde_json::Value;

use crate::fixture::{get, started};

/// A response of the event route, read event by event.
struct EventStream {
    body: BodyDataStream,
    text: String,
}

impl EventStream {
    async fn of(app: &Router) -> Self {
        let response = get(app, "/events").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// Returns the next event, or `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (name, data) = frame.split_once('\n').unwrap();
                let name = name.strip_prefix("event: ").unwrap().to_owned();
                let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                let read = self.text.len() - rest.len();
                self.text.drain(..read);
                return Some((name, data));
            }
            let bytes = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

// spec: C-4
#[tokio::test]
async fn every_event_is_streamed_until_the_process_has_stopped() {
    let punctual = started(|builder| builder.handler("mail", async |_: String| {})).await;
    let app: Router = router(&punctual).unwrap();
    let mut stream = EventStream::of(&app).await;
    punctual.publisher().publish("mail", "ada@example.com").await.unwrap();
    let mut names = Vec::new();
    let mut took = None;
    for _ in 0..3 {
        let (name, data) = stream.next().await.unwrap();
        assert_eq!((&data["event"], &data["topic"]), (&name.as_str().into(), &"mail".into()));
        took = took.or(data.get("took_ms").cloned());
        names.push(name);
    }
    assert_eq!(names, ["message.enqueued", "attempt.started", "attempt.succeeded"]);
    assert_eq!(took, Some(0.into()));
    punctual.shutdown().await;
    let mut last = None;
    while let Some((name, _)) = stream.next().await {
        last = Some(name);
    }
    assert_eq!(last.as_deref(), Some("process.stopped"));
    assert_eq!(get(&app, "/events").await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_slow_listener_gets_the_number_of_missed_events() {
    let punctual = started(|builder| builder).await;
    let app: Router = router(&punctual).unwrap();
    let mut stream = EventStream::of(&app).await;
    for count in 1..=5_000 {
        punctual.events().emit(Event::LeasesRescued { count });
    }
    let (name, data) = stream.next().await.unwrap();
    let missed = data["missed"].as_u64().unwrap();
    assert_eq!(name, "missed");
    assert!(missed > 0);
    let (name, data) = stream.next().await.unwrap();
    assert_eq!((name.as_str(), data["count"].as_u64()), ("leases.rescued", Some(missed + 1)));
}

#[tokio::test]
async fn the_number_of_listeners_is_limited() {
    let punctual = started(|builder| builder).await;
    let app: Router = Routes::new(&punctual).listeners_max(1).build().unwrap();
    let first = EventStream::of(&app).await;
    let second = get(&app, "/events").await;
    assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(second.headers()["retry-after"], "5");
    drop(first);
    EventStream::of(&app).await;
}
