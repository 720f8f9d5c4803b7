//! What is made on the server, what is not, and what is refused.

use punctual::{Clock as _, model::Topic};
use punctual::{ErrorKind, SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::letters::{
    body, close, message, next, publish, sent, subscribe, subscription,
};
use redis::cmd;

use crate::place::Place;

cases![
    nothing_is_made_when_that_is_not_allowed,
    a_key_of_another_kind_is_refused_by_name,
    a_group_keeps_what_is_published_while_it_is_away,
    a_group_that_was_removed_is_made_again,
    topics_are_listed,
    a_body_over_the_limit_is_refused_before_anything_is_sent,
    a_bounded_stream_keeps_the_newest,
];

async fn nothing_is_made_when_that_is_not_allowed() {
    let place = Place::new().await;
    let strict = place.builder().declare(false).connect().await.unwrap();
    let error = strict.subscribe(subscription("billing", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("XGROUP CREATE"), "{error}");
    assert!(strict.topics().await.unwrap().is_empty());
    close(subscribe(&place.open().await, "billing", 1).await).await;
    strict.subscribe(subscription("billing", 1)).await.unwrap();
    place.remove().await;
}

async fn a_key_of_another_kind_is_refused_by_name() {
    let place = Place::new().await;
    let transport = place.open().await;
    place.ask::<()>(cmd("SET").arg(place.key("orders")).arg("text")).await;
    let error = transport.subscribe(subscription("billing", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let told = error.to_string();
    assert!(told.contains("orders") && told.contains("is a string"), "{told}");
    let error = transport.publish(vec![sent(message("x"))], SystemClock.now()).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
    place.remove().await;
}

async fn a_group_keeps_what_is_published_while_it_is_away() {
    let place = Place::new().await;
    let transport = place.open().await;
    close(subscribe(&transport, "billing", 1).await).await;
    publish(&transport, &["one"]).await;
    let mut consumer = subscribe(&transport, "billing", 1).await;
    assert_eq!(body(&next(&mut *consumer).await), "one");
    place.remove().await;
}

async fn a_group_that_was_removed_is_made_again() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 1).await;
    place.ask::<()>(cmd("DEL").arg(place.key("orders")).arg(place.key("~billing/orders"))).await;
    publish(&transport, &["one"]).await;
    assert_eq!(body(&next(&mut *consumer).await), "one");
    place.remove().await;
}

async fn topics_are_listed() {
    let place = Place::new().await;
    let transport = place.open().await;
    for name in ["orders", "invoices", "a:b"] {
        let mut message = message("x");
        message.topic = Topic::new(name).unwrap();
        transport.publish(vec![sent(message)], SystemClock.now()).await.unwrap();
    }
    close(subscribe(&transport, "billing", 1).await).await;
    let topics = transport.topics().await.unwrap();
    assert_eq!(topics.iter().map(Topic::as_str).collect::<Vec<_>>(), ["a:b", "invoices", "orders"]);
    place.remove().await;
}

async fn a_body_over_the_limit_is_refused_before_anything_is_sent() {
    let place = Place::new().await;
    let transport = place.builder().payload_max(10).connect().await.unwrap();
    assert_eq!(transport.capabilities().payload_max, Some(10));
    let batch = vec![sent(message("x")), sent(message("eleven long"))];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let told = error.to_string();
    assert!(told.contains("11 bytes") && told.contains("10"), "{told}");
    assert_eq!(place.length("orders").await, 0);
    publish(&transport, &["ten longer"]).await;
    place.remove().await;
}

async fn a_bounded_stream_keeps_the_newest() {
    let place = Place::new().await;
    let keep = punctual_redis::Keep::Newest(100);
    let transport = place.builder().keep(keep).connect().await.unwrap();
    publish(&transport, &["x"; 1_000]).await;
    let length = place.length("orders").await;
    assert!((100..300).contains(&length), "{length}");
    place.remove().await;
}
