//! Missing handlers: messages whose handler another process has, as during a deployment, wait for that process.

use std::sync::Arc;

use punctual::backend::storage::{Entry, FILTER_TOPICS_MAX, NEXT_DUE_SCAN_MAX};
use punctual::health::Condition;
use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::model::{DeadReason, Ending, MessageId, MessageState, Source, Topic};
use punctual::uuid::Uuid;
use punctual::{Builder, Inspect, Job, MemoryStorage, Occurrence, Punctual, Storage};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, logging, waiting};

/// A handler that logs its attempt number.
fn attempts(
    log: &Log,
) -> impl Fn((), punctual::Context) -> std::future::Ready<()> + Send + Sync + 'static {
    logging::<()>(log, |(), context| format!("attempt {}", context.attempt()))
}

/// Builds the older release, which does not know the topic `fresh`.
fn older_release(builder: Builder, log: &Log) -> Builder {
    builder.handler("other", attempts(log))
}

/// Builds a process with more handlers than one claim can name, without the one for `fresh`.
fn with_many_handlers(mut builder: Builder, log: &Log) -> Builder {
    for number in 0..=FILTER_TOPICS_MAX {
        builder = builder.handler(format!("topic {number}"), attempts(log));
    }
    builder
}

async fn attempts_in_all(storage: &MemoryStorage) -> usize {
    storage
        .executions(ExecutionFilter::default(), PageRequest::first(100))
        .await
        .unwrap()
        .rows
        .len()
}

// spec: T-29, U-20
#[tokio::test]
async fn a_new_job_beside_an_older_release_loses_no_slot() {
    let (world, log) = (world(), Log::default());
    let older = Bench::start_in(world.clone(), |builder| older_release(builder, &log)).await;
    let newer = Bench::start_in(world, |builder| {
        let planned = logging::<Occurrence>(&log, |occurrence, context| {
            format!("{} {}", occurrence.nominal, context.attempt())
        });
        builder.job(Job::cron("fresh", "*/5 * * * *"), planned)
    })
    .await;
    newer.advance(seconds(60 * 60)).await;
    let mut expected: Vec<String> =
        (1..12).map(|slot| format!("2026-03-02T07:{:02}:00Z 1", slot * 5)).collect();
    expected.push("2026-03-02T08:00:00Z 1".to_owned());
    assert_eq!(log.lines(), expected);
    let history = newer.punctual.admin().history("fresh", PageRequest::first(50)).await.unwrap();
    assert!(history.rows.iter().all(|run| run.ending == Ending::Succeeded));
    assert_eq!(older.punctual.events().count("attempt.started"), 0);
}

// spec: T-29
#[tokio::test]
async fn a_message_without_a_handler_in_an_older_release_reaches_the_new_one_as_its_first_attempt()
{
    let (world, log) = (world(), Log::default());
    let older = Bench::start_in(world.clone(), |builder| older_release(builder, &log)).await;
    let id = older.punctual.publisher().publish("fresh", &()).await.unwrap().id;
    older.punctual.publisher().publish("other", &()).await.unwrap();
    older.advance(seconds(300)).await;
    assert_eq!(log.len(), 1, "what is behind it was handled");
    let record = older.message(id).await;
    assert_eq!((record.state, record.attempt, record.crashes), (MessageState::Pending, 0, 0));
    assert_eq!(record.due_at, record.message.due_at, "it was not put off");
    let newer = Bench::start_in(world, |builder| builder.handler("fresh", attempts(&log))).await;
    newer.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["attempt 1", "attempt 1"]);
    assert_eq!(newer.message(id).await.state, MessageState::Done);
}

// spec: T-29, U-24
#[tokio::test]
async fn a_process_does_not_poll_faster_because_of_messages_it_has_no_handler_for() {
    for count in [5, 2 * NEXT_DUE_SCAN_MAX] {
        let ((clock, storage), log) = (world(), Log::default());
        let counted = FaultyStorage::over(&storage);
        let builder = Punctual::builder().clock(clock.clone()).storage(counted.clone());
        let punctual = older_release(builder, &log).build().unwrap();
        punctual.start().await.unwrap();
        let bench = Bench { clock, storage, punctual };
        bench.punctual.publisher().publish("other", &()).await.unwrap();
        bench.run_until_idle().await;
        let sent =
            bench.storage.messages(MessageFilter::default(), PageRequest::first(1)).await.unwrap();
        let crowd = (1..=count as u64).map(|number| {
            let mut message = (*sent.rows[0].message).clone();
            message.topic = Topic::new("fresh").unwrap();
            message.id = MessageId::from_uuid(Uuid::from_u64_pair(number, number));
            Entry { message: Arc::new(message), replace: false }
        });
        bench.storage.enqueue(crowd.collect(), bench.clock.now()).await.unwrap();
        bench.advance(seconds(60)).await;
        let before = counted.total_calls();
        bench.advance(seconds(600)).await;
        let calls = counted.total_calls() - before;
        assert!(calls <= 3_000, "{calls} calls in 600 seconds with {count} messages");
        bench.punctual.publisher().publish("other", &()).await.unwrap();
        bench.advance(seconds(2)).await;
        assert_eq!(log.len(), 2, "what is behind them is handled");
    }
}

// spec: T-29
#[tokio::test]
async fn a_message_claimed_without_a_handler_is_released_at_no_cost() {
    let (world, log) = (world(), Log::default());
    let older = Bench::start_in(world.clone(), |builder| with_many_handlers(builder, &log)).await;
    let id = older.punctual.publisher().publish("fresh", &()).await.unwrap().id;
    older.advance(seconds(600)).await;
    let record = older.message(id).await;
    assert_eq!((record.state, record.attempt, record.crashes), (MessageState::Pending, 0, 0));
    assert_eq!(
        record.error.as_deref(),
        Some("no handler here has the topic \"fresh\"; put off for 604 s in all")
    );
    assert_eq!(attempts_in_all(&older.storage).await, 0, "nothing was attempted");
    let events = older.punctual.events();
    assert_eq!(events.count("attempt.failed"), 0);
    let given_back = events.count("attempt.ended_early");
    assert!((10..=20).contains(&given_back), "{given_back} times in ten minutes");
    older.punctual.shutdown().await;
    let newer = Bench::start_in(world, |builder| builder.handler("fresh", attempts(&log))).await;
    newer.advance(seconds(120)).await;
    assert_eq!(log.lines(), ["attempt 1"]);
}

// spec: T-29
#[tokio::test]
async fn a_message_released_for_a_day_is_dead_and_a_redrive_has_another_day() {
    let log = Log::default();
    let bench = Bench::start(|builder| with_many_handlers(builder, &log)).await;
    let id = bench.punctual.publisher().publish("fresh", &()).await.unwrap().id;
    bench.advance(seconds(24 * 3_600 - 60)).await;
    assert_eq!(bench.message(id).await.state, MessageState::Pending);
    bench.advance(seconds(180)).await;
    let record = bench.message(id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::NoHandler)));
    assert!(record.error.unwrap().starts_with("no handler anywhere"));
    bench.punctual.admin().redrive(id).await.unwrap();
    bench.advance(seconds(3_600)).await;
    let record = bench.message(id).await;
    assert_eq!((record.state, record.message.source), (MessageState::Pending, Source::Redriven));
}

// Regression: a process restarted every day counted from zero each time, and the message waited forever.
// spec: T-29
#[tokio::test]
async fn the_day_of_a_message_without_a_handler_continues_after_a_restart() {
    let (world, log) = (world(), Log::default());
    let before = Bench::start_in(world.clone(), |builder| with_many_handlers(builder, &log)).await;
    let id = before.punctual.publisher().publish("fresh", &()).await.unwrap().id;
    before.advance(seconds(12 * 3_600)).await;
    before.punctual.shutdown().await;
    // While no process runs, none gives it back.
    world.0.advance(seconds(36 * 3_600));
    let after = Bench::start_in(world, |builder| with_many_handlers(builder, &log)).await;
    after.advance(seconds(12 * 3_600 - 120)).await;
    assert_eq!(after.message(id).await.state, MessageState::Pending);
    after.advance(seconds(300)).await;
    let record = after.message(id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::NoHandler)));
}

/// Returns the reasons against the health of a process.
async fn reasons(bench: &Bench) -> Vec<String> {
    bench.punctual.admin().health().await.reasons
}

// Decision 3.36: a wrong topic left no trace in a process without the server.
// spec: T-29
#[tokio::test]
async fn health_names_a_message_that_no_process_handles_once_it_is_a_minute_late() {
    let (world, log) = (world(), Log::default());
    let older = Bench::start_in(world.clone(), |builder| older_release(builder, &log)).await;
    older.punctual.publisher().publish("fresh", &()).await.unwrap();
    older.advance(seconds(59)).await;
    assert_eq!(reasons(&older).await, [""; 0], "a rolling deploy is no alarm");
    older.advance(seconds(1)).await;
    let health = older.punctual.admin().health().await;
    assert_eq!((health.condition, health.reasons.len()), (Condition::Degraded, 1));
    for part in ["\"default\"", "\"fresh\"", "2026-03-02T07:00:00Z"] {
        assert!(health.reasons[0].contains(part), "{part}: {:?}", health.reasons);
    }
    let newer = Bench::start_in(world, |builder| builder.handler("fresh", attempts(&log))).await;
    newer.advance(seconds(1)).await;
    assert_eq!(reasons(&older).await, [""; 0]);
}

// spec: T-29
#[tokio::test]
async fn health_finds_many_messages_of_one_instant_that_no_process_handles() {
    let log = Log::default();
    let bench = Bench::start(|builder| older_release(builder, &log)).await;
    let publisher = bench.punctual.publisher();
    let crowd = (0..2 * NEXT_DUE_SCAN_MAX).map(|_| publisher.publish("fresh", &())).collect();
    publisher.publish_all(crowd).await.unwrap();
    bench.advance(seconds(60)).await;
    let reasons = reasons(&bench).await;
    assert!(matches!(&reasons[..], [one] if one.contains("\"fresh\"")), "{reasons:?}");
}

// spec: T-29
#[tokio::test]
async fn health_does_not_report_a_backlog_that_another_process_works_on() {
    let (world, log, gate) = (world(), Log::default(), Gate::shut());
    let older = Bench::start_in(world.clone(), |builder| older_release(builder, &log)).await;
    let slow = waiting::<()>(&log, &gate);
    let newer =
        Bench::start_in(world, |builder| builder.handler("fresh", slow).queue("default", 1)).await;
    for _ in 0..3 {
        newer.punctual.publisher().publish("fresh", &()).await.unwrap();
    }
    newer.advance(seconds(90)).await;
    assert_eq!(log.lines(), ["began"], "two wait");
    assert_eq!(reasons(&older).await, [""; 0], "one of them runs");
    gate.open(3);
    newer.advance(seconds(300)).await;
    assert_eq!(log.len(), 6);
    assert_eq!(reasons(&older).await, [""; 0], "everything was handled");
}

// Behind more newer messages than are read, the topic is not found and the queue is named.
// spec: T-29
#[tokio::test]
async fn health_names_the_queue_where_the_topic_is_not_found() {
    let log = Log::default();
    let bench = Bench::start(|builder| older_release(builder, &log)).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("fresh", &()).await.unwrap();
    bench.clock.advance(seconds(1));
    let later = (0..200).map(|_| publisher.publish("other", &()).after(seconds(3_600))).collect();
    publisher.publish_all(later).await.unwrap();
    bench.advance(seconds(60)).await;
    let reasons = reasons(&bench).await;
    assert!(matches!(&reasons[..], [one] if one.contains("\"default\"")), "{reasons:?}");
    assert!(!reasons[0].contains("\"fresh\""), "{reasons:?}");
}
