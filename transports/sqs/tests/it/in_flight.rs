//! In-flight deliveries: they stay invisible however long their handler runs, and go to other consumers when the
//! process is lost.

use std::time::Duration;

use punctual::clock::add;
use punctual::{Clock as _, SystemClock};
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    ack, next, publish, receipt, receives_nothing, subscribe,
};
use punctual_conformance::cases;

use crate::fixture::Fixture;

cases! {
    a_long_handler_keeps_its_delivery,
    deliveries_of_a_lost_process_go_to_another,
    a_requeue_is_not_undone_by_an_extension,
}

const VISIBILITY: Duration = Duration::from_secs(3);

async fn a_long_handler_keeps_its_delivery() {
    let fixture = Fixture::new();
    let transport = fixture.builder().visibility_timeout(VISIBILITY).connect().await.unwrap();
    let mut one = subscribe(&transport, "office", 1).await;
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *one).await;
    let mut other = subscribe(&transport, "office", 1).await;
    assert!(
        receives_nothing(&mut *other, VISIBILITY * 3).await,
        "its visibility timeout is extended more than once"
    );
    ack(delivery).await;
    assert!(receives_nothing(&mut *other, VISIBILITY).await);
    fixture.remove().await;
}

async fn deliveries_of_a_lost_process_go_to_another() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let lost =
        fixture.builder_at(proxy.address()).visibility_timeout(VISIBILITY).connect().await.unwrap();
    let mut one = subscribe(&lost, "office", 1).await;
    publish(&lost, &["hello"]).await;
    let in_flight = next(&mut *one).await;
    proxy.cut();
    let alive = fixture.builder().visibility_timeout(VISIBILITY).connect().await.unwrap();
    let mut other = subscribe(&alive, "office", 1).await;
    let again = next(&mut *other).await;
    assert_eq!((again.message.id, again.attempt), (in_flight.message.id, 2));
    ack(again).await;
    fixture.remove().await;
}

async fn a_requeue_is_not_undone_by_an_extension() {
    let fixture = Fixture::new();
    let quick =
        fixture.builder().visibility_timeout(Duration::from_secs(2)).connect().await.unwrap();
    let mut consumer = subscribe(&quick, "office", 10).await;
    publish(&quick, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    let not_before = add(SystemClock.now(), Duration::from_millis(4_980));
    receipt(delivery).requeue(Duration::from_secs(5)).await.unwrap();
    let again = next(&mut *consumer).await;
    assert!(SystemClock.now() >= not_before, "extensions of two seconds would have freed it");
    ack(again).await;
    fixture.remove().await;
}
