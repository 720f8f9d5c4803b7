//! Brokers that go away and come back.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::clock::{add, between, within};
use punctual::{Clock, ErrorKind, SystemClock};

use crate::cluster::Cluster;
use crate::node::{PATIENCE, ack, message, publish, subscribe, text_of};

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    cluster
}

#[tokio::test]
async fn sending_to_brokers_that_are_away_is_a_temporary_error_in_time() {
    let cluster = cluster();
    let transport = cluster.builder().timeout(Duration::from_secs(2)).connect().await.unwrap();
    publish(&transport, vec![message("before")]).await.unwrap();
    cluster.down().unwrap();
    let begun = SystemClock.now();
    let error = publish(&transport, vec![message("lost")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&cluster.address), "{error}");
    assert!(between(begun, SystemClock.now()) < Duration::from_secs(15));
    cluster.up().unwrap();
    let until = add(SystemClock.now(), PATIENCE);
    while let Err(error) = publish(&transport, vec![message("after")]).await {
        assert!(error.is_temporary() && SystemClock.now() < until, "{error}");
    }
}

#[tokio::test]
async fn receiving_from_brokers_that_are_away_is_an_error_and_goes_on_when_they_are_back() {
    let cluster = cluster();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 10).await;
    publish(&transport, vec![message("before")]).await.unwrap();
    ack(office.next().await).await.unwrap();
    cluster.down().unwrap();
    let until = add(SystemClock.now(), PATIENCE);
    let received = within(&SystemClock, until, office.0.receive(1)).await;
    let error = received.expect("it does not hang").err().expect("nothing came");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&cluster.address), "{error}");
    cluster.up().unwrap();
    while let Err(error) = publish(&transport, vec![message("after")]).await {
        assert!(error.is_temporary() && SystemClock.now() < until, "{error}");
    }
    // What was settled before may come again where the brokers did not hear of it in time.
    let mut seen = BTreeSet::new();
    while !seen.contains("after") {
        let delivery = office.next().await;
        seen.insert(text_of(&delivery));
        ack(delivery).await.unwrap();
    }
    office.close().await;
}

#[tokio::test]
async fn a_consumer_ends_in_time_although_the_brokers_are_away() {
    let cluster = cluster();
    let transport = cluster.builder().connect().await.unwrap();
    let office = subscribe(&transport, "office", 10).await;
    cluster.down().unwrap();
    let mut consumer = office.0;
    let until = add(SystemClock.now(), Duration::from_secs(2));
    // Either it ended or it says that it did not; it does not hang.
    if let Err(error) = consumer.close(until).await {
        assert!(error.is_temporary(), "{error}");
    }
    assert!(SystemClock.now() < add(until, Duration::from_secs(1)));
}
