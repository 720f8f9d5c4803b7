//! Publish: messages arrive completely and unchanged; those that cannot be published are refused.

use std::sync::Arc;

use punctual::model::{Body, Correlation, Key, Message};
use punctual::{Clock, ErrorKind, SystemClock};

use super::Fixture;
use super::fixture::{ack, id_of, mail, outgoing, text_of, texts_of};

behaviours! {
    a_confirmed_message_arrives,
    a_batch_arrives_whole,
    headers_and_content_type_arrive_as_they_were_sent,
    bodies_of_any_bytes_arrive_as_they_were_sent,
    identity_key_times_and_correlation_arrive_as_they_were_sent,
    a_body_over_the_limit_is_refused_and_not_sent,
    an_empty_batch_is_no_error,
    topics_are_listed_or_refused,
}

// spec: D-4, D-8, D-14
pub async fn a_confirmed_message_arrives(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let id = f.send("hello").await;
    let delivery = office.next().await;
    assert_eq!((id_of(&delivery), text_of(&delivery)), (id, "hello".to_owned()));
    assert_eq!((delivery.attempt, delivery.poison.as_deref()), (1, None));
    ack(delivery).await;
    office.expect_nothing().await;
}

pub async fn a_batch_arrives_whole(f: Fixture) {
    let mut office = f.subscribe_with("office", 200).await;
    let messages = f.messages(150);
    let mut sent = f.publish(messages).await;
    let mut received = Vec::new();
    for _ in 0..150 {
        let delivery = office.next().await;
        received.push(id_of(&delivery));
        ack(delivery).await;
    }
    sent.sort();
    received.sort();
    assert_eq!(received, sent);
    office.expect_nothing().await;
}

pub async fn headers_and_content_type_arrive_as_they_were_sent(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let mut message = f.message("");
    message.body = Body::raw("<a/>", "application/xml; charset=utf-8");
    for (name, value) in [
        ("tenant", "acme"),
        ("Mixed-Case_and.dots", "kept"),
        ("zażółć", "gęślą jaźń"),
        ("emoji", "⏰ now, 明日"),
        ("empty", ""),
        ("quotes", "a \"b\" 'c' = d; e, f % \\ & <g>"),
        ("spaces", "  both ends  "),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ] {
        message.headers.insert(name, value).unwrap();
    }
    message.headers.insert("long", "x".repeat(2_000)).unwrap();
    f.publish(vec![message.clone()]).await;
    let delivery = office.next().await;
    assert_eq!(delivery.message.headers, message.headers);
    assert_eq!(delivery.message.body, message.body);
    ack(delivery).await;
}

pub async fn bodies_of_any_bytes_arrive_as_they_were_sent(f: Fixture) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = every_byte.repeat(256);
    let bodies = [every_byte, Vec::new(), b"\0".to_vec(), b"line\r\nline\n".to_vec(), large];
    let mut office = f.subscribe("office").await;
    for bytes in bodies {
        let body = Body::raw(bytes, "application/octet-stream");
        f.publish(vec![Message { body: body.clone(), ..f.message("") }]).await;
        let delivery = office.next().await;
        assert_eq!(delivery.message.body, body);
        assert_eq!(delivery.poison, None);
        ack(delivery).await;
    }
}

// The whole envelope is transferred (Brighter 4404).
pub async fn identity_key_times_and_correlation_arrive_as_they_were_sent(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let correlation =
        Correlation { id: Some(Arc::from("order-7 ⏰")), causation: None, sequence: 3 };
    let key = Some(Key::new("customer/9").unwrap());
    let message = Message { correlation, key, ..f.message("hello") };
    f.publish(vec![message.clone()]).await;
    let delivery = office.next().await;
    let got = &delivery.message;
    assert_eq!((got.id, &got.topic, &got.key), (message.id, &mail(), &message.key));
    assert_eq!(got.correlation, message.correlation);
    assert_eq!(got.source, message.source);
    assert_eq!(got.created_at.as_microsecond(), message.created_at.as_microsecond());
    ack(delivery).await;
}

pub async fn a_body_over_the_limit_is_refused_and_not_sent(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let Some(most) = f.capabilities.payload_max else {
        return f.refused("it declares no limit to bodies");
    };
    let body = Body::raw(vec![7; most + 1], "application/octet-stream");
    let large = Message { body, ..f.message("") };
    let id = large.id.to_string();
    let error = f.transport.publish(vec![outgoing(large)], SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(&id) || error.to_string().contains(&most.to_string()));
    f.send("small").await;
    let delivery = office.next().await;
    assert_eq!(text_of(&delivery), "small");
    ack(delivery).await;
    office.expect_nothing().await;
}

pub async fn an_empty_batch_is_no_error(f: Fixture) {
    let mut office = f.subscribe("office").await;
    f.publish(Vec::new()).await;
    f.send("hello").await;
    assert_eq!(texts_of(&[office.next().await]), ["hello"]);
}

pub async fn topics_are_listed_or_refused(f: Fixture) {
    let _office = f.subscribe("office").await;
    f.send("hello").await;
    match f.transport.topics().await {
        Ok(topics) => assert!(topics.contains(&mail()), "{topics:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            f.refused("it cannot list its topics");
        }
    }
}
