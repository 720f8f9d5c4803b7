//! First turn of the scheduler: a process that was away decides about every missed occurrence before it runs any.

use std::sync::{Arc, Mutex, OnceLock};

use punctual::client::HttpWorkerClaim;
use punctual::inspect::JobFilter;
use punctual::model::{ProcessId, Queue};
use punctual::{Builder, Events, Inspect, Job, ManualClock, MemoryStorage, Occurrence, Punctual};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, instant, run_until_idle, seconds, world};

type World = (Arc<ManualClock>, Arc<MemoryStorage>);

/// Returns the storage after an outage of a process with 300 jobs, three times the jobs of one turn.
async fn outage_with_300_jobs(handler: impl Fn() + Clone + Send + Sync + 'static) -> World {
    let (clock, storage) = world();
    let first =
        Bench::start_in((clock.clone(), storage.clone()), |builder| many_jobs(builder, handler))
            .await;
    first.advance(seconds(1)).await;
    let filter = JobFilter::default();
    assert_eq!(storage.jobs(filter).await.unwrap().len(), 300);
    first.punctual.shutdown().await;
    clock.set(instant("2026-03-02T10:05:00Z"));
    (clock, storage)
}

fn many_jobs(builder: Builder, handler: impl Fn() + Clone + Send + Sync + 'static) -> Builder {
    (0..300).fold(builder, |builder, number| {
        let handler = handler.clone();
        let job = Job::cron(format!("job {number}"), "0 * * * *");
        builder.job(job, move |_: Occurrence| {
            handler();
            std::future::ready(())
        })
    })
}

// spec: M-6
// Regression: the scheduler decides about 100 jobs in a turn, and the workers ran the first of them meanwhile.
#[tokio::test]
async fn nothing_runs_before_every_one_of_300_due_jobs_is_decided_about() {
    let (clock, storage) = outage_with_300_jobs(|| ()).await;
    let events: Arc<OnceLock<Arc<Events>>> = Arc::default();
    let decided: Arc<Mutex<Vec<u64>>> = Arc::default();
    let noting = {
        let (events, decided) = (events.clone(), decided.clone());
        move || {
            let count = events.get().unwrap().count("job.misfired");
            decided.lock().unwrap().push(count);
        }
    };
    let builder = Punctual::builder().clock(clock).storage(storage);
    let second = many_jobs(builder, noting).build().unwrap();
    events.set(second.events().clone()).unwrap();
    second.start().await.unwrap();
    for _ in 0..20 {
        run_until_idle().await;
    }
    assert_eq!(*decided.lock().unwrap(), [300; 300]);
    assert_eq!(second.events().count("misfires.found"), 1);
}

// spec: M-6
#[tokio::test]
async fn an_http_worker_gets_nothing_before_every_due_job_is_decided_about() {
    let (clock, storage) = outage_with_300_jobs(|| ()).await;
    let builder = Punctual::builder().clock(clock).storage(storage);
    let second =
        many_jobs(builder, || ()).options(|options| options.handling = false).build().unwrap();
    second.start().await.unwrap();
    let ask = HttpWorkerClaim {
        queue: Queue::default(),
        topics: None,
        worker: ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(7)),
        limit: 1_000,
        lease: seconds(60),
    };
    let until = instant("2026-03-02T10:05:30Z");
    let assigned = second.http_workers().claim_within(ask, until).await.unwrap();
    assert_eq!(assigned.len(), 300);
}

// spec: M-6
#[tokio::test]
async fn a_scheduler_that_cannot_decide_holds_the_workers_for_ten_seconds_only() {
    let (clock, memory) = world();
    let storage = FaultyStorage::over(&memory);
    storage.fail(&["due_jobs"]);
    let log = Log::default();
    let punctual = {
        let log = log.clone();
        let handler = move |text: String| {
            log.push(text);
            std::future::ready(())
        };
        let builder = Punctual::builder().clock(clock.clone()).storage(storage.clone());
        builder.handler("mail", handler).build().unwrap()
    };
    punctual.publisher().publish("mail", "to ada").await.unwrap();
    punctual.start().await.unwrap();
    let bench = Bench { clock, storage: memory, punctual };
    bench.advance(seconds(9)).await;
    assert_eq!(log.len(), 0);
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["to ada"]);
}
