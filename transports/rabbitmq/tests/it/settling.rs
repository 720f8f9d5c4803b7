//! Ack, requeue and reject: once, to the right place, with the count intact.

use std::time::Duration;

use lapin::types::AMQPValue;
use punctual::clock::between;
use punctual::model::DeadReason;
use punctual::transport::{AttemptCount, Delay};
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_rabbitmq::QueueKind;

use crate::cases;
use crate::place::{Place, is_quiet, next, receipt, rejection, soon, text};

cases!(
    what_is_acknowledged_is_gone,
    a_requeue_is_immediate_and_only_for_its_group,
    the_count_survives_every_path,
    a_delayed_requeue_comes_once_and_not_before,
    a_delayed_requeue_outlives_the_transport,
    a_delay_out_of_reach_is_refused_and_nothing_is_lost,
    what_is_rejected_is_kept_once_with_its_reason,
    classic_queues_carry_the_count_themselves,
);

async fn what_is_acknowledged_is_gone() {
    let place = Place::new();
    let transport = place.open().await;
    let mut consumer = place.subscribe(&transport, "g").await;
    place.publish(&transport, &["a"]).await.unwrap();
    receipt(next(&mut consumer).await).ack().await.unwrap();
    consumer.close(SystemClock.now()).await.unwrap();
    let mut consumer = place.subscribe(&transport, "g").await;
    assert!(is_quiet(&mut consumer, Duration::from_millis(300)).await);
}

// spec: D-15
async fn a_requeue_is_immediate_and_only_for_its_group() {
    let place = Place::new();
    let transport = place.open().await;
    let mut one = place.subscribe(&transport, "one").await;
    let mut other = place.subscribe(&transport, "other").await;
    place.publish(&transport, &["a"]).await.unwrap();
    receipt(next(&mut other).await).ack().await.unwrap();
    receipt(next(&mut one).await).requeue(Duration::ZERO).await.unwrap();
    let again = next(&mut one).await;
    assert_eq!((text(&again), again.attempt), ("a".to_owned(), 2));
    assert!(is_quiet(&mut other, Duration::from_millis(200)).await);
}

// spec: D-26
async fn the_count_survives_every_path() {
    let place = Place::new();
    let transport = place.open().await;
    assert_eq!(transport.capabilities().attempts, AttemptCount::Counted);
    let mut consumer = place.subscribe(&transport, "g").await;
    place.publish(&transport, &["a"]).await.unwrap();
    receipt(next(&mut consumer).await).requeue(Duration::ZERO).await.unwrap();
    let second = next(&mut consumer).await;
    assert_eq!(second.attempt, 2);
    drop(second);
    let third = next(&mut consumer).await;
    assert_eq!(third.attempt, 3);
    receipt(third).requeue(Duration::from_millis(50)).await.unwrap();
    let fourth = next(&mut consumer).await;
    assert_eq!(fourth.attempt, 4);
    receipt(fourth).requeue(Duration::ZERO).await.unwrap();
    let fifth = next(&mut consumer).await;
    assert_eq!(fifth.attempt, 5);
    drop((consumer, transport));
    let transport = place.open().await;
    let mut consumer = place.subscribe(&transport, "g").await;
    assert_eq!(next(&mut consumer).await.attempt, 6);
}

// spec: D-1, D-21, D-22, D-23
async fn a_delayed_requeue_comes_once_and_not_before() {
    let place = Place::new();
    let transport = place.open().await;
    let mut one = place.subscribe(&transport, "one").await;
    let mut other = place.subscribe(&transport, "other").await;
    place.publish(&transport, &["late"]).await.unwrap();
    let first = next(&mut one).await;
    let message = first.message.clone();
    receipt(next(&mut other).await).ack().await.unwrap();
    let delay = Duration::from_millis(1_500);
    let begun_at = SystemClock.now();
    receipt(first).requeue(delay).await.unwrap();
    // Others flow meanwhile.
    place.publish(&transport, &["now"]).await.unwrap();
    let now = next(&mut one).await;
    assert_eq!(text(&now), "now");
    assert!(between(begun_at, SystemClock.now()) < delay);
    receipt(now).ack().await.unwrap();
    receipt(next(&mut other).await).ack().await.unwrap();
    let late = next(&mut one).await;
    let took = between(begun_at, SystemClock.now());
    assert!(took >= delay && took < delay * 3, "{took:?}");
    // As it was, without a trace of the way it went.
    assert_eq!(*late.message, *message);
    assert_eq!(late.attempt, 2);
    receipt(late).ack().await.unwrap();
    assert!(is_quiet(&mut one, Duration::from_millis(300)).await);
    assert!(is_quiet(&mut other, Duration::from_millis(100)).await);
}

// spec: D-25
async fn a_delayed_requeue_outlives_the_transport() {
    let place = Place::new();
    let transport = place.open().await;
    let mut consumer = place.subscribe(&transport, "g").await;
    place.publish(&transport, &["a"]).await.unwrap();
    receipt(next(&mut consumer).await).requeue(Duration::from_millis(400)).await.unwrap();
    drop((consumer, transport));
    let transport = place.open().await;
    let mut consumer = place.subscribe(&transport, "g").await;
    let again = next(&mut consumer).await;
    assert_eq!((text(&again), again.attempt), ("a".to_owned(), 2));
}

async fn a_delay_out_of_reach_is_refused_and_nothing_is_lost() {
    let place = Place::new();
    let transport = place.builder().delay_max(Duration::from_secs(1)).connect().await.unwrap();
    let reach = transport.capabilities().requeue_delay;
    assert_eq!(reach, Delay::UpTo(Duration::from_secs(1)));
    let mut consumer = place.subscribe(&transport, "g").await;
    place.publish(&transport, &["a"]).await.unwrap();
    let first = receipt(next(&mut consumer).await);
    let error = first.requeue(Duration::from_millis(1_001)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(next(&mut consumer).await.attempt, 2);
}

// spec: D-28
async fn what_is_rejected_is_kept_once_with_its_reason() {
    let place = Place::new();
    let transport = place.open().await;
    let mut consumer = place.subscribe(&transport, "g").await;
    place.publish(&transport, &["bad", "unreadable"]).await.unwrap();
    let bad = receipt(next(&mut consumer).await);
    bad.reject(&rejection(DeadReason::AttemptsSpent, 3)).await.unwrap();
    let unreadable = receipt(next(&mut consumer).await);
    unreadable.reject(&rejection(DeadReason::Poison, 1)).await.unwrap();
    let stranger = place.stranger().await;
    for (queue, body, attempts, reason) in [
        ("orders.g.dead", "bad", "3", DeadReason::AttemptsSpent),
        ("orders.g.invalid", "unreadable", "1", DeadReason::Poison),
    ] {
        let letter = stranger.get(&place.name(queue)).await.unwrap();
        assert_eq!(letter.data, body.as_bytes());
        let headers = letter.properties.headers().clone().unwrap();
        let header = |name: &str| match headers.inner().get(name) {
            Some(AMQPValue::LongString(text)) => text.to_string(),
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(header("punctual-dead-reason"), reason.as_str());
        assert_eq!(header("punctual-dead-topic"), "orders");
        assert_eq!(header("punctual-dead-attempts"), attempts);
        assert_eq!(header("punctual-dead-error"), "the printer is on fire");
        assert!(header("punctual-dead-at").ends_with('Z'));
        assert!(stranger.get(&place.name(queue)).await.is_none());
    }
    assert!(is_quiet(&mut consumer, Duration::from_millis(200)).await);
}

// spec: D-26
async fn classic_queues_carry_the_count_themselves() {
    let place = Place::new();
    let transport = place.builder().queues(QueueKind::Classic).connect().await.unwrap();
    let capabilities = transport.capabilities();
    assert_eq!(capabilities.requeue_delay, Delay::None);
    assert_eq!(capabilities.attempts, AttemptCount::RedeliveredFlag);
    let mut consumer = place.subscribe(&transport, "g").await;
    let mut other = place.subscribe(&transport, "other").await;
    place.publish(&transport, &["a"]).await.unwrap();
    receipt(next(&mut other).await).ack().await.unwrap();
    for attempt in 1..=3 {
        let delivery = next(&mut consumer).await;
        assert_eq!(delivery.attempt, attempt);
        soon(receipt(delivery).requeue(Duration::ZERO)).await.unwrap();
    }
    assert!(is_quiet(&mut other, Duration::from_millis(200)).await);
}
