//! Sessions: what a group has not handled stays on the broker while it is away, and goes to those who are
//! there when one of them is not.

use punctual::Clock as _;
use punctual::{SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::Proxy;
use punctual_conformance::own::letters::{
    ack, body, close, message, next, next_again, publish, sent, some,
};

use crate::place::{Place, is_quiet, subscribe, subscribe_to, topic};

cases! {
    a_group_that_is_away_keeps_its_messages,
    what_a_crashed_member_had_goes_to_another_and_is_counted,
    what_a_closed_member_had_goes_to_another_uncounted,
    what_is_in_hand_stays_in_hand_when_the_connection_breaks,
    what_is_settled_without_a_connection_is_not_delivered_again,
    what_is_for_a_group_that_nobody_knows_is_refused,
    what_nobody_has_subscribed_to_is_refused_unless_allowed,
    topics_are_those_that_groups_have_subscribed_to,
    names_that_mean_something_to_mqtt_are_topics_and_groups_like_others,
}

async fn a_group_that_is_away_keeps_its_messages() {
    let place = Place::new();
    let transport = place.open().await;
    close(subscribe(&transport, "billing").await).await;
    close(subscribe(&transport, "billing").await).await;
    publish(&transport, &["1", "2", "3", "4"]).await;
    let mut consumer = subscribe(&place.open().await, "billing").await;
    let mut bodies: Vec<String> = Vec::new();
    for delivery in some(&mut *consumer, 4).await {
        assert_eq!(delivery.attempt, 1);
        bodies.push(body(&delivery));
        ack(delivery).await;
    }
    bodies.sort();
    assert_eq!(bodies, ["1", "2", "3", "4"]);
    assert!(is_quiet(&mut *consumer).await);
}

// spec: D-26
async fn what_a_crashed_member_had_goes_to_another_and_is_counted() {
    let place = Place::new();
    let crashing = place.open().await;
    let mut consumer = subscribe(&crashing, "billing").await;
    publish(&crashing, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.attempt, 1);
    // Without a goodbye, as a process that is killed.
    drop(consumer);
    std::mem::forget(delivery);
    let mut other = subscribe(&place.open().await, "billing").await;
    let again = next(&mut *other).await;
    assert_eq!((body(&again).as_str(), again.attempt), ("hello", 2));
    assert_eq!(again.message.headers.get("tenant"), Some("acme"));
    ack(again).await;
    assert!(is_quiet(&mut *other).await);
}

async fn what_a_closed_member_had_goes_to_another_uncounted() {
    let place = Place::new();
    let transport = place.open().await;
    let mut leaving = subscribe(&transport, "billing").await;
    publish(&transport, &["1", "2", "3", "4", "5", "6"]).await;
    ack(next(&mut *leaving).await).await;
    let mut staying = subscribe(&place.open().await, "billing").await;
    close(leaving).await;
    for delivery in some(&mut *staying, 5).await {
        assert_eq!(delivery.attempt, 1);
        ack(delivery).await;
    }
    assert!(is_quiet(&mut *staying).await);
    // Whoever left gets nothing any more.
    publish(&transport, &["7", "8", "9"]).await;
    assert_eq!(some(&mut *staying, 3).await.len(), 3);
}

async fn what_is_in_hand_stays_in_hand_when_the_connection_breaks() {
    let place = Place::new();
    let proxy = Proxy::to(&place.address).await;
    let transport = place.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    proxy.cut();
    assert!(consumer.receive(1).await.is_err_and(|error| error.is_temporary()));
    proxy.mend();
    assert!(is_quiet(&mut *consumer).await, "it is not delivered a second time");
    ack(delivery).await;
    close(consumer).await;
    let mut other = subscribe(&place.open().await, "billing").await;
    assert!(is_quiet(&mut *other).await, "it was acknowledged on the new connection");
}

async fn what_is_settled_without_a_connection_is_not_delivered_again() {
    let place = Place::new();
    let proxy = Proxy::to(&place.address).await;
    let transport = place.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    proxy.cut();
    assert!(consumer.receive(1).await.is_err());
    ack(delivery).await;
    proxy.mend();
    publish(&place.open().await, &["after"]).await;
    let after = next_again(&mut *consumer).await;
    assert_eq!(body(&after), "after");
    ack(after).await;
    close(consumer).await;
    let mut other = subscribe(&place.open().await, "billing").await;
    assert!(is_quiet(&mut *other).await);
}

async fn what_is_for_a_group_that_nobody_knows_is_refused() {
    let place = Place::new();
    let transport = place.open().await;
    let mut back = sent(message("hello"));
    back.group = Some("nobody".to_owned());
    let error = transport.publish(vec![back.clone()], SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary(), "it may be there soon: {error}");
    let mut consumer = subscribe(&transport, "nobody").await;
    transport.publish(vec![back], SystemClock.now()).await.unwrap();
    ack(next(&mut *consumer).await).await;
}

async fn what_nobody_has_subscribed_to_is_refused_unless_allowed() {
    let place = Place::new();
    let batch = vec![sent(message("hello"))];
    let error = place.open().await.publish(batch.clone(), SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("allow_unheard"), "{error}");
    let transport = place.builder().allow_unheard(true).connect().await.unwrap();
    transport.publish(batch, SystemClock.now()).await.unwrap();
}

async fn topics_are_those_that_groups_have_subscribed_to() {
    let place = Place::new();
    let transport = place.open().await;
    assert!(transport.topics().await.unwrap().is_empty());
    let _a = subscribe_to(&transport, "orders/paid", "billing").await;
    let _b = subscribe_to(&transport, "orders/paid", "mail").await;
    close(subscribe_to(&transport, "100% + #1", "billing").await).await;
    let expected = vec![topic("100% + #1"), topic("orders/paid")];
    assert_eq!(transport.topics().await.unwrap(), expected);
}

async fn names_that_mean_something_to_mqtt_are_topics_and_groups_like_others() {
    let place = Place::new();
    let transport = place.open().await;
    let mut strange = subscribe_to(&transport, "a/+/#", "b/+#$").await;
    let mut other = subscribe_to(&transport, "a/x/y", "b").await;
    for name in ["a/x/y", "a/+/#"] {
        let message = punctual::model::Message { topic: topic(name), ..message(name) };
        transport.publish(vec![sent(message)], SystemClock.now()).await.unwrap();
    }
    for (consumer, expected) in [(&mut strange, "a/+/#"), (&mut other, "a/x/y")] {
        let delivery = next(&mut **consumer).await;
        assert_eq!(body(&delivery), expected);
        ack(delivery).await;
    }
    assert!(is_quiet(&mut *strange).await && is_quiet(&mut *other).await);
}
