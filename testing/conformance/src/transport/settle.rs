//! Settle: each delivery is settled once, in any order; unsettled deliveries are redelivered.

use std::collections::BTreeSet;

use punctual::backend::transport::{AcknowledgeMode, AttemptCount, Receipt};

use super::Fixture;
use super::fixture::{QUIET, ack, id_of, text_of};

behaviours! {
    an_acknowledged_message_is_not_redelivered,
    a_dropped_delivery_is_redelivered,
    settling_out_of_order_loses_nothing,
    prefetch_bounds_unsettled_deliveries,
    an_in_flight_message_is_not_delivered_to_another_consumer,
    a_cancelled_receive_loses_nothing,
}

pub async fn an_acknowledged_message_is_not_redelivered(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish(f.messages(3)).await;
    for _ in 0..3 {
        ack(office.next().await).await;
    }
    office.close().await.unwrap();
    let mut again = f.another_node().await.subscribe("office").await;
    again.expect_nothing().await;
}

pub async fn a_dropped_delivery_is_redelivered(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let first = office.next().await;
    assert_eq!(first.attempt, 1);
    drop(first);
    office.release_dropped().await;
    let second = office.next().await;
    assert_eq!(id_of(&second), id);
    match f.capabilities.attempts {
        AttemptCount::Counted => assert_eq!(second.attempt, 2),
        AttemptCount::RedeliveredFlag => assert!(second.attempt >= 2, "{}", second.attempt),
        AttemptCount::None => assert!(second.attempt >= 1),
    }
    ack(second).await;
    office.expect_nothing().await;
}

/// With cumulative settling, messages after an unsettled one may be redelivered; messages before it never are,
/// and the unsettled one always is.
pub async fn settling_out_of_order_loses_nothing(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish(f.messages(10)).await;
    let mut deliveries = office.take(10).await;
    deliveries.sort_by_key(|delivery| text_of(delivery).parse::<u32>().unwrap());
    let unfinished = deliveries.remove(3);
    for delivery in deliveries.into_iter().rev() {
        ack(delivery).await;
    }
    drop(unfinished);
    office.close().await.unwrap();
    let mut again = f.another_node().await.subscribe("office").await;
    again.release_dropped().await;
    let mut seen = BTreeSet::new();
    let delivery = again.next().await;
    seen.insert(text_of(&delivery));
    ack(delivery).await;
    while let Some(delivery) = again.next_within(QUIET).await {
        seen.insert(text_of(&delivery));
        ack(delivery).await;
    }
    assert!(seen.contains("3"), "{seen:?}");
    match f.capabilities.acknowledge {
        AcknowledgeMode::Single => assert_eq!(seen.len(), 1, "{seen:?}"),
        AcknowledgeMode::Cumulative => assert!(seen.iter().all(|text| text.as_str() >= "3")),
    }
}

pub async fn prefetch_bounds_unsettled_deliveries(f: Fixture) {
    let mut office = f.subscribe_with("office", 2).await;
    f.publish(f.messages(5)).await;
    let first = office.consumer.receive(100).await.unwrap();
    assert!((1..=2).contains(&first.len()), "{}", first.len());
    if matches!(first[0].receipt, Receipt::Lease(_)) {
        for delivery in first {
            ack(delivery).await;
        }
        for _ in 2..5 {
            ack(office.next().await).await;
        }
        return f
            .refused("a storage delivers as many as requested; the engine requests free slots");
    }
    let mut held: Vec<_> = first;
    while held.len() < 2 {
        held.push(office.next().await);
    }
    office.expect_nothing().await;
    for _ in 2..5 {
        ack(held.remove(0)).await;
        held.push(office.next().await);
        office.expect_nothing().await;
    }
    for delivery in held {
        ack(delivery).await;
    }
}

pub async fn an_in_flight_message_is_not_delivered_to_another_consumer(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let mut other = f.another_node().await.subscribe("office").await;
    f.send("hello").await;
    let delivery = tokio::select! {
        delivery = office.next() => delivery,
        delivery = other.next() => delivery,
    };
    tokio::join!(office.expect_nothing(), other.expect_nothing());
    ack(delivery).await;
    tokio::join!(office.expect_nothing(), other.expect_nothing());
}

pub async fn a_cancelled_receive_loses_nothing(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let mut sent = Vec::new();
    for _ in 0..20 {
        let sending = f.send("hello");
        tokio::pin!(sending);
        // Cancelled at every await point, also while a message arrives.
        let id = loop {
            tokio::select! {
                biased;
                id = &mut sending => break id,
                received = office.consumer.receive(1) => office.push_back(received.unwrap()),
                () = tokio::task::yield_now() => {}
            }
        };
        sent.push(id);
    }
    let mut received = Vec::new();
    for _ in 0..20 {
        let delivery = office.next().await;
        received.push(id_of(&delivery));
        ack(delivery).await;
    }
    sent.sort();
    received.sort();
    assert_eq!(received, sent);
    office.expect_nothing().await;
}
