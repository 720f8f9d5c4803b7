//! Context of deliveries: correlation, headers and middleware are as for stored messages; and a handler that
//! hangs or panics does not delay others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Correlation, Message, MessageState, Topic};
use punctual::{
    Builder, Context, HandlerResult, Inspect, Middleware, NextHandle, Outcome, Retry, Subscribe,
};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, advance_in_steps, failing, retrying};

async fn post(build: impl FnOnce(Builder) -> Builder) -> (Bench, Arc<Broker>) {
    let world = world();
    let broker = Broker::new(&world.0, PLAIN);
    let bench = Bench::start_in(world, |builder| {
        build(builder.transport("post", broker.clone()).subscribe("post", "mail", "office"))
    })
    .await;
    (bench, broker)
}

async fn stored(bench: &Bench, topic: &str) -> Vec<Arc<Message>> {
    let topic = Some(Topic::new(topic).unwrap());
    let filter = MessageFilter { topic, ..MessageFilter::default() };
    let page = bench.storage.messages(filter, PageRequest::first(99)).await.unwrap();
    let mut messages: Vec<_> = page.rows.into_iter().map(|record| record.message).collect();
    messages.sort_by_key(|message| message.id);
    messages
}

// spec: C-1, C-2, C-3
#[tokio::test]
async fn what_a_delivery_s_handler_publishes_carries_its_correlation() {
    let (bench, _broker) = post(|builder| {
        builder.handler("mail", |_: String, context: Context| async move {
            for _ in 0..2 {
                let publish = context.publisher().publish("child", &());
                publish.after(seconds(600)).await.unwrap();
            }
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "x").correlation("order-7").via("post").await.unwrap();
    let plain = publisher.publish("mail", "y").via("post").await.unwrap();
    bench.run_until_idle().await;
    let correlations: Vec<(String, u32)> = stored(&bench, "child")
        .await
        .iter()
        .map(|child| {
            assert!(child.correlation.causation.is_some());
            (child.correlation.id.as_deref().unwrap().to_owned(), child.correlation.sequence)
        })
        .collect();
    let own = plain.id.to_string();
    let expected = [("order-7", 1), ("order-7", 2), (own.as_str(), 1), (own.as_str(), 2)];
    assert_eq!(correlations, expected.map(|(correlation, place)| (correlation.to_owned(), place)));
}

// Brighter issue 4404: a scheduled send lost custom headers and the trace context.
// spec: D-25, C-3
#[tokio::test]
async fn correlation_and_headers_survive_requeue_and_dead_letter() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let recorded = seen.clone();
    let (bench, _broker) = post(|builder| {
        let handler = move |_: String, context: Context| {
            let trace = context.headers().get("traceparent").unwrap_or("lost").to_owned();
            recorded.lock().unwrap().push((context.correlation().to_string(), trace));
            std::future::ready(Err::<(), _>("out of order"))
        };
        let parent = |(): (), context: Context| async move {
            let publish = context.publisher().publish("mail", "x").header("traceparent", TRACE);
            publish.header("tenant", "acme").key("order-7").via("post").await.map(|_| ())
        };
        let handler_options = retrying(Retry::intervals([seconds(10), seconds(60)]));
        builder.handler("parent", parent).handler_with("mail", handler_options, handler)
    })
    .await;
    bench.punctual.publisher().publish("parent", &()).correlation("checkout").await.unwrap();
    bench.advance(seconds(120)).await;
    assert_eq!(*seen.lock().unwrap(), vec![("checkout".to_owned(), TRACE.to_owned()); 3]);
    let dead_letter = &stored(&bench, "mail").await[0];
    assert_eq!(dead_letter.headers.get("traceparent"), Some(TRACE));
    assert_eq!(dead_letter.headers.get("tenant"), Some("acme"));
    assert_eq!(dead_letter.key.as_ref().unwrap().as_str(), "order-7");
    let Correlation { id: correlation, causation, sequence } = &dead_letter.correlation;
    assert_eq!((correlation.as_deref(), *sequence), (Some("checkout"), 1));
    assert!(causation.is_some());
}

struct LoggingMiddleware(Log);

#[async_trait]
impl Middleware for LoggingMiddleware {
    async fn around_handle(&self, context: Context, next: NextHandle<'_>) -> HandlerResult {
        let attempt = context.attempt();
        let result = next.run(context).await;
        let ended = result.as_ref().map_or("failed", |_| "done");
        self.0.push(format!("attempt {attempt} {ended}"));
        result
    }
}

#[tokio::test]
async fn middleware_is_around_deliveries_as_around_stored_messages() {
    for via in [true, false] {
        let log = Log::default();
        let (bench, _broker) = post(|builder| {
            let handler_options = retrying(Retry::intervals([seconds(10)]).attempts(3));
            let handler = |_: String, context: Context| async move {
                if context.attempt() < 3 { Err("busy") } else { Ok(()) }
            };
            builder.middleware(LoggingMiddleware(log.clone())).handler_with(
                "mail",
                handler_options,
                handler,
            )
        })
        .await;
        let publish = bench.punctual.publisher().publish("mail", "x");
        if via { publish.via("post").await } else { publish.await }.unwrap();
        bench.advance(seconds(60)).await;
        assert_eq!(log.lines(), ["attempt 1 failed", "attempt 2 failed", "attempt 3 done"]);
    }
}

#[tokio::test]
async fn a_handler_that_panics_or_never_returns_delays_no_other() {
    let log = Log::default();
    let recorded = log.clone();
    let (bench, broker) = post(|builder| {
        let builder = builder.options(|options| options.timeout = Some(seconds(60)));
        let handler_options = retrying(Retry::none());
        builder.handler_with("mail", handler_options, move |text: String, _: Context| {
            let recorded = recorded.clone();
            async move {
                match text.as_str() {
                    "stuck" => std::future::pending().await,
                    "panics" => panic!("out of order"),
                    _ => recorded.push(text),
                }
            }
        })
    })
    .await;
    for text in ["stuck", "panics", "fine"] {
        bench.punctual.publisher().publish("mail", text).via("post").await.unwrap();
    }
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["fine"]);
    assert_eq!(broker.settlements(), ["reject attempts spent", "ack"]);
    bench.advance(seconds(70)).await;
    assert_eq!(broker.settlements().len(), 3, "what never returns is given up after its time");
    assert_eq!(broker.unsettled(), 0);
}

// spec: D-1, D-16
#[tokio::test]
async fn a_delay_of_a_year_is_stored_and_the_message_returns() {
    let log = Log::default();
    let recorded = log.clone();
    let (bench, broker) = post(|builder| {
        builder.handler("mail", move |text: String, context: Context| {
            recorded.push(format!("{text} {}", context.started_at().strftime("%Y-%m-%d")));
            let year = Duration::from_secs(365 * 24 * 3_600);
            let first = context.attempt() == 1;
            std::future::ready(if first { Outcome::RetryAfter(year) } else { Outcome::Done })
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Pending);
    advance_in_steps(&bench, seconds(364 * 24 * 3_600), seconds(24 * 3_600)).await;
    assert_eq!((log.len(), broker.waiting()), (1, 0));
    advance_in_steps(&bench, seconds(2 * 24 * 3_600), seconds(24 * 3_600)).await;
    bench.advance(seconds(5)).await;
    assert_eq!(log.lines(), ["x 2026-03-02", "x 2027-03-02"]);
    assert_eq!(broker.settlements(), ["ack", "ack"]);
}

#[tokio::test]
async fn deliveries_are_settled_in_the_order_they_end() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (recorded, blocking_gate) = (log.clone(), gate.clone());
    let (bench, broker) = post(|builder| {
        builder.handler("mail", move |text: String, _: Context| {
            let (recorded, blocking_gate) = (recorded.clone(), blocking_gate.clone());
            async move {
                if text == "first" {
                    blocking_gate.pass().await;
                }
                recorded.push(text.clone());
                if text == "third" { Outcome::Discard(text) } else { Outcome::Done }
            }
        })
    })
    .await;
    for text in ["first", "second", "third"] {
        bench.punctual.publisher().publish("mail", text).via("post").await.unwrap();
    }
    bench.run_until_idle().await;
    assert_eq!(broker.settlements(), ["ack", "reject discarded"]);
    assert_eq!(broker.unsettled(), 1);
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["second", "third", "first"]);
    assert_eq!(broker.settlements(), ["ack", "reject discarded", "ack"]);
}

// A shutdown that the broker would count as a delivery too many must not use the message up.
#[tokio::test]
async fn a_shutdown_spends_no_delivery_where_the_broker_counts() {
    use punctual::backend::transport::{AttemptCount, Capabilities, Delay};
    let world = world();
    let capabilities =
        Capabilities { requeue_delay: Delay::Any, attempts: AttemptCount::Counted, ..PLAIN };
    let broker = Broker::new(&world.0, capabilities);
    let log = Log::default();
    let bench = Bench::start_in(world.clone(), |builder| {
        builder
            .transport("post", broker.clone())
            .handler("mail", crate::test_handlers::never_returning::<String>(&log))
            .subscription(Subscribe::new("post", "mail", "office").deliveries_max(1))
    })
    .await;
    bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.run_until_idle().await;
    crate::test_handlers::stop_within(&bench, seconds(60)).await;
    let next = Bench::start_in(world, |builder| {
        builder
            .transport("post", broker.clone())
            .handler("mail", failing::<String>(&log))
            .subscription(Subscribe::new("post", "mail", "office").deliveries_max(1))
    })
    .await;
    next.advance(seconds(5)).await;
    assert_eq!(log.len(), 2, "it was handled again: {:?}", broker.settlements());
    assert!(log.lines()[1].starts_with("1 "), "as its first attempt: {:?}", log.lines());
}
