//! Machines whose clocks are wrong. What the simulation found once is held here.

use std::sync::Arc;
use std::time::Duration;

use punctual::jiff::SignedDuration;
use punctual::{Context, Job, ManualClock, MemoryStorage, Occurrence, Punctual};

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
