//! Settling: acknowledged, requeued at once or later, rejected, dropped, and extended for as long as a handler takes.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::SystemClock;
use punctual::backend::transport::{Subscription, Transport as _};
use punctual::clock::{add, between, within};
use punctual::model::{DeadReason, Topic};
use punctual_conformance::backend_tests::messaging::{
    ack, ack_all, bodies, body, close, deadline, message, next, outgoing, publish, receipt,
    receive_exactly, receives_nothing, rejection, subscribe,
};
use punctual_conformance::cases;

use crate::fixture::{A_WHILE, Fixture, now};

cases![
    a_requeue_without_delay_is_redelivered_at_once_with_its_attempt,
    a_requeue_with_delay_is_not_early_and_others_flow,
    a_requeue_with_delay_outlives_the_extensions_of_others,
    a_dropped_delivery_is_redelivered,
    a_long_handler_keeps_its_delivery,
    waiting_deliveries_are_extended_too,
    no_more_than_the_prefetch_is_in_flight,
    a_rejected_delivery_is_stored_once_with_its_reason,
    dead_letters_can_be_received_and_sent_again,
    closing_returns_unreceived_deliveries,
    deliveries_arriving_after_the_last_receive_are_redelivered_soon,
];

// spec: D-15, D-26
async fn a_requeue_without_delay_is_redelivered_at_once_with_its_attempt() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut mail = subscribe(&transport, "mail", 10).await;
    let mut bill = subscribe(&transport, "bill", 10).await;
    publish(&transport, &["one"]).await;
    ack(next(&mut *bill).await).await;
    for attempt in 1..=5 {
        let delivery = next(&mut *mail).await;
        assert_eq!(delivery.attempt, attempt);
        receipt(delivery).requeue(Duration::ZERO).await.unwrap();
    }
    assert!(receives_nothing(&mut *bill, A_WHILE).await);
    fixture.remove().await;
}

// spec: D-1, D-21, D-37
async fn a_requeue_with_delay_is_not_early_and_others_flow() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 1).await;
    publish(&transport, &["later"]).await;
    let delivery = next(&mut *consumer).await;
    let delay = Duration::from_millis(1_500);
    let started = now();
    receipt(delivery).requeue(delay).await.unwrap();
    publish(&transport, &["other"]).await;
    let other = next(&mut *consumer).await;
    assert!(between(started, now()) < delay);
    assert_eq!(body(&other), "other");
    ack(other).await;
    let later = next(&mut *consumer).await;
    assert!(between(started, now()) >= delay, "after {:?}", between(started, now()));
    assert_eq!((body(&later).as_str(), later.attempt), ("later", 2));
    ack(later).await;
    assert!(receives_nothing(&mut *consumer, A_WHILE).await);
    fixture.remove().await;
}

async fn a_requeue_with_delay_outlives_the_extensions_of_others() {
    let fixture = Fixture::new();
    let transport =
        fixture.builder().visibility_timeout(Duration::from_secs(1)).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let batch = ["later", "held"].map(|text| outgoing(message(text)));
    transport.publish(batch.into(), now()).await.unwrap();
    let mut deliveries = receive_exactly(&mut *consumer, 2).await;
    let held = deliveries.pop().unwrap();
    let started = now();
    let delay = Duration::from_secs(3);
    receipt(deliveries.pop().unwrap()).requeue(delay).await.unwrap();
    let later = next(&mut *consumer).await;
    assert_eq!(body(&later), "later");
    assert!(between(started, now()) >= delay, "after {:?}", between(started, now()));
    drop(held);
    fixture.remove().await;
}

async fn a_dropped_delivery_is_redelivered() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    publish(&transport, &["one"]).await;
    drop(next(&mut *consumer).await);
    let delivery = next(&mut *consumer).await;
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("one", 2));
    fixture.remove().await;
}

// CAP issues 1228 and 1340: a handler that took minutes was run again.
async fn a_long_handler_keeps_its_delivery() {
    let fixture = Fixture::new();
    let transport =
        fixture.builder().visibility_timeout(Duration::from_secs(1)).connect().await.unwrap();
    let mut one = subscribe(&transport, "mail", 10).await;
    let mut other = subscribe(&transport, "mail", 10).await;
    publish(&transport, &["long"]).await;
    let (delivery, other) = tokio::select! {
        received = one.receive(1) => (received.unwrap().pop().unwrap(), &mut other),
        received = other.receive(1) => (received.unwrap().pop().unwrap(), &mut one),
    };
    let started = now();
    while between(started, now()) < Duration::from_secs(3) {
        assert!(receives_nothing(&mut **other, A_WHILE).await);
    }
    ack(delivery).await;
    assert!(receives_nothing(&mut **other, A_WHILE).await);
    fixture.remove().await;
}

async fn waiting_deliveries_are_extended_too() {
    let fixture = Fixture::new();
    let transport =
        fixture.builder().visibility_timeout(Duration::from_secs(1)).connect().await.unwrap();
    let mut busy = subscribe(&transport, "mail", 2).await;
    let batch = ["one", "two"].map(|text| outgoing(message(text)));
    transport.publish(batch.into(), now()).await.unwrap();
    let first = next(&mut *busy).await;
    let mut other = subscribe(&transport, "mail", 2).await;
    let started = now();
    while between(started, now()) < Duration::from_secs(2) {
        assert!(receives_nothing(&mut *other, A_WHILE).await);
    }
    let second = next(&mut *busy).await;
    assert_eq!((body(&second).as_str(), second.attempt), ("two", 1));
    ack_all(vec![first, second]).await;
    fixture.remove().await;
}

async fn no_more_than_the_prefetch_is_in_flight() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 3).await;
    let batch = (0..10).map(|number| outgoing(message(number.to_string()))).collect();
    transport.publish(batch, now()).await.unwrap();
    let mut deliveries = receive_exactly(&mut *consumer, 3).await;
    assert!(receives_nothing(&mut *consumer, A_WHILE).await);
    ack(deliveries.remove(0)).await;
    assert_eq!(bodies(&receive_exactly(&mut *consumer, 1).await), ["3"]);
    fixture.remove().await;
}

// Brighter issues 3585 and 4387: rejected and acknowledged at once, for any reason.
// spec: D-28
async fn a_rejected_delivery_is_stored_once_with_its_reason() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let message = message("bad");
    let id = message.id;
    transport.publish(vec![outgoing(message)], now()).await.unwrap();
    let delivery = next(&mut *consumer).await;
    receipt(delivery).reject(&rejection(DeadReason::AttemptsSpent)).await.unwrap();
    assert!(receives_nothing(&mut *consumer, A_WHILE).await);
    let kept = fixture.stored("orders=2Edead").await;
    assert_eq!(kept.len(), 1);
    let header = |name: &str| kept[0].headers.get(name).map(|value| value.as_str().to_owned());
    assert_eq!(header("punctual-id"), Some(id.to_string()));
    assert_eq!(header("punctual-dead-topic").as_deref(), Some("orders"));
    assert_eq!(header("punctual-dead-attempts").as_deref(), Some("3"));
    assert_eq!(header("punctual-dead-error").as_deref(), Some("no such customer"));
    assert_eq!(header("tenant").as_deref(), Some("acme"));
    assert!(fixture.stored("orders").await.is_empty());
    fixture.remove().await;
}

async fn dead_letters_can_be_received_and_sent_again() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let message = message("bad");
    transport.publish(vec![outgoing(message.clone())], now()).await.unwrap();
    let delivery = next(&mut *consumer).await;
    receipt(delivery).reject(&rejection(DeadReason::AttemptsSpent)).await.unwrap();
    let topic = Topic::new("orders.dead").unwrap();
    let subscription = Subscription { topic, group: "operator".to_owned(), prefetch: 10 };
    let mut dead = transport.subscribe(subscription).await.unwrap();
    let letter = next(&mut *dead).await;
    assert_eq!(letter.message.id, message.id);
    let mut again = (*letter.message).clone();
    again.topic = Topic::new("orders").unwrap();
    transport.publish(vec![outgoing(again)], now()).await.unwrap();
    ack(letter).await;
    let delivery = next(&mut *consumer).await;
    assert_eq!((&*delivery.message, delivery.attempt), (&message, 1));
    fixture.remove().await;
}

async fn closing_returns_unreceived_deliveries() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut one = subscribe(&transport, "mail", 10).await;
    let batch = (0..10).map(|number| outgoing(message(number.to_string()))).collect();
    transport.publish(batch, now()).await.unwrap();
    ack_all(receive_exactly(&mut *one, 2).await).await;
    one.close(deadline()).await.unwrap();
    assert!(one.receive(1).await.is_err());
    let mut other = subscribe(&transport, "mail", 10).await;
    let mut rest = bodies(&receive_exactly(&mut *other, 8).await);
    rest.sort();
    assert_eq!(rest, ["2", "3", "4", "5", "6", "7", "8", "9"]);
    fixture.remove().await;
}

async fn deliveries_arriving_after_the_last_receive_are_redelivered_soon() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 100).await;
    // Large messages are on their way for longer.
    let much = "x".repeat(500_000);
    for round in 0..30 {
        let moment = add(now(), Duration::from_millis(5));
        assert!(within(&SystemClock, moment, consumer.receive(1)).await.is_none());
        let until = add(now(), Duration::from_millis(50));
        let mut published = BTreeSet::new();
        while now() < until {
            let text = format!("{round} {} {much}", published.len());
            transport.publish(vec![outgoing(message(&text))], now()).await.unwrap();
            published.insert(text);
        }
        // Sooner than the broker would redeliver it to another consumer.
        while !published.is_empty() {
            let delivery = next(&mut *consumer).await;
            assert!(published.remove(&body(&delivery)));
            ack(delivery).await;
        }
    }
    close(consumer).await;
    fixture.remove().await;
}
