//! In-flight deliveries: which consumer has an entry, for how long, and which one claims it next.

use std::time::Duration;

use punctual::Transport as _;
use punctual_conformance::backend_tests::messaging::{
    ack, body, close, next, publish, receipt, receive_exactly, receives_nothing, subscribe,
};
use punctual_conformance::cases;
use redis::{Value, cmd};

use crate::fixture::Fixture;

cases![
    a_long_handler_keeps_its_delivery,
    deliveries_of_a_dead_process_are_claimed_with_their_count,
    no_more_than_the_prefetch_is_in_flight,
    a_message_that_is_always_requeued_lets_others_pass,
    consumers_of_a_group_share_and_groups_do_not,
    receiving_may_be_cancelled_at_any_time,
];

const VISIBILITY: Duration = Duration::from_millis(300);

async fn a_long_handler_keeps_its_delivery() {
    let fixture = Fixture::new().await;
    let transport = fixture.builder().visibility_timeout(VISIBILITY).connect().await.unwrap();
    let mut busy = subscribe(&transport, "billing", 1).await;
    publish(&transport, &["long"]).await;
    let delivery = next(&mut *busy).await;
    let mut idle = subscribe(&transport, "billing", 1).await;
    assert!(
        receives_nothing(&mut *idle, VISIBILITY * 5).await,
        "it was claimed although it was in flight"
    );
    close(busy).await;
    assert!(
        receives_nothing(&mut *idle, VISIBILITY * 5).await,
        "also after its consumer was closed"
    );
    ack(delivery).await;
    fixture.remove().await;
}

// spec: D-26
async fn deliveries_of_a_dead_process_are_claimed_with_their_count() {
    let fixture = Fixture::new().await;
    let transport = fixture.builder().visibility_timeout(VISIBILITY).connect().await.unwrap();
    close(subscribe(&transport, "billing", 1).await).await;
    publish(&transport, &["one", "two"]).await;
    // A consumer that reads twice and crashes.
    for from in [">", "0"] {
        let mut read = cmd("XREADGROUP");
        read.arg("GROUP").arg("billing").arg("crashed").arg("STREAMS");
        read.arg(fixture.key("orders")).arg(from);
        fixture.command::<Value>(&mut read).await;
    }
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let taken = receive_exactly(&mut *consumer, 2).await;
    let taken: Vec<_> = taken.iter().map(|one| (body(one), one.attempt)).collect();
    assert_eq!(taken, [("one".to_owned(), 3), ("two".to_owned(), 3)]);
    fixture.remove().await;
}

async fn no_more_than_the_prefetch_is_in_flight() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut greedy = subscribe(&transport, "billing", 4).await;
    publish(&transport, &["a", "b", "c", "d", "e", "f"]).await;
    let mut in_flight = receive_exactly(&mut *greedy, 4).await;
    assert!(receives_nothing(&mut *greedy, VISIBILITY).await);
    let mut other = subscribe(&transport, "billing", 4).await;
    let rest = receive_exactly(&mut *other, 2).await;
    assert_eq!(rest.iter().map(body).collect::<Vec<_>>(), ["e", "f"]);
    // The other consumer prefetches too, and must not be first.
    close(other).await;
    publish(&transport, &["g"]).await;
    assert!(receives_nothing(&mut *greedy, VISIBILITY).await);
    ack(in_flight.remove(0)).await;
    assert_eq!(body(&next(&mut *greedy).await), "g");
    drop(rest);
    fixture.remove().await;
}

// Without alternating, the stream of requeued entries would always be first.
async fn a_message_that_is_always_requeued_lets_others_pass() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 1).await;
    publish(&transport, &["bad", "b", "c"]).await;
    let mut others = Vec::new();
    for _ in 0..10 {
        let delivery = next(&mut *consumer).await;
        if body(&delivery) == "bad" {
            receipt(delivery).requeue(Duration::ZERO).await.unwrap();
        } else {
            assert_eq!(delivery.attempt, 1);
            others.push(body(&delivery));
            ack(delivery).await;
        }
    }
    assert_eq!(others, ["b", "c"]);
    fixture.remove().await;
}

async fn consumers_of_a_group_share_and_groups_do_not() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut one = subscribe(&transport, "billing", 2).await;
    let mut two = subscribe(&transport, "billing", 2).await;
    publish(&transport, &["a", "b", "c", "d"]).await;
    let mut shared = receive_exactly(&mut *one, 2).await;
    shared.extend(receive_exactly(&mut *two, 2).await);
    let mut bodies: Vec<String> = shared.iter().map(body).collect();
    bodies.sort();
    assert_eq!(bodies, ["a", "b", "c", "d"]);
    // A group that subscribes later receives what is still there.
    let mut late = subscribe(&transport, "mailing", 10).await;
    let copies = receive_exactly(&mut *late, 4).await;
    assert_eq!(copies.iter().map(body).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    fixture.remove().await;
}

async fn receiving_may_be_cancelled_at_any_time() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let mut received = Vec::new();
    for round in 0..50_u64 {
        publish(&transport, &["x"]).await;
        let wait = Duration::from_micros(round * 20);
        let until = punctual::clock::add(punctual::Clock::now(&punctual::SystemClock), wait);
        let got = punctual::clock::within(&punctual::SystemClock, until, consumer.receive(1)).await;
        for delivery in got.into_iter().flat_map(Result::unwrap) {
            received.push(delivery.message.id);
            ack(delivery).await;
        }
    }
    while received.len() < 50 {
        let delivery = next(&mut *consumer).await;
        assert_eq!(delivery.attempt, 1);
        received.push(delivery.message.id);
        ack(delivery).await;
    }
    received.sort_unstable();
    received.dedup();
    assert_eq!(received.len(), 50);
    assert!(transport.topics().await.unwrap().len() == 1);
    fixture.remove().await;
}
