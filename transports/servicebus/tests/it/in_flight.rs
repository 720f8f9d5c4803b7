//! In-flight deliveries keep their locks while their handlers run, and tokens are renewed.

use punctual_conformance::backend_tests::messaging::{
    ack, body, deadline, next, publish, receives_nothing, wait_until,
};
use punctual_conformance::cases;
use std::time::Duration;

use crate::fixture::{OFFICE, builder, double, open, subscribe};

cases! {
    a_long_handler_keeps_its_lock,
    an_ended_process_loses_its_locks,
    tokens_are_renewed_before_they_expire,
    unreturned_deliveries_are_released_uncounted,
}

async fn a_long_handler_keeps_its_lock() {
    let double = double().await;
    double.broker().lock_duration = Duration::from_secs(3);
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    let mut other = subscribe(&open(&double).await, "office").await;
    publish(&transport, &["long"]).await;
    let (delivery, other) = tokio::select! {
        delivery = next(&mut *office) => (delivery, &mut other),
        delivery = next(&mut *other) => (delivery, &mut office),
    };
    assert!(receives_nothing(&mut **other, Duration::from_secs(7)).await);
    assert!(double.broker().renewals >= 2);
    ack(delivery).await;
    wait_until("the end of it", || double.broker().counts(OFFICE) == (0, 0, 0)).await;
}

async fn an_ended_process_loses_its_locks() {
    let double = double().await;
    double.broker().lock_duration = Duration::from_secs(2);
    let gone = open(&double).await;
    let mut office = subscribe(&gone, "office").await;
    publish(&gone, &["left"]).await;
    let delivery = next(&mut *office).await;
    // Forgotten, as in a process that is killed; its connection breaks.
    std::mem::forget(delivery);
    double.cut();
    drop(office);
    let mut office = subscribe(&open(&double).await, "office").await;
    let again = next(&mut *office).await;
    assert_eq!((body(&again).as_str(), again.attempt), ("left", 2));
    ack(again).await;
}

async fn tokens_are_renewed_before_they_expire() {
    let double = double().await;
    let transport = builder(&double).token_ttl(Duration::from_secs(4)).connect().await.unwrap();
    let mut office = subscribe(&transport, "office").await;
    publish(&transport, &["1"]).await;
    let count =
        |entity: &str| double.broker().tokens.iter().filter(|(known, _)| known == entity).count();
    let (listening, sending) = (count(OFFICE), count("orders"));
    assert_eq!((listening, sending), (1, 1));
    wait_until("another token to listen", || count(OFFICE) > listening).await;
    publish(&transport, &["2"]).await;
    assert!(count("orders") > sending, "a publish renews what is about to expire");
    for text in ["1", "2"] {
        let delivery = next(&mut *office).await;
        assert_eq!(body(&delivery), text);
        ack(delivery).await;
    }
}

async fn unreturned_deliveries_are_released_uncounted() {
    let double = double().await;
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    publish(&transport, &["1", "2", "3"]).await;
    wait_until("all three at the consumer", || double.broker().counts(OFFICE) == (0, 3, 0)).await;
    ack(next(&mut *office).await).await;
    office.close(deadline()).await.unwrap();
    wait_until("two that are free again", || double.broker().counts(OFFICE) == (2, 0, 0)).await;
    let mut office = subscribe(&transport, "office").await;
    for _ in 0..2 {
        let delivery = next(&mut *office).await;
        assert_eq!(delivery.attempt, 1);
        ack(delivery).await;
    }
}
