//! What is on the broker: declared, checked, listed, never changed.

use std::time::Duration;

use async_nats::jetstream::{consumer, stream};
use punctual::ErrorKind;
use punctual::model::Topic;
use punctual::transport::{Subscription, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::letters::{message, sent, subscribe, subscription};

use crate::place::{Place, now};

cases![
    nothing_is_declared_when_that_is_switched_off,
    a_stream_with_other_settings_is_named_with_what_differs,
    a_consumer_with_other_settings_is_named_with_what_differs,
    a_subject_that_belongs_to_another_stream_is_a_conflict,
    topics_are_listed_by_their_names,
    streams_in_memory_are_said_not_to_be_durable,
];

async fn nothing_is_declared_when_that_is_switched_off() {
    let place = Place::new();
    let careful = place.builder().declare(false).connect().await.unwrap();
    let error = careful.subscribe(subscription("mail", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(&format!("{}_orders", place.prefix)), "{error}");
    let error = careful.publish(vec![sent(message("x"))], now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let open = place.open().await;
    drop(subscribe(&open, "mail", 1).await);
    drop(careful.subscribe(subscription("mail", 1)).await.unwrap());
    let error = careful.subscribe(subscription("bill", 1)).await.err().unwrap();
    assert!(error.to_string().contains("\"bill\""), "{error}");
    place.remove().await;
}

async fn a_stream_with_other_settings_is_named_with_what_differs() {
    let place = Place::new();
    let config = stream::Config {
        name: format!("{}_orders", place.prefix),
        subjects: vec![format!("{}.orders", place.prefix)],
        storage: stream::StorageType::Memory,
        ..stream::Config::default()
    };
    place.jetstream().await.create_stream(config).await.unwrap();
    let transport = place.open().await;
    let error = transport.subscribe(subscription("mail", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let said = error.to_string();
    assert!(said.contains("retention is Limits and should be Interest"), "{said}");
    assert!(said.contains("storage is Memory and should be File"), "{said}");
    place.remove().await;
}

async fn a_consumer_with_other_settings_is_named_with_what_differs() {
    let place = Place::new();
    let transport = place.open().await;
    drop(subscribe(&transport, "mail", 1).await);
    let stream = format!("{}_orders", place.prefix);
    let jetstream = place.jetstream().await;
    let config = consumer::pull::Config {
        durable_name: Some("bill".to_owned()),
        ack_wait: Duration::from_secs(7),
        max_ack_pending: 5,
        ..consumer::pull::Config::default()
    };
    jetstream.create_consumer_on_stream(config, stream).await.unwrap();
    let error = transport.subscribe(subscription("bill", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let said = error.to_string();
    assert!(said.contains("ack_wait is 7s and should be 30s"), "{said}");
    assert!(said.contains("max_ack_pending is 5 and should be -1"), "{said}");
    place.remove().await;
}

async fn a_subject_that_belongs_to_another_stream_is_a_conflict() {
    let place = Place::new();
    let config = stream::Config {
        name: format!("{}_everything", place.prefix),
        subjects: vec![format!("{}.>", place.prefix)],
        ..stream::Config::default()
    };
    place.jetstream().await.create_stream(config).await.unwrap();
    let error = place.open().await.subscribe(subscription("mail", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    place.remove().await;
}

async fn topics_are_listed_by_their_names() {
    let place = Place::new();
    let transport = place.open().await;
    for topic in ["orders", "a b.c*", "żółw"] {
        let subscription =
            Subscription { topic: Topic::new(topic).unwrap(), ..subscription("mail", 1) };
        drop(transport.subscribe(subscription).await.unwrap());
    }
    let topics = transport.topics().await.unwrap();
    let names: Vec<&str> = topics.iter().map(Topic::as_str).collect();
    assert_eq!(names, ["a b.c*", "orders", "żółw"]);
    place.remove().await;
}

async fn streams_in_memory_are_said_not_to_be_durable() {
    let place = Place::new();
    let transport = place.builder().in_memory().connect().await.unwrap();
    assert!(!transport.capabilities().durable);
    drop(subscribe(&transport, "mail", 1).await);
    place.remove().await;
}
