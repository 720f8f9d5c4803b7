//! Offsets under concurrency, and groups that change while deliveries are in hand.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::transport::{Outgoing, Receipt};
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_conformance::own::letters::sent;

use crate::cluster::Cluster;
use crate::node::{ack, keyed, message, publish, publish_texts, subscribe, text_of};

fn one_partition() -> Cluster {
    let cluster = Cluster::new();
    cluster.make_with("mail", 1, &["office", "archive"]).unwrap();
    cluster
}

// Kafka's commit stalled at gaps in a system of the field (spec/traps.md 5.5).
#[tokio::test]
async fn a_partition_waits_when_too_much_stands_behind_one_that_is_not_settled() {
    let cluster = one_partition();
    let transport = cluster.builder().window_max(10).connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 5).await;
    publish_texts(&transport, 0..30).await;
    let slow = office.next().await;
    for _ in 1..10 {
        ack(office.next().await).await.unwrap();
    }
    office.is_quiet().await;
    ack(slow).await.unwrap();
    for number in 10..30 {
        let delivery = office.next().await;
        assert_eq!(text_of(&delivery), number.to_string());
        ack(delivery).await.unwrap();
    }
    office.close().await;
    assert_eq!(cluster.committed("mail.office", "mail", 0).await, Some(30));
}

#[tokio::test]
async fn what_is_for_another_group_is_passed_over_and_committed() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut archive = subscribe(&transport, "archive", 5).await;
    let back = (0..5).map(|number| {
        let group = Some("office".to_owned());
        Outgoing { group, ..sent(message(&number.to_string())) }
    });
    transport.publish(back.collect(), SystemClock.now()).await.unwrap();
    publish(&transport, vec![message("for all")]).await.unwrap();
    let delivery = archive.next().await;
    assert_eq!(text_of(&delivery), "for all");
    ack(delivery).await.unwrap();
    archive.close().await;
    assert_eq!(cluster.committed("mail.archive", "mail", 0).await, Some(6));
}

#[tokio::test]
async fn what_is_put_back_is_committed_where_it_was_and_comes_again_with_its_count() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 5).await;
    publish(&transport, vec![keyed("customer", "hello")]).await.unwrap();
    let first = office.next().await;
    let Receipt::Broker(receipt) = first.receipt else { panic!("a broker delivers no leases") };
    receipt.requeue(Duration::ZERO).await.unwrap();
    office.close().await;
    assert_eq!(cluster.committed("mail.office", "mail", 0).await, Some(1));
    // The count is with the copy, so it outlives the process that counted.
    let other = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&other, "office", 5).await;
    let again = office.next().await;
    assert_eq!((again.attempt, &again.message), (2, &first.message));
    ack(again).await.unwrap();
    office.close().await;
}

#[tokio::test]
async fn a_delay_is_refused_and_the_delivery_comes_again() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 5).await;
    publish_texts(&transport, 0..1).await;
    let Receipt::Broker(receipt) = office.next().await.receipt else { panic!("no leases") };
    let error = receipt.requeue(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(text_of(&office.next().await), "0");
}

/// One message for each of many keys, so that every partition has some.
fn spread() -> Vec<punctual::Message> {
    (0..24).map(|number| keyed(&format!("key-{number}"), &number.to_string())).collect()
}

#[tokio::test]
async fn what_is_in_hand_may_be_settled_before_its_partition_moves() {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    // The cluster in the library tells a member to join anew that learns what it has after the leader has
    // said it, which no broker does, and it does not wait for the others then. So the leader is the second
    // one, which is the first by its name, and not the one that is busy with what it has in hand.
    let patient = |name: &str| {
        let builder = cluster.builder().property("group.instance.id", name);
        builder.revoke_patience(Duration::from_secs(20)).connect()
    };
    let (one, two) = (patient("b").await.unwrap(), patient("a").await.unwrap());
    let mut first = subscribe(&one, "office", 100).await;
    publish(&one, spread()).await.unwrap();
    let in_hand = first.take(24).await;
    let mut second = subscribe(&two, "office", 100).await;
    // Long enough for the group to have changed, had it not waited.
    assert!(second.next_within(Duration::from_secs(6)).await.is_none());
    for delivery in in_hand {
        ack(delivery).await.unwrap();
    }
    second.is_quiet().await;
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn what_is_in_hand_too_long_comes_again_and_cannot_be_settled_here() {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    let hasty = || cluster.builder().revoke_patience(Duration::ZERO);
    let (one, two) = (hasty().connect().await.unwrap(), hasty().connect().await.unwrap());
    let mut first = subscribe(&one, "office", 100).await;
    publish(&one, spread()).await.unwrap();
    let in_hand = first.take(24).await;
    let mut second = subscribe(&two, "office", 100).await;
    let mut moved = BTreeSet::new();
    let delivery = second.next().await;
    moved.insert(text_of(&delivery));
    ack(delivery).await.unwrap();
    while let Some(delivery) = second.next_within(Duration::from_secs(3)).await {
        moved.insert(text_of(&delivery));
        ack(delivery).await.unwrap();
    }
    assert!(moved.len() < 24, "some stay where they are");
    for delivery in in_hand {
        let has_moved = moved.contains(&text_of(&delivery));
        match ack(delivery).await {
            Ok(()) => assert!(!has_moved),
            Err(error) => assert!(has_moved && error.kind() == ErrorKind::Conflict, "{error}"),
        }
    }
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_long_handler_keeps_its_hold_although_nobody_receives() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 1).await;
    publish_texts(&transport, 0..1).await;
    let slow = office.next().await;
    let other = cluster.builder().revoke_patience(Duration::ZERO).connect().await.unwrap();
    let mut idle = subscribe(&other, "office", 1).await;
    // Longer than the session of a member that is not heard of.
    assert!(idle.next_within(Duration::from_secs(6)).await.is_none());
    ack(slow).await.unwrap();
    office.close().await;
    idle.is_quiet().await;
    idle.close().await;
}
