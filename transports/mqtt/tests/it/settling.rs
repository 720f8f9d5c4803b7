//! Settling: requeued, rejected and dropped deliveries.

use std::time::Duration;

use punctual::ErrorKind;
use punctual::model::DeadReason;
use punctual_conformance::backend_tests::messaging::{
    ack, body, close, next, publish, receipt, receive_exactly, rejection,
};
use punctual_conformance::cases;

use crate::fixture::{Fixture, is_quiet, subscribe, subscribe_to};

cases! {
    dead_letters_reach_the_groups_subscribed_to_them,
    a_dead_letter_without_a_subscriber_is_not_delivered_again,
    a_dropped_delivery_is_repeated_and_goes_to_others_on_close,
    a_delay_is_refused_and_the_message_is_delivered_again,
    a_requeued_message_may_go_to_another_member,
}

// spec: D-28
async fn dead_letters_reach_the_groups_subscribed_to_them() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    let mut dead = subscribe_to(&transport, "orders.dead", "operators").await;
    let mut invalid = subscribe_to(&transport, "orders.invalid", "operators").await;
    publish(&transport, &["failed", "unread"]).await;
    for delivery in receive_exactly(&mut *consumer, 2).await {
        let is_unread = body(&delivery) == "unread";
        let reason = if is_unread { DeadReason::Poison } else { DeadReason::AttemptsSpent };
        receipt(delivery).reject(&rejection(reason)).await.unwrap();
    }
    let (failed, unread) = (next(&mut *dead).await, next(&mut *invalid).await);
    assert_eq!((body(&failed).as_str(), body(&unread).as_str()), ("failed", "unread"));
    assert_eq!(failed.message.headers.get("tenant"), Some("acme"));
    for consumer in [&mut consumer, &mut dead, &mut invalid] {
        assert!(is_quiet(&mut **consumer).await);
    }
}

async fn a_dead_letter_without_a_subscriber_is_not_delivered_again() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["failed"]).await;
    let delivery = next(&mut *consumer).await;
    receipt(delivery).reject(&rejection(DeadReason::Discarded)).await.unwrap();
    close(consumer).await;
    let mut other = subscribe(&transport, "billing").await;
    assert!(is_quiet(&mut *other).await);
}

async fn a_dropped_delivery_is_repeated_and_goes_to_others_on_close() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["hello"]).await;
    for attempt in 1..=3 {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.attempt, attempt);
    }
    close(consumer).await;
    let mut other = subscribe(&fixture.open().await, "billing").await;
    let delivery = next(&mut *other).await;
    assert_eq!(body(&delivery), "hello");
    ack(delivery).await;
    assert!(is_quiet(&mut *other).await);
}

// spec: D-1
async fn a_delay_is_refused_and_the_message_is_delivered_again() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    let error = receipt(delivery).requeue(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    ack(next(&mut *consumer).await).await;
}

async fn a_requeued_message_may_go_to_another_member() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut one = subscribe(&transport, "billing").await;
    publish(&transport, &["hello"]).await;
    let mut other = subscribe(&fixture.open().await, "billing").await;
    let mut delivery = next(&mut *one).await;
    let mut others = 0;
    // The broker serves the members of a group in turn.
    for attempt in 2..=5 {
        receipt(delivery).requeue(Duration::ZERO).await.unwrap();
        delivery = tokio::select! {
            delivery = next(&mut *one) => delivery,
            delivery = next(&mut *other) => {
                others += 1;
                delivery
            }
        };
        assert_eq!(delivery.attempt, attempt);
    }
    assert!(others > 0);
    ack(delivery).await;
    assert!(is_quiet(&mut *one).await && is_quiet(&mut *other).await);
}
