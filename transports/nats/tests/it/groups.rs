//! Groups: each receives every message, its consumers share them, and none is missed while the group is away.

use std::collections::BTreeSet;

use async_nats::HeaderMap;
use punctual::backend::transport::Transport as _;
use punctual::model::DeadReason;
use punctual_conformance::backend_tests::messaging::{
    ack, ack_all, bodies, body, close, message, next, outgoing, publish, receipt, receive_exactly,
    receives_nothing, rejection, subscribe,
};
use punctual_conformance::cases;

use crate::fixture::{A_WHILE, Fixture, now};

cases![
    each_group_gets_every_message_once,
    consumers_of_one_group_share,
    a_group_without_consumers_misses_nothing,
    a_copy_for_one_group_reaches_only_that_group,
    a_message_settled_by_every_group_is_removed,
    a_message_of_another_client_is_received,
    a_damaged_message_is_poison_and_goes_to_the_invalid_topic,
];

async fn each_group_gets_every_message_once() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut mail = subscribe(&transport, "mail", 10).await;
    let mut bill = subscribe(&transport, "bill.eu", 10).await;
    publish(&transport, &["one"]).await;
    for consumer in [&mut mail, &mut bill] {
        ack(next(&mut **consumer).await).await;
        assert!(receives_nothing(&mut **consumer, A_WHILE).await);
    }
    fixture.remove().await;
}

async fn consumers_of_one_group_share() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.open().await, fixture.open().await);
    let mut first = subscribe(&one, "mail", 1).await;
    let mut second = subscribe(&other, "mail", 1).await;
    let batch = (0..4).map(|number| outgoing(message(number.to_string()))).collect();
    one.publish(batch, now()).await.unwrap();
    let mut got = BTreeSet::new();
    for _ in 0..2 {
        for consumer in [&mut first, &mut second] {
            let delivery = next(&mut **consumer).await;
            assert!(got.insert(body(&delivery)));
            ack(delivery).await;
        }
    }
    assert_eq!(got.len(), 4);
    fixture.remove().await;
}

async fn a_group_without_consumers_misses_nothing() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    close(subscribe(&transport, "mail", 10).await).await;
    publish(&transport, &["meanwhile"]).await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    assert_eq!(body(&next(&mut *consumer).await), "meanwhile");
    fixture.remove().await;
}

// Brighter issues 1755 and 104: a requeue that reaches every subscriber.
async fn a_copy_for_one_group_reaches_only_that_group() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut mail = subscribe(&transport, "mail", 10).await;
    let mut bill = subscribe(&transport, "bill", 10).await;
    let mut copy = outgoing(message("back"));
    (copy.group, copy.attempt) = (Some("mail".to_owned()), 3);
    transport.publish(vec![copy, outgoing(message("for all"))], now()).await.unwrap();
    let deliveries = receive_exactly(&mut *mail, 2).await;
    assert_eq!(bodies(&deliveries), ["back", "for all"]);
    assert_eq!((deliveries[0].attempt, deliveries[1].attempt), (4, 1));
    ack_all(deliveries).await;
    let deliveries = receive_exactly(&mut *bill, 1).await;
    assert_eq!(bodies(&deliveries), ["for all"]);
    ack_all(deliveries).await;
    close(bill).await;
    close(mail).await;
    assert!(fixture.stored("orders").await.is_empty(), "a skipped message is acknowledged");
    fixture.remove().await;
}

async fn a_message_settled_by_every_group_is_removed() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut mail = subscribe(&transport, "mail", 10).await;
    let mut bill = subscribe(&transport, "bill", 10).await;
    publish(&transport, &["one"]).await;
    ack(next(&mut *mail).await).await;
    close(mail).await;
    assert_eq!(fixture.stored("orders").await.len(), 1);
    ack(next(&mut *bill).await).await;
    close(bill).await;
    assert!(fixture.stored("orders").await.is_empty());
    fixture.remove().await;
}

async fn a_message_of_another_client_is_received() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let jetstream = fixture.jetstream().await;
    let subject = format!("{}.orders", fixture.prefix);
    jetstream.publish(subject, "hello".into()).await.unwrap().await.unwrap();
    let delivery = next(&mut *consumer).await;
    let id = delivery.message.id;
    assert_eq!((body(&delivery).as_str(), delivery.poison.as_deref()), ("hello", None));
    receipt(delivery).requeue(std::time::Duration::ZERO).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!((delivery.message.id, delivery.attempt), (id, 2));
    fixture.remove().await;
}

async fn a_damaged_message_is_poison_and_goes_to_the_invalid_topic() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let jetstream = fixture.jetstream().await;
    let mut headers = HeaderMap::new();
    headers.insert("punctual-created", "yesterday");
    let subject = format!("{}.orders", fixture.prefix);
    jetstream.publish_with_headers(subject, headers, "hi".into()).await.unwrap().await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert!(delivery.poison.as_deref().unwrap().contains("yesterday"));
    receipt(delivery).reject(&rejection(DeadReason::Poison)).await.unwrap();
    assert!(fixture.stored("orders=2Edead").await.is_empty());
    let kept = fixture.stored("orders=2Einvalid").await;
    assert_eq!((kept.len(), &kept[0].payload[..]), (1, &b"hi"[..]));
    fixture.remove().await;
}
