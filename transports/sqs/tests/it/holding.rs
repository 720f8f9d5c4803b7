//! Holding: what is in hand stays there however long its handler runs, and goes to others when the process
//! is lost.

use std::time::Duration;

use punctual::clock::add;
use punctual::{Clock as _, SystemClock};
use punctual_conformance::cases;
use punctual_conformance::own::Proxy;
use punctual_conformance::own::letters::{ack, is_silent, next, publish, receipt, subscribe};

use crate::place::Place;

cases! {
    a_long_handler_keeps_its_hold,
    what_a_lost_process_had_goes_to_another,
    a_requeue_is_not_undone_by_an_extension,
}

const HOLD: Duration = Duration::from_secs(3);

async fn a_long_handler_keeps_its_hold() {
    let place = Place::new();
    let transport = place.builder().hold_length(HOLD).connect().await.unwrap();
    let mut one = subscribe(&transport, "office", 1).await;
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *one).await;
    let mut other = subscribe(&transport, "office", 1).await;
    assert!(is_silent(&mut *other, HOLD * 3).await, "it is held longer than once");
    ack(delivery).await;
    assert!(is_silent(&mut *other, HOLD).await);
    place.remove().await;
}

async fn what_a_lost_process_had_goes_to_another() {
    let place = Place::new();
    let proxy = Proxy::to(&place.address).await;
    let lost = place.builder_at(proxy.address()).hold_length(HOLD).connect().await.unwrap();
    let mut one = subscribe(&lost, "office", 1).await;
    publish(&lost, &["hello"]).await;
    let in_hand = next(&mut *one).await;
    proxy.cut();
    let alive = place.builder().hold_length(HOLD).connect().await.unwrap();
    let mut other = subscribe(&alive, "office", 1).await;
    let again = next(&mut *other).await;
    assert_eq!((again.message.id, again.attempt), (in_hand.message.id, 2));
    ack(again).await;
    place.remove().await;
}

async fn a_requeue_is_not_undone_by_an_extension() {
    let place = Place::new();
    let quick = place.builder().hold_length(Duration::from_secs(2)).connect().await.unwrap();
    let mut consumer = subscribe(&quick, "office", 10).await;
    publish(&quick, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    let not_before = add(SystemClock.now(), Duration::from_millis(4_980));
    receipt(delivery).requeue(Duration::from_secs(5)).await.unwrap();
    let again = next(&mut *consumer).await;
    assert!(SystemClock.now() >= not_before, "extensions of two seconds would have freed it");
    ack(again).await;
    place.remove().await;
}
