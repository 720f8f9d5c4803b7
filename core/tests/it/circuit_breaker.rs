//! Circuit breaker of a subscription: a handler that keeps failing is suspended for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual::policy::{Breaker, Circuit};
use punctual::{Builder, Context, Outcome, Retry, Subscribe, SubscriptionName};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, logging, retrying};

const RETRY: fn() -> Retry = || Retry::intervals([seconds(1)]).attempts(1_000);

fn mail() -> Subscribe {
    Subscribe::new("post", "mail", "office").breaker(Breaker::after(3).wait(seconds(30)))
}

/// Starts a process whose handler of "mail" fails while the test says so.
async fn post(
    build: impl FnOnce(Builder) -> Builder,
) -> (Bench, Arc<Broker>, Log, Arc<AtomicBool>) {
    let (world, log, works) = (world(), Log::default(), Arc::new(AtomicBool::new(false)));
    let broker = Broker::new(&world.0, PLAIN);
    let (recorded, can) = (log.clone(), works.clone());
    let bench = Bench::start_in(world, |builder| {
        let handler = move |text: String, context: Context| {
            recorded.push(format!("{text} {}", context.started_at().strftime("%M:%S")));
            std::future::ready(if can.load(Ordering::Relaxed) { Ok(()) } else { Err("down") })
        };
        let builder = builder.transport("post", broker.clone());
        build(builder.handler_with("mail", retrying(RETRY()), handler))
    })
    .await;
    (bench, broker, log, works)
}

fn circuit(bench: &Bench) -> Circuit {
    bench.punctual.subscriptions().list()[0].circuit
}

async fn send(bench: &Bench, topic: &str, text: &str) {
    bench.punctual.publisher().publish(topic, text).via("post").await.unwrap();
    bench.run_until_idle().await;
}

#[tokio::test]
async fn a_handler_that_keeps_failing_is_suspended_and_probed() {
    let other = Log::default();
    let (bench, broker, log, works) = post(|builder| {
        builder
            .handler("news", logging::<String>(&other, |text, _| text.clone()))
            .subscribe("post", "news", "office")
            .subscription(mail().concurrency(1))
    })
    .await;
    send(&bench, "mail", "a").await;
    bench.advance(seconds(10)).await;
    assert_eq!(log.lines(), ["a 00:00", "a 00:01", "a 00:02"], "three in a row and no more");
    assert_eq!(circuit(&bench).as_str(), "open");
    send(&bench, "mail", "b").await;
    send(&bench, "news", "others flow").await;
    assert_eq!(other.len(), 1);
    assert_eq!(broker.unsettled(), 0, "nothing is received");
    assert_eq!(broker.waiting(), 2, "nothing is lost");
    // The probe fails at 30 s, and the next one comes twice as late.
    bench.advance(seconds(70)).await;
    assert_eq!(log.len(), 4, "{:?}", log.lines());
    works.store(true, Ordering::Relaxed);
    bench.advance(seconds(30)).await;
    assert_eq!(circuit(&bench), Circuit::default());
    assert_eq!(log.len(), 6, "both were handled: {:?}", log.lines());
    let counted = |name| bench.punctual.events().count(name);
    let recorded = ["circuit.opened", "circuit.half_opened", "circuit.closed"].map(counted);
    assert_eq!(recorded, [2, 2, 1]);
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
}

#[tokio::test]
async fn a_message_at_fault_opens_nothing() {
    let (world, log) = (world(), Log::default());
    let (broker, recorded) = (Broker::new(&world.0, PLAIN), log.clone());
    let bench = Bench::start_in(world, |builder| {
        let handler = move |text: String, _: Context| {
            recorded.push(text);
            std::future::ready(Outcome::Discard("not ours".to_owned()))
        };
        builder.transport("post", broker.clone()).handler("mail", handler).subscription(mail())
    })
    .await;
    for text in ["a", "b", "c", "d", "e"] {
        send(&bench, "mail", text).await;
    }
    bench.punctual.publisher().publish("mail", &[1, 2]).via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 5);
    assert_eq!(circuit(&bench), Circuit::default());
}

// Headless: a half-open circuit whose probe never came back.
#[tokio::test]
async fn a_probe_that_never_returns_does_not_hold_the_circuit() {
    let (world, log) = (world(), Log::default());
    let (broker, recorded, gate) = (Broker::new(&world.0, PLAIN), log.clone(), Gate::shut());
    let bench = Bench::start_in(world, |builder| {
        let handler = move |text: String, _: Context| {
            let (recorded, gate) = (recorded.clone(), gate.clone());
            async move {
                recorded.push(text.clone());
                match recorded.len() {
                    ..=3 => Err("down"),
                    4 => {
                        gate.pass().await;
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        };
        builder
            .transport("post", broker.clone())
            .handler_with("mail", retrying(RETRY()), handler)
            .subscription(mail().concurrency(2))
    })
    .await;
    for text in ["a", "b", "c"] {
        send(&bench, "mail", text).await;
    }
    assert_eq!(circuit(&bench).as_str(), "open");
    bench.advance(seconds(31)).await;
    assert_eq!((log.len(), circuit(&bench).as_str()), (4, "half open"));
    bench.advance(seconds(30)).await;
    assert_eq!(circuit(&bench), Circuit::default(), "another one was let through");
    assert_eq!(log.len(), 6);
}

// Headless: consumers that began after the circuit had opened ignored it.
#[tokio::test]
async fn a_subscription_that_begins_while_its_circuit_is_open_waits() {
    let (bench, _broker, log, works) = post(|builder| builder.subscription(mail())).await;
    send(&bench, "mail", "a").await;
    bench.advance(seconds(5)).await;
    assert_eq!(circuit(&bench).as_str(), "open");
    let name = SubscriptionName::new("post", "mail", "office").unwrap();
    let subscriptions = bench.punctual.subscriptions();
    subscriptions.remove(&name).unwrap();
    assert_eq!(subscriptions.list(), []);
    works.store(true, Ordering::Relaxed);
    subscriptions.add(mail()).await.unwrap();
    bench.advance(seconds(20)).await;
    assert_eq!((log.len(), circuit(&bench).as_str()), (3, "open"));
    bench.advance(seconds(10)).await;
    assert_eq!(log.len(), 4);
    assert_eq!(circuit(&bench), Circuit::default());
}

#[tokio::test]
async fn a_paused_subscription_is_not_probed() {
    let (bench, broker, log, _works) = post(|builder| builder.subscription(mail())).await;
    send(&bench, "mail", "a").await;
    bench.advance(seconds(5)).await;
    let name = SubscriptionName::new("post", "mail", "office").unwrap();
    bench.punctual.subscriptions().pause(&name).unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!((log.len(), broker.waiting()), (3, 1));
    bench.punctual.subscriptions().resume(&name).unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 4, "the wait was over long ago");
}
