//! Idle process: one query of the storage for all its queues.

use punctual::{Job, Punctual};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::logging;

// spec: U-24
#[tokio::test]
async fn an_idle_process_queries_its_storage_at_most_once_a_second() {
    let (clock, storage) = world();
    let counted = FaultyStorage::over(&storage);
    let mut builder = Punctual::builder().clock(clock.clone()).storage(counted.clone());
    for number in 0..20 {
        builder = builder.queue(format!("queue {number}"), 10);
    }
    let punctual = builder.declare(Job::cron("yearly", "0 0 1 1 *")).build().unwrap();
    punctual.start().await.unwrap();
    let bench = Bench { clock, storage, punctual };
    bench.advance(seconds(60)).await;
    let before = counted.total_calls();
    bench.advance(seconds(600)).await;
    let calls = counted.total_calls() - before;
    assert!((60..=600).contains(&calls), "{calls} calls in 600 seconds");
}

#[tokio::test]
async fn a_message_without_a_notification_is_found_within_the_poll_interval() {
    let (clock, storage) = world();
    let log = Log::default();
    let punctual = Punctual::builder()
        .clock(clock.clone())
        .storage(FaultyStorage::without_notifications(&storage))
        .handler("hello", logging::<()>(&log, |(), _| "hello".to_owned()))
        .build()
        .unwrap();
    punctual.start().await.unwrap();
    let bench = Bench { clock, storage, punctual };
    bench.advance(seconds(60)).await;
    bench.punctual.publisher().publish("hello", &()).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 0, "there was no notification");
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["hello"]);
}
