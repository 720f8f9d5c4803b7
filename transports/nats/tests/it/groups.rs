//! Groups: each gets every message, its consumers share, and it misses nothing while it is away.

use std::collections::BTreeSet;

use async_nats::HeaderMap;
use punctual::model::DeadReason;
use punctual::transport::Transport as _;

use crate::cases;
use crate::place::{
    Place, ack_all, close, nothing, now, out, receipt, receive, receive_one, rejection, subscribe,
    text, texts,
};

cases![
    each_group_gets_every_message_once,
    consumers_of_one_group_share,
    a_group_that_is_away_misses_nothing,
    a_copy_for_one_group_reaches_only_that_group,
    what_everybody_has_settled_is_gone,
    a_message_of_a_stranger_is_received,
    a_damaged_message_is_poison_and_goes_to_the_invalid_place,
];

async fn each_group_gets_every_message_once() {
    let place = Place::new();
    let transport = place.transport().await;
    let mut mail = subscribe(&transport, "mail", 10).await;
    let mut bill = subscribe(&transport, "bill.eu", 10).await;
    transport.publish(vec![out(place.message("one"))], now()).await.unwrap();
    for consumer in [&mut mail, &mut bill] {
        ack_all(receive(consumer, 1).await).await;
        nothing(consumer).await;
    }
    place.remove().await;
}

async fn consumers_of_one_group_share() {
    let place = Place::new();
    let (one, other) = (place.transport().await, place.transport().await);
    let mut first = subscribe(&one, "mail", 1).await;
    let mut second = subscribe(&other, "mail", 1).await;
    let batch = (0..4).map(|number| out(place.message(&number.to_string()))).collect();
    one.publish(batch, now()).await.unwrap();
    let mut got = BTreeSet::new();
    for _ in 0..2 {
        for consumer in [&mut first, &mut second] {
            let delivery = receive_one(consumer).await;
            assert!(got.insert(text(&delivery)));
            receipt(delivery).ack().await.unwrap();
        }
    }
    assert_eq!(got.len(), 4);
    place.remove().await;
}

async fn a_group_that_is_away_misses_nothing() {
    let place = Place::new();
    let transport = place.transport().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    close(&mut consumer).await;
    drop(consumer);
    transport.publish(vec![out(place.message("meanwhile"))], now()).await.unwrap();
    let mut consumer = subscribe(&transport, "mail", 10).await;
    assert_eq!(text(&receive_one(&mut consumer).await), "meanwhile");
    place.remove().await;
}

// Trap 1755, 104.
async fn a_copy_for_one_group_reaches_only_that_group() {
    let place = Place::new();
    let transport = place.transport().await;
    let mut mail = subscribe(&transport, "mail", 10).await;
    let mut bill = subscribe(&transport, "bill", 10).await;
    let mut copy = out(place.message("back"));
    (copy.group, copy.attempt) = (Some("mail".to_owned()), 3);
    transport.publish(vec![copy, out(place.message("for all"))], now()).await.unwrap();
    let deliveries = receive(&mut mail, 2).await;
    assert_eq!(texts(&deliveries), ["back", "for all"]);
    assert_eq!((deliveries[0].attempt, deliveries[1].attempt), (4, 1));
    ack_all(deliveries).await;
    let deliveries = receive(&mut bill, 1).await;
    assert_eq!(texts(&deliveries), ["for all"]);
    ack_all(deliveries).await;
    close(&mut bill).await;
    close(&mut mail).await;
    assert!(place.stored("orders").await.is_empty(), "passed over means acknowledged");
    place.remove().await;
}

async fn what_everybody_has_settled_is_gone() {
    let place = Place::new();
    let transport = place.transport().await;
    let mut mail = subscribe(&transport, "mail", 10).await;
    let mut bill = subscribe(&transport, "bill", 10).await;
    transport.publish(vec![out(place.message("one"))], now()).await.unwrap();
    ack_all(receive(&mut mail, 1).await).await;
    close(&mut mail).await;
    assert_eq!(place.stored("orders").await.len(), 1);
    ack_all(receive(&mut bill, 1).await).await;
    close(&mut bill).await;
    assert!(place.stored("orders").await.is_empty());
    place.remove().await;
}

async fn a_message_of_a_stranger_is_received() {
    let place = Place::new();
    let transport = place.transport().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let jetstream = place.jetstream().await;
    let subject = format!("{}.orders", place.prefix);
    jetstream.publish(subject, "hello".into()).await.unwrap().await.unwrap();
    let delivery = receive_one(&mut consumer).await;
    let id = delivery.message.id;
    assert_eq!((text(&delivery).as_str(), delivery.poison.as_deref()), ("hello", None));
    receipt(delivery).requeue(std::time::Duration::ZERO).await.unwrap();
    let delivery = receive_one(&mut consumer).await;
    assert_eq!((delivery.message.id, delivery.attempt), (id, 2));
    place.remove().await;
}

async fn a_damaged_message_is_poison_and_goes_to_the_invalid_place() {
    let place = Place::new();
    let transport = place.transport().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let jetstream = place.jetstream().await;
    let mut headers = HeaderMap::new();
    headers.insert("punctual-created", "yesterday");
    let subject = format!("{}.orders", place.prefix);
    jetstream.publish_with_headers(subject, headers, "hi".into()).await.unwrap().await.unwrap();
    let delivery = receive_one(&mut consumer).await;
    assert!(delivery.poison.as_deref().unwrap().contains("yesterday"));
    receipt(delivery).reject(&rejection(DeadReason::Poison)).await.unwrap();
    assert!(place.stored("orders=2Edead").await.is_empty());
    let kept = place.stored("orders=2Einvalid").await;
    assert_eq!((kept.len(), &kept[0].payload[..]), (1, &b"hi"[..]));
    place.remove().await;
}
