//! Delays that the storage provides for transports: one storage for all of them, each message at its own time,
//! also after the end of a process.

use std::sync::Arc;

use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::MessageState;
use punctual::{Builder, Context, Inspect, Outcome, Punctual};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, run_until_idle, seconds, world};
use crate::test_handlers::{logging, stop_within};

fn logging_text(
    log: &Log,
) -> impl Fn(String, Context) -> std::future::Ready<()> + Send + Sync + 'static {
    logging::<String>(log, |text, context| {
        format!("{text} {}", context.started_at().strftime("%M:%S"))
    })
}

async fn pending(bench: &Bench) -> usize {
    let filter = MessageFilter { states: vec![MessageState::Pending], ..MessageFilter::default() };
    bench.storage.messages(filter, PageRequest::first(999)).await.unwrap().rows.len()
}

// spec: D-5, D-7, D-14, D-30
#[tokio::test]
async fn one_storage_delays_for_every_transport() {
    let (world, log) = (world(), Log::default());
    let brokers = [Broker::new(&world.0, PLAIN), Broker::new(&world.0, PLAIN)];
    let bench = Bench::start_in(world, |builder| {
        builder
            .transport("post", brokers[0].clone())
            .transport("courier", brokers[1].clone())
            .handler("mail", logging_text(&log))
            .subscribe("post", "mail", "office")
            .subscribe("courier", "mail", "office")
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "by post").after(seconds(60)).via("post").await.unwrap();
    publisher.publish("mail", "by courier").after(seconds(30)).via("courier").await.unwrap();
    assert_eq!(pending(&bench).await, 2);
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["by courier 00:30", "by post 01:00"]);
    assert_eq!(
        brokers.map(|broker| broker.settlements()),
        [["ack"], ["ack"]],
        "each by its own transport"
    );
    assert_eq!(bench.punctual.events().count("message.relayed"), 2);
}

// spec: D-6
#[tokio::test]
async fn without_any_configuration_a_storage_in_memory_delays() {
    let ((clock, _), log) = (world(), Log::default());
    let broker = Broker::new(&clock, PLAIN);
    let punctual = Punctual::builder()
        .clock(clock.clone())
        .transport("post", broker.clone())
        .handler("mail", logging_text(&log))
        .subscribe("post", "mail", "office")
        .build()
        .unwrap();
    punctual.start().await.unwrap();
    punctual.publisher().publish("mail", "x").after(seconds(60)).via("post").await.unwrap();
    for second in 1..=60 {
        assert_eq!((log.len(), broker.waiting()), (0, 0), "before second {second}");
        clock.advance(seconds(1));
        run_until_idle().await;
    }
    assert_eq!(log.lines(), ["x 01:00"]);
}

// A shared timer would keep the last delay only.
// spec: D-12
#[tokio::test]
async fn each_of_many_delays_is_kept() {
    let (world, log) = (world(), Log::default());
    let broker = Broker::new(&world.0, PLAIN);
    let bench = Bench::start_in(world, |builder| {
        builder
            .transport("post", broker)
            .handler("mail", logging_text(&log))
            .subscribe("post", "mail", "office")
    })
    .await;
    for wait in [50, 10, 40, 20, 30] {
        let publish = bench.punctual.publisher().publish("mail", &format!("after {wait}"));
        publish.after(seconds(wait)).via("post").await.unwrap();
    }
    bench.advance(seconds(60)).await;
    let expected = [10, 20, 30, 40, 50].map(|wait| format!("after {wait} 00:{wait}"));
    assert_eq!(log.lines(), expected);
}

// Without any configuration, and with many deferred at the same moment, each comes back once.
// spec: D-16, D-17, D-19, D-24
#[tokio::test]
async fn concurrently_deferred_deliveries_return_once_each() {
    let (world, log) = (world(), Log::default());
    let (broker, seen) = (Broker::new(&world.0, PLAIN), log.clone());
    let bench = Bench::start_in(world, |builder| {
        let handler = move |number: u32, context: Context| {
            seen.push(format!("{number:02} {}", context.attempt()));
            let first = context.attempt() == 1;
            std::future::ready(if first { Outcome::RetryAfter(seconds(60)) } else { Outcome::Done })
        };
        builder
            .transport("post", broker.clone())
            .handler("mail", handler)
            .subscribe("post", "mail", "office")
    })
    .await;
    for number in 0..50_u32 {
        bench.punctual.publisher().publish("mail", &number).via("post").await.unwrap();
    }
    bench.run_until_idle().await;
    bench.run_until_idle().await;
    assert_eq!((log.len(), pending(&bench).await), (50, 50), "in the storage, every one of them");
    bench.advance(seconds(61)).await;
    let mut lines = log.lines();
    lines.sort();
    let expected: Vec<String> =
        (0..50).flat_map(|number| [1, 2].map(|attempt| format!("{number:02} {attempt}"))).collect();
    assert_eq!(lines, expected);
    assert_eq!((broker.waiting(), broker.unsettled(), broker.settlements().len()), (0, 0, 100));
}

// Trap 12: the storage keeps it across the end of a process.
#[tokio::test]
async fn a_process_that_ends_leaves_its_delayed_messages_to_the_next() {
    let (world, log) = (world(), Log::default());
    let broker = Broker::new(&world.0, PLAIN);
    let receiving = |builder: Builder| {
        builder
            .transport("post", broker.clone())
            .handler("mail", logging_text(&log))
            .subscribe("post", "mail", "office")
    };
    let first = Bench::start_in(world.clone(), receiving).await;
    first.punctual.publisher().publish("mail", "x").after(seconds(60)).via("post").await.unwrap();
    let stopped = stop_within(&first, seconds(60)).await;
    assert!(stopped.is_clean());
    first.advance(seconds(600)).await;
    assert_eq!((log.len(), broker.waiting()), (0, 0), "no process runs");
    let clock: Arc<_> = world.0.clone();
    let next = Bench::start_in(world, receiving).await;
    next.advance(seconds(1)).await;
    assert_eq!(log.len(), 1, "at {}", clock.now());
}
