//! Relay: the trouble of one topic does not affect others, and a message that a transport never accepts is given
//! up.

use std::sync::Arc;

use punctual::backend::transport::Capabilities;
use punctual::model::{DeadReason, MessageState};
use punctual::{Builder, Event};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::logging;

async fn post(
    capabilities: Capabilities,
    log: &Log,
    build: impl FnOnce(Builder) -> Builder,
) -> (Bench, Arc<Broker>) {
    let world = world();
    let broker = Broker::new(&world.0, capabilities);
    let bench = Bench::start_in(world, |builder| {
        let handler = logging::<String>(log, |text, context| {
            format!("{text} {}", context.started_at().strftime("%H:%M:%S"))
        });
        let builder = builder.transport("post", broker.clone()).handler("mail", handler);
        build(builder.subscribe("post", "mail", "office"))
    })
    .await;
    (bench, broker)
}

// A topic whose broker neither accepts nor refuses.
#[tokio::test]
async fn a_topic_that_hangs_delays_no_other() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, &log, |builder| builder).await;
    broker.hang(Some("stuck"));
    let publisher = bench.punctual.publisher();
    let hanging = publisher.publish("stuck", "first").after(seconds(60)).via("post").await.unwrap();
    publisher.publish("mail", "second").after(seconds(60)).via("post").await.unwrap();
    publisher.publish("mail", "third").after(seconds(70)).via("post").await.unwrap();
    // It keeps hanging while more of its topic become due.
    publisher.publish("stuck", "more").after(seconds(65)).via("post").await.unwrap();
    bench.advance(seconds(89)).await;
    assert_eq!(log.lines(), ["second 07:01:00", "third 07:01:10"]);
    assert_eq!(
        bench.message(hanging.id).await.state,
        MessageState::Running,
        "it is still being sent"
    );
    bench.advance(seconds(2)).await;
    let record = bench.message(hanging.id).await;
    assert_eq!(record.state, MessageState::Pending, "hanging is a failure after a while");
    assert!(record.error.as_deref().unwrap().contains("did not confirm within 30s"));
    broker.hang(None);
    bench.advance(seconds(120)).await;
    assert_eq!(bench.message(hanging.id).await.state, MessageState::Done);
    assert_eq!(broker.waiting(), 2, "both of them, once each");
}

// The broker refuses a batch because of one of its messages.
#[tokio::test]
async fn only_the_message_that_a_transport_never_accepts_is_dead() {
    let log = Log::default();
    let (bench, _broker) = post(PLAIN, &log, |builder| builder).await;
    let mut events = bench.punctual.events().listen();
    let publisher = bench.punctual.publisher();
    let publish = |text: &str| publisher.publish("mail", text).after(seconds(60)).via("post");
    publish("before").await.unwrap();
    let large = publish(&"x".repeat(20_000)).await.unwrap();
    publish("after").await.unwrap();
    bench.advance(seconds(60)).await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["after 07:01:00", "before 07:01:00"]);
    let record = bench.message(large.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Refused)));
    assert!(record.error.as_deref().unwrap().contains("a body of 20002 bytes is too large"));
    let dead = std::iter::from_fn(|| events.try_recv().ok()).filter(
        |event| matches!(**event, Event::MessageDead { message, .. } if message == large.id),
    );
    assert_eq!(dead.count(), 1, "reported once");
    bench.advance(seconds(600)).await;
    assert_eq!(bench.message(large.id).await.state, MessageState::Dead, "and not tried for ever");
}
