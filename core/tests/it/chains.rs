//! Chains: steps on success, on failure and always, with results passed on; batches and the message at their
//! end.

use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Ending, HandlerOptions, MessageState, Recording};
use punctual::{Context, ErrorKind, Inspect, Outcome, Retry};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{failing, logging, retrying};

/// A handler that returns a sum and logs the result before it.
fn adding(log: &Log) -> impl Fn(u64, Context) -> std::future::Ready<()> + Send + Sync + 'static {
    logging::<u64>(log, |number, context| {
        let before: u64 = context.parent_result().unwrap().unwrap_or(0);
        context.returns(&(before + number)).unwrap();
        format!("{} {}", context.topic(), before + number)
    })
}

// spec: U-50, C-10
#[tokio::test]
async fn each_step_of_a_chain_gets_the_result_of_the_one_before() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let builder = builder.handler("first", adding(&log)).handler("second", adding(&log));
        builder.handler("third", adding(&log))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let third = publisher.publish("third", &100).after(seconds(60));
    let second = publisher.publish("second", &10).then(third);
    let first = publisher.publish("first", &1).correlation("checkout").then(second).await.unwrap();
    bench.advance(seconds(59)).await;
    assert_eq!(log.lines(), ["first 1", "second 11"]);
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["first 1", "second 11", "third 111"]);
    let all =
        bench.storage.messages(MessageFilter::default(), PageRequest::first(9)).await.unwrap().rows;
    let last = &all[0].message;
    assert_eq!(last.correlation.id.as_deref(), Some("checkout"));
    let parent = last.relations.as_ref().unwrap().parent.as_ref().unwrap();
    assert_eq!((parent.ending, parent.message), (Ending::Succeeded, all[1].message.id));
    assert_eq!(last.correlation.causation, Some(parent.execution));
    assert_eq!(all[2].message.id, first.id);
}

// Siblings, too: TickerQ 851.
// spec: U-50
#[tokio::test]
async fn success_failure_and_always_each_follow_their_own_end() {
    let log = Log::default();
    let say = logging::<String>(&log, |name, context| {
        let parent = context.parent().unwrap();
        let note = parent.note.as_deref().unwrap_or("nothing wrong");
        format!("{name} after {}: {note}", parent.ending.as_str())
    });
    let bench = Bench::start(|builder| {
        let builder = builder.handler("say", say);
        let builder = builder.handler("works", |(): (), _: Context| std::future::ready(()));
        builder.handler_with(
            "fails",
            retrying(Retry::intervals([seconds(5)])),
            failing::<()>(&Log::default()),
        )
    })
    .await;
    let publisher = bench.punctual.publisher();
    for topic in ["works", "fails"] {
        let say = |name: &str| publisher.publish("say", name);
        let chain = publisher.publish(topic, &()).then(say("thanks")).then(say("more thanks"));
        chain.on_failure(say("sorry")).always(say("counted")).await.unwrap();
    }
    bench.run_until_idle().await;
    let mut lines = log.lines();
    lines.sort();
    let nothing = "after succeeded: nothing wrong";
    let thanked = ["counted", "more thanks", "thanks"].map(|name| format!("{name} {nothing}"));
    assert_eq!(lines, thanked, "a retry is no end");
    bench.advance(seconds(5)).await;
    let mut lines = log.lines().split_off(3);
    lines.sort();
    let failed = ["counted", "sorry"].map(|name| format!("{name} after failed: out of order"));
    assert_eq!(lines, failed);
}

#[tokio::test]
async fn a_cancelled_message_ends_its_chain() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let builder = builder.handler("say", logging::<String>(&log, |name, _| name.clone()));
        builder.handler("stop", |(): (), _: Context| std::future::ready(Outcome::Cancel))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let next = || publisher.publish("say", "never");
    publisher.publish("stop", &()).always(next()).await.unwrap();
    let later = publisher.publish("stop", &()).after(seconds(60)).always(next()).await.unwrap();
    bench.punctual.admin().cancel(later.id).await.unwrap();
    bench.advance(seconds(120)).await;
    assert_eq!(log.len(), 0);
}

// spec: C-10
#[tokio::test]
async fn a_chain_that_is_too_deep_or_too_large_is_refused_with_the_way_out() {
    let bench = Bench::start(|builder| builder).await;
    let publisher = bench.punctual.publisher();
    let publish = || publisher.publish("step", &());
    let deep = (0..6).fold(publish(), |next, _| publish().then(next));
    let error = deep.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("6 steps deep; 5 are allowed"), "{error}");
    let error = publish().then(publish().unique("once")).await.unwrap_err();
    assert!(error.to_string().contains("uniqueness"), "{error}");
    let at = bench.clock.now();
    let error = publish().then(publish().at(at)).await.unwrap_err();
    assert!(error.to_string().contains("only a delay"), "{error}");
}

#[tokio::test]
async fn the_end_of_a_batch_is_reported_once_with_its_counts() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let once = HandlerOptions::new().retry(Retry::none());
        let builder = builder.handler_with("part", once, |number: u64, _: Context| {
            std::future::ready(if number == 2 { Err("torn") } else { Ok(()) })
        });
        let log = log.clone();
        builder.handler("whole", move |(): (), context: Context| {
            let log = log.clone();
            async move {
                let counts = context.batch_counts().await?;
                log.push(format!("{counts:?}"));
                Ok::<_, punctual::Error>(())
            }
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    let parts = (1..=3).map(|number| publisher.publish("part", &number).after(seconds(number)));
    let parts: Vec<_> = parts.collect();
    let batch = publisher.batch(parts).then(publisher.publish("whole", &())).await.unwrap();
    assert_eq!((batch.members.len(), batch.then.len()), (3, 1));
    bench.advance(seconds(2)).await;
    assert_eq!(log.len(), 0);
    let filter = MessageFilter { batch: Some(batch.id), ..MessageFilter::default() };
    assert_eq!(bench.storage.messages(filter, PageRequest::first(9)).await.unwrap().rows.len(), 3);
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["{Done: 2, Dead: 1}"]);
    assert_eq!(bench.message(batch.then[0].id).await.state, MessageState::Done);
    let empty = publisher.batch(Vec::new()).await.unwrap_err();
    assert!(empty.to_string().contains("1 to 100000 messages, not 0"), "{empty}");
}

#[tokio::test]
async fn a_step_follows_although_the_one_before_left_no_history() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let quiet = HandlerOptions::new().recording(Recording::None);
        let builder =
            builder.handler_with("quiet", quiet, |(): (), _: Context| std::future::ready(()));
        builder.handler("say", logging::<String>(&log, |name, _| name.clone()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("quiet", &()).then(publisher.publish("say", "still")).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["still"]);
}
