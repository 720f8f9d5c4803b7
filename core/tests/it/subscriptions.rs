//! Subscriptions while a process runs, and their validation before the start.

use std::sync::Arc;

use punctual::backend::transport::{AttemptCount, Capabilities};
use punctual::builtin::{GROUP_DEFAULT, memory_transport};
use punctual::model::ProcessId;
use punctual::policy::Breaker;
use punctual::{Builder, ErrorKind, Punctual, Subscribe, SubscriptionName, SystemClock};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, logging, stop_within, waiting};

async fn post(build: impl FnOnce(Builder) -> Builder) -> (Bench, Arc<Broker>) {
    let world = world();
    let broker = Broker::with_groups(&world.0, PLAIN, vec!["office".into(), "archive".into()]);
    let bench =
        Bench::start_in(world, |builder| build(builder.transport("post", broker.clone()))).await;
    (bench, broker)
}

fn name(group: &str) -> SubscriptionName {
    SubscriptionName::new("post", "mail", group).unwrap()
}

async fn send(bench: &Bench, text: &str) {
    bench.punctual.publisher().publish("mail", text).via("post").await.unwrap();
    bench.run_until_idle().await;
}

#[tokio::test]
async fn a_paused_subscription_receives_nothing_and_loses_nothing() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (bench, _broker) = post(|builder| {
        builder.handler("mail", waiting::<String>(&log, &gate)).subscribe("post", "mail", "office")
    })
    .await;
    let subscriptions = bench.punctual.subscriptions();
    send(&bench, "first").await;
    subscriptions.pause(&name("office")).unwrap();
    subscriptions.pause(&name("office")).unwrap();
    send(&bench, "second").await;
    gate.open(9);
    bench.advance(seconds(600)).await;
    assert_eq!(log.lines(), ["began", "ended"], "what ran came to its end, nothing else began");
    assert!(subscriptions.list()[0].paused);
    subscriptions.resume(&name("office")).unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended", "began", "ended"]);
    assert_eq!(bench.punctual.events().count("subscription.changed"), 2, "each change once");
    let error = subscriptions.pause(&name("unhandled")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_subscription_may_begin_paused() {
    let log = Log::default();
    let (bench, broker) = post(|builder| {
        builder
            .handler("mail", logging::<String>(&log, |text, _| text.clone()))
            .subscription(Subscribe::new("post", "mail", "office").paused())
    })
    .await;
    send(&bench, "x").await;
    assert_eq!((log.len(), broker.waiting()), (0, 2));
    bench.punctual.subscriptions().resume(&name("office")).unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["x"]);
}

// spec: C-11
#[tokio::test]
async fn functions_subscribe_while_the_process_runs() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (bench, broker) = post(|builder| builder).await;
    let subscriptions = bench.punctual.subscriptions();
    let office = || Subscribe::new("post", "mail", "office");
    let added = subscriptions.add(office().handler(waiting::<String>(&log, &gate))).await.unwrap();
    assert_eq!(added, name("office"), "its name follows from what it receives");
    let again = subscriptions.add(office().handler(waiting::<String>(&log, &gate))).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
    send(&bench, "x").await;
    assert_eq!(log.lines(), ["began"]);
    subscriptions.remove(&added).unwrap();
    send(&bench, "y").await;
    assert!(subscriptions.list().is_empty());
    assert_eq!(log.lines(), ["began"], "nothing new is received");
    assert_eq!(
        broker.settlements(),
        Vec::<String>::new(),
        "and it stays open for its unsettled deliveries"
    );
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended"], "the call came to its end");
    assert_eq!(broker.settlements(), ["ack", "close with 0 unsettled"]);
    assert_eq!(subscriptions.remove(&added).unwrap_err().kind(), ErrorKind::NotFound);
    // The name is free again, and what came meanwhile was not lost.
    let handler = logging::<String>(&log, |text, _| text.clone());
    subscriptions.add(office().handler(handler)).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines()[2..], ["y"]);
}

#[tokio::test]
async fn an_added_subscription_is_shut_down() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (bench, broker) = post(|builder| builder).await;
    let subscriptions = bench.punctual.subscriptions();
    let handler = waiting::<String>(&log, &gate);
    subscriptions.add(Subscribe::new("post", "mail", "office").handler(handler)).await.unwrap();
    send(&bench, "x").await;
    let stopped = stop_within(&bench, seconds(60)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 0));
    assert_eq!(broker.settlements(), ["requeue 0ns", "close with 0 unsettled"]);
    let late = Subscribe::new("post", "mail", "archive").handler(async |_: String| ());
    assert_eq!(subscriptions.add(late).await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_refused_subscription_leaves_no_name_behind() {
    let log = Log::default();
    let (bench, broker) =
        post(|builder| builder.handler("mail", logging::<String>(&log, |text, _| text.clone())))
            .await;
    let subscriptions = bench.punctual.subscriptions();
    let office = || Subscribe::new("post", "mail", "office");
    broker.forbid(true);
    assert_eq!(subscriptions.add(office()).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(subscriptions.list().is_empty());
    broker.forbid(false);
    // Out of reach is no reason to refuse.
    broker.refuse(Some("mail"));
    subscriptions.add(office()).await.unwrap();
    broker.refuse(None);
    send(&bench, "x").await;
    bench.advance(seconds(5)).await;
    assert_eq!(log.lines(), ["x"]);
}

/// Returns the error of a builder with the transports "post" (plain) and "stored".
fn refusal(build: impl FnOnce(Builder) -> Builder) -> String {
    let clock = world().0;
    let owner = ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(1));
    let stored = Arc::new(memory_transport(Arc::new(SystemClock), owner));
    let builder = Punctual::builder()
        .transport("post", Broker::new(&clock, PLAIN))
        .transport("stored", stored)
        .handler("mail", async |_: String| ());
    match build(builder).build() {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn the_topology_is_checked_as_a_whole() {
    let mail = || Subscribe::new("post", "mail", "office");
    let one = |subscribe: Subscribe| refusal(|builder| builder.subscription(subscribe));
    for (subscribe, expected) in [
        (Subscribe::new("pigeon", "mail", "office"), "the transport \"pigeon\""),
        (Subscribe::new("post", "letters", "office"), "has no handler"),
        (Subscribe::new("post", "mail", ""), "names the group \"\""),
        (Subscribe::new("post", "mail", "two\nlines"), "printable"),
        (Subscribe::new("stored", "mail", "a/b"), "holds a '/'"),
        (mail().concurrency(0), "concurrency 0"),
        (mail().prefetch(0), "prefetch 0"),
        (mail().key_concurrency(0), "key_concurrency 0"),
        (mail().prefetch(5).concurrency(10), "is never reached"),
        (mail().rate(0, seconds(1)), "allows 0 starts"),
        (mail().key_rate(1, seconds(0)), "allows 1 starts in 0ns"),
        (mail().inline_retries(1_000), "1000 inline retries"),
        (mail().at_most_once().inline_retries(1), "at most once"),
        (mail().at_most_once().deliveries_max(2), "at most once"),
        (mail().breaker(Breaker::after(0)), "opens after 0 failures"),
        (mail().handler(async |_: String, _: punctual::State<u8>| ()), "the handler of the"),
    ] {
        let subscribe_text = format!("{subscribe:?}");
        let problem = one(subscribe);
        assert!(problem.contains(expected), "{subscribe_text}: {problem:?}");
    }
    assert_eq!(one(mail().at_most_once().deliveries_max(1)), "");
    assert_eq!(one(Subscribe::queue("post", "mail")), "");
    let twice = refusal(|builder| builder.subscription(mail()).subscribe("post", "mail", "office"));
    assert!(twice.contains("two subscriptions to mail for office on post"), "{twice}");
    let groups =
        refusal(|builder| builder.subscription(mail()).subscribe("post", "mail", GROUP_DEFAULT));
    assert_eq!(groups, "");
}

// Messaging without a storage: only what cannot work is refused.
#[tokio::test]
async fn without_a_storage_an_attempt_limit_the_broker_does_not_count_is_refused() {
    let clock = world().0;
    let build = |capabilities: Capabilities, subscribe: Subscribe| {
        let broker = Broker::new(&clock, capabilities);
        let builder = Punctual::builder().transport("post", broker).without_storage();
        builder.handler("mail", async |_: String| ()).subscription(subscribe).build()
    };
    let mail = || Subscribe::new("post", "mail", "office");
    let error = build(PLAIN, mail().deliveries_max(3)).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("give the builder a storage"), "{error}");
    assert!(build(PLAIN, mail().deliveries_max(1)).is_ok());
    let counting = Capabilities { attempts: AttemptCount::Counted, ..PLAIN };
    assert!(build(counting, mail().deliveries_max(3)).is_ok());
}

#[tokio::test]
async fn a_queue_has_one_owner() {
    let (world, log) = (world(), Log::default());
    let broker = Broker::with_groups(&world.0, PLAIN, vec![GROUP_DEFAULT.to_owned()]);
    let mut benches = Vec::new();
    for _ in 0..3 {
        let handler = logging::<String>(&log, |text, _| text.clone());
        let bench = Bench::start_in(world.clone(), |builder| {
            let builder = builder.transport("post", broker.clone()).handler("mail", handler);
            builder.subscription(Subscribe::queue("post", "mail"))
        });
        benches.push(bench.await);
    }
    for text in ["a", "b", "c"] {
        send(&benches[0], text).await;
    }
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["a", "b", "c"]);
}
