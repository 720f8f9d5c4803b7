//! Wrong clocks of machines. Some tests are regressions that the simulation found.

use std::sync::Arc;
use std::time::Duration;

use punctual::jiff::{SignedDuration, Timestamp};
use punctual::{
    Clock, Context, Inspect, Job, ManualClock, MemoryStorage, Occurrence, Punctual, StorageClock,
};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Log, instant, run_until_idle, seconds, world};
use crate::test_handlers::logging;

/// Returns the clock of a machine that runs ahead of the storage's.
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
    run_until_idle().await;
    assert_eq!(log.lines(), [""; 0], "the clock is an hour ahead, the storage knows better");
    let record = late.admin().job("tick").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T07:10:00Z")));
}

/// Regression: it published by the clock of the machine, and the message waited an hour.
// spec: U-47
#[tokio::test]
async fn what_is_published_right_after_the_start_is_due_by_the_storages_time() {
    let (true_clock, storage) = world();
    let log = Log::default();
    let ran = logging::<()>(&log, |(), _| "ran".to_owned());
    let wrong = ahead(&true_clock, seconds(3_600));
    let punctual = on(wrong, storage).handler("mail", ran).build().unwrap();
    punctual.start().await.unwrap();
    punctual.publisher().publish("mail", &()).await.unwrap();
    run_until_idle().await;
    assert_eq!(log.lines(), ["ran"], "at once, although no job was declared");
}

// spec: D-13, D-37, U-47
#[tokio::test]
async fn a_process_that_only_publishes_counts_a_delay_from_the_storages_time() {
    for wrong_by in [3_600, -3_600] {
        let (true_clock, storage) = world();
        let faulty = FaultyStorage::over(&storage);
        let wrong = true_clock.now() + SignedDuration::from_secs(wrong_by);
        let clock = Arc::new(ManualClock::new(wrong));
        let idle = Punctual::builder().clock(clock).storage(faulty.clone()).build().unwrap();
        let publisher = idle.publisher();
        publisher.publish("mail", &()).await.unwrap();
        assert_eq!(faulty.calls("time"), 0, "without a delay nothing is asked");
        let delayed = || publisher.publish("mail", &()).after(seconds(60));
        let alone = delayed().await.unwrap().id;
        let many = publisher.publish_all(vec![delayed(), delayed()]).await.unwrap();
        let prepared = delayed().prepare().await.unwrap().message.due_at;
        let due_at = true_clock.now() + SignedDuration::from_secs(60);
        for id in [alone, many[0].id, many[1].id] {
            assert_eq!(storage.message(id).await.unwrap().unwrap().due_at, due_at);
        }
        assert_eq!(prepared, due_at);
        assert_eq!(faulty.calls("time"), 1, "it is asked once");
    }
}

// spec: D-13, U-47
#[tokio::test]
async fn a_storage_that_does_not_return_its_time_delays_few_calls_and_is_asked_again() {
    let (true_clock, storage) = world();
    let faulty = FaultyStorage::over(&storage);
    let clock = ahead(&true_clock, seconds(3_600));
    let idle = Punctual::builder().clock(clock.clone()).storage(faulty.clone()).build().unwrap();
    faulty.fail(&["time"]);
    let publisher = idle.publisher();
    let delayed = || publisher.publish("mail", &()).after(seconds(60));
    for _ in 0..3 {
        delayed().await.unwrap();
    }
    assert_eq!(faulty.calls("time"), 1);
    faulty.heal();
    clock.advance(seconds(10));
    let id = delayed().await.unwrap().id;
    let due_at = true_clock.now() + SignedDuration::from_secs(60);
    assert_eq!(storage.message(id).await.unwrap().unwrap().due_at, due_at);
}

/// Regression: the call that opened the connection took 100 ms, and everything ran 50 ms early until the next one.
#[tokio::test]
async fn a_slow_reading_of_the_time_is_repeated() {
    let (true_clock, storage) = world();
    let storage = FaultyStorage::over(&storage);
    let wrong = ahead(&true_clock, seconds(3_600));
    let clock = StorageClock::new(wrong.clone());
    storage.slow_time(&wrong, Duration::from_millis(100));
    clock.follow(&*storage).await.unwrap();
    // The base clock alone moved by 100 ms: the storage's time stood still meanwhile.
    assert_eq!(clock.ahead(), SignedDuration::from_millis(-3_600_100));
    assert_eq!(storage.total_calls(), 2);
}

// spec: U-47
#[tokio::test]
async fn a_slow_reading_is_never_taken_as_newer_than_its_call() {
    let (true_clock, storage) = world();
    let storage = FaultyStorage::over(&storage);
    let clock = StorageClock::new(true_clock.clone());
    for duration in [400, 40, 200] {
        storage.slow_time(&true_clock, Duration::from_millis(duration));
    }
    clock.follow(&*storage).await.unwrap();
    let behind = true_clock.now().duration_since(clock.now());
    assert!(!behind.is_negative(), "it is never later than proven");
    assert!(behind < SignedDuration::from_millis(41), "the quickest answer counts: {behind:?}");
    assert!(clock.latest() >= true_clock.now(), "and never surer than proven");
    assert_eq!(storage.total_calls(), 3);
}

#[tokio::test]
async fn a_slow_reading_that_agrees_changes_only_the_drift() {
    let (true_clock, storage) = world();
    let storage = FaultyStorage::over(&storage);
    let clock = StorageClock::new(true_clock.clone());
    clock.follow(&*storage).await.unwrap();
    for _ in 0..3 {
        storage.slow_time(&true_clock, Duration::from_millis(300));
    }
    clock.follow(&*storage).await.unwrap();
    let behind = true_clock.now().duration_since(clock.now());
    assert!(behind <= SignedDuration::from_millis(1), "{behind:?}");
    assert!(!behind.is_negative());
}

/// A machine whose wall clock is changed; its steady clock measures the elapsed time.
#[derive(Debug)]
struct SettableClock {
    steady: ManualClock,
    wall: ManualClock,
}

#[async_trait::async_trait]
impl Clock for SettableClock {
    fn now(&self) -> Timestamp {
        self.wall.now()
    }

    fn steady(&self) -> Timestamp {
        self.steady.now()
    }

    async fn sleep_until(&self, instant: Timestamp) {
        self.wall.sleep_until(instant).await;
    }
}

#[tokio::test]
async fn setting_the_clock_of_the_machine_changes_nothing_between_two_readings() {
    let (true_clock, storage) = world();
    let wall = ManualClock::new(true_clock.now());
    let clock = StorageClock::new(Arc::new(SettableClock {
        steady: (*true_clock).clone(),
        wall: wall.clone(),
    }));
    clock.follow(&*storage).await.unwrap();
    let before = clock.now();
    wall.advance(seconds(3_600));
    assert_eq!(clock.now(), before, "no time has passed");
    assert_eq!(clock.ahead(), SignedDuration::from_hours(-1));
    true_clock.advance(seconds(5));
    assert_eq!(clock.now(), before + SignedDuration::from_secs(5));
}
