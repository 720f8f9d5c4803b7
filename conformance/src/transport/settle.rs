//! Settle: each delivery is settled once, in any order; what is not settled comes again.

use std::collections::BTreeSet;

use punctual::transport::{AcknowledgeMode, AttemptCount, Receipt};

use super::Fixture;
use super::fixture::{QUIET, ack, id_of, text_of};

behaviours! {
    what_is_acknowledged_is_not_delivered_again,
    what_is_dropped_is_delivered_again,
    completion_out_of_order_loses_nothing,
    prefetch_bounds_what_is_unsettled,
    what_is_in_hand_is_given_to_nobody_else,
    a_receive_that_was_given_up_loses_nothing,
}

pub async fn what_is_acknowledged_is_not_delivered_again(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish(f.messages(3)).await;
    for _ in 0..3 {
        ack(office.next().await).await;
    }
    office.close().await.unwrap();
    let mut again = f.another_node().await.subscribe("office").await;
    again.is_quiet().await;
}

pub async fn what_is_dropped_is_delivered_again(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let first = office.next().await;
    assert_eq!(first.attempt, 1);
    drop(first);
    office.dropped().await;
    let second = office.next().await;
    assert_eq!(id_of(&second), id);
    match f.capabilities.attempts {
        AttemptCount::Counted => assert_eq!(second.attempt, 2),
        AttemptCount::RedeliveredFlag => assert!(second.attempt >= 2, "{}", second.attempt),
        AttemptCount::None => assert!(second.attempt >= 1),
    }
    ack(second).await;
    office.is_quiet().await;
}

/// What stands behind one that is not done may come again where settling is cumulative; what stands
/// before it never does, and it itself always.
pub async fn completion_out_of_order_loses_nothing(f: Fixture) {
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
    again.dropped().await;
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

pub async fn prefetch_bounds_what_is_unsettled(f: Fixture) {
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
        return f.refused("a storage hands out what is asked for; the engine asks for free slots");
    }
    let mut held: Vec<_> = first;
    while held.len() < 2 {
        held.push(office.next().await);
    }
    office.is_quiet().await;
    for _ in 2..5 {
        ack(held.remove(0)).await;
        held.push(office.next().await);
        office.is_quiet().await;
    }
    for delivery in held {
        ack(delivery).await;
    }
}

pub async fn what_is_in_hand_is_given_to_nobody_else(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let mut other = f.another_node().await.subscribe("office").await;
    f.send("hello").await;
    let delivery = tokio::select! {
        delivery = office.next() => delivery,
        delivery = other.next() => delivery,
    };
    tokio::join!(office.is_quiet(), other.is_quiet());
    ack(delivery).await;
    tokio::join!(office.is_quiet(), other.is_quiet());
}

pub async fn a_receive_that_was_given_up_loses_nothing(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let mut sent = Vec::new();
    for _ in 0..20 {
        let sending = f.send("hello");
        tokio::pin!(sending);
        // Given up at every point it can be given up at, also while something arrives.
        let id = loop {
            tokio::select! {
                biased;
                id = &mut sending => break id,
                received = office.consumer.receive(1) => office.keep(received.unwrap()),
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
    office.is_quiet().await;
}
