//! A broker that is killed and started again, on a private server.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use punctual::backend::transport::Transport as _;
use punctual::clock::between;
use punctual_conformance::backend_tests::messaging::{
    ack, ack_all, body, message, next_retrying, outgoing, pause, receipt, receive_exactly,
    subscribe,
};
use punctual_conformance::cases;
use punctual_nats::NatsTransport;
use xtask::servers::{Durability, Nats, Running};

use crate::fixture::{Fixture, now};

cases![
    a_delayed_requeue_survives_a_restart,
    messages_confirmed_while_the_broker_stops_reach_every_group,
];

/// How often the broker is stopped; it does not lose messages every time.
const STOPS: usize = 3;
/// Each takes the broker a moment to stop.
const GROUPS: usize = 5;

// spec: D-21
async fn a_delayed_requeue_survives_a_restart() {
    let mut fixture = Fixture::new();
    let records = Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers");
    let mut server = Running::start(&Nats, Durability::Relaxed, &records).unwrap();
    fixture.address = server.address();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let batch = ["later", "acked"].map(|text| outgoing(message(text)));
    transport.publish(batch.into(), now()).await.unwrap();
    let mut deliveries = receive_exactly(&mut *consumer, 2).await;
    let later = deliveries.remove(0);
    ack_all(deliveries).await;
    let (started, delay) = (now(), Duration::from_millis(4_700));
    receipt(later).requeue(delay).await.unwrap();
    // The broker writes settlements to disk a moment later.
    while between(started, now()) < Duration::from_millis(1_200) {
        pause().await;
    }
    tokio::task::block_in_place(|| server.crash().and_then(|()| server.serve())).unwrap();
    let delivery = next_retrying(&mut *consumer).await;
    let waited = between(started, now());
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("later", 2));
    // The broker stores such instants in whole seconds, rounded down.
    assert!(waited + Duration::from_secs(1) >= delay, "after {waited:?}");
}

// Brokers before 2.10 lose such messages, which is why they are refused.
async fn messages_confirmed_while_the_broker_stops_reach_every_group() {
    let mut fixture = Fixture::new();
    let records = Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers");
    let mut server = Running::start(&Nats, Durability::Relaxed, &records).unwrap();
    fixture.address = server.address();
    let transport = fixture.open().await;
    let mut groups = Vec::new();
    for number in 0..GROUPS {
        groups.push(subscribe(&transport, &format!("group-{number}"), 100).await);
    }
    let (mut confirmed, mut ahead) = (BTreeSet::new(), BTreeSet::new());
    for stop in 0..STOPS {
        // One group is ahead of the others when the broker stops.
        confirm(&transport, &format!("{stop}-before"), &mut confirmed).await;
        let delivery = next_retrying(&mut *groups[0]).await;
        ahead.insert(body(&delivery));
        ack(delivery).await;
        let stopping = tokio::task::spawn_blocking(move || {
            server.halt().unwrap();
            server
        });
        for number in 0.. {
            let text = format!("{stop}-{number}");
            if !confirm(&transport, &text, &mut confirmed).await {
                break;
            }
        }
        server = stopping.await.unwrap();
        server = tokio::task::spawn_blocking(move || {
            server.serve().unwrap();
            server
        })
        .await
        .unwrap();
        while !confirm(&transport, &format!("{stop}-after"), &mut confirmed).await {
            pause().await;
        }
    }
    for (number, group) in groups.iter_mut().enumerate() {
        let mut owed = confirmed.clone();
        if number == 0 {
            owed.retain(|text| !ahead.contains(text));
        }
        while !owed.is_empty() {
            let delivery = next_retrying(&mut **group).await;
            owed.remove(&body(&delivery));
            ack(delivery).await;
        }
    }
}

/// Publishes and records the text when it is confirmed; returns whether it was.
async fn confirm(transport: &NatsTransport, text: &str, confirmed: &mut BTreeSet<String>) -> bool {
    let published = transport.publish(vec![outgoing(message(text))], now()).await;
    if published.is_ok() {
        confirmed.insert(text.to_owned());
    }
    published.is_ok()
}
