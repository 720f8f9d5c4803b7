//! Settling: ack, requeue and reject happen once, to the right queue, with the count intact.

use std::time::Duration;

use futures_util::future::join_all;
use lapin::types::AMQPValue;
use punctual::backend::transport::{AttemptCount, Delay, Rejection};
use punctual::clock::between;
use punctual::model::DeadReason;
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_conformance::backend_tests::messaging::{
    ack, body, next, publish, receipt, receives_nothing, rejection, subscribe, with_timeout,
};
use punctual_conformance::cases;
use punctual_rabbitmq::QueueKind;

use crate::fixture::Fixture;

cases!(
    an_acknowledged_message_is_removed,
    a_requeue_is_immediate_and_only_for_its_group,
    the_count_survives_every_path,
    a_delayed_requeue_is_delivered_once_and_not_early,
    a_delayed_requeue_outlives_the_transport,
    a_delay_that_many_callers_need_at_once_is_declared_for_all,
    a_delay_that_is_too_long_is_refused_and_nothing_is_lost,
    a_rejected_message_is_stored_once_with_its_reason,
    classic_queues_carry_the_count_themselves,
);

async fn an_acknowledged_message_is_removed() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a"]).await;
    ack(next(&mut *consumer).await).await;
    consumer.close(SystemClock.now()).await.unwrap();
    let mut consumer = subscribe(&transport, "g", 100).await;
    assert!(receives_nothing(&mut *consumer, Duration::from_millis(300)).await);
}

// spec: D-21
async fn a_delay_that_many_callers_need_at_once_is_declared_for_all() {
    let fixture = Fixture::new();
    let transports = join_all((0..4).map(|_| fixture.open())).await;
    let mut receipts = Vec::new();
    let mut consumers = Vec::new();
    for (number, transport) in transports.iter().enumerate() {
        let mut consumer = subscribe(transport, &format!("group {number}"), 100).await;
        publish(transport, &["a"; 8]).await;
        for _ in 0..8 {
            receipts.push(receipt(next(&mut *consumer).await));
        }
        consumers.push(consumer);
    }
    let delay = Duration::from_millis(12_345);
    let results = join_all(receipts.into_iter().map(|receipt| receipt.requeue(delay))).await;
    for result in results {
        result.unwrap();
    }
}

// spec: D-15
async fn a_requeue_is_immediate_and_only_for_its_group() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut one = subscribe(&transport, "one", 100).await;
    let mut other = subscribe(&transport, "other", 100).await;
    publish(&transport, &["a"]).await;
    ack(next(&mut *other).await).await;
    receipt(next(&mut *one).await).requeue(Duration::ZERO).await.unwrap();
    let again = next(&mut *one).await;
    assert_eq!((body(&again), again.attempt), ("a".to_owned(), 2));
    assert!(receives_nothing(&mut *other, Duration::from_millis(200)).await);
}

// spec: D-26
async fn the_count_survives_every_path() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    assert_eq!(transport.capabilities().attempts, AttemptCount::Counted);
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a"]).await;
    receipt(next(&mut *consumer).await).requeue(Duration::ZERO).await.unwrap();
    let second = next(&mut *consumer).await;
    assert_eq!(second.attempt, 2);
    drop(second);
    let third = next(&mut *consumer).await;
    assert_eq!(third.attempt, 3);
    receipt(third).requeue(Duration::from_millis(50)).await.unwrap();
    let fourth = next(&mut *consumer).await;
    assert_eq!(fourth.attempt, 4);
    receipt(fourth).requeue(Duration::ZERO).await.unwrap();
    let fifth = next(&mut *consumer).await;
    assert_eq!(fifth.attempt, 5);
    drop((consumer, transport));
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    assert_eq!(next(&mut *consumer).await.attempt, 6);
}

// spec: D-1, D-21, D-22, D-23
async fn a_delayed_requeue_is_delivered_once_and_not_early() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut one = subscribe(&transport, "one", 100).await;
    let mut other = subscribe(&transport, "other", 100).await;
    publish(&transport, &["late"]).await;
    let first = next(&mut *one).await;
    let message = first.message.clone();
    ack(next(&mut *other).await).await;
    let delay = Duration::from_millis(1_500);
    let begun_at = SystemClock.now();
    receipt(first).requeue(delay).await.unwrap();
    // Other messages pass meanwhile.
    publish(&transport, &["now"]).await;
    let now = next(&mut *one).await;
    assert_eq!(body(&now), "now");
    assert!(between(begun_at, SystemClock.now()) < delay);
    ack(now).await;
    ack(next(&mut *other).await).await;
    let late = next(&mut *one).await;
    let took = between(begun_at, SystemClock.now());
    assert!(took >= delay && took < delay * 3, "{took:?}");
    // Unchanged, without headers of the delay queue.
    assert_eq!(*late.message, *message);
    assert_eq!(late.attempt, 2);
    ack(late).await;
    assert!(receives_nothing(&mut *one, Duration::from_millis(300)).await);
    assert!(receives_nothing(&mut *other, Duration::from_millis(100)).await);
}

// spec: D-25
async fn a_delayed_requeue_outlives_the_transport() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a"]).await;
    receipt(next(&mut *consumer).await).requeue(Duration::from_millis(400)).await.unwrap();
    drop((consumer, transport));
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    let again = next(&mut *consumer).await;
    assert_eq!((body(&again), again.attempt), ("a".to_owned(), 2));
}

async fn a_delay_that_is_too_long_is_refused_and_nothing_is_lost() {
    let fixture = Fixture::new();
    let transport = fixture.builder().delay_max(Duration::from_secs(1)).connect().await.unwrap();
    let reach = transport.capabilities().requeue_delay;
    assert_eq!(reach, Delay::UpTo(Duration::from_secs(1)));
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a"]).await;
    let first = receipt(next(&mut *consumer).await);
    let error = first.requeue(Duration::from_millis(1_001)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(next(&mut *consumer).await.attempt, 2);
}

// spec: D-28
async fn a_rejected_message_is_stored_once_with_its_reason() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["bad", "unreadable"]).await;
    let bad = receipt(next(&mut *consumer).await);
    bad.reject(&rejection(DeadReason::AttemptsSpent)).await.unwrap();
    let unreadable = receipt(next(&mut *consumer).await);
    let poison = Rejection { attempt: 1, ..rejection(DeadReason::Poison) };
    unreadable.reject(&poison).await.unwrap();
    let raw_client = fixture.raw_client().await;
    for (queue, body, attempts, reason) in [
        ("orders.g.dead", "bad", "3", DeadReason::AttemptsSpent),
        ("orders.g.invalid", "unreadable", "1", DeadReason::Poison),
    ] {
        let letter = raw_client.get(&fixture.name(queue)).await.unwrap();
        assert_eq!(letter.data, body.as_bytes());
        let headers = letter.properties.headers().clone().unwrap();
        let header = |name: &str| match headers.inner().get(name) {
            Some(AMQPValue::LongString(text)) => text.to_string(),
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(header("punctual-dead-reason"), reason.as_str());
        assert_eq!(header("punctual-dead-topic"), "orders");
        assert_eq!(header("punctual-dead-attempts"), attempts);
        assert_eq!(header("punctual-dead-error"), "no such customer");
        assert_eq!(header("punctual-dead-at"), "2026-01-02T03:04:05Z");
        assert!(raw_client.get(&fixture.name(queue)).await.is_none());
    }
    assert!(receives_nothing(&mut *consumer, Duration::from_millis(200)).await);
}

// spec: D-26
async fn classic_queues_carry_the_count_themselves() {
    let fixture = Fixture::new();
    let transport = fixture.builder().queues(QueueKind::Classic).connect().await.unwrap();
    let capabilities = transport.capabilities();
    assert_eq!(capabilities.requeue_delay, Delay::None);
    assert_eq!(capabilities.attempts, AttemptCount::RedeliveredFlag);
    let mut consumer = subscribe(&transport, "g", 100).await;
    let mut other = subscribe(&transport, "other", 100).await;
    publish(&transport, &["a"]).await;
    ack(next(&mut *other).await).await;
    for attempt in 1..=3 {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.attempt, attempt);
        with_timeout(receipt(delivery).requeue(Duration::ZERO)).await.unwrap();
    }
    assert!(receives_nothing(&mut *other, Duration::from_millis(200)).await);
}
