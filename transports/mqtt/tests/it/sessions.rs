//! Sessions: what a group has not handled stays on the broker while its consumers are away, and is delivered to the
//! others when one of them is gone.

use punctual::Clock as _;
use punctual::{SystemClock, Transport as _};
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    ack, body, close, message, next, next_retrying, outgoing, publish, receive_exactly,
};
use punctual_conformance::cases;

use crate::fixture::{Fixture, is_quiet, subscribe, subscribe_to, topic};

cases! {
    a_group_without_consumers_keeps_its_messages,
    messages_of_a_crashed_member_go_to_another_with_one_more_attempt,
    messages_of_a_closed_member_go_to_another_with_the_same_attempt,
    deliveries_stay_in_flight_when_the_connection_breaks,
    a_delivery_settled_without_a_connection_is_not_repeated,
    a_message_for_an_unknown_group_is_refused,
    a_message_without_a_subscriber_is_refused_unless_allowed,
    topics_are_those_that_groups_have_subscribed_to,
    names_with_special_characters_of_mqtt_are_valid_topics_and_groups,
}

async fn a_group_without_consumers_keeps_its_messages() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    close(subscribe(&transport, "billing").await).await;
    close(subscribe(&transport, "billing").await).await;
    publish(&transport, &["1", "2", "3", "4"]).await;
    let mut consumer = subscribe(&fixture.open().await, "billing").await;
    let mut bodies: Vec<String> = Vec::new();
    for delivery in receive_exactly(&mut *consumer, 4).await {
        assert_eq!(delivery.attempt, 1);
        bodies.push(body(&delivery));
        ack(delivery).await;
    }
    bodies.sort();
    assert_eq!(bodies, ["1", "2", "3", "4"]);
    assert!(is_quiet(&mut *consumer).await);
}

// spec: D-26
async fn messages_of_a_crashed_member_go_to_another_with_one_more_attempt() {
    let fixture = Fixture::new();
    let crashing = fixture.open().await;
    let mut consumer = subscribe(&crashing, "billing").await;
    publish(&crashing, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    assert_eq!(delivery.attempt, 1);
    // Without DISCONNECT, like a killed process.
    drop(consumer);
    std::mem::forget(delivery);
    let mut other = subscribe(&fixture.open().await, "billing").await;
    let again = next(&mut *other).await;
    assert_eq!((body(&again).as_str(), again.attempt), ("hello", 2));
    assert_eq!(again.message.headers.get("tenant"), Some("acme"));
    ack(again).await;
    assert!(is_quiet(&mut *other).await);
}

async fn messages_of_a_closed_member_go_to_another_with_the_same_attempt() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut leaving = subscribe(&transport, "billing").await;
    publish(&transport, &["1", "2", "3", "4", "5", "6"]).await;
    ack(next(&mut *leaving).await).await;
    let mut staying = subscribe(&fixture.open().await, "billing").await;
    close(leaving).await;
    for delivery in receive_exactly(&mut *staying, 5).await {
        assert_eq!(delivery.attempt, 1);
        ack(delivery).await;
    }
    assert!(is_quiet(&mut *staying).await);
    // The consumer that left receives nothing any more.
    publish(&transport, &["7", "8", "9"]).await;
    assert_eq!(receive_exactly(&mut *staying, 3).await.len(), 3);
}

async fn deliveries_stay_in_flight_when_the_connection_breaks() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    proxy.cut();
    assert!(consumer.receive(1).await.is_err_and(|error| error.is_temporary()));
    proxy.mend();
    assert!(is_quiet(&mut *consumer).await, "it is not delivered a second time");
    ack(delivery).await;
    close(consumer).await;
    let mut other = subscribe(&fixture.open().await, "billing").await;
    assert!(is_quiet(&mut *other).await, "it was acknowledged on the new connection");
}

async fn a_delivery_settled_without_a_connection_is_not_repeated() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["hello"]).await;
    let delivery = next(&mut *consumer).await;
    proxy.cut();
    assert!(consumer.receive(1).await.is_err());
    ack(delivery).await;
    proxy.mend();
    publish(&fixture.open().await, &["after"]).await;
    let after = next_retrying(&mut *consumer).await;
    assert_eq!(body(&after), "after");
    ack(after).await;
    close(consumer).await;
    let mut other = subscribe(&fixture.open().await, "billing").await;
    assert!(is_quiet(&mut *other).await);
}

async fn a_message_for_an_unknown_group_is_refused() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut back = outgoing(message("hello"));
    back.group = Some("unknown".to_owned());
    let error = transport.publish(vec![back.clone()], SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary(), "it may be there soon: {error}");
    let mut consumer = subscribe(&transport, "unknown").await;
    transport.publish(vec![back], SystemClock.now()).await.unwrap();
    ack(next(&mut *consumer).await).await;
}

async fn a_message_without_a_subscriber_is_refused_unless_allowed() {
    let fixture = Fixture::new();
    let batch = vec![outgoing(message("hello"))];
    let error = fixture.open().await.publish(batch.clone(), SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("allow_no_subscribers"), "{error}");
    let transport = fixture.builder().allow_no_subscribers(true).connect().await.unwrap();
    transport.publish(batch, SystemClock.now()).await.unwrap();
}

async fn topics_are_those_that_groups_have_subscribed_to() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    assert!(transport.topics().await.unwrap().is_empty());
    let _a = subscribe_to(&transport, "orders/paid", "billing").await;
    let _b = subscribe_to(&transport, "orders/paid", "mail").await;
    close(subscribe_to(&transport, "100% + #1", "billing").await).await;
    let expected = vec![topic("100% + #1"), topic("orders/paid")];
    assert_eq!(transport.topics().await.unwrap(), expected);
}

async fn names_with_special_characters_of_mqtt_are_valid_topics_and_groups() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut special = subscribe_to(&transport, "a/+/#", "b/+#$").await;
    let mut other = subscribe_to(&transport, "a/x/y", "b").await;
    for name in ["a/x/y", "a/+/#"] {
        let message = punctual::model::Message { topic: topic(name), ..message(name) };
        transport.publish(vec![outgoing(message)], SystemClock.now()).await.unwrap();
    }
    for (consumer, expected) in [(&mut special, "a/+/#"), (&mut other, "a/x/y")] {
        let delivery = next(&mut **consumer).await;
        assert_eq!(body(&delivery), expected);
        ack(delivery).await;
    }
    assert!(is_quiet(&mut *special).await && is_quiet(&mut *other).await);
}
