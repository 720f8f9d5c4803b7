//! A broker that is killed and started again, on a server of the test's own.

use std::path::Path;
use std::time::Duration;

use punctual::clock::between;
use punctual::transport::Transport as _;
use xtask::servers::{Durability, Nats, Running};

use crate::cases;
use crate::losing::{receive_again, rest};
use crate::place::{Place, ack_all, now, out, receipt, receive, subscribe, text};

cases![a_delayed_requeue_survives_a_restart];

// spec: D-21
async fn a_delayed_requeue_survives_a_restart() {
    let mut place = Place::new();
    let records = Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers");
    let mut server = Running::start(&Nats, Durability::Relaxed, &records).unwrap();
    place.url = server.address();
    let transport = place.transport().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let batch = ["later", "acked"].map(|text| out(place.message(text)));
    transport.publish(batch.into(), now()).await.unwrap();
    let mut deliveries = receive(&mut consumer, 2).await;
    let later = deliveries.remove(0);
    ack_all(deliveries).await;
    let (begun, delay) = (now(), Duration::from_millis(4_700));
    receipt(later).requeue(delay).await.unwrap();
    // The broker writes down what a group has settled a moment later.
    while between(begun, now()) < Duration::from_millis(1_200) {
        rest().await;
    }
    tokio::task::block_in_place(|| server.crash().and_then(|()| server.serve())).unwrap();
    let delivery = receive_again(&mut consumer).await;
    let waited = between(begun, now());
    assert_eq!((text(&delivery).as_str(), delivery.attempt), ("later", 2));
    // The broker keeps such instants in whole seconds, rounded down.
    assert!(waited + Duration::from_secs(1) >= delay, "after {waited:?}");
}
