//! Connections that are cut, by a proxy between the transport and the broker.

use std::time::Duration;

use punctual::SystemClock;
use punctual::backend::transport::Transport as _;
use punctual::clock::{add, between, within};
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    TIMEOUT, ack, body, close, message, next, next_retrying, outgoing, pause, publish, receipt,
    subscribe, with_timeout,
};
use punctual_conformance::cases;
use punctual_nats::NatsTransport;

use crate::fixture::{Fixture, now};

cases![
    a_lost_connection_is_reported_and_re_established,
    nothing_is_lost_when_the_connection_is_cut_under_load,
    settling_while_the_broker_is_unreachable_ends,
    closing_while_the_broker_is_unreachable_ends,
    a_deleted_consumer_is_created_again,
];

async fn through(proxy: &Proxy, fixture: &Fixture) -> NatsTransport {
    let builder = fixture.builder_at(proxy.address());
    let builder =
        builder.visibility_timeout(Duration::from_secs(2)).timeout(Duration::from_secs(2));
    builder.connect().await.unwrap()
}

async fn a_lost_connection_is_reported_and_re_established() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let transport = through(&proxy, &fixture).await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    publish(&transport, &["before"]).await;
    ack(next(&mut *consumer).await).await;
    proxy.cut();
    let error = with_timeout(consumer.receive(1)).await.err().unwrap();
    assert!(error.is_temporary() && error.to_string().contains("127.0.0.1"), "{error}");
    let error = transport.publish(vec![outgoing(message("lost"))], now()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    proxy.mend();
    while transport.publish(vec![outgoing(message("after"))], now()).await.is_err() {
        pause().await;
    }
    assert_eq!(body(&next_retrying(&mut *consumer).await), "after");
    fixture.remove().await;
}

async fn nothing_is_lost_when_the_connection_is_cut_under_load() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let transport = through(&proxy, &fixture).await;
    let mut consumer = subscribe(&transport, "mail", 50).await;
    let mut expected = std::collections::BTreeSet::new();
    for number in 0..30 {
        if number % 10 == 9 {
            proxy.cut();
            proxy.mend();
        }
        let batch: Vec<String> = (0..20).map(|index| format!("{number}-{index}")).collect();
        let outgoing: Vec<_> = batch.iter().map(|text| outgoing(message(text))).collect();
        while transport.publish(outgoing.clone(), now()).await.is_err() {
            pause().await;
        }
        expected.extend(batch);
    }
    let started = now();
    while !expected.is_empty() {
        assert!(between(started, now()) < TIMEOUT, "{} are missing", expected.len());
        let delivery = next_retrying(&mut *consumer).await;
        expected.remove(&body(&delivery));
        ack(delivery).await;
    }
    fixture.remove().await;
}

async fn settling_while_the_broker_is_unreachable_ends() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let transport = through(&proxy, &fixture).await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let batch = ["acked", "requeued"].map(|text| outgoing(message(text)));
    transport.publish(batch.into(), now()).await.unwrap();
    let acked = next(&mut *consumer).await;
    let requeued = next(&mut *consumer).await;
    proxy.cut();
    assert!(with_timeout(consumer.receive(1)).await.is_err());
    // Buffered by the client until it is connected again.
    ack(acked).await;
    let error = receipt(requeued).requeue(Duration::from_secs(9)).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    proxy.mend();
    let delivery = next_retrying(&mut *consumer).await;
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("requeued", 2));
    fixture.remove().await;
}

async fn closing_while_the_broker_is_unreachable_ends() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let transport = through(&proxy, &fixture).await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    publish(&transport, &["delivery"]).await;
    let delivery = next(&mut *consumer).await;
    proxy.cut();
    assert!(with_timeout(consumer.receive(1)).await.is_err());
    let until = add(now(), Duration::from_secs(1));
    let error = with_timeout(consumer.close(until)).await;
    assert!(error.unwrap_err().to_string().contains("orders"));
    drop((delivery, consumer));
    proxy.mend();
    let transport =
        fixture.builder().visibility_timeout(Duration::from_secs(2)).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "mail", 10).await;
    assert_eq!(body(&next(&mut *consumer).await), "delivery");
    close(consumer).await;
    fixture.remove().await;
}

async fn a_deleted_consumer_is_created_again() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    publish(&transport, &["before"]).await;
    ack(next(&mut *consumer).await).await;
    let stream = format!("{}_orders", fixture.prefix);
    fixture.jetstream().await.delete_consumer_from_stream("mail", stream).await.unwrap();
    let error = with_timeout(consumer.receive(1)).await;
    assert!(error.err().unwrap().to_string().contains("mail"));
    // It may miss messages published while it does not exist, so they are sent until one arrives.
    for _ in 0..100 {
        transport.publish(vec![outgoing(message("after"))], now()).await.ok();
        let received =
            within(&SystemClock, add(now(), Duration::from_millis(200)), consumer.receive(1));
        if let Some(Ok(deliveries)) = received.await {
            assert_eq!(body(&deliveries[0]), "after");
            fixture.remove().await;
            return;
        }
        pause().await;
    }
    panic!("it does not come back");
}
