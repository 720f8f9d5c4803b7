//! Machines whose clocks are wrong. What the simulation found once is held here.

use std::sync::Arc;
use std::time::Duration;

use punctual::jiff::SignedDuration;
use punctual::{Context, Job, ManualClock, MemoryStorage, Occurrence, Punctual, StorageClock};

use crate::faulty::Faulty;
use crate::harness::{Log, instant, rest, seconds, world};

/// A machine whose clock runs ahead of the storage's.
fn ahead(of: &ManualClock, by: Duration) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(of.now() + SignedDuration::try_from(by).unwrap()))
}

fn on(clock: Arc<ManualClock>, storage: Arc<MemoryStorage>) -> punctual::Builder {
    Punctual::builder().clock(clock).storage(storage)
}

// spec: U-47
#[tokio::test]
async fn a_process_that_starts_with_a_wrong_clock_runs_nothing_early() {
    let (true_clock, storage) = world();
    let log = Log::default();
    let seen = log.clone();
    let handler = move |(): (), _: Context| {
        let seen = seen.clone();
        async move { seen.push("ran") }
    };
    let first = on(true_clock.clone(), storage.clone()).build().unwrap();
    first.publisher().publish("later", &()).after(seconds(1_800)).await.unwrap();
    let job = Job::every("tick", seconds(600));
    let fired = log.clone();
    let wrong = ahead(&true_clock, seconds(3_600));
    let late = on(wrong.clone(), storage)
        .handler("later", handler)
        .job(job, move |_: Occurrence, _: Context| {
            let fired = fired.clone();
            async move { fired.push("fired") }
        })
        .build()
        .unwrap();
    late.start().await.unwrap();
    rest().await;
    assert_eq!(log.lines(), [""; 0], "the clock is an hour ahead, the storage knows better");
    let record = late.admin().job("tick").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T07:10:00Z")));
}

/// Held: the call that opened the connection took 100 ms, and everything ran 50 ms early until the next one.
#[tokio::test]
async fn a_slow_answer_about_the_time_is_asked_for_again() {
    let (true_clock, storage) = world();
    let storage = Faulty::over(&storage);
    let wrong = ahead(&true_clock, seconds(3_600));
    let clock = StorageClock::new(wrong.clone());
    storage.slow_time(&wrong, Duration::from_millis(100));
    clock.follow(&*storage).await.unwrap();
    // The base clock alone moved by 100 ms: the storage's time stood still meanwhile.
    assert_eq!(clock.ahead(), SignedDuration::from_millis(-3_600_100));
    assert_eq!(storage.calls_in_all(), 2);
}

#[tokio::test]
async fn a_slow_answer_that_agrees_changes_nothing() {
    let (true_clock, storage) = world();
    let storage = Faulty::over(&storage);
    let clock = StorageClock::new(true_clock.clone());
    clock.follow(&*storage).await.unwrap();
    storage.slow_time(&true_clock, Duration::from_millis(300));
    clock.follow(&*storage).await.unwrap();
    assert_eq!(clock.ahead(), SignedDuration::ZERO, "half of 300 ms are possible, none is known");
    assert_eq!(storage.calls_in_all(), 2);
}

#[tokio::test]
async fn the_fastest_of_three_slow_answers_is_followed() {
    let (true_clock, storage) = world();
    let storage = Faulty::over(&storage);
    let clock = StorageClock::new(true_clock.clone());
    for length in [400, 40, 200] {
        storage.slow_time(&true_clock, Duration::from_millis(length));
    }
    clock.follow(&*storage).await.unwrap();
    assert_eq!(clock.ahead(), SignedDuration::from_millis(-20));
    assert_eq!(storage.calls_in_all(), 3);
}
