//! Publishing: a message arrives as it was sent, where it was sent to; what cannot arrive is refused.

use std::time::Duration;

use punctual::model::{Body, Key, Topic};
use punctual::transport::Outgoing;
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_conformance::cases;
use punctual_conformance::own::letters::{
    ack, body, in_time, is_silent, message, next, publish, sent, subscribe, taken, try_publish,
};

use crate::fixture::Fixture;

cases!(
    a_batch_arrives_in_order_and_complete,
    a_message_arrives_with_all_it_had,
    every_group_gets_one_copy_and_its_consumers_share,
    what_is_for_one_group_reaches_no_other_and_waits_for_it,
    a_topic_without_subscribers_is_refused_by_name,
    what_can_never_be_sent_is_refused_before_anything_is,
);

async fn a_batch_arrives_in_order_and_complete() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 5_000).await;
    let texts: Vec<String> = (0..3_000).map(|number| number.to_string()).collect();
    let batch = texts.iter().map(|text| sent(message(text))).collect();
    in_time(transport.publish(batch, SystemClock.now())).await.unwrap();
    let mut received = Vec::new();
    while received.len() < texts.len() {
        for delivery in in_time(consumer.receive(100)).await.unwrap() {
            received.push(body(&delivery));
            ack(delivery).await;
        }
    }
    assert_eq!(received, texts);
}

// spec: D-4
async fn a_message_arrives_with_all_it_had() {
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
    let outgoing = Outgoing { attempt: 3, ..sent(message.clone()) };
    in_time(transport.publish(vec![outgoing], SystemClock.now())).await.unwrap();
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
    assert!(is_silent(&mut *alone, Duration::from_millis(200)).await);
}

async fn what_is_for_one_group_reaches_no_other_and_waits_for_it() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut other = subscribe(&transport, "other", 100).await;
    let outgoing = Outgoing { group: Some("absent".to_owned()), ..sent(message("for absent")) };
    in_time(transport.publish(vec![outgoing], SystemClock.now())).await.unwrap();
    assert!(is_silent(&mut *other, Duration::from_millis(200)).await);
    // The queue is bound to the topic as well, though its group has never subscribed.
    publish(&transport, &["for all"]).await;
    let mut absent = subscribe(&transport, "absent", 100).await;
    assert_eq!(taken(&mut *absent).await, "for absent");
    assert_eq!(taken(&mut *absent).await, "for all");
    assert_eq!(taken(&mut *other).await, "for all");
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
        let bad = transport.publish(vec![sent(unknown.clone())], now);
        let good = transport.publish(vec![sent(message("known"))], now);
        let (bad, good) = tokio::join!(bad, good);
        assert!(bad.unwrap_err().to_string().contains("\"unknown\""));
        good.unwrap();
        assert_eq!(taken(&mut *consumer).await, "known");
    }
}

async fn what_can_never_be_sent_is_refused_before_anything_is() {
    let fixture = Fixture::new();
    let transport = fixture.builder().payload_max(10).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "g", 100).await;
    let delayed = Outgoing { delay: Duration::from_millis(1), ..sent(message("late")) };
    let large = sent(message("eleven char"));
    let mut wordy = message("wordy");
    for number in 0..20 {
        wordy.headers.insert(format!("h{number}"), "x".repeat(8_000)).unwrap();
    }
    for (bad, kind, text) in [
        (delayed, ErrorKind::Unsupported, "1ms"),
        (large, ErrorKind::Invalid, "11 bytes"),
        (sent(wordy), ErrorKind::Invalid, "headers"),
    ] {
        let batch = vec![sent(message("first")), bad];
        let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(is_silent(&mut *consumer, Duration::from_millis(200)).await);
}
