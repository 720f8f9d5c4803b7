//! Topology: existing queues and exchanges are used as they are, refused when they differ, and only checked
//! without `declare`.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use punctual::backend::transport::{Delay, OutgoingMessage};
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_conformance::backend_tests;
use punctual_conformance::backend_tests::messaging::{
    ack, ack_next, body, message, next, outgoing, publish, receipt, subscribe, subscription,
    try_publish, with_timeout,
};
use punctual_conformance::cases;
use punctual_rabbitmq::{QueueKind, RabbitmqTransport};

use crate::fixture::{Fixture, VARIABLE};

cases!(
    a_queue_of_another_kind_is_refused_with_what_differs,
    an_exchange_of_another_kind_is_refused_with_what_differs,
    without_declaring_missing_entities_are_named,
    without_declaring_existing_entities_are_used,
    a_queue_that_was_deleted_is_declared_again,
    settings_that_cannot_work_are_refused,
    names_that_look_alike_stay_apart,
);

async fn a_queue_of_another_kind_is_refused_with_what_differs() {
    let fixture = Fixture::new();
    let quorum = fixture.open().await;
    drop(subscribe(&quorum, "g", 100).await);
    let classic = fixture.builder().queues(QueueKind::Classic).connect().await.unwrap();
    let error = classic.subscribe(subscription("g", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let shown = error.to_string();
    assert!(shown.contains("orders.g") && shown.contains("x-queue-type"), "{shown}");
}

async fn an_exchange_of_another_kind_is_refused_with_what_differs() {
    let fixture = Fixture::new();
    let raw_client = fixture.raw_client().await;
    let (kind, options) = (lapin::ExchangeKind::Direct, ExchangeDeclareOptions::default());
    let name = fixture.name("orders");
    let declared =
        raw_client.channel.exchange_declare(name.into(), kind, options, FieldTable::default());
    declared.await.unwrap();
    let transport = fixture.open().await;
    let error = transport.subscribe(subscription("g", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("type"), "{error}");
    let error = try_publish(&transport, &["a"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

async fn without_declaring_missing_entities_are_named() {
    let fixture = Fixture::new();
    let transport = fixture.builder().declare(false).connect().await.unwrap();
    assert_eq!(transport.capabilities().requeue_delay, Delay::None);
    let error = transport.subscribe(subscription("g", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(&fixture.name("orders")), "{error}");
    let error = try_publish(&transport, &["a"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let outgoing = OutgoingMessage { group: Some("g".to_owned()), ..outgoing(message("a")) };
    let error = transport.publish(vec![outgoing], SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(&fixture.name("orders.g")), "{error}");
}

async fn without_declaring_existing_entities_are_used() {
    let fixture = Fixture::new();
    let declaring = fixture.open().await;
    drop(subscribe(&declaring, "g", 100).await);
    let transport = fixture.builder().declare(false).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a"]).await;
    receipt(next(&mut *consumer).await).requeue(Duration::ZERO).await.unwrap();
    assert_eq!(next(&mut *consumer).await.attempt, 2);
}

async fn a_queue_that_was_deleted_is_declared_again() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["lost with its queue"]).await;
    ack(next(&mut *consumer).await).await;
    let raw_client = fixture.raw_client().await;
    let queue = fixture.name("orders.g");
    raw_client.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    let error = with_timeout(consumer.receive(1)).await.err().unwrap();
    assert!(error.is_temporary(), "{error}");
    // The next call subscribes again, so the publisher may have to retry until then.
    let publishing = async {
        while try_publish(&transport, &["after"]).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let (delivery, ()) = tokio::join!(next(&mut *consumer), publishing);
    assert_eq!(body(&delivery), "after");
}

async fn settings_that_cannot_work_are_refused() {
    let builder = || RabbitmqTransport::builder(&backend_tests::address(VARIABLE));
    for (bad, text) in [
        (builder().prefix("p".repeat(81)), "prefix"),
        (builder().prefix("a\nb"), "prefix"),
        (builder().delay_max(Duration::from_hours(25)), "storage"),
        (builder().timeout(Duration::ZERO), "timeout"),
    ] {
        let error = bad.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let error = transport.subscribe(subscription(&"g".repeat(250), 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

async fn names_that_look_alike_stay_apart() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut dotted = subscribe(&transport, "g.dead", 100).await;
    let mut plain = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a"]).await;
    assert_eq!(ack_next(&mut *dotted).await, "a");
    assert_eq!(ack_next(&mut *plain).await, "a");
    let raw_client = fixture.raw_client().await;
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let name = fixture.name("orders.g%2Edead");
    raw_client.channel.queue_declare(name.into(), passive, FieldTable::default()).await.unwrap();
}
