//! Topology: what is created on the server, what is not, and what is refused.

use punctual::{Clock as _, model::Topic};
use punctual::{ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    body, close, message, next, outgoing, publish, subscribe, subscription,
};
use punctual_conformance::cases;
use redis::cmd;

use crate::fixture::Fixture;

cases![
    nothing_is_created_without_declare,
    a_key_of_another_kind_is_refused_by_name,
    a_group_receives_what_is_published_while_it_is_away,
    a_group_that_was_removed_is_created_again,
    topics_are_listed,
    a_body_over_the_limit_is_refused_before_anything_is_sent,
    a_bounded_stream_retains_the_newest,
];

async fn nothing_is_created_without_declare() {
    let fixture = Fixture::new().await;
    let strict = fixture.builder().declare(false).connect().await.unwrap();
    let error = strict.subscribe(subscription("billing", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("XGROUP CREATE"), "{error}");
    assert!(strict.topics().await.unwrap().is_empty());
    close(subscribe(&fixture.open().await, "billing", 1).await).await;
    strict.subscribe(subscription("billing", 1)).await.unwrap();
    fixture.remove().await;
}

async fn a_key_of_another_kind_is_refused_by_name() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    fixture.command::<()>(cmd("SET").arg(fixture.key("orders")).arg("text")).await;
    let error = transport.subscribe(subscription("billing", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let text = error.to_string();
    assert!(text.contains("orders") && text.contains("is a string"), "{text}");
    let error = transport.publish(vec![outgoing(message("x"))], SystemClock.now()).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Conflict);
    fixture.remove().await;
}

async fn a_group_receives_what_is_published_while_it_is_away() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    close(subscribe(&transport, "billing", 1).await).await;
    publish(&transport, &["one"]).await;
    let mut consumer = subscribe(&transport, "billing", 1).await;
    assert_eq!(body(&next(&mut *consumer).await), "one");
    fixture.remove().await;
}

async fn a_group_that_was_removed_is_created_again() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 1).await;
    fixture
        .command::<()>(cmd("DEL").arg(fixture.key("orders")).arg(fixture.key("~billing/orders")))
        .await;
    publish(&transport, &["one"]).await;
    assert_eq!(body(&next(&mut *consumer).await), "one");
    fixture.remove().await;
}

async fn topics_are_listed() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    for name in ["orders", "invoices", "a:b"] {
        let mut message = message("x");
        message.topic = Topic::new(name).unwrap();
        transport.publish(vec![outgoing(message)], SystemClock.now()).await.unwrap();
    }
    close(subscribe(&transport, "billing", 1).await).await;
    let topics = transport.topics().await.unwrap();
    assert_eq!(topics.iter().map(Topic::as_str).collect::<Vec<_>>(), ["a:b", "invoices", "orders"]);
    fixture.remove().await;
}

async fn a_body_over_the_limit_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new().await;
    let transport = fixture.builder().payload_max(10).connect().await.unwrap();
    assert_eq!(transport.capabilities().payload_max, Some(10));
    let batch = vec![outgoing(message("x")), outgoing(message("eleven long"))];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("11 bytes") && text.contains("10"), "{text}");
    assert_eq!(fixture.length("orders").await, 0);
    publish(&transport, &["ten longer"]).await;
    fixture.remove().await;
}

async fn a_bounded_stream_retains_the_newest() {
    let fixture = Fixture::new().await;
    let retention = punctual_redis::Retention::Newest(100);
    let transport = fixture.builder().retention(retention).connect().await.unwrap();
    publish(&transport, &["x"; 1_000]).await;
    let length = fixture.length("orders").await;
    assert!((100..300).contains(&length), "{length}");
    fixture.remove().await;
}
