//! Publishing: a message arrives as it was sent, where it was sent to; what cannot arrive is refused.

use std::time::Duration;

use punctual::backend::transport::OutgoingMessage;
use punctual::model::{Body, Key, Topic};
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_conformance::backend_tests::messaging::{
    ack, ack_next, body, message, next, outgoing, publish, receives_nothing, subscribe,
    try_publish, with_timeout,
};
use punctual_conformance::cases;

use crate::fixture::Fixture;

cases!(
    a_batch_arrives_in_order_and_complete,
    a_message_arrives_with_all_its_fields,
    every_group_gets_one_copy_and_its_consumers_share,
    a_message_for_one_group_reaches_no_other_and_waits_for_it,
    a_topic_without_subscribers_is_refused_by_name,
    messages_that_can_never_be_sent_are_refused_before_any_is_sent,
);

async fn a_batch_arrives_in_order_and_complete() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 5_000).await;
    let texts: Vec<String> = (0..3_000).map(|number| number.to_string()).collect();
    let batch = texts.iter().map(|text| outgoing(message(text))).collect();
    with_timeout(transport.publish(batch, SystemClock.now())).await.unwrap();
    let mut received = Vec::new();
    while received.len() < texts.len() {
        for delivery in with_timeout(consumer.receive(100)).await.unwrap() {
            received.push(body(&delivery));
            ack(delivery).await;
        }
    }
    assert_eq!(received, texts);
}

// spec: D-4
async fn a_message_arrives_with_all_its_fields() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    let mut message = message("{}");
    message.key = Some(Key::new("customer/7").unwrap());
    message.body = Body::raw(vec![0, 159, 146, 150], "application/x-own; v=2");
    message.headers.insert("tenant", "ünïcode").unwrap();
    message.headers.insert("x-own", "stays").unwrap();
    message.correlation.id = Some("c-1".into());
    message.correlation.sequence = 4;
    let outgoing = OutgoingMessage { attempt: 3, ..outgoing(message.clone()) };
    with_timeout(transport.publish(vec![outgoing], SystemClock.now())).await.unwrap();
    let delivery = next(&mut *consumer).await;
    assert_eq!(*delivery.message, message);
    assert_eq!((delivery.attempt, &delivery.poison), (4, &None));
}

async fn every_group_gets_one_copy_and_its_consumers_share() {
    let fixture = Fixture::new();
    let (transport, other) = (fixture.open().await, fixture.open().await);
    let mut alone = subscribe(&transport, "alone", 100).await;
    let mut one = subscribe(&transport, "shared", 1).await;
    let mut two = subscribe(&other, "shared", 1).await;
    publish(&transport, &["a", "b"]).await;
    let (first, second) = (next(&mut *one).await, next(&mut *two).await);
    let mut shared = [body(&first), body(&second)];
    shared.sort();
    assert_eq!(shared, ["a", "b"]);
    for wanted in ["a", "b"] {
        let delivery = next(&mut *alone).await;
        assert_eq!(body(&delivery), wanted);
        ack(delivery).await;
    }
    assert!(receives_nothing(&mut *alone, Duration::from_millis(200)).await);
}

async fn a_message_for_one_group_reaches_no_other_and_waits_for_it() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut other = subscribe(&transport, "other", 100).await;
    let outgoing =
        OutgoingMessage { group: Some("absent".to_owned()), ..outgoing(message("for absent")) };
    with_timeout(transport.publish(vec![outgoing], SystemClock.now())).await.unwrap();
    assert!(receives_nothing(&mut *other, Duration::from_millis(200)).await);
    // The queue is bound to the topic as well, though its group has never subscribed.
    publish(&transport, &["for all"]).await;
    let mut absent = subscribe(&transport, "absent", 100).await;
    assert_eq!(ack_next(&mut *absent).await, "for absent");
    assert_eq!(ack_next(&mut *absent).await, "for all");
    assert_eq!(ack_next(&mut *other).await, "for all");
}

async fn a_topic_without_subscribers_is_refused_by_name() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let error = try_publish(&transport, &["lost?"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("\"orders\""), "{error}");
    // One unknown topic among others, and other batches at the same time: the right one is refused.
    let mut consumer = subscribe(&transport, "g", 100).await;
    let mut unknown = message("unknown");
    unknown.topic = Topic::new("unknown").unwrap();
    let now = SystemClock.now();
    for _ in 0..20 {
        let bad = transport.publish(vec![outgoing(unknown.clone())], now);
        let good = transport.publish(vec![outgoing(message("known"))], now);
        let (bad, good) = tokio::join!(bad, good);
        assert!(bad.unwrap_err().to_string().contains("\"unknown\""));
        good.unwrap();
        assert_eq!(ack_next(&mut *consumer).await, "known");
    }
}

async fn messages_that_can_never_be_sent_are_refused_before_any_is_sent() {
    let fixture = Fixture::new();
    let transport = fixture.builder().payload_max(10).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "g", 100).await;
    let delayed = OutgoingMessage { delay: Duration::from_millis(1), ..outgoing(message("late")) };
    let large = outgoing(message("eleven char"));
    let mut wordy = message("wordy");
    for number in 0..20 {
        wordy.headers.insert(format!("h{number}"), "x".repeat(8_000)).unwrap();
    }
    for (bad, kind, text) in [
        (delayed, ErrorKind::Unsupported, "1ms"),
        (large, ErrorKind::Invalid, "11 bytes"),
        (outgoing(wordy), ErrorKind::Invalid, "headers"),
    ] {
        let batch = vec![outgoing(message("first")), bad];
        let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(receives_nothing(&mut *consumer, Duration::from_millis(200)).await);
}
