//! Topology: which queues are created, which are refused, and which groups publishers know.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    ack, body, close, message, next, outgoing, publish, subscribe, subscription, topic,
};
use punctual_conformance::cases;

use crate::fixture::Fixture;
use crate::raw;

cases! {
    a_group_has_three_queues_with_the_longest_retention,
    a_queue_with_other_settings_is_refused_and_what_differs_is_named,
    nothing_is_created_without_declare,
    a_topic_without_groups_is_kept_for_the_default_group,
    a_new_group_gets_what_is_published_from_then_on,
    topics_are_listed_by_their_queues,
}

async fn a_group_has_three_queues_with_the_longest_retention() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    close(subscribe(&transport, "office", 1).await).await;
    let names = ["orders-office", "orders-office-dead", "orders-office-invalid"];
    assert_eq!(fixture.queues().await, names);
    for name in names {
        let retention = fixture.setting(name, QueueAttributeName::MessageRetentionPeriod).await;
        assert_eq!(retention.as_deref(), Some("1209600"));
    }
    // A dead letter has more headers than its message, and must fit nevertheless.
    for (name, most) in names.into_iter().zip(["258048", "262144", "262144"]) {
        let size = fixture.setting(name, QueueAttributeName::MaximumMessageSize).await;
        assert_eq!(size.as_deref(), Some(most), "{name}");
    }
    // Once more, with existing queues.
    close(subscribe(&transport, "office", 1).await).await;
    assert_eq!(fixture.queues().await, names);
    fixture.remove().await;
}

async fn a_queue_with_other_settings_is_refused_and_what_differs_is_named() {
    let fixture = Fixture::new();
    let transport = fixture.builder().retention(Duration::from_hours(1)).connect().await.unwrap();
    let name = fixture.name("orders-office");
    let create = fixture.client.create_queue().queue_name(&name);
    let create = create.attributes(QueueAttributeName::MessageRetentionPeriod, "60");
    create.attributes(QueueAttributeName::MaximumMessageSize, "1024").send().await.unwrap();
    let refused = transport.subscribe(subscription("office", 1)).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    for word in [&*name, "MessageRetentionPeriod", "60", "3600", "MaximumMessageSize", "1024"] {
        assert!(refused.to_string().contains(word), "{word} in {refused}");
    }
    fixture.remove().await;
}

async fn nothing_is_created_without_declare() {
    let fixture = Fixture::new();
    let transport = fixture.builder().declare(false).connect().await.unwrap();
    let refused = transport.subscribe(subscription("office", 1)).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    assert!(refused.to_string().contains(&fixture.name("orders-office")), "{refused}");
    let batch = vec![outgoing(message("hello"))];
    let refused = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "success is not claimed: {refused}");
    assert!(fixture.queues().await.is_empty());
    close(subscribe(&fixture.open().await, "office", 1).await).await;
    let mut consumer = subscribe(&transport, "office", 1).await;
    publish(&transport, &["hello"]).await;
    ack(next(&mut *consumer).await).await;
    fixture.remove().await;
}

async fn a_topic_without_groups_is_kept_for_the_default_group() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    publish(&transport, &["hello"]).await;
    let mut consumer = subscribe(&transport, "default", 1).await;
    let delivery = next(&mut *consumer).await;
    assert_eq!(body(&delivery), "hello");
    ack(delivery).await;
    fixture.remove().await;
}

async fn a_new_group_gets_what_is_published_from_then_on() {
    let fixture = Fixture::new();
    let (publisher, subscriber) = (fixture.open().await, fixture.open().await);
    let mut office = subscribe(&subscriber, "office", 1).await;
    publish(&publisher, &["one"]).await;
    // The publisher has just read that there is one group.
    let mut archive = subscribe(&subscriber, "archive", 1).await;
    publish(&publisher, &["two"]).await;
    let delivery = next(&mut *archive).await;
    assert_eq!(body(&delivery), "two");
    ack(delivery).await;
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let delivery = next(&mut *office).await;
        bodies.push(body(&delivery));
        ack(delivery).await;
    }
    bodies.sort();
    assert_eq!(bodies, ["one", "two"]);
    fixture.remove().await;
}

async fn topics_are_listed_by_their_queues() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    for group in ["office", "archive"] {
        close(subscribe(&transport, group, 1).await).await;
    }
    let foreign = fixture.name("no_topic");
    fixture.client.create_queue().queue_name(foreign).send().await.unwrap();
    assert_eq!(transport.topics().await.unwrap(), [topic()]);
    assert_eq!(raw::queues(&fixture.client, &fixture.name("")).await.len(), 7);
    fixture.remove().await;
}
