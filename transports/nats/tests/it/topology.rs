//! Topology on the broker: created, checked, listed, never changed.

use std::time::Duration;

use async_nats::jetstream::{consumer, stream};
use punctual::ErrorKind;
use punctual::backend::transport::{Subscription, Transport as _};
use punctual::model::Topic;
use punctual_conformance::backend_tests::messaging::{message, outgoing, subscribe, subscription};
use punctual_conformance::cases;

use crate::fixture::{Fixture, now};

cases![
    nothing_is_created_without_declare,
    a_stream_with_other_settings_is_refused_with_the_differences,
    a_consumer_with_other_settings_is_refused_with_the_differences,
    a_subject_that_belongs_to_another_stream_is_a_conflict,
    topics_are_listed_by_their_names,
    streams_in_memory_are_declared_not_durable,
];

async fn nothing_is_created_without_declare() {
    let fixture = Fixture::new();
    let careful = fixture.builder().declare(false).connect().await.unwrap();
    let error = careful.subscribe(subscription("mail", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(&format!("{}_orders", fixture.prefix)), "{error}");
    let error = careful.publish(vec![outgoing(message("x"))], now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let open = fixture.open().await;
    drop(subscribe(&open, "mail", 1).await);
    drop(careful.subscribe(subscription("mail", 1)).await.unwrap());
    let error = careful.subscribe(subscription("bill", 1)).await.err().unwrap();
    assert!(error.to_string().contains("\"bill\""), "{error}");
    fixture.remove().await;
}

async fn a_stream_with_other_settings_is_refused_with_the_differences() {
    let fixture = Fixture::new();
    let config = stream::Config {
        name: format!("{}_orders", fixture.prefix),
        subjects: vec![format!("{}.orders", fixture.prefix)],
        storage: stream::StorageType::Memory,
        ..stream::Config::default()
    };
    fixture.jetstream().await.create_stream(config).await.unwrap();
    let transport = fixture.open().await;
    let error = transport.subscribe(subscription("mail", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains("retention is Limits and should be Interest"), "{text}");
    assert!(text.contains("storage is Memory and should be File"), "{text}");
    fixture.remove().await;
}

async fn a_consumer_with_other_settings_is_refused_with_the_differences() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    drop(subscribe(&transport, "mail", 1).await);
    let stream = format!("{}_orders", fixture.prefix);
    let jetstream = fixture.jetstream().await;
    let config = consumer::pull::Config {
        durable_name: Some("bill".to_owned()),
        ack_wait: Duration::from_secs(7),
        max_ack_pending: 5,
        ..consumer::pull::Config::default()
    };
    jetstream.create_consumer_on_stream(config, stream).await.unwrap();
    let error = transport.subscribe(subscription("bill", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains("ack_wait is 7s and should be 30s"), "{text}");
    assert!(text.contains("max_ack_pending is 5 and should be -1"), "{text}");
    fixture.remove().await;
}

async fn a_subject_that_belongs_to_another_stream_is_a_conflict() {
    let fixture = Fixture::new();
    let config = stream::Config {
        name: format!("{}_everything", fixture.prefix),
        subjects: vec![format!("{}.>", fixture.prefix)],
        ..stream::Config::default()
    };
    fixture.jetstream().await.create_stream(config).await.unwrap();
    let error = fixture.open().await.subscribe(subscription("mail", 1)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    fixture.remove().await;
}

async fn topics_are_listed_by_their_names() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    for topic in ["orders", "a b.c*", "żółw"] {
        let subscription =
            Subscription { topic: Topic::new(topic).unwrap(), ..subscription("mail", 1) };
        drop(transport.subscribe(subscription).await.unwrap());
    }
    let topics = transport.topics().await.unwrap();
    let names: Vec<&str> = topics.iter().map(Topic::as_str).collect();
    assert_eq!(names, ["a b.c*", "orders", "żółw"]);
    fixture.remove().await;
}

async fn streams_in_memory_are_declared_not_durable() {
    let fixture = Fixture::new();
    let transport = fixture.builder().in_memory().connect().await.unwrap();
    assert!(!transport.capabilities().durable);
    drop(subscribe(&transport, "mail", 1).await);
    fixture.remove().await;
}
