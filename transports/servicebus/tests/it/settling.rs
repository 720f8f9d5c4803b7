//! Settling: how deliveries end, and what the broker receives.

use std::time::Duration;

use fe2o3_amqp::types::messaging::{
    AmqpSequence, AmqpValue, ApplicationProperties, Body, Message as Amqp,
};
use fe2o3_amqp::types::primitives::{SimpleValue, Value};
use punctual::backend::transport::OutgoingMessage;
use punctual::clock::add;
use punctual::model::DeadReason;
use punctual::{Clock as _, SystemClock, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    ack, body, message, next, next_retrying, outgoing, publish, receipt, receives_nothing,
    rejection, wait_until,
};
use punctual_conformance::cases;
use punctual_servicebus::Entities;

use crate::double::{note, properties};
use crate::fixture::{OFFICE, builder, double, open, subscribe};

cases! {
    a_delay_is_an_instant_in_an_annotation,
    a_delayed_requeue_is_a_copy_for_one_group,
    a_message_requeued_often_outlives_the_brokers_limit,
    a_dead_letter_has_its_reason,
    a_delivery_that_outlives_its_connection_is_settled_by_its_lock,
    a_queue_has_one_group,
    messages_of_other_shapes_are_read_or_poison,
    every_send_has_a_separate_identity,
}

async fn a_delay_is_an_instant_in_an_annotation() {
    let double = double().await;
    let transport = open(&double).await;
    let now = SystemClock.now();
    let delay = Duration::from_hours(24 * 365);
    let later = OutgoingMessage { delay, ..outgoing(message("later")) };
    transport.publish(vec![later, outgoing(message("now"))], now).await.unwrap();
    let broker = double.broker();
    let noted = broker.sent.iter().map(|letter| note(letter, "x-opt-scheduled-enqueue-time"));
    let noted: Vec<_> = noted.collect();
    let Some(Value::Timestamp(at)) = &noted[0] else { panic!("{noted:?}") };
    let due_at = add(now, delay);
    let early = due_at.as_nanosecond() - i128::from(at.milliseconds()) * 1_000_000;
    assert!((-1_000_000..=0).contains(&early), "not early, and late by less than a millisecond");
    assert_eq!(noted[1], None);
    assert_eq!(broker.counts(OFFICE), (1, 0, 1));
}

// spec: D-18, D-26
async fn a_delayed_requeue_is_a_copy_for_one_group() {
    let double = double().await;
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    let mut archive = subscribe(&transport, "archive").await;
    publish(&transport, &["again"]).await;
    ack(next(&mut *archive).await).await;
    let first = next(&mut *office).await;
    let id = first.message.id;
    receipt(first).requeue(Duration::from_secs(1)).await.unwrap();
    let second = next(&mut *office).await;
    assert_eq!((second.message.id, second.attempt), (id, 2));
    assert_eq!(second.message.headers.iter().count(), 1, "{:?}", second.message.headers);
    ack(second).await;
    assert!(receives_nothing(&mut *archive, Duration::from_secs(1)).await);
    // The other group completed its copy without handling it.
    let archived = "orders/Subscriptions/archive";
    wait_until("nothing in either", || {
        double.broker().counts(OFFICE) == (0, 0, 0) && double.broker().counts(archived) == (0, 0, 0)
    })
    .await;
}

// spec: D-15, D-26
async fn a_message_requeued_often_outlives_the_brokers_limit() {
    let double = double().await;
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    publish(&transport, &["again"]).await;
    for attempt in 1..=25 {
        let delivery = next(&mut *office).await;
        assert_eq!(delivery.attempt, attempt);
        receipt(delivery).requeue(Duration::ZERO).await.unwrap();
    }
    assert!(double.broker().dead(OFFICE).is_empty());
    assert_eq!(next(&mut *office).await.attempt, 26);
}

// spec: D-28
async fn a_dead_letter_has_its_reason() {
    let double = double().await;
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    publish(&transport, &["bad"]).await;
    let delivery = next(&mut *office).await;
    let id = delivery.message.id.to_string();
    receipt(delivery).reject(&rejection(DeadReason::Discarded)).await.unwrap();
    wait_until("a dead letter", || double.broker().dead(OFFICE).len() == 1).await;
    let letters = double.broker().dead(OFFICE);
    let known = properties(letters[0].application_properties.as_ref());
    for (name, value) in [
        ("DeadLetterReason", DeadReason::Discarded.as_str()),
        ("DeadLetterErrorDescription", "no such customer"),
        ("punctual-id", &id),
        ("punctual-dead-topic", "orders"),
        ("punctual-dead-attempts", "3"),
        ("punctual-dead-at", "2026-01-02T03:04:05Z"),
        ("tenant", "acme"),
    ] {
        assert!(known.contains(&(name.to_owned(), value.to_owned())), "{name} in {known:?}");
    }
}

async fn a_delivery_that_outlives_its_connection_is_settled_by_its_lock() {
    let double = double().await;
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    publish(&transport, &["done", "bad", "again"]).await;
    let done = receipt(next(&mut *office).await);
    let bad = receipt(next(&mut *office).await);
    let again = receipt(next(&mut *office).await);
    double.cut();
    let error = office.receive(1).await.err().expect("the connection is gone");
    assert!(error.is_temporary(), "{error}");
    done.ack().await.unwrap();
    bad.reject(&rejection(DeadReason::Discarded)).await.unwrap();
    again.requeue(Duration::ZERO).await.unwrap();
    assert_eq!(double.broker().settlements, 3);
    let letters = double.broker().dead(OFFICE);
    assert_eq!(letters.len(), 1);
    let known = properties(letters[0].application_properties.as_ref());
    for (name, value) in
        [("DeadLetterReason", DeadReason::Discarded.as_str()), ("punctual-dead-topic", "orders")]
    {
        assert!(known.contains(&(name.to_owned(), value.to_owned())), "{name} in {known:?}");
    }
    let delivery = next_retrying(&mut *office).await;
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("again", 2));
    ack(delivery).await;
    wait_until("nothing in it", || double.broker().counts(OFFICE) == (0, 0, 0)).await;
}

async fn a_queue_has_one_group() {
    let double = double().await;
    double.broker().create_queue("jobs.orders");
    let builder = builder(&double).prefix("jobs").entities(Entities::Queues);
    let transport = builder.connect().await.unwrap();
    assert!(!transport.capabilities().fan_out);
    let mut office = subscribe(&transport, "office").await;
    publish(&transport, &["1"]).await;
    let delivery = next(&mut *office).await;
    receipt(delivery).requeue(Duration::from_millis(500)).await.unwrap();
    let again = next(&mut *office).await;
    assert_eq!((body(&again).as_str(), again.attempt), ("1", 2));
    ack(again).await;
    wait_until("nothing in it", || double.broker().counts("jobs.orders") == (0, 0, 0)).await;
}

async fn messages_of_other_shapes_are_read_or_poison() {
    let double = double().await;
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    let known = [("count".to_owned(), SimpleValue::Int(7))];
    let text = Amqp::builder()
        .application_properties(ApplicationProperties(known.into_iter().collect()))
        .body(Body::Value(AmqpValue(Value::String("text".to_owned()))))
        .build();
    let list = vec![AmqpSequence(vec![Value::Int(1)])];
    let list = Amqp::builder().body(Body::Sequence(list.into())).build();
    for message in [text, list] {
        double.broker().publish("orders", message, SystemClock.now());
    }
    let delivery = next(&mut *office).await;
    assert_eq!((body(&delivery).as_str(), &delivery.poison), ("text", &None));
    assert_eq!(delivery.message.headers.get("count"), Some("7"));
    let delivery = next(&mut *office).await;
    assert!(delivery.poison.as_ref().is_some_and(|why| why.contains("sequence")));
}

async fn every_send_has_a_separate_identity() {
    let double = double().await;
    let transport = open(&double).await;
    let twice = message("twice");
    let (now, batch) = (SystemClock.now(), vec![outgoing(twice.clone()), outgoing(twice.clone())]);
    transport.publish(batch, now).await.unwrap();
    let broker = double.broker();
    let ids = broker
        .sent
        .iter()
        .map(|letter| format!("{:?}", letter.properties.clone().unwrap().message_id));
    let ids: Vec<_> = ids.collect();
    assert_ne!(ids[0], ids[1]);
    assert!(ids.iter().all(|id| id.contains(&twice.id.to_string())), "{ids:?}");
}
