//! Servers that cannot be reached, refuse, or go away in the middle.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own;
use punctual_conformance::own::Proxy;
use punctual_conformance::own::letters::{
    ack, body, is_silent, message, next, publish, sent, soon, subscribe,
};
use punctual_redis::RedisTransport;

use crate::place::{Place, VARIABLE};

cases![
    a_wrong_password_is_told_without_it,
    a_server_that_is_not_there_is_told_by_host,
    a_lost_connection_is_made_again_and_nothing_is_lost,
    an_idle_connection_that_was_cut_does_not_fail_the_next_publish,
    what_was_read_over_a_lost_connection_is_found_again,
];

async fn a_wrong_password_is_told_without_it() {
    let place = own::address(VARIABLE).replace("redis://", "");
    let error = RedisTransport::builder(format!("redis://ghost:secret@{place}")).connect().await;
    let error = error.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let told = format!("{error} {error:?}");
    assert!(told.contains("user or password") && !told.contains("secret"), "{told}");
}

async fn a_server_that_is_not_there_is_told_by_host() {
    let error = RedisTransport::builder("redis://u:secret@127.0.0.1:1").connect().await;
    let error = error.err().unwrap();
    assert!(error.is_temporary());
    let told = error.to_string();
    assert!(told.contains("127.0.0.1:1/0") && !told.contains("secret"), "{told}");
}

async fn a_lost_connection_is_made_again_and_nothing_is_lost() {
    let place = Place::new().await;
    let proxy = Proxy::to(&place.address).await;
    let transport = place.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one"]).await;
    let in_hand = next(&mut *consumer).await;
    proxy.cut();
    let batch = vec![sent(message("lost?"))];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let error = consumer.receive(1).await.err().unwrap();
    assert!(error.is_temporary(), "{error}");
    let error = consumer.receive(1).await.err().unwrap();
    assert!(error.is_temporary(), "it answers again while the server is away: {error}");
    proxy.mend();
    publish(&transport, &["two"]).await;
    // What was in hand is still ours on a new connection.
    ack(in_hand).await;
    let (mut seen, until) = (BTreeSet::new(), soon());
    while !seen.contains("two") {
        assert!(SystemClock.now() < until);
        let Ok(received) = consumer.receive(10).await else { continue };
        for delivery in received {
            assert!(seen.insert(body(&delivery)), "twice");
            ack(delivery).await;
        }
    }
    assert!(!seen.contains("one"), "it was acknowledged");
    place.remove().await;
}

async fn an_idle_connection_that_was_cut_does_not_fail_the_next_publish() {
    let place = Place::new().await;
    let proxy = Proxy::to(&place.address).await;
    let transport = place.builder_at(proxy.address()).connect().await.unwrap();
    publish(&transport, &["one"]).await;
    proxy.cut();
    proxy.mend();
    let later = punctual::clock::add(SystemClock.now(), Duration::from_secs(60));
    transport.publish(vec![sent(message("two"))], later).await.unwrap();
    assert_eq!(place.length("orders").await, 2);
    place.remove().await;
}

async fn what_was_read_over_a_lost_connection_is_found_again() {
    let place = Place::new().await;
    let proxy = Proxy::to(&place.address).await;
    let transport = place.builder_at(proxy.address()).connect().await.unwrap();
    let direct = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 100).await;
    let mut seen = BTreeSet::new();
    for round in 0..20 {
        let bodies: Vec<String> = (0..5).map(|number| format!("{round}-{number}")).collect();
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        proxy.mend();
        // Asks for deliveries, so that a read is waiting when the entries come.
        let _ = is_silent(&mut *consumer, Duration::from_millis(20)).await;
        tokio::join!(publish(&direct, &bodies), async { proxy.cut() });
    }
    proxy.mend();
    let until = soon();
    while seen.len() < 100 {
        assert!(SystemClock.now() < until);
        let Ok(received) = consumer.receive(100).await else { continue };
        for delivery in received {
            seen.insert(body(&delivery));
            ack(delivery).await;
        }
    }
    place.remove().await;
}
