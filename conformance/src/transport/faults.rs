//! Faults: handlers that panic or never return, delays that nobody can keep, connections that break and
//! brokers that go away. Nothing that was accepted is lost, and the loop stays alive.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::transport::Delay;
use punctual::{ErrorKind, Retry};

use super::fixture::{Act, POST, QUIET, eventually, pass, rest};
use super::{Fixture, Worker};

behaviours! {
    a_handler_that_panics_fails_and_others_flow,
    a_handler_that_never_returns_does_not_stop_the_others,
    a_delay_that_nobody_can_keep_is_a_configuration_error,
    a_requeue_that_nobody_can_keep_loses_nothing,
    broken_connections_lose_nothing needs Cut,
    a_restart_of_the_broker_loses_nothing needs Restart,
    what_the_broker_accepted_survives_its_restart needs Restart,
}

pub async fn a_handler_that_panics_fails_and_others_flow(f: Fixture) {
    let worker = f
        .worker("office")
        .retry(Retry::intervals([Duration::ZERO]))
        .start(|seen| match (seen.text.as_str(), seen.attempt) {
            ("bad", 1) => Act::Panic,
            _ => Act::Done,
        })
        .await;
    worker.send("bad").await;
    worker.send("good").await;
    worker.called("good", 1).await;
    let calls = worker.called("bad", 2).await;
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2]);
    worker.stop().await;
}

pub async fn a_handler_that_never_returns_does_not_stop_the_others(f: Fixture) {
    let worker = f
        .worker("office")
        .concurrency(2)
        .drain(Duration::from_millis(100))
        .start(|seen| if seen.text == "stuck" { Act::Hang } else { Act::Done })
        .await;
    worker.send("stuck").await;
    worker.called("stuck", 1).await;
    for number in 0..20 {
        worker.send(&number.to_string()).await;
    }
    worker.until("the others", |seen| seen.len() >= 21).await;
    pass(QUIET).await;
    assert_eq!(worker.seen_of("stuck").len(), 1, "it is still in hand");
    worker.stop().await;
}

// Trap 14: the error names the message, and the consumer keeps receiving.
// spec: D-11, D-12
pub async fn a_delay_that_nobody_can_keep_is_a_configuration_error(f: Fixture) {
    if f.capabilities.publish_delay == Delay::Any {
        return f.refused("it declares that it can delay for as long as one likes");
    }
    let worker = f.worker("office").without_storage().start(|_| Act::Done).await;
    let far = Duration::from_hours(365 * 24);
    let publish = worker.punctual.publisher().publish("mail", "far").after(far).via(POST);
    let error = publish.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("storage"), "it says the way out: {error}");
    assert!(error.facts().iter().any(|(name, _)| *name == "message"), "{error}");
    worker.send("hello").await;
    worker.called("hello", 1).await;
    assert!(worker.seen_of("far").is_empty());
    worker.stop().await;
}

pub async fn a_requeue_that_nobody_can_keep_loses_nothing(f: Fixture) {
    if f.capabilities.requeue_delay == Delay::Any {
        return f.refused("it declares that it can delay for as long as one likes");
    }
    let far = Duration::from_hours(365 * 24);
    let calls = std::sync::atomic::AtomicU32::new(0);
    let worker = f
        .worker("office")
        .without_storage()
        .retry(Retry::intervals([Duration::ZERO]).unlimited())
        .start(move |seen| {
            let first = || calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            if seen.text == "far" && first() { Act::RetryAfter(far) } else { Act::Done }
        })
        .await;
    worker.send("far").await;
    worker.called("far", 1).await;
    worker.send("hello").await;
    worker.called("hello", 1).await;
    worker.called("far", 2).await;
    let events = worker.punctual.events();
    let is_told = || std::future::ready((events.count("service.failed") > 0).then_some(()));
    eventually("that somebody is told", is_told).await;
    worker.stop().await;
}

pub async fn broken_connections_lose_nothing(f: Fixture) {
    let worker = f.worker("office").concurrency(8).retry(any_number()).start(|_| Act::Done).await;
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
    let worker = f.worker("office").concurrency(8).retry(any_number()).start(|_| Act::Done).await;
    let mut accepted = send_many(&worker, 0).await;
    f.restart().await;
    if !f.capabilities.durable {
        flows_again(&worker).await;
        accepted.clear();
    }
    accepted.extend(send_many(&worker, 1).await);
    handled(&worker, &accepted).await;
    worker.stop().await;
    if !f.capabilities.durable {
        f.refused(
            "it declares that a restart of the broker loses messages; they flow again after it",
        );
    }
}

pub async fn what_the_broker_accepted_survives_its_restart(f: Fixture) {
    if !f.capabilities.durable {
        return f.refused("it declares that a restart of the broker loses messages");
    }
    // The group must be known before anything is sent to it.
    f.subscribe("office").await.close().await.unwrap();
    let mut sent: BTreeSet<_> = f.publish(f.messages(30)).await.into_iter().collect();
    f.restart().await;
    let node = f.another_node().await;
    // No consumer is back yet: what is refused now may be lost, what is accepted may not.
    sent.extend(node.try_publish(f.messages(5)).await.unwrap_or_default());
    let worker = node.worker("office").start(|_| Act::Done).await;
    let found = || worker.seen().iter().map(|seen| seen.id).collect::<BTreeSet<_>>();
    eventually("every message after the restart", || async {
        found().is_superset(&sent).then_some(())
    })
    .await;
    worker.stop().await;
}

/// Attempts without a limit: what is on its way when a connection breaks counts as one where the broker
/// counts.
fn any_number() -> Retry {
    Retry::intervals([Duration::ZERO]).unlimited()
}

/// Sends many, each until it is accepted, and returns their texts.
async fn send_many(worker: &Worker, round: usize) -> BTreeSet<String> {
    let mut accepted = BTreeSet::new();
    for number in 0..50 {
        let text = format!("{round}/{number}");
        eventually("a broker that accepts", || try_send(worker, &text)).await;
        accepted.insert(text);
    }
    accepted
}

/// Sends a message, which a broker that is away may refuse for now.
async fn try_send(worker: &Worker, text: &str) -> Option<()> {
    let sent = worker.punctual.publisher().publish("mail", &text).via(POST).await;
    match sent {
        Ok(_) => Some(()),
        Err(error) => {
            assert!(error.is_temporary(), "{error}");
            rest().await;
            None
        }
    }
}

/// Sends messages that may be lost until one of them is handled.
async fn flows_again(worker: &Worker) {
    const PROBE: &str = "probe";
    eventually("a message that is handled after the restart", || async {
        try_send(worker, PROBE).await?;
        rest().await;
        (!worker.seen_of(PROBE).is_empty()).then_some(())
    })
    .await;
}

/// Waits until each of these was handled.
async fn handled(worker: &Worker, accepted: &BTreeSet<String>) {
    worker
        .until("everything that was accepted", |seen| {
            let texts: BTreeSet<&str> = seen.iter().map(|seen| seen.text.as_str()).collect();
            accepted.iter().all(|text| texts.contains(text.as_str()))
        })
        .await;
}
