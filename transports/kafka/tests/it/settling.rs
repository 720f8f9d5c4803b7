//! Offsets under concurrency, and rebalances while deliveries are in flight.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::backend::transport::{OutgoingMessage, Receipt};
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_conformance::backend_tests::messaging::outgoing;

use crate::cluster::Cluster;
use crate::fixture::{ack, keyed, message, publish, publish_texts, subscribe, text_of};

fn one_partition() -> Cluster {
    let cluster = Cluster::new();
    cluster.make_with("mail", 1, &["office", "archive"]).unwrap();
    cluster
}

// Kafka's commit stalled at gaps in a system of the field (spec/traps.md 5.5).
#[tokio::test]
async fn a_partition_pauses_when_too_many_records_follow_an_unsettled_one() {
    let cluster = one_partition();
    let transport = cluster.builder().uncommitted_max(10).connect().await.unwrap();
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
async fn a_record_for_another_group_is_skipped_and_committed() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut archive = subscribe(&transport, "archive", 5).await;
    let back = (0..5).map(|number| {
        let group = Some("office".to_owned());
        OutgoingMessage { group, ..outgoing(message(&number.to_string())) }
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
async fn a_requeued_record_is_committed_and_delivered_again_with_its_attempt() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 5).await;
    publish(&transport, vec![keyed("customer", "hello")]).await.unwrap();
    let first = office.next().await;
    let Receipt::Broker(receipt) = first.receipt else { panic!("a broker delivers no leases") };
    receipt.requeue(Duration::ZERO).await.unwrap();
    office.close().await;
    assert_eq!(cluster.committed("mail.office", "mail", 0).await, Some(1));
    // The attempt is stored in the copy, so it outlives the process.
    let other = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&other, "office", 5).await;
    let again = office.next().await;
    assert_eq!((again.attempt, &again.message), (2, &first.message));
    ack(again).await.unwrap();
    office.close().await;
}

#[tokio::test]
async fn a_delay_is_refused_and_the_message_is_delivered_again() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 5).await;
    publish_texts(&transport, 0..1).await;
    let Receipt::Broker(receipt) = office.next().await.receipt else { panic!("no leases") };
    let error = receipt.requeue(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(text_of(&office.next().await), "0");
}

/// Returns one message for each of many keys, so that every partition has some.
fn spread() -> Vec<punctual::Message> {
    (0..24).map(|number| keyed(&format!("key-{number}"), &number.to_string())).collect()
}

#[tokio::test]
async fn deliveries_in_flight_may_be_settled_before_their_partition_moves() {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    // The cluster in the library makes a member join again when it receives its assignment after the leader's sync,
    // which no real broker does, and then does not wait for the others. So the leader must be the second consumer,
    // the first one by name, and not the one that is busy with deliveries in flight.
    let connect = |name: &str| {
        let builder = cluster.builder().property("group.instance.id", name);
        builder.revoke_timeout(Duration::from_secs(20)).connect()
    };
    let (one, two) = (connect("b").await.unwrap(), connect("a").await.unwrap());
    let mut first = subscribe(&one, "office", 100).await;
    publish(&one, spread()).await.unwrap();
    let in_flight = first.take(24).await;
    let mut second = subscribe(&two, "office", 100).await;
    // Long enough for a rebalance to complete if the group did not wait.
    assert!(second.next_within(Duration::from_secs(6)).await.is_none());
    for delivery in in_flight {
        ack(delivery).await.unwrap();
    }
    second.is_quiet().await;
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn deliveries_in_flight_too_long_are_repeated_and_cannot_be_settled_here() {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    let impatient = || cluster.builder().revoke_timeout(Duration::ZERO);
    let (one, two) = (impatient().connect().await.unwrap(), impatient().connect().await.unwrap());
    let mut first = subscribe(&one, "office", 100).await;
    publish(&one, spread()).await.unwrap();
    let in_flight = first.take(24).await;
    let mut second = subscribe(&two, "office", 100).await;
    let mut moved = BTreeSet::new();
    let delivery = second.next().await;
    moved.insert(text_of(&delivery));
    ack(delivery).await.unwrap();
    while let Some(delivery) = second.next_within(Duration::from_secs(3)).await {
        moved.insert(text_of(&delivery));
        ack(delivery).await.unwrap();
    }
    assert!(moved.len() < 24, "some partitions do not move");
    for delivery in in_flight {
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
async fn a_long_handler_keeps_its_partition_without_further_receives() {
    let cluster = one_partition();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 1).await;
    publish_texts(&transport, 0..1).await;
    let slow = office.next().await;
    let other = cluster.builder().revoke_timeout(Duration::ZERO).connect().await.unwrap();
    let mut idle = subscribe(&other, "office", 1).await;
    // Longer than the session timeout of a silent member.
    assert!(idle.next_within(Duration::from_secs(6)).await.is_none());
    ack(slow).await.unwrap();
    office.close().await;
    idle.is_quiet().await;
    idle.close().await;
}
