//! Shutdown: what a process leaves unfinished goes back, unspent, and others get it.

use std::time::Duration;

use punctual::ErrorKind;
use punctual::transport::AttemptCount;

use super::Fixture;
use super::fixture::{Act, QUIET, ack, pass};

behaviours! {
    what_was_not_handled_goes_to_another_node,
    a_closed_consumer_receives_no_more,
    an_attempt_that_was_interrupted_is_given_back_unspent,
    what_is_in_hand_is_finished_first,
}

pub async fn what_was_not_handled_goes_to_another_node(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish(f.messages(10)).await;
    let first = office.consumer.receive(1).await.unwrap();
    let done = first.len();
    for delivery in first {
        ack(delivery).await;
    }
    office.close().await.unwrap();
    let mut other = f.another_node().await.subscribe("office").await;
    for delivery in other.take(10 - done).await {
        ack(delivery).await;
    }
    other.is_quiet().await;
}

pub async fn a_closed_consumer_receives_no_more(f: Fixture) {
    let mut office = f.subscribe("office").await;
    office.consumer.close(super::fixture::later(Duration::from_secs(10))).await.unwrap();
    f.send("hello").await;
    match office.consumer.receive(1).await {
        Ok(deliveries) => panic!("{} deliveries after the end", deliveries.len()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
    }
    // A second end is no error.
    office.close().await.unwrap();
}

pub async fn an_attempt_that_was_interrupted_is_given_back_unspent(f: Fixture) {
    let plan = f.worker("office").drain(Duration::from_millis(100));
    let worker = plan.start(|_| Act::Hang).await;
    let id = worker.send("hello").await;
    worker.called("hello", 1).await;
    worker.stop().await;
    let worker = f.another_node().await.worker("office").start(|_| Act::Done).await;
    let call = worker.called("hello", 1).await[0].clone();
    assert_eq!(call.id, id);
    // A broker that counts deliveries has counted this one; whoever else counts has not.
    let most = if f.is_stored() || f.capabilities.attempts == AttemptCount::None { 1 } else { 2 };
    assert!(call.attempt <= most, "attempt {}", call.attempt);
    pass(QUIET).await;
    assert_eq!(worker.seen().len(), 1);
    worker.stop().await;
}

pub async fn what_is_in_hand_is_finished_first(f: Fixture) {
    let worker = f.worker("office").start(|_| Act::Slow(Duration::from_millis(700))).await;
    worker.send("hello").await;
    worker.called("hello", 1).await;
    let stopped = worker.punctual.shutdown().await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (0, 0));
    f.another_node().await.subscribe("office").await.is_quiet().await;
}
