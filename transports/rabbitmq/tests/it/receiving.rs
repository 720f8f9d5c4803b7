//! Receiving: up to the prefetch, without loss, and foreign messages too.

use std::time::Duration;

use futures_util::FutureExt;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use punctual::clock::add;
use punctual::{Clock, SystemClock, Transport};
use punctual_conformance::backend_tests::messaging::{
    ack, ack_next, body, message, next, outgoing, publish, receipt, receives_nothing, subscribe,
    with_timeout,
};
use punctual_conformance::cases;

use crate::fixture::Fixture;

cases!(
    no_more_are_in_flight_than_the_prefetch_allows,
    a_batch_has_as_many_as_are_there_up_to_the_limit,
    a_cancelled_receive_loses_nothing,
    a_dropped_delivery_is_redelivered,
    closing_requeues_in_flight_deliveries,
    a_group_without_consumers_gets_missed_messages_later,
    a_message_of_a_foreign_client_is_read,
    a_message_that_cannot_be_read_is_a_delivery_too,
);

async fn no_more_are_in_flight_than_the_prefetch_allows() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 2).await;
    publish(&transport, &["a", "b", "c"]).await;
    let (first, second) = (next(&mut *consumer).await, next(&mut *consumer).await);
    assert!(receives_nothing(&mut *consumer, Duration::from_millis(200)).await);
    ack(first).await;
    assert_eq!(ack_next(&mut *consumer).await, "c");
    drop(second);
}

async fn a_batch_has_as_many_as_are_there_up_to_the_limit() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a", "b", "c", "d", "e"]).await;
    let mut texts = Vec::new();
    while texts.len() < 5 {
        let batch = with_timeout(consumer.receive(3)).await.unwrap();
        assert!((1..=3).contains(&batch.len()));
        for delivery in batch {
            texts.push(body(&delivery));
            ack(delivery).await;
        }
    }
    assert_eq!(texts, ["a", "b", "c", "d", "e"]);
}

async fn a_cancelled_receive_loses_nothing() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    let texts: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let batch = texts.iter().map(|text| outgoing(message(text))).collect();
    let publishing = tokio::spawn(async move { transport.publish(batch, SystemClock.now()).await });
    let mut received = Vec::new();
    let receiving = async {
        while received.len() < texts.len() {
            // Cancelled at once, unless a delivery is there already.
            match consumer.receive(3).now_or_never() {
                Some(batch) => {
                    for delivery in batch.unwrap() {
                        received.push(body(&delivery));
                        ack(delivery).await;
                    }
                }
                None => tokio::task::yield_now().await,
            }
        }
    };
    with_timeout(receiving).await;
    assert_eq!(received, texts);
    publishing.await.unwrap().unwrap();
}

async fn a_dropped_delivery_is_redelivered() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 1).await;
    publish(&transport, &["a"]).await;
    for attempt in 1..=5 {
        let delivery = next(&mut *consumer).await;
        assert_eq!((body(&delivery), delivery.attempt), ("a".to_owned(), attempt));
    }
}

async fn closing_requeues_in_flight_deliveries() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a", "b", "c"]).await;
    let in_flight = next(&mut *consumer).await;
    let until = add(SystemClock.now(), Duration::from_secs(5));
    with_timeout(consumer.close(until)).await.unwrap();
    assert!(consumer.receive(1).await.is_err());
    let mut other = subscribe(&transport, "g", 100).await;
    let mut texts = Vec::new();
    for _ in 0..3 {
        let delivery = next(&mut *other).await;
        texts.push((body(&delivery), delivery.attempt));
        ack(delivery).await;
    }
    texts.sort();
    // What `receive` never returned was never attempted.
    assert_eq!(texts, [("a".to_owned(), 2), ("b".to_owned(), 1), ("c".to_owned(), 1)]);
    assert!(receives_nothing(&mut *other, Duration::from_millis(200)).await);
    let error = with_timeout(receipt(in_flight).ack()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
}

async fn a_group_without_consumers_gets_missed_messages_later() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    drop(subscribe(&transport, "g", 100).await);
    publish(&transport, &["a", "b"]).await;
    let again = fixture.open().await;
    let mut consumer = subscribe(&again, "g", 100).await;
    assert_eq!(ack_next(&mut *consumer).await, "a");
    assert_eq!(ack_next(&mut *consumer).await, "b");
}

async fn a_message_of_a_foreign_client_is_read() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    let raw_client = fixture.raw_client().await;
    let mut headers = FieldTable::default();
    headers.insert("number".into(), AMQPValue::LongInt(7));
    headers.insert("list".into(), AMQPValue::FieldArray(FieldArray::default()));
    headers.insert("bytes".into(), AMQPValue::LongString(vec![0x66, 0xff].into()));
    let properties = BasicProperties::default()
        .with_message_id("m-1".into())
        .with_timestamp(1_700_000_000)
        .with_content_type("text/csv".into())
        .with_headers(headers);
    let exchange = fixture.name("orders");
    raw_client.publish(&exchange, b"1;2", properties).await;
    raw_client.publish(&exchange, b"", BasicProperties::default()).await;
    let named = next(&mut *consumer).await;
    assert_eq!((body(&named), named.attempt, &named.poison), ("1;2".to_owned(), 1, &None));
    assert_eq!(named.message.body.content_type, "text/csv");
    assert_eq!(named.message.created_at.as_second(), 1_700_000_000);
    assert_eq!(named.message.headers.get("number"), Some("7"));
    assert_eq!(named.message.headers.get("list"), None);
    assert_eq!(named.message.headers.get("bytes"), Some("f\u{fffd}"));
    let id = named.message.id;
    // It keeps its id, whichever way it is delivered again.
    receipt(named).requeue(Duration::ZERO).await.unwrap();
    let empty = next(&mut *consumer).await;
    assert_eq!((body(&empty), &empty.poison), (String::new(), &None));
    let again = next(&mut *consumer).await;
    assert_eq!((again.message.id, again.attempt), (id, 2));
    receipt(again).requeue(Duration::from_millis(50)).await.unwrap();
    let third = next(&mut *consumer).await;
    assert_eq!((third.message.id, third.attempt), (id, 3));
}

async fn a_message_that_cannot_be_read_is_a_delivery_too() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    let raw_client = fixture.raw_client().await;
    let mut headers = FieldTable::default();
    headers.insert("punctual-id".into(), AMQPValue::LongString("not an id".into()));
    let properties = BasicProperties::default().with_headers(headers);
    raw_client.publish(&fixture.name("orders"), b"x", properties).await;
    publish(&transport, &["fine"]).await;
    let poison = next(&mut *consumer).await;
    assert!(poison.poison.as_deref().unwrap().contains("not an id"));
    let fine = next(&mut *consumer).await;
    assert_eq!((body(&fine), fine.poison), ("fine".to_owned(), None));
}
