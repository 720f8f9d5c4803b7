//! Faults: handlers that panic or never return, unsupported delays, broken connections and broker restarts. No
//! accepted message is lost, and the receive loop keeps running.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::backend::transport::Delay;
use punctual::{ErrorKind, Retry};

use super::fixture::{Action, QUIET, TRANSPORT, eventually, pause, sleep};
use super::{Fixture, Worker};

behaviours! {
    a_handler_that_panics_fails_and_others_flow,
    a_handler_that_never_returns_does_not_stop_the_others,
    an_unsupported_delay_is_a_configuration_error,
    an_unsupported_requeue_delay_loses_nothing,
    broken_connections_lose_nothing needs Cut,
    a_restart_of_the_broker_loses_nothing needs Restart,
    what_the_broker_accepted_survives_its_restart needs Restart,
}

pub async fn a_handler_that_panics_fails_and_others_flow(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]))
        .start(|call| match (call.text.as_str(), call.attempt) {
            ("bad", 1) => Action::Panic,
            _ => Action::Done,
        })
        .await;
    worker.send("bad").await;
    worker.send("good").await;
    worker.wait_for_calls("good", 1).await;
    let calls = worker.wait_for_calls("bad", 2).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2]);
    worker.stop().await;
}

pub async fn a_handler_that_never_returns_does_not_stop_the_others(f: Fixture) {
    let worker = f
        .worker("office")
        .concurrency(2)
        .drain(Duration::from_millis(100))
        .start(|call| if call.text == "stuck" { Action::Hang } else { Action::Done })
        .await;
    worker.send("stuck").await;
    worker.wait_for_calls("stuck", 1).await;
    for number in 0..20 {
        worker.send(&number.to_string()).await;
    }
    worker.wait_until("the others", |calls| calls.len() >= 21).await;
    sleep(QUIET).await;
    assert_eq!(worker.calls_of("stuck").len(), 1, "it is still in flight");
    worker.stop().await;
}

// Trap 14: the error names the message, and the consumer keeps receiving.
// spec: D-11, D-12
pub async fn an_unsupported_delay_is_a_configuration_error(f: Fixture) {
    if f.capabilities.publish_delay == Delay::Any {
        return f.refused("it declares that it supports any delay");
    }
    let worker = f.worker("office").without_storage().start(|_| Action::Done).await;
    let far = Duration::from_hours(365 * 24);
    let publish = worker.punctual.publisher().publish("mail", "far").after(far).via(TRANSPORT);
    let error = publish.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("storage"), "it names the way out: {error}");
    assert!(error.facts().iter().any(|(name, _)| *name == "message"), "{error}");
    worker.send("hello").await;
    worker.wait_for_calls("hello", 1).await;
    assert!(worker.calls_of("far").is_empty());
    worker.stop().await;
}

pub async fn an_unsupported_requeue_delay_loses_nothing(f: Fixture) {
    if f.capabilities.requeue_delay == Delay::Any {
        return f.refused("it declares that it supports any delay");
    }
    let far = Duration::from_hours(365 * 24);
    let calls = std::sync::atomic::AtomicU32::new(0);
    let worker = f
        .worker("office")
        .without_storage()
        .retry(Retry::intervals([Duration::ZERO]).unlimited())
        .start(move |call| {
            let first = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            if call.text == "far" && first() { Action::RetryAfter(far) } else { Action::Done }
        })
        .await;
    worker.send("far").await;
    worker.wait_for_calls("far", 1).await;
    worker.send("hello").await;
    worker.wait_for_calls("hello", 1).await;
    worker.wait_for_calls("far", 2).await;
    let events = worker.punctual.events();
    let is_reported = || std::future::ready((events.count("service.failed") > 0).then_some(()));
    eventually("the event of the failure", is_reported).await;
    worker.stop().await;
}

pub async fn broken_connections_lose_nothing(f: Fixture) {
    let worker =
        f.worker("office").concurrency(8).retry(any_number()).start(|_| Action::Done).await;
    let mut accepted = BTreeSet::new();
    for round in 0..3 {
        accepted.extend(send_many(&worker, round).await);
        f.cut().await;
    }
    accepted.extend(send_many(&worker, 3).await);
    handled(&worker, &accepted).await;
    worker.stop().await;
}

pub async fn a_restart_of_the_broker_loses_nothing(f: Fixture) {
    let worker =
        f.worker("office").concurrency(8).retry(any_number()).start(|_| Action::Done).await;
    let mut accepted = send_many(&worker, 0).await;
    f.restart().await;
    if !f.capabilities.durable {
        wait_for_delivery(&worker).await;
        accepted.clear();
    }
    accepted.extend(send_many(&worker, 1).await);
    handled(&worker, &accepted).await;
    worker.stop().await;
    if !f.capabilities.durable {
        f.refused(
            "it declares that a restart of the broker loses messages; delivery resumes after it",
        );
    }
}

pub async fn what_the_broker_accepted_survives_its_restart(f: Fixture) {
    if !f.capabilities.durable {
        return f.refused("it declares that a restart of the broker loses messages");
    }
    // The group must exist before a message is published to it.
    f.subscribe("office").await.close().await.unwrap();
    let mut sent: BTreeSet<_> = f.publish(f.messages(30)).await.into_iter().collect();
    f.restart().await;
    let node = f.another_node().await;
    // No consumer is connected yet: a refused message may be lost, an accepted one may not.
    sent.extend(node.try_publish(f.messages(5)).await.unwrap_or_default());
    let worker = node.worker("office").start(|_| Action::Done).await;
    let found = || worker.calls().iter().map(|call| call.id).collect::<BTreeSet<_>>();
    eventually("every message after the restart", || async {
        found().is_superset(&sent).then_some(())
    })
    .await;
    worker.stop().await;
}

/// Returns a retry policy without a limit, because brokers that count attempts also count those of broken
/// connections.
fn any_number() -> Retry {
    Retry::intervals([Duration::ZERO]).unlimited()
}

/// Publishes many messages, each until it is accepted, and returns their texts.
async fn send_many(worker: &Worker, round: usize) -> BTreeSet<String> {
    let mut accepted = BTreeSet::new();
    for number in 0..50 {
        let text = format!("{round}/{number}");
        eventually("a broker that accepts", || try_send(worker, &text)).await;
        accepted.insert(text);
    }
    accepted
}

/// Publishes a message; returns `None` after a temporary error.
async fn try_send(worker: &Worker, text: &str) -> Option<()> {
    let sent = worker.punctual.publisher().publish("mail", &text).via(TRANSPORT).await;
    match sent {
        Ok(_) => Some(()),
        Err(error) => {
            assert!(error.is_temporary(), "{error}");
            pause().await;
            None
        }
    }
}

/// Publishes messages that may be lost until one of them is handled.
async fn wait_for_delivery(worker: &Worker) {
    const PROBE: &str = "probe";
    eventually("a message that is handled after the restart", || async {
        try_send(worker, PROBE).await?;
        pause().await;
        (!worker.calls_of(PROBE).is_empty()).then_some(())
    })
    .await;
}

/// Waits until each of these messages was handled.
async fn handled(worker: &Worker, accepted: &BTreeSet<String>) {
    worker
        .wait_until("everything that was accepted", |calls| {
            let texts: BTreeSet<&str> = calls.iter().map(|call| call.text.as_str()).collect();
            accepted.iter().all(|text| texts.contains(text.as_str()))
        })
        .await;
}
