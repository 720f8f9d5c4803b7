//! Correlation: a handler passes it on to the messages it publishes.

use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{Message, Topic};
use punctual::{Context, Inspect, Job, Occurrence};
use std::sync::Arc;

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::history;

/// Returns the messages of a topic, oldest first.
async fn sent(bench: &Bench, topic: &str) -> Vec<Arc<Message>> {
    let filter =
        MessageFilter { topic: Some(Topic::new(topic).unwrap()), ..MessageFilter::default() };
    let page = bench.storage.messages(filter, PageRequest::first(99)).await.unwrap();
    let mut messages: Vec<_> = page.rows.into_iter().map(|record| record.message).collect();
    messages.sort_by_key(|message| message.id);
    messages
}

/// A handler that publishes two messages, and logs its own ids.
fn publishing(
    log: &Log,
) -> impl Fn((), Context) -> futures_util::future::BoxFuture<'static, ()> + Send + Sync + 'static {
    let log = log.clone();
    move |(): (), context: Context| {
        let log = log.clone();
        Box::pin(async move {
            let publisher = context.publisher();
            publisher.publish("child", &1).after(seconds(60)).await.unwrap();
            let other = context.publisher();
            other.publish("child", &2).after(seconds(60)).await.unwrap();
            log.push(context.execution_id().to_string());
            log.push(context.message_id().to_string());
            log.push(context.correlation().to_string());
        })
    }
}

// spec: C-2, C-3
#[tokio::test]
async fn what_a_handler_publishes_inherits_the_correlation_of_its_message() {
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("parent", publishing(&log))).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("parent", &()).correlation("order-7").await.unwrap();
    bench.run_until_idle().await;
    let children = sent(&bench, "child").await;
    let lines = log.lines();
    for (index, child) in children.iter().enumerate() {
        assert_eq!(child.correlation.id.as_deref(), Some("order-7"));
        assert_eq!(
            child.correlation.causation.unwrap().to_string(),
            lines[0],
            "the attempt caused it"
        );
        assert_eq!(child.correlation.sequence as usize, index + 1, "counted across publishers");
    }
    assert_eq!(children.len(), 2);
    assert_eq!(lines[2], "order-7");
}

// spec: C-3
#[tokio::test]
async fn a_message_without_a_correlation_begins_one_with_its_own_id() {
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("parent", publishing(&log))).await;
    let parent = bench.punctual.publisher().publish("parent", &()).await.unwrap();
    bench.run_until_idle().await;
    let children = sent(&bench, "child").await;
    assert_eq!(children[0].correlation.id.as_deref(), Some(parent.id.to_string().as_str()));
    assert_eq!(log.lines()[2], parent.id.to_string());
}

// Decision 3.19: a scheduled run is its own correlation.
// spec: C-1, U-21
#[tokio::test]
async fn a_scheduled_run_begins_a_correlation_with_its_execution() {
    let log = Log::default();
    let recorded = log.clone();
    let bench = Bench::start(|builder| {
        builder.job(
            Job::cron("hourly", "0 * * * *"),
            move |occurrence: Occurrence, context: Context| {
                let recorded = recorded.clone();
                async move {
                    context.publisher().publish("child", &()).after(seconds(60)).await.unwrap();
                    assert_eq!(context.topic().as_str(), "hourly");
                    assert!(context.headers().is_empty());
                    assert_eq!(context.nominal(), Some(occurrence.nominal));
                    recorded.push(context.message_id().to_string());
                }
            },
        )
    })
    .await;
    bench.advance(seconds(2 * 3_600)).await;
    let children = sent(&bench, "child").await;
    assert_eq!(children.len(), 2);
    for (child, message) in children.iter().zip(log.lines()) {
        let run = &history(&bench.storage, message.parse().unwrap()).await[0];
        assert_eq!(child.correlation.id.as_deref(), Some(run.id.to_string().as_str()));
        assert_eq!(child.correlation.causation, Some(run.id));
        assert_eq!(child.correlation.sequence, 1, "each attempt counts for itself");
    }
    assert_ne!(children[0].correlation.id, children[1].correlation.id);
}

// spec: C-2
#[tokio::test]
async fn an_explicit_correlation_wins_and_outside_a_handler_none_is_added() {
    let bench = Bench::start(|builder| {
        builder.handler("parent", |(): (), context: Context| async move {
            let publish = context.publisher().publish("child", &()).correlation("my-own");
            publish.after(seconds(60)).await.map(|_| ())
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("parent", &()).correlation("order-7").await.unwrap();
    publisher.publish("outside", &()).after(seconds(60)).await.unwrap();
    bench.run_until_idle().await;
    let child = &sent(&bench, "child").await[0];
    assert_eq!(child.correlation.id.as_deref(), Some("my-own"));
    assert!(child.correlation.causation.is_some(), "but what caused it is still known");
    assert_eq!(
        sent(&bench, "outside").await[0].correlation,
        punctual::model::Correlation::default()
    );
}

// spec: C-1
#[tokio::test]
async fn correlations_of_concurrent_attempts_do_not_mix() {
    let bench = Bench::start(|builder| {
        builder.queue("default", 8).handler("parent", |name: String, context: Context| async move {
            for _ in 0..5 {
                context.publisher().publish("child", &name).after(seconds(60)).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    })
    .await;
    for name in ["a", "b", "c"] {
        bench.punctual.publisher().publish("parent", name).correlation(name).await.unwrap();
    }
    bench.run_until_idle().await;
    bench.run_until_idle().await;
    let children = sent(&bench, "child").await;
    assert_eq!(children.len(), 15);
    for name in ["a", "b", "c"] {
        let mut places = Vec::new();
        for child in children.iter().filter(|child| child.correlation.id.as_deref() == Some(name)) {
            assert_eq!(child.body.read::<String>().unwrap(), name);
            places.push(child.correlation.sequence);
        }
        assert_eq!(places, [1, 2, 3, 4, 5]);
    }
}

// spec: C-10
#[tokio::test]
async fn the_causation_can_be_read_and_is_the_same_in_every_attempt() {
    let log = Log::default();
    let seen = log.clone();
    let bench = Bench::start(|builder| {
        builder
            .handler("parent", |(): (), context: Context| async move {
                assert_eq!(context.causation(), None);
                context.publisher().publish("child", &()).await.map(|_| ())
            })
            .handler("child", move |(): (), context: Context| {
                let causation = context.causation().map(|id| id.to_string());
                seen.push(format!("{} {}", context.attempt(), causation.unwrap_or_default()));
                async { Err::<(), _>("not yet") }
            })
    })
    .await;
    let parent = bench.punctual.publisher().publish("parent", &()).await.unwrap();
    bench.advance(seconds(50)).await;
    let cause = history(&bench.storage, parent.id).await[0].id;
    assert_eq!(log.lines(), [format!("1 {cause}"), format!("2 {cause}")]);
}
