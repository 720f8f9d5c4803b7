//! Errors: servers that cannot be reached, refuse, or go away during a call.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests;
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    ack, body, deadline, message, next, outgoing, publish, receives_nothing, subscribe,
};
use punctual_conformance::cases;
use punctual_redis::RedisTransport;

use crate::fixture::{Fixture, VARIABLE};

cases![
    a_wrong_password_is_reported_without_it,
    an_unreachable_server_is_reported_with_its_host,
    a_lost_connection_is_re_established_and_nothing_is_lost,
    an_idle_connection_that_was_cut_does_not_fail_the_next_publish,
    messages_read_over_a_lost_connection_are_recovered,
];

async fn a_wrong_password_is_reported_without_it() {
    let fixture = backend_tests::address(VARIABLE).replace("redis://", "");
    let error = RedisTransport::builder(format!("redis://ghost:secret@{fixture}")).connect().await;
    let error = error.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = format!("{error} {error:?}");
    assert!(text.contains("user or password") && !text.contains("secret"), "{text}");
}

async fn an_unreachable_server_is_reported_with_its_host() {
    let error = RedisTransport::builder("redis://u:secret@127.0.0.1:1").connect().await;
    let error = error.err().unwrap();
    assert!(error.is_temporary());
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1/0") && !text.contains("secret"), "{text}");
}

async fn a_lost_connection_is_re_established_and_nothing_is_lost() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::to(&fixture.address).await;
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one"]).await;
    let in_flight = next(&mut *consumer).await;
    proxy.cut();
    let batch = vec![outgoing(message("lost?"))];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let error = consumer.receive(1).await.err().unwrap();
    assert!(error.is_temporary(), "{error}");
    let error = consumer.receive(1).await.err().unwrap();
    assert!(error.is_temporary(), "it fails again while the server is away: {error}");
    proxy.mend();
    publish(&transport, &["two"]).await;
    // The in-flight delivery is still ours on a new connection.
    ack(in_flight).await;
    let (mut seen, until) = (BTreeSet::new(), deadline());
    while !seen.contains("two") {
        assert!(SystemClock.now() < until);
        let Ok(received) = consumer.receive(10).await else { continue };
        for delivery in received {
            assert!(seen.insert(body(&delivery)), "twice");
            ack(delivery).await;
        }
    }
    assert!(!seen.contains("one"), "it was acknowledged");
    fixture.remove().await;
}

async fn an_idle_connection_that_was_cut_does_not_fail_the_next_publish() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::to(&fixture.address).await;
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    publish(&transport, &["one"]).await;
    proxy.cut();
    proxy.mend();
    let later = punctual::clock::add(SystemClock.now(), Duration::from_secs(60));
    transport.publish(vec![outgoing(message("two"))], later).await.unwrap();
    assert_eq!(fixture.length("orders").await, 2);
    fixture.remove().await;
}

async fn messages_read_over_a_lost_connection_are_recovered() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::to(&fixture.address).await;
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let direct = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 100).await;
    let mut seen = BTreeSet::new();
    for round in 0..20 {
        let bodies: Vec<String> = (0..5).map(|number| format!("{round}-{number}")).collect();
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        proxy.mend();
        // Calls `receive`, so that a read is blocking when the entries arrive.
        let _ = receives_nothing(&mut *consumer, Duration::from_millis(20)).await;
        tokio::join!(publish(&direct, &bodies), async { proxy.cut() });
    }
    proxy.mend();
    let until = deadline();
    while seen.len() < 100 {
        assert!(SystemClock.now() < until);
        let Ok(received) = consumer.receive(100).await else { continue };
        for delivery in received {
            seen.insert(body(&delivery));
            ack(delivery).await;
        }
    }
    fixture.remove().await;
}
