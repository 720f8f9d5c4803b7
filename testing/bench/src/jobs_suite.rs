//! Suite of jobs: ten thousand schedules in one process, the cost of a job compared with a direct call, and ten
//! thousand one-time jobs that become due within ten seconds.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::{Context, Inspect, Job, MemoryStorage, Occurrence, Punctual, Storage};
use punctual_postgres::PostgresStorage;
use punctual_sqlite::SqliteStorage;
use tokio::runtime::Runtime;

use crate::figure::{Figure, cpu_seconds, percentile};

/// Number of recurring schedules, and of one-time jobs.
const COUNT: u32 = 10_000;
/// Time over which due instants are spread.
const SPAN: Duration = Duration::from_secs(10);
/// Time between planning and the first due instant.
const AHEAD: Duration = Duration::from_secs(5);
/// Time allowed for the last runs to end.
const TAIL: Duration = Duration::from_secs(5);

/// Measures all parts of the jobs suite, or one of them.
pub(crate) fn run(only: Option<&str>) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let mut figures = Vec::new();
    if wanted("memory") {
        let storage = Arc::new(MemoryStorage::default());
        figures.extend(runtime.block_on(recurring("memory", storage))?);
    }
    if wanted("sqlite") {
        let folder = tempfile::tempdir()?;
        let open = SqliteStorage::open(folder.path().join("jobs.db"));
        let storage = Arc::new(runtime.block_on(open)?);
        figures.extend(runtime.block_on(recurring("sqlite", storage))?);
    }
    if wanted("dispatch") {
        figures.extend(dispatch(&runtime)?);
    }
    if wanted("postgres") {
        match std::env::var("PUNCTUAL_POSTGRES_URL") {
            Ok(url) => figures.extend(runtime.block_on(one_time(&url))?),
            Err(_) => println!(
                "PostgreSQL is NOT measured: PUNCTUAL_POSTGRES_URL names no server; `cargo xtask bench jobs` starts one"
            ),
        }
    }
    anyhow::ensure!(
        !figures.is_empty(),
        "nothing was measured; the parts are memory, sqlite, dispatch and postgres"
    );
    Ok(figures)
}

/// Lateness of each start in milliseconds, recorded by handlers.
#[derive(Clone, Default)]
struct Lateness(Arc<Mutex<Vec<f64>>>);

impl Lateness {
    /// Records a start by the system's clock, not by the clock of the engine. An early start is negative.
    fn record(&self, due: Timestamp) {
        if let Ok(mut lateness) = self.0.lock() {
            lateness.push(Timestamp::now().duration_since(due).as_secs_f64() * 1e3);
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.lock().map(|lateness| lateness.clone()).unwrap_or_default();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// Measures schedules that fire every ten seconds, evenly spread, for two rounds; before the first round the
/// processor use while all of them wait.
async fn recurring<S: Storage + Inspect>(
    name: &'static str,
    storage: Arc<S>,
) -> Result<Vec<Figure>> {
    const ROUNDS: u32 = 2;
    let late = Lateness::default();
    let lateness = late.clone();
    let handler = move |occurrence: Occurrence, _: Context| {
        lateness.record(occurrence.nominal);
        std::future::ready(())
    };
    // All times lie ahead until every schedule is declared.
    let begin = add(Timestamp::now(), Duration::from_secs(20));
    let end = add(begin, (SPAN * ROUNDS).saturating_sub(Duration::from_micros(500)));
    let mut builder = Punctual::builder().storage(storage).handler("tick", handler);
    for index in 0..COUNT {
        let anchor = add(begin, SPAN * index / COUNT);
        let job = Job::every(format!("job-{index}"), SPAN).anchor(anchor);
        builder = builder.declare(job.start(begin).end(end).topic("tick"));
    }
    let punctual = builder.build()?;
    punctual.start().await?;
    while punctual.events().count("job.declared") < u64::from(COUNT) {
        anyhow::ensure!(Timestamp::now() < begin, "declaring took too long for this measurement");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (cpu, start) = (cpu_seconds()?, Instant::now());
    let idle_for = between(Timestamp::now(), begin).saturating_sub(Duration::from_secs(1));
    tokio::time::sleep(idle_for).await;
    let idle = (cpu_seconds()? - cpu) / start.elapsed().as_secs_f64() * 100.0;
    tokio::time::sleep(between(Timestamp::now(), end) + TAIL).await;
    punctual.shutdown().await;
    let sorted = late.sorted();
    anyhow::ensure!(!sorted.is_empty(), "no job ran");
    let wanted = COUNT * ROUNDS;
    let how = format!("{COUNT} schedules, each every {} s, {ROUNDS} rounds", SPAN.as_secs());
    let figure = |what: &str, value: f64, unit, target| Figure {
        name: format!("{name}: {what}"),
        value,
        unit,
        target,
        how: how.clone(),
    };
    Ok(vec![
        figure(
            "occurrences that ran",
            f64::from(u32::try_from(sorted.len())?),
            "runs",
            if wanted == 20_000 { "20,000" } else { "all" },
        ),
        figure("earliest start of a recurring job", sorted[0], "ms late", "not below 0"),
        figure("lateness of recurring jobs, p50", percentile(&sorted, 50), "ms", ""),
        figure("lateness of recurring jobs, p99", percentile(&sorted, 99), "ms", "under 20"),
        figure("processor while all of them wait", idle, "% of a core", "under 1"),
    ])
}

/// Measures the overhead of a job: the time of a message from claim to settlement in memory, less the time of a
/// direct call.
fn dispatch(runtime: &Runtime) -> Result<Vec<Figure>> {
    const CALLS: u64 = 1_000_000;
    let count = Arc::new(AtomicU64::new(0));
    let bare = {
        let count = count.clone();
        let start = Instant::now();
        runtime.block_on(async {
            for number in 0..CALLS {
                work(black_box(number), &count).await;
            }
        });
        start.elapsed().as_secs_f64() * 1e9 / float(CALLS)
    };
    count.store(0, Ordering::Relaxed);
    let dispatched = runtime.block_on(async {
        let done = count.clone();
        let punctual = Punctual::builder()
            .queue("default", 512)
            .handler("work", move |number: u64, _: Context| {
                let done = done.clone();
                async move { work(number, &done).await }
            })
            .build()?;
        let publisher = punctual.publisher();
        for first in (0..CALLS).step_by(10_000) {
            let some = (first..first + 10_000).map(|number| publisher.publish("work", &number));
            publisher.publish_all(some.collect()).await?;
        }
        let start = Instant::now();
        punctual.start().await?;
        while punctual.events().count("attempt.succeeded") < CALLS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let took = start.elapsed().as_secs_f64() * 1e9 / float(CALLS);
        punctual.shutdown().await;
        anyhow::Ok(took)
    })?;
    let ran = count.load(Ordering::Relaxed);
    anyhow::ensure!(ran == CALLS, "{ran} of {CALLS} calls were made");
    Ok(vec![Figure {
        name: "dispatch over a direct call".to_owned(),
        value: (dispatched - bare) / 1e3,
        unit: "µs",
        target: "under 3",
        how: format!(
            "{CALLS} messages in memory, claim to settlement {dispatched:.0} ns each, the bare call {bare:.1} ns"
        ),
    }])
}

#[expect(clippy::unused_async, reason = "a handler is asynchronous, also one that never waits")]
async fn work(number: u64, count: &AtomicU64) {
    black_box(number);
    count.fetch_add(1, Ordering::Relaxed);
}

/// Measures one-time jobs on PostgreSQL, each due at a different instant.
async fn one_time(url: &str) -> Result<Vec<Figure>> {
    const SCHEMA: &str = "bench_jobs";
    let storage = PostgresStorage::builder(url).schema(SCHEMA).connect().await?;
    let late = Lateness::default();
    let lateness = late.clone();
    let punctual = Punctual::builder()
        .storage(Arc::new(storage))
        .handler("remind", move |due: Timestamp, _: Context| {
            lateness.record(due);
            std::future::ready(())
        })
        .build()?;
    punctual.start().await?;
    let publisher = punctual.publisher();
    let begin = add(Timestamp::now(), AHEAD);
    let mut planned = Vec::new();
    for index in 0..COUNT {
        // Spread unevenly, so that no two share a timer tick by design.
        let uneven = Duration::from_micros(u64::from(index * 7_919 % 997));
        let due = add(begin, SPAN * index / COUNT + uneven);
        planned.push(publisher.publish("remind", &due).at(due));
    }
    publisher.publish_all(planned).await?;
    anyhow::ensure!(Timestamp::now() < begin, "planning took too long for this measurement");
    tokio::time::sleep(between(Timestamp::now(), begin) + SPAN + TAIL).await;
    punctual.shutdown().await;
    let sorted = late.sorted();
    anyhow::ensure!(sorted.len() == COUNT as usize, "{} of {COUNT} jobs ran", sorted.len());
    let figure = |percent, target| Figure {
        name: format!("postgres: lateness of one-time jobs, p{percent}"),
        value: percentile(&sorted, percent),
        unit: "ms",
        target,
        how: format!("{COUNT} jobs due within {} s, durable commits", SPAN.as_secs()),
    };
    let earliest = Figure {
        name: "postgres: earliest start of a one-time job".to_owned(),
        value: sorted[0],
        unit: "ms late",
        ..figure(0, "not below 0")
    };
    Ok(vec![earliest, figure(50, "under 5"), figure(99, "under 50")])
}

#[allow(clippy::cast_precision_loss)] // far below the 52 bits of a mantissa
fn float(count: u64) -> f64 {
    count as f64
}
