//! The queues: which are made, which are refused, and who is told of them.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::letters::{
    ack, body, close, message, next, publish, sent, subscribe, subscription, topic,
};

use crate::place::Place;
use crate::raw;

cases! {
    a_group_has_three_queues_that_keep_as_long_as_can_be,
    a_queue_with_other_settings_is_refused_and_what_differs_is_named,
    nothing_is_made_where_that_is_not_wanted,
    what_nobody_has_subscribed_to_is_kept_for_the_default_group,
    a_new_group_gets_what_is_published_from_then_on,
    topics_are_told_by_their_queues,
}

async fn a_group_has_three_queues_that_keep_as_long_as_can_be() {
    let place = Place::new();
    let transport = place.open().await;
    close(subscribe(&transport, "office", 1).await).await;
    let names = ["orders-office", "orders-office-dead", "orders-office-invalid"];
    assert_eq!(place.queues().await, names);
    for name in names {
        let kept = place.setting(name, QueueAttributeName::MessageRetentionPeriod).await;
        assert_eq!(kept.as_deref(), Some("1209600"));
    }
    // A letter says more than its message, and has to fit all the same.
    for (name, most) in names.into_iter().zip(["258048", "262144", "262144"]) {
        let size = place.setting(name, QueueAttributeName::MaximumMessageSize).await;
        assert_eq!(size.as_deref(), Some(most), "{name}");
    }
    // Once more, as the queues are there.
    close(subscribe(&transport, "office", 1).await).await;
    assert_eq!(place.queues().await, names);
    place.remove().await;
}

async fn a_queue_with_other_settings_is_refused_and_what_differs_is_named() {
    let place = Place::new();
    let transport = place.builder().retention(Duration::from_hours(1)).connect().await.unwrap();
    let name = place.name("orders-office");
    let create = place.client.create_queue().queue_name(&name);
    let create = create.attributes(QueueAttributeName::MessageRetentionPeriod, "60");
    create.attributes(QueueAttributeName::MaximumMessageSize, "1024").send().await.unwrap();
    let refused = transport.subscribe(subscription("office", 1)).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    for word in [&*name, "MessageRetentionPeriod", "60", "3600", "MaximumMessageSize", "1024"] {
        assert!(refused.to_string().contains(word), "{word} in {refused}");
    }
    place.remove().await;
}

async fn nothing_is_made_where_that_is_not_wanted() {
    let place = Place::new();
    let transport = place.builder().declare(false).connect().await.unwrap();
    let refused = transport.subscribe(subscription("office", 1)).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    assert!(refused.to_string().contains(&place.name("orders-office")), "{refused}");
    let batch = vec![sent(message("hello"))];
    let refused = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "success is not claimed: {refused}");
    assert!(place.queues().await.is_empty());
    close(subscribe(&place.open().await, "office", 1).await).await;
    let mut consumer = subscribe(&transport, "office", 1).await;
    publish(&transport, &["hello"]).await;
    ack(next(&mut *consumer).await).await;
    place.remove().await;
}

async fn what_nobody_has_subscribed_to_is_kept_for_the_default_group() {
    let place = Place::new();
    let transport = place.open().await;
    publish(&transport, &["hello"]).await;
    let mut consumer = subscribe(&transport, "default", 1).await;
    let delivery = next(&mut *consumer).await;
    assert_eq!(body(&delivery), "hello");
    ack(delivery).await;
    place.remove().await;
}

async fn a_new_group_gets_what_is_published_from_then_on() {
    let place = Place::new();
    let (publisher, subscriber) = (place.open().await, place.open().await);
    let mut office = subscribe(&subscriber, "office", 1).await;
    publish(&publisher, &["one"]).await;
    // The publisher has just learned that there is one group.
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
    place.remove().await;
}

async fn topics_are_told_by_their_queues() {
    let place = Place::new();
    let transport = place.open().await;
    for group in ["office", "archive"] {
        close(subscribe(&transport, group, 1).await).await;
    }
    let stranger = place.name("no_topic");
    place.client.create_queue().queue_name(stranger).send().await.unwrap();
    assert_eq!(transport.topics().await.unwrap(), [topic()]);
    assert_eq!(raw::queues(&place.client, &place.name("")).await.len(), 7);
    place.remove().await;
}
