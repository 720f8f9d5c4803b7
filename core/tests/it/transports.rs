//! Transports: messages leave through them, wait in the storage where the transport cannot delay, and arrive at
//! handlers.

use std::sync::Arc;

use punctual::backend::transport::{Capabilities, Delay};
use punctual::builtin::memory_transport;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Ending, MessageState, ProcessId, Queue, TransportName};
use punctual::{Builder, Context, ErrorKind, Inspect, MemoryStorage};

use crate::broker::{Broker, PLAIN, post};
use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::{history, logging, never_returning, stop_within};

fn receiving(log: &Log) -> impl FnOnce(Builder) -> Builder + use<'_> {
    |builder| {
        let line = |text: &String, context: &Context| {
            let tenant = context.headers().get("tenant").unwrap_or("none");
            format!("{text} for {tenant} at {}", context.started_at())
        };
        builder.handler("mail", logging::<String>(log, line)).subscribe("post", "mail", "office")
    }
}

async fn held(storage: &MemoryStorage) -> usize {
    let filter = MessageFilter {
        states: vec![MessageState::Pending, MessageState::Running],
        queue: Some(Queue::of_relay(&TransportName::new("post").unwrap())),
        ..MessageFilter::default()
    };
    storage.messages(filter, PageRequest::first(99)).await.unwrap().rows.len()
}

// spec: D-8, D-13, D-15, D-36
#[tokio::test]
async fn without_a_delay_a_message_is_sent_immediately_without_the_storage() {
    let (world, log) = (world(), Log::default());
    let (broker, faulty) = (Broker::new(&world.0, PLAIN), FaultyStorage::over(&world.1));
    let bench = Bench::start_in(world, |builder| {
        receiving(&log)(builder.storage(faulty.clone()).transport("post", broker.clone()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("mail", "now").via("post").await.unwrap();
    publisher.publish("mail", "zero").after(seconds(0)).via("post").await.unwrap();
    let past = instant("2026-01-01T00:00:00Z");
    publisher.publish("mail", "past").at(past).allow_past().via("post").await.unwrap();
    assert_eq!(faulty.calls("enqueue"), 0);
    bench.run_until_idle().await;
    assert_eq!(log.len(), 3);
    assert_eq!(log.lines()[0], "now for none at 2026-03-02T07:00:00Z");
    assert_eq!(broker.settlements(), ["ack", "ack", "ack"]);
    let history = history(&bench.storage, sent.id).await;
    assert_eq!((history.len(), history[0].ending), (1, Ending::Succeeded));
}

// spec: D-2, D-3, D-9, D-25, D-37, D-39
#[tokio::test]
async fn a_delay_beyond_the_transport_waits_in_the_storage() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, receiving(&log)).await;
    let publish = bench.punctual.publisher().publish("mail", "later").header("tenant", "acme");
    let sent = publish.after(seconds(600)).via("post").await.unwrap();
    bench.advance(seconds(599)).await;
    assert_eq!(
        (broker.waiting(), held(&bench.storage).await),
        (0, 1),
        "nothing is on the broker yet"
    );
    assert_eq!(bench.punctual.events().count("message.held"), 1);
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["later for acme at 2026-03-02T07:10:00Z"]);
    assert_eq!((broker.waiting(), held(&bench.storage).await), (0, 0), "one copy");
    assert_eq!(bench.punctual.events().count("message.relayed"), 1);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 1);
    assert_eq!(history(&bench.storage, sent.id).await.len(), 1);
}

// Decision 3.24: the transport waits as far as it reaches, the storage beyond.
// spec: D-21, D-22
#[tokio::test]
async fn a_native_delay_is_used_as_far_as_it_reaches() {
    let log = Log::default();
    let capabilities = Capabilities { publish_delay: Delay::UpTo(seconds(900)), ..PLAIN };
    let (bench, broker) = post(capabilities, receiving(&log)).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "near").after(seconds(900)).via("post").await.unwrap();
    publisher.publish("mail", "far").after(seconds(901)).via("post").await.unwrap();
    assert_eq!((broker.waiting(), held(&bench.storage).await), (1, 1));
    bench.advance(seconds(901)).await;
    assert_eq!(
        log.lines(),
        ["near for none at 2026-03-02T07:15:00Z", "far for none at 2026-03-02T07:15:01Z"]
    );
}

// spec: D-4, D-25
#[tokio::test]
async fn a_storage_of_its_own_serves_as_a_transport() {
    let (world, log) = (world(), Log::default());
    let owner = ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(1));
    let stored = Arc::new(memory_transport(world.0.clone(), owner));
    let bench =
        Bench::start_in(world, |builder| receiving(&log)(builder.transport("post", stored))).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "now").via("post").await.unwrap();
    publisher
        .publish("mail", "later")
        .header("tenant", "acme")
        .after(seconds(60))
        .via("post")
        .await
        .unwrap();
    bench.advance(seconds(59)).await;
    assert_eq!(log.len(), 1);
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines()[1], "later for acme at 2026-03-02T07:01:00Z");
    assert_eq!(held(&bench.storage).await, 0, "it waited over there");
}

#[tokio::test]
async fn a_long_handler_keeps_its_lease_on_a_stored_transport() {
    let (world, log, gate) = (world(), Log::default(), crate::test_handlers::Gate::shut());
    let owner = ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(1));
    let stored = Arc::new(memory_transport(world.0.clone(), owner));
    let waiting = crate::test_handlers::waiting::<String>(&log, &gate);
    let bench = Bench::start_in(world, |builder| {
        builder
            .transport("post", stored)
            .handler("mail", waiting)
            .subscribe("post", "mail", "office")
    })
    .await;
    bench.punctual.publisher().publish("mail", "long").via("post").await.unwrap();
    bench.advance(seconds(1_000)).await;
    gate.open(2);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended"], "it was neither cancelled nor run twice");
    assert_eq!(bench.punctual.events().count("attempt.succeeded"), 1);
}

// A topic that fails delays only its own messages.
// spec: D-18
#[tokio::test]
async fn a_refused_topic_delays_no_other() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, receiving(&log)).await;
    broker.refuse(Some("broken"));
    let publisher = bench.punctual.publisher();
    let broken = publisher.publish("broken", "first").after(seconds(60)).via("post").await.unwrap();
    publisher.publish("mail", "second").after(seconds(60)).via("post").await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(log.len(), 1);
    let record = bench.message(broken.id).await;
    assert_eq!(record.state, MessageState::Pending);
    assert_eq!(record.error.as_deref(), Some("the broker refuses broken"));
    bench.advance(seconds(600)).await;
    broker.refuse(None);
    bench.advance(seconds(30)).await;
    assert_eq!(
        bench.message(broken.id).await.state,
        MessageState::Done,
        "it was tried until it worked"
    );
    assert_eq!(broker.waiting(), 1);
}

// Decision 3.20.
// spec: D-11
#[tokio::test]
async fn without_a_storage_a_delay_is_a_configuration_error() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, |builder| receiving(&log)(builder.without_storage())).await;
    let publisher = bench.punctual.publisher();
    for via in [true, false] {
        let publish = publisher.publish("mail", "later").after(seconds(60));
        let publish = if via { publish.via("post") } else { publish };
        let error = publish.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let (name, id) = &error.facts()[0];
        assert_eq!(*name, "message");
        assert!(error.to_string().contains(id.as_str()), "{error}");
        assert!(error.to_string().contains("give the builder a storage"), "{error}");
    }
    assert_eq!(broker.waiting(), 0);
    publisher.publish("mail", "now").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 1, "without a delay it works");
}

#[tokio::test]
async fn a_transport_that_was_not_configured_is_not_found() {
    let bench = Bench::start(|builder| builder).await;
    let error = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("\"post\""), "{error}");
}

#[tokio::test]
async fn a_broker_that_is_down_at_the_start_is_retried_until_it_responds() {
    let log = Log::default();
    let world = world();
    let broker = Broker::new(&world.0, PLAIN);
    broker.refuse(Some("mail"));
    let bench = Bench::start_in(world, |builder| {
        receiving(&log)(builder.transport("post", broker.clone()))
    })
    .await;
    bench.advance(seconds(60)).await;
    let failed = bench.punctual.events().count("service.failed");
    assert!((5..15).contains(&failed), "it keeps trying, ever more rarely: {failed}");
    let reasons = bench.punctual.admin().health().await.reasons;
    assert!(reasons.iter().any(|reason| reason.contains("worker of mail")), "{reasons:?}");
    assert!(!bench.punctual.subscriptions().list()[0].connected);
    broker.refuse(None);
    bench.punctual.publisher().publish("mail", "hello").via("post").await.unwrap();
    bench.advance(seconds(30)).await;
    assert_eq!(log.len(), 1);
    let status = &bench.punctual.subscriptions().list()[0];
    assert!(status.connected);
    let reasons = bench.punctual.admin().health().await.reasons;
    assert!(!reasons.iter().any(|reason| reason.contains("worker of mail")), "{reasons:?}");
}

#[tokio::test]
async fn a_permanently_refused_subscription_fails_the_start_which_can_be_repeated() {
    let (world, log) = (world(), Log::default());
    let broker = Broker::new(&world.0, PLAIN);
    broker.forbid(true);
    let builder = punctual::Punctual::builder().clock(world.0).storage(world.1);
    let process = receiving(&log)(builder.transport("post", broker.clone())).build().unwrap();
    let error = process.start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(process.events().count("process.started"), 0);
    broker.forbid(false);
    process.start().await.unwrap();
    process.publisher().publish("mail", "hello").via("post").await.unwrap();
    crate::harness::run_until_idle().await;
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn a_process_that_does_not_handle_subscribes_to_nothing() {
    let log = Log::default();
    let (bench, broker) =
        post(PLAIN, |builder| receiving(&log)(builder.options(|options| options.handling = false)))
            .await;
    bench.punctual.publisher().publish("mail", "hello").via("post").await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!((log.len(), broker.waiting()), (0, 1));
}

// spec: U-28, H-28
#[tokio::test]
async fn a_shutdown_reaches_deliveries_and_closes_when_they_are_settled() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, |builder| {
        builder.handler("mail", never_returning::<String>(&log)).subscribe("post", "mail", "office")
    })
    .await;
    bench.punctual.publisher().publish("mail", "stuck").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(broker.unsettled(), 1);
    let stopped = stop_within(&bench, seconds(41)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 0));
    assert_eq!(broker.settlements(), ["requeue 0ns", "close with 0 unsettled"]);
    assert_eq!(broker.waiting(), 1, "the broker has it again");
    assert_eq!(held(&bench.storage).await, 0);
}

// Without any transport a process still schedules, delays and handles.
// spec: H-66, H-67, H-68, U-60
#[tokio::test]
async fn no_transport_is_needed_at_all() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("mail", logging::<String>(&log, |text, _| text.clone())).job(
            punctual::Job::cron("hourly", "0 * * * *"),
            logging::<punctual::Occurrence>(&log, |_, _| "hourly".to_owned()),
        )
    })
    .await;
    bench.punctual.publisher().publish("mail", "later").after(seconds(60)).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["later", "hourly"]);
    assert_eq!(bench.punctual.events().count("service.failed"), 0);
}
