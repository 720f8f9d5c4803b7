//! Engine on a file: published messages are handled, also after a restart.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::clock::add;
use punctual::inspect::PageRequest;
use punctual::jiff::Timestamp;
use punctual::model::Ending;
use punctual::{Clock as _, Context, Job, Occurrence, Outcome, Punctual, Roles, SystemClock};
use punctual_conformance::backend_tests::WrongClock;
use punctual_sqlite::SqliteStorage;

use crate::fixture::Fixture;

async fn start(storage: &Arc<SqliteStorage>, handled: &Arc<AtomicU32>) -> Punctual {
    let handled = Arc::clone(handled);
    let handler = move |number: u32, _: Context| {
        let handled = Arc::clone(&handled);
        async move {
            handled.fetch_add(number, Ordering::SeqCst);
            Outcome::Done
        }
    };
    let builder = Punctual::builder().storage(Arc::clone(storage)).handler("add", handler);
    let punctual = builder.build().unwrap();
    punctual.start().await.unwrap();
    punctual
}

async fn wait_for(handled: &AtomicU32, sum: u32) {
    for _ in 0..500 {
        if handled.load(Ordering::SeqCst) == sum {
            return;
        }
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
    }
    panic!("{} of {sum} was handled", handled.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_messages_are_handled_and_the_rest_after_a_restart() {
    let f = Fixture::new();
    let handled = Arc::new(AtomicU32::new(0));
    let storage = Arc::new(f.open().await);
    let punctual = start(&storage, &handled).await;
    for number in 1..=10_u32 {
        punctual.publisher().publish("add", &number).await.unwrap();
    }
    wait_for(&handled, 55).await;
    let later = Duration::from_secs(1);
    punctual.publisher().publish("add", &100_u32).after(later).await.unwrap();
    punctual.shutdown().await;
    storage.close().await.unwrap();

    let storage = Arc::new(f.open().await);
    let punctual = start(&storage, &handled).await;
    wait_for(&handled, 155).await;
    punctual.shutdown().await;
    assert!(storage.check().await.unwrap().findings.is_empty());
}

// spec: T-29, U-20
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_release_leaves_the_runs_of_a_new_job_to_the_new_one() {
    let f = Fixture::new();
    let (handled, fresh) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let storage = Arc::new(f.open().await);
    let older = start(&storage, &handled).await;
    let job = || Job::cron("fresh", "0 0 1 1 *");
    let roles = Roles { worker: false, ..Roles::ALL };
    let office = Punctual::builder().storage(Arc::new(f.open().await)).roles(roles).declare(job());
    let office = office.build().unwrap();
    office.start().await.unwrap();
    let mut triggered = 0;
    for _ in 0..500 {
        // The job is declared a moment after the start.
        triggered += u32::from(office.admin().trigger("fresh", true).await.is_ok());
        if triggered == 12 {
            break;
        }
        SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
    }
    office.publisher().publish("add", &5_u32).await.unwrap();
    // It is behind the twelve, so the older release has read them.
    wait_for(&handled, 5).await;
    let counted = Arc::clone(&fresh);
    let handler = move |context: Context| {
        counted.fetch_add(context.attempt(), Ordering::SeqCst);
        async {}
    };
    let newer = Punctual::builder().storage(Arc::new(f.open().await)).job(job(), handler);
    let newer = newer.build().unwrap();
    newer.start().await.unwrap();
    wait_for(&fresh, 12).await;
    for punctual in [older, office, newer] {
        punctual.shutdown().await;
    }
    let reader = Punctual::builder().storage(storage).build().unwrap();
    let history = reader.admin().history("fresh", PageRequest::first(50)).await.unwrap();
    assert_eq!(history.rows.len(), 12);
    assert!(history.rows.iter().all(|run| (run.ending, run.attempt) == (Ending::Succeeded, 1)));
}

/// Due times of occurrences, with the instants at which they started.
type Begun = Arc<Mutex<Vec<(Timestamp, Timestamp)>>>;

fn noting(begun: &Begun) -> impl Fn(Timestamp) + Clone + use<> {
    let begun = begun.clone();
    move |due_at| begun.lock().unwrap().push((due_at, SystemClock.now()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_clock_is_wrong_by_an_hour_starts_nothing_early() {
    let wait = Duration::from_millis(700);
    for clock in WrongClock::BY_AN_HOUR {
        let name = format!("{clock:?}");
        let f = Fixture::new();
        let begun = Begun::default();
        let (job, message) = (noting(&begun), noting(&begun));
        let ticks = Job::every("tick", Duration::from_secs(1));
        let punctual = Punctual::builder()
            .storage(Arc::new(f.open().await))
            .clock(Arc::new(clock))
            .job(ticks, move |occurrence: Occurrence| {
                job(occurrence.nominal);
                std::future::ready(())
            })
            .handler("later", move |due_at: Timestamp| {
                message(due_at);
                std::future::ready(())
            })
            .build()
            .unwrap();
        punctual.start().await.unwrap();
        for _ in 0..3 {
            let due_at = add(SystemClock.now(), wait);
            punctual.publisher().publish("later", &due_at).after(wait).await.unwrap();
        }
        let end = add(SystemClock.now(), Duration::from_secs(30));
        while begun.lock().unwrap().len() < 6 {
            assert!(SystemClock.now() < end, "{name}: {:?}", begun.lock().unwrap());
            SystemClock.sleep_until(add(SystemClock.now(), Duration::from_millis(20))).await;
        }
        punctual.shutdown().await;
        for (due_at, began) in begun.lock().unwrap().iter() {
            assert!(began >= due_at, "{name}: due at {due_at}, begun at {began}");
            assert!(*began < add(*due_at, Duration::from_secs(60)), "{name}: {due_at}, {began}");
        }
    }
}
