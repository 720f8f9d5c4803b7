//! Misbehaving handlers: they panic, never return, block their thread, or cannot read their message. Each has a
//! defined result and does not affect others.

use std::sync::{Arc, Mutex, mpsc};

use punctual::model::{Body, DeadReason, Ending, MessageState};
use punctual::{Context, Retry};
use serde::{Deserialize, Deserializer};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{endings, history, logging, never_returning, retrying};

fn panic_when(when: &str) {
    panic!("it blew up {when}");
}

// spec: T-10, U-30
#[tokio::test]
async fn a_panic_is_a_failed_attempt_and_nothing_more() {
    let log = Log::default();
    let handler_options = retrying(Retry::intervals([seconds(10)]));
    let bench = Bench::start(|builder| {
        builder
            .handler_with("sync", handler_options.clone(), |(): (), _: Context| {
                panic_when("before its future");
                std::future::ready(())
            })
            .handler_with("async", handler_options, |(): (), _: Context| async {
                tokio::task::yield_now().await;
                panic_when("inside its future");
            })
            .handler("calm", logging::<()>(&log, |(), _| "calm".to_owned()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    for (topic, place) in [("sync", "before its future"), ("async", "inside its future")] {
        let sent = publisher.publish(topic, &()).await.unwrap();
        bench.advance(seconds(60)).await;
        assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Panicked; 2], "{topic}");
        let record = bench.message(sent.id).await;
        assert_eq!(record.state, MessageState::Dead);
        let error = format!("the handler panicked: it blew up {place}");
        assert_eq!(record.error.as_deref(), Some(error.as_str()));
    }
    publisher.publish("calm", &()).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["calm"], "the worker lives");
    assert_eq!(bench.punctual.shutdown().await.abandoned, 0);
}

#[tokio::test]
async fn a_handler_that_never_returns_occupies_only_its_slot() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 2)
            .handler("stuck", never_returning::<()>(&Log::default()))
            .handler("calm", logging::<u32>(&log, |number, _| number.to_string()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("stuck", &()).await.unwrap();
    for number in 0..20 {
        publisher.publish("calm", &number).await.unwrap();
    }
    bench.run_until_idle().await;
    bench.run_until_idle().await;
    assert_eq!(log.len(), 20);
}

/// Waits, on real threads, until a condition is true; panics after many checks.
async fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..5_000_000 {
        if is_true() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came true that {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_does_not_stop_the_others() {
    let log = Log::default();
    let (recorded, (open, closed)) = (log.clone(), mpsc::channel::<()>());
    let closed = Arc::new(Mutex::new(Some(closed)));
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 4)
            .handler("block", move |(): (), _: Context| {
                let (recorded, closed) = (recorded.clone(), closed.lock().unwrap().take());
                async move {
                    recorded.push("blocked");
                    // Blocks the thread on purpose: no await, no sleep.
                    let _ = closed.unwrap().recv();
                    recorded.push("unblocked");
                }
            })
            .handler("calm", logging::<u32>(&log, |number, _| number.to_string()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("block", &()).await.unwrap();
    wait_until("it blocks", || log.len() == 1).await;
    for number in 0..10 {
        publisher.publish("calm", &number).await.unwrap();
    }
    wait_until("the others ran", || log.len() == 11).await;
    open.send(()).unwrap();
    wait_until("it went on", || log.lines().contains(&"unblocked".to_owned())).await;
    assert_eq!(bench.punctual.shutdown().await.abandoned, 0);
}

/// A payload whose deserialization panics.
struct PanickingPayload;

impl<'de> Deserialize<'de> for PanickingPayload {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("pulled")
    }
}

#[tokio::test]
async fn a_payload_type_that_panics_while_it_is_read_is_a_failed_attempt() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .handler_with(
                "grenade",
                retrying(Retry::none()),
                logging::<PanickingPayload>(&log, |_, _| "held it".to_owned()),
            )
            .handler("calm", logging::<()>(&log, |(), _| "calm".to_owned()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("grenade", &()).await.unwrap();
    publisher.publish("calm", &()).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["calm"]);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Panicked]);
}

// A payload that cannot be read is never replaced by an empty one.
#[tokio::test]
async fn an_undecodable_body_is_dead_immediately() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("count", logging::<u32>(&log, |number, _| number.to_string()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let bodies = [
        Body::json("seven").unwrap(),
        Body::raw(&b"{"[..], "application/json"),
        Body::raw(&[0xff, 0xfe][..], "application/octet-stream"),
        Body::empty(),
    ];
    for body in bodies {
        let sent = publisher.publish_body("count", body).await.unwrap();
        bench.run_until_idle().await;
        let record = bench.message(sent.id).await;
        assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Poison)));
        let history = history(&bench.storage, sent.id).await;
        assert_eq!(history.len(), 1);
        assert_eq!(history[0].ending, Ending::Poison);
        assert!(history[0].note.as_deref().unwrap().contains("cannot be read as u32"));
    }
    assert_eq!(log.len(), 0, "it was never called");
    publisher.publish("count", &7).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["7"]);
}

#[tokio::test]
async fn a_very_long_error_text_is_truncated() {
    let bench = Bench::start(|builder| {
        builder.handler_with("chatty", retrying(Retry::none()), |(): (), _: Context| async {
            Err::<(), _>("no ".repeat(100_000))
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("chatty", &()).await.unwrap();
    bench.run_until_idle().await;
    let record = bench.message(sent.id).await;
    assert!(record.error.as_ref().unwrap().len() <= punctual::policy::NOTE_LEN_MAX);
}
