//! Brokers that become unreachable and come back.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::clock::{add, between, within};
use punctual::{Clock, ErrorKind, SystemClock};

use crate::cluster::Cluster;
use crate::fixture::{TIMEOUT, ack, message, publish, subscribe, text_of};

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    cluster
}

#[tokio::test]
async fn publishing_to_unreachable_brokers_fails_as_temporary_within_the_timeout() {
    let cluster = cluster();
    let transport = cluster.builder().timeout(Duration::from_secs(2)).connect().await.unwrap();
    publish(&transport, vec![message("before")]).await.unwrap();
    cluster.down().unwrap();
    let started = SystemClock.now();
    let error = publish(&transport, vec![message("lost")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&cluster.address), "{error}");
    assert!(between(started, SystemClock.now()) < Duration::from_secs(15));
    cluster.up().unwrap();
    let until = add(SystemClock.now(), TIMEOUT);
    while let Err(error) = publish(&transport, vec![message("after")]).await {
        assert!(error.is_temporary() && SystemClock.now() < until, "{error}");
    }
}

#[tokio::test]
async fn receiving_from_unreachable_brokers_is_an_error_and_resumes_when_they_are_back() {
    let cluster = cluster();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 10).await;
    publish(&transport, vec![message("before")]).await.unwrap();
    ack(office.next().await).await.unwrap();
    cluster.down().unwrap();
    let until = add(SystemClock.now(), TIMEOUT);
    let received = within(&SystemClock, until, office.0.receive(1)).await;
    let error = received.expect("it does not hang").err().expect("nothing came");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&cluster.address), "{error}");
    cluster.up().unwrap();
    while let Err(error) = publish(&transport, vec![message("after")]).await {
        assert!(error.is_temporary() && SystemClock.now() < until, "{error}");
    }
    // Messages settled before may be delivered again if the commit did not reach the brokers in time.
    let mut received = BTreeSet::new();
    while !received.contains("after") {
        let delivery = office.next().await;
        received.insert(text_of(&delivery));
        ack(delivery).await.unwrap();
    }
    office.close().await;
}

#[tokio::test]
async fn a_consumer_closes_in_time_although_the_brokers_are_unreachable() {
    let cluster = cluster();
    let transport = cluster.builder().connect().await.unwrap();
    let office = subscribe(&transport, "office", 10).await;
    cluster.down().unwrap();
    let mut consumer = office.0;
    let until = add(SystemClock.now(), Duration::from_secs(2));
    // Either it ended or it returns an error; it does not hang.
    if let Err(error) = consumer.close(until).await {
        assert!(error.is_temporary(), "{error}");
    }
    assert!(SystemClock.now() < add(until, Duration::from_secs(1)));
}
