//! Publishing: to every group or to one owner, directly, through the storage or automatically.

use std::sync::Arc;

use punctual::backend::transport::{Capabilities, Delay};
use punctual::builtin::{GROUP_DEFAULT, memory_transport};
use punctual::model::{MessageState, ProcessId};
use punctual::{Builder, Context, ErrorKind, Middleware, Sending};

use crate::broker::{Broker, PLAIN};
use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::logging;

const GROUPS: [&str; 3] = ["archive", GROUP_DEFAULT, "office"];

/// Starts a process with a broker that has three groups, and a handler in each of them.
async fn post(
    capabilities: Capabilities,
    log: &Log,
    build: impl FnOnce(Builder) -> Builder,
) -> (Bench, Arc<Broker>) {
    let world = world();
    let broker = Broker::with_groups(&world.0, capabilities, GROUPS.map(str::to_owned).to_vec());
    let bench = Bench::start_in(world, |builder| {
        let builder = builder.transport("post", broker.clone()).handler("mail", logging_text(log));
        let subscribe = |builder: Builder, group| builder.subscribe("post", "mail", group);
        build(GROUPS.into_iter().fold(builder, subscribe))
    })
    .await;
    (bench, broker)
}

fn logging_text(
    log: &Log,
) -> impl punctual::IntoHandler<
    (String, Context),
    (punctual::handler::inference::ViaPayload, punctual::handler::inference::ViaContext),
> {
    logging::<String>(log, |text, context| {
        format!("{text} {}", context.started_at().strftime("%H:%M:%S"))
    })
}

#[tokio::test]
async fn publish_reaches_every_group_and_send_exactly_one_owner() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, &log, |builder| builder).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "all").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["all 07:00:00"; 3]);
    publisher.send("mail", "one").via("post").await.unwrap();
    bench.run_until_idle().await;
    publisher.publish("mail", "named").group("archive").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines()[3..], ["one 07:00:00", "named 07:00:00"]);
    assert_eq!(broker.waiting(), 0);
}

// The group is not forgotten while the storage keeps the message.
// spec: D-9, D-37
#[tokio::test]
async fn what_is_sent_to_one_owner_waits_for_it_alone() {
    for sending in [Sending::Direct, Sending::Durable, Sending::Automatic] {
        let log = Log::default();
        let (bench, broker) = post(PLAIN, &log, |builder| builder.sending(sending)).await;
        let publisher = bench.punctual.publisher();
        publisher.send("mail", "later").after(seconds(60)).via("post").await.unwrap();
        bench.advance(seconds(59)).await;
        assert_eq!((log.len(), broker.waiting()), (0, 0), "{sending:?}");
        bench.advance(seconds(1)).await;
        assert_eq!(log.lines(), ["later 07:01:00"], "{sending:?}");
    }
}

#[tokio::test]
async fn through_the_storage_both_verbs_mean_its_one_handler() {
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("mail", logging_text(&log))).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "bus").await.unwrap();
    publisher.send("mail", "queue").durable().await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["bus 07:00:00", "queue 07:00:00"]);
}

#[tokio::test]
async fn send_works_over_a_storage_as_transport() {
    let (world, log) = (world(), Log::default());
    let owner = ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(1));
    let stored = Arc::new(memory_transport(world.0.clone(), owner));
    let bench = Bench::start_in(world, |builder| {
        let builder = builder.transport("post", stored).handler("mail", logging_text(&log));
        builder.subscribe("post", "mail", GROUP_DEFAULT).subscribe("post", "mail", "office")
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.send("mail", "one").via("post").await.unwrap();
    publisher.send("mail", "durable").via("post").durable().await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 2);
    publisher.publish("mail", "all").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 4);
}

#[tokio::test]
async fn a_transport_that_is_away_is_an_error_a_delay_or_a_fallback() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, &log, |builder| builder).await;
    broker.refuse(Some("mail"));
    let publisher = bench.punctual.publisher();
    let publish = |text| publisher.send("mail", text).via("post");
    let error = publish("direct").direct().await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let durable = publish("durable").durable().await.unwrap();
    let automatic = publish("automatic").automatic().await.unwrap();
    bench.run_until_idle().await;
    let events = bench.punctual.events();
    assert_eq!((log.len(), events.count("message.fallback_stored")), (0, 1));
    assert_eq!(bench.message(durable.id).await.state, MessageState::Pending);
    assert_eq!(bench.message(automatic.id).await.state, MessageState::Pending);
    broker.refuse(None);
    bench.advance(seconds(60)).await;
    let mut lines: Vec<String> = log.lines();
    lines.sort();
    assert_eq!(lines.len(), 2, "what was refused directly is gone: {lines:?}");
    assert!(lines[0].starts_with("automatic") && lines[1].starts_with("durable"));
}

// An error that would come again is no reason to keep the message.
#[tokio::test]
async fn a_message_that_can_never_be_sent_is_refused_in_every_mode() {
    let log = Log::default();
    let capabilities = Capabilities { payload_max: Some(20), ..PLAIN };
    let (bench, broker) = post(capabilities, &log, |builder| builder).await;
    let publisher = bench.punctual.publisher();
    for sending in [Sending::Direct, Sending::Durable, Sending::Automatic] {
        let large = publisher.publish("mail", &"x".repeat(50)).via("post").sending(sending);
        let error = large.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.contains("52 bytes") && text.contains("20 at most"), "{text}");
    }
    assert_eq!(broker.batches(), [0_usize; 0]);
}

#[tokio::test]
async fn without_a_storage_durable_is_refused_and_automatic_is_direct() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, &log, Builder::without_storage).await;
    let publisher = bench.punctual.publisher();
    let error = publisher.publish("mail", "x").via("post").durable().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("give the builder a storage"), "{error}");
    broker.refuse(Some("mail"));
    let error = publisher.publish("mail", "x").via("post").automatic().await.unwrap_err();
    assert!(error.is_temporary());
}

// spec: D-13
#[tokio::test]
async fn direct_and_automatic_do_not_use_the_storage_when_the_transport_accepts_them() {
    let (world, log) = (world(), Log::default());
    let broker = Broker::with_groups(&world.0, PLAIN, vec![GROUP_DEFAULT.to_owned()]);
    let faulty = FaultyStorage::over(&world.1);
    let bench = Bench::start_in(world, |builder| {
        let builder = builder.storage(faulty.clone()).transport("post", broker.clone());
        builder.handler("mail", logging_text(&log)).via_default("post")
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "direct").await.unwrap();
    publisher.send("mail", "automatic").automatic().await.unwrap();
    let batch = (0..5).map(|_| publisher.publish("mail", "batch")).collect();
    assert_eq!(publisher.publish_all(batch).await.unwrap().len(), 5);
    assert_eq!(faulty.calls("enqueue"), 0);
    assert_eq!(broker.batches(), [1, 1, 5], "many messages are one batch");
}

#[tokio::test]
async fn many_messages_leave_in_one_step_for_the_storage_and_one_batch_for_each_transport() {
    let (world, log) = (world(), Log::default());
    let (first, second) = (Broker::new(&world.0, PLAIN), Broker::new(&world.0, PLAIN));
    let faulty = FaultyStorage::over(&world.1);
    let bench = Bench::start_in(world, |builder| {
        let builder = builder.storage(faulty.clone()).handler("mail", logging_text(&log));
        builder.transport("first", first.clone()).transport("second", second.clone())
    })
    .await;
    let publisher = bench.punctual.publisher();
    let batch = vec![
        publisher.publish("mail", "a").via("first"),
        publisher.publish("mail", "b").via("second"),
        publisher.publish("mail", "c"),
        publisher.publish("mail", "d").via("first").after(seconds(60)),
        publisher.publish("mail", "e").via("first"),
        publisher.publish("mail", "f").via("second").durable(),
    ];
    let published = publisher.publish_all(batch).await.unwrap();
    assert_eq!((first.batches(), second.batches()), (vec![2], vec![1]));
    assert_eq!(faulty.calls("enqueue"), 1);
    assert_eq!(bench.punctual.events().count("message.held"), 1);
    assert_eq!(bench.message(published[3].id).await.state, MessageState::Pending);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["c 07:00:00"]);
    assert_eq!(second.batches(), [1, 1], "the relay sent the durable one");
}

#[tokio::test]
async fn a_batch_falls_back_as_a_whole_and_only_when_all_of_it_may() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, &log, |builder| builder.via_default("post")).await;
    broker.refuse(Some("mail"));
    let publisher = bench.punctual.publisher();
    let batch = |last: Sending| {
        let publish = |text| publisher.send("mail", text);
        vec![publish("a").automatic(), publish("b").sending(last)]
    };
    assert!(publisher.publish_all(batch(Sending::Direct)).await.unwrap_err().is_temporary());
    publisher.publish_all(batch(Sending::Automatic)).await.unwrap();
    broker.refuse(None);
    bench.advance(seconds(30)).await;
    assert_eq!(log.len(), 2);
}

struct Passing;

impl Middleware for Passing {}

#[tokio::test]
async fn middleware_is_called_for_each_message() {
    let log = Log::default();
    let (bench, broker) =
        post(PLAIN, &log, |builder| builder.via_default("post").middleware(Passing)).await;
    let publisher = bench.punctual.publisher();
    let batch = (0..3).map(|_| publisher.send("mail", "x")).collect();
    publisher.publish_all(batch).await.unwrap();
    assert_eq!(broker.batches(), [1, 1, 1]);
}

// Decision 3.24.
// spec: D-21
#[tokio::test]
async fn the_storage_can_be_preferred_for_the_delays_of_a_transport() {
    let capabilities = Capabilities { publish_delay: Delay::Any, ..PLAIN };
    for (preferred, on_the_broker) in [(false, 3), (true, 0)] {
        let log = Log::default();
        let (bench, broker) = post(capabilities, &log, |builder| {
            if preferred { builder.prefer_storage("post") } else { builder }
        })
        .await;
        let publisher = bench.punctual.publisher();
        publisher.publish("mail", "later").after(seconds(60)).via("post").await.unwrap();
        assert_eq!(broker.waiting(), on_the_broker);
        bench.advance(seconds(60)).await;
        assert_eq!(log.lines(), ["later 07:01:00"; 3]);
    }
}

#[tokio::test]
async fn headers_and_groups_that_no_broker_could_carry_are_refused_by_name() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, &log, |builder| builder.via_default("post")).await;
    let publisher = bench.punctual.publisher();
    for (publish, words) in [
        (publisher.publish("mail", "x").header("note", "two\r\nlines"), "\"note\""),
        (publisher.publish("mail", "x").header("a\0b", "x"), "\"a\\0b\""),
        (publisher.publish("mail", "x").header("punctual-id", "7"), "\"punctual-id\""),
        (publisher.publish("mail", "x").group(""), "group"),
        (publisher.publish("mail", "x").group("a/b"), "\"a/b\""),
    ] {
        let error = publish.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(broker.batches(), [0_usize; 0]);
}
