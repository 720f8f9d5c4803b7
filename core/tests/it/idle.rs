//! What a process does while there is nothing to do: one look at the storage for all its lines.

use punctual::{Job, Punctual};

use crate::acting::telling;
use crate::faulty::Faulty;
use crate::harness::{Bench, Log, seconds, world};

// spec: U-24
#[tokio::test]
async fn an_idle_process_asks_its_storage_at_most_once_a_second() {
    let (clock, storage) = world();
    let counted = Faulty::over(&storage);
    let mut builder = Punctual::builder().clock(clock.clone()).storage(counted.clone());
    for number in 0..20 {
        builder = builder.queue(format!("queue {number}"), 10);
    }
    let punctual = builder.declare(Job::cron("yearly", "0 0 1 1 *")).build().unwrap();
    punctual.start().await.unwrap();
    let bench = Bench { clock, storage, punctual };
    bench.advance(seconds(60)).await;
    let before = counted.calls_in_all();
    bench.advance(seconds(600)).await;
    let calls = counted.calls_in_all() - before;
    assert!((60..=600).contains(&calls), "{calls} calls in 600 seconds");
}

#[tokio::test]
async fn what_nobody_rang_for_is_found_within_the_poll_interval() {
    let (clock, storage) = world();
    let log = Log::default();
    let punctual = Punctual::builder()
        .clock(clock.clone())
        .storage(Faulty::deaf(&storage))
        .handler("hello", telling::<()>(&log, |(), _| "hello".to_owned()))
        .build()
        .unwrap();
    punctual.start().await.unwrap();
    let bench = Bench { clock, storage, punctual };
    bench.advance(seconds(60)).await;
    bench.punctual.publisher().publish("hello", &()).await.unwrap();
    bench.rest().await;
    assert_eq!(log.len(), 0, "nobody rang");
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["hello"]);
}
