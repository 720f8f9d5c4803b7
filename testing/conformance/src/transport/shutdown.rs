//! Shutdown: unfinished messages return to the broker without a spent attempt, and other processes get them.

use std::time::Duration;

use punctual::ErrorKind;
use punctual::backend::transport::AttemptCount;

use super::Fixture;
use super::fixture::{Action, QUIET, ack, sleep};

behaviours! {
    unhandled_messages_go_to_another_node,
    a_closed_consumer_receives_no_more,
    an_interrupted_attempt_is_returned_and_not_counted,
    in_flight_messages_are_finished_first,
}

pub async fn unhandled_messages_go_to_another_node(f: Fixture) {
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
    other.expect_nothing().await;
}

pub async fn a_closed_consumer_receives_no_more(f: Fixture) {
    let mut office = f.subscribe("office").await;
    office.consumer.close(super::fixture::deadline(Duration::from_secs(10))).await.unwrap();
    f.send("hello").await;
    match office.consumer.receive(1).await {
        Ok(deliveries) => panic!("{} deliveries after the end", deliveries.len()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
    }
    // Closing a second time is no error.
    office.close().await.unwrap();
}

pub async fn an_interrupted_attempt_is_returned_and_not_counted(f: Fixture) {
    let builder = f.worker("office").drain(Duration::from_millis(100));
    let worker = builder.start(|_| Action::Hang).await;
    let id = worker.send("hello").await;
    worker.wait_for_calls("hello", 1).await;
    worker.stop().await;
    let worker = f.another_node().await.worker("office").start(|_| Action::Done).await;
    let call = worker.wait_for_calls("hello", 1).await[0].clone();
    assert_eq!(call.id, id);
    // A broker that counts deliveries has counted this one; the engine and a storage have not.
    let most = if f.is_stored() || f.capabilities.attempts == AttemptCount::None { 1 } else { 2 };
    assert!(call.attempt <= most, "attempt {}", call.attempt);
    sleep(QUIET).await;
    assert_eq!(worker.calls().len(), 1);
    worker.stop().await;
}

pub async fn in_flight_messages_are_finished_first(f: Fixture) {
    let worker = f.worker("office").start(|_| Action::Slow(Duration::from_millis(700))).await;
    worker.send("hello").await;
    worker.wait_for_calls("hello", 1).await;
    let stopped = worker.punctual.shutdown().await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (0, 0));
    f.another_node().await.subscribe("office").await.expect_nothing().await;
}
