//! Errors: brokers that cannot be reached, refuse, go away and come back.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::ErrorKind;
use punctual_conformance::backend_tests;
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    ack, ack_next, body, next, publish, receipt, subscribe, try_publish, with_timeout,
};
use punctual_conformance::cases;
use punctual_rabbitmq::RabbitmqTransport;

use crate::fixture::{Fixture, VARIABLE};

cases!(
    a_wrong_password_is_reported_without_showing_it,
    an_unknown_virtual_host_is_reported,
    a_missing_broker_is_unavailable,
    an_invalid_address_is_refused,
    a_server_that_sends_nothing_times_out,
    a_lost_connection_is_re_established_by_itself_and_loses_nothing,
    a_consumer_reports_a_lost_connection_once_and_resumes,
    a_receipt_of_a_lost_connection_fails,
);

async fn refusal(address: &str) -> punctual::Error {
    with_timeout(RabbitmqTransport::builder(address).connect()).await.unwrap_err()
}

async fn a_wrong_password_is_reported_without_showing_it() {
    let address = backend_tests::address(VARIABLE).replace("guest:guest@", "guest:hunter2@");
    let error = refusal(&address).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("127.0.0.1:") && shown.contains("password"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

async fn an_unknown_virtual_host_is_reported() {
    let address = backend_tests::address(VARIABLE).replace("/%2f", "/no-such-fixture");
    let error = refusal(&address).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("virtual host"), "{error}");
}

async fn a_missing_broker_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = refusal(&format!("amqp://guest:hunter2@127.0.0.1:{port}/%2f")).await;
    assert!(error.is_temporary(), "{error}");
    let shown = format!("{error} {error:?}");
    assert!(shown.contains(&format!("127.0.0.1:{port}")), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

async fn an_invalid_address_is_refused() {
    for address in [
        "",
        "guest:hunter2@host",
        "http://guest:hunter2@host",
        "amqp://guest:hunter2@[",
        "amqp://h:hunter2",
    ] {
        let error = refusal(address).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{address}: {error}");
        assert!(error.to_string().contains("amqp://user:password@host"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

async fn a_server_that_sends_nothing_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let builder = RabbitmqTransport::builder(&format!("amqp://127.0.0.1:{port}"));
    let builder = builder.timeout(Duration::from_millis(300));
    let error = with_timeout(builder.connect()).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("in time"), "{error}");
    drop(listener);
}

async fn a_lost_connection_is_re_established_by_itself_and_loses_nothing() {
    let (fixture, proxy) = (Fixture::new(), Proxy::to(&backend_tests::address(VARIABLE)).await);
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let straight = fixture.open().await;
    let mut consumer = subscribe(&straight, "g", 100).await;
    publish(&transport, &["before"]).await;
    let mut confirmed = BTreeSet::from(["before".to_owned()]);
    let mut unconfirmed = BTreeSet::new();
    proxy.cut();
    for number in 0.. {
        let text = format!("while away {number}");
        match try_publish(&transport, &[&text]).await {
            // The cut takes a moment; messages may still pass before it.
            Ok(()) => confirmed.insert(text),
            Err(error) => {
                assert!(error.is_temporary(), "{error}");
                unconfirmed.insert(text)
            }
        };
        if unconfirmed.len() == 3 {
            break;
        }
    }
    proxy.mend();
    publish(&transport, &["after"]).await;
    confirmed.insert("after".to_owned());
    let mut arrived = BTreeSet::new();
    while !arrived.is_superset(&confirmed) {
        arrived.insert(ack_next(&mut *consumer).await);
    }
    // An error means that nothing was confirmed, not that nothing was sent.
    assert!(arrived.difference(&confirmed).all(|text| unconfirmed.contains(text)), "{arrived:?}");
}

async fn a_consumer_reports_a_lost_connection_once_and_resumes() {
    let (fixture, proxy) = (Fixture::new(), Proxy::to(&backend_tests::address(VARIABLE)).await);
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let straight = fixture.open().await;
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&straight, &["a", "b"]).await;
    let first = next(&mut *consumer).await;
    assert_eq!(body(&first), "a");
    proxy.cut();
    // Prefetched deliveries may still arrive, but can no longer be settled.
    let mut errors = 0;
    for _ in 0..4 {
        if let Err(error) = with_timeout(consumer.receive(1)).await {
            assert!(error.is_temporary(), "{error}");
            errors += 1;
        }
    }
    assert!(errors >= 3, "{errors}");
    proxy.mend();
    publish(&straight, &["c"]).await;
    let mut texts = Vec::new();
    for _ in 0..3 {
        let delivery = next(&mut *consumer).await;
        texts.push((body(&delivery), delivery.attempt));
        ack(delivery).await;
    }
    texts.sort();
    let [(a, a_attempt), (b, b_attempt), (c, _)] = &texts[..] else { panic!("{texts:?}") };
    assert_eq!([a, b, c], ["a", "b", "c"]);
    // The third message was sent after the cut; a connection that is opened twice counts it again.
    assert_eq!((*a_attempt, *b_attempt), (2, 2));
}

async fn a_receipt_of_a_lost_connection_fails() {
    let (fixture, proxy) = (Fixture::new(), Proxy::to(&backend_tests::address(VARIABLE)).await);
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "g", 100).await;
    publish(&transport, &["a"]).await;
    let first = next(&mut *consumer).await;
    proxy.cut();
    assert!(with_timeout(consumer.receive(1)).await.is_err());
    let error = with_timeout(receipt(first).ack()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    proxy.mend();
    let again = next(&mut *consumer).await;
    assert_eq!((body(&again), again.attempt), ("a".to_owned(), 2));
    drop(transport);
}
