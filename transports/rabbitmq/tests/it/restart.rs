//! Restart: a broker that is killed and comes back. The test has a broker of its own, because the usual one is
//! shared; so RabbitMQ must be installed on this machine.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::clock::{add, between};
use punctual::{Clock, SystemClock, Transport};
use punctual_conformance::backend_tests::messaging::{
    ack, body, message, next, outgoing, publish, receipt, subscribe, try_publish, with_timeout,
};
use punctual_conformance::cases;
use xtask::servers::{Durability, Rabbitmq, Running};

use crate::fixture::Fixture;

cases!(a_killed_broker_loses_nothing_and_is_reconnected_to);

/// Stopping and starting the broker blocks, so it runs outside the runtime.
async fn on_server(mut server: Running, act: fn(&mut Running) -> Result<(), String>) -> Running {
    let done = tokio::task::spawn_blocking(move || {
        act(&mut server).unwrap();
        server
    });
    done.await.unwrap()
}

async fn started() -> (Running, std::path::PathBuf) {
    let folder = format!("punctual-rabbitmq-records-{}", std::process::id());
    let records = std::env::temp_dir().join(folder);
    let own = records.clone();
    let starting =
        tokio::task::spawn_blocking(move || Running::start(&Rabbitmq, Durability::Durable, &own));
    (starting.await.unwrap().unwrap(), records)
}

// spec: D-25
async fn a_killed_broker_loses_nothing_and_is_reconnected_to() {
    let (server, records) = started().await;
    let fixture = Fixture::new();
    let transport = fixture.builder_at(&server.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "g", 100).await;
    let texts: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    let batch = texts.iter().map(|text| outgoing(message(text))).collect();
    with_timeout(transport.publish(batch, SystemClock.now())).await.unwrap();
    let delay = Duration::from_secs(3);
    let first = next(&mut *consumer).await;
    let late = body(&first);
    receipt(first).requeue(delay).await.unwrap();
    let mut in_flight = Vec::new();
    // RabbitMQ may lose a queue that was declared a moment before it is killed; this one is older by then.
    let delayed = loop {
        let delivery = next(&mut *consumer).await;
        if body(&delivery) == late {
            break delivery;
        }
        in_flight.push(delivery);
    };
    let again_at = add(SystemClock.now(), delay);
    receipt(delayed).requeue(delay).await.unwrap();

    let server = on_server(server, |server| server.crash().map_err(|e| e.to_string())).await;
    let error = try_publish(&transport, &["while away"]).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let server = on_server(server, |server| server.serve().map_err(|e| e.to_string())).await;
    for delivery in in_flight {
        assert!(with_timeout(receipt(delivery).ack()).await.unwrap_err().is_temporary());
    }
    publish(&transport, &["after"]).await;

    let mut wanted: BTreeSet<String> = texts.into_iter().chain(["after".to_owned()]).collect();
    assert!(with_timeout(consumer.receive(10)).await.is_err());
    while !wanted.is_empty() {
        let deliveries = with_timeout(consumer.receive(10)).await.unwrap();
        for delivery in deliveries {
            if body(&delivery) == late {
                let early = between(SystemClock.now(), again_at);
                assert_eq!((delivery.attempt, early), (3, Duration::ZERO));
            }
            wanted.remove(&body(&delivery));
            ack(delivery).await;
        }
    }
    tokio::task::spawn_blocking(move || drop(server)).await.unwrap();
    let _ = std::fs::remove_dir_all(records);
}
