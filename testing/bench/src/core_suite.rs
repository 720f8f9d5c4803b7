//! Suite of the core in memory: message rate, time to compute the next occurrence, processor use while idle,
//! lateness of starts.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use punctual::clock::{add, between};
use punctual::model::Body;
use punctual::{Context, Job, MemoryStorage, Publisher, Punctual, Schedule};
use tokio::runtime::Runtime;

use crate::figure::{Figure, cpu_seconds, percentile};

/// Measures all parts of the core, or one of them.
pub(crate) fn run(only: Option<&str>, messages: u64) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let mut figures = Vec::new();
    if wanted("throughput") {
        figures.push(throughput(&runtime, messages)?);
    }
    if wanted("cron") {
        figures.extend(next_occurrence()?);
    }
    if wanted("idle") {
        figures.push(idleness(&runtime)?);
    }
    if wanted("punctuality") {
        figures.extend(punctuality(&runtime)?);
    }
    anyhow::ensure!(
        !figures.is_empty(),
        "there is no part {only:?}; use throughput, cron, idle or punctuality"
    );
    Ok(figures)
}

const CONCURRENCY: usize = 512;
const REPETITIONS: usize = 3;

/// Measures messages claimed, handled and settled per second, as the median of several runs.
fn throughput(runtime: &Runtime, messages: u64) -> Result<Figure> {
    let mut rates = Vec::new();
    for _ in 0..REPETITIONS {
        rates.push(runtime.block_on(drain(messages))?);
    }
    rates.sort_by(f64::total_cmp);
    Ok(Figure {
        name: "messages claimed, handled and settled".to_owned(),
        value: percentile(&rates, 50),
        unit: "messages/s",
        target: "at least 500,000",
        how: format!(
            "{messages} messages queued, no-op handler, {CONCURRENCY} slots, history recorded; median of {REPETITIONS} runs from {:.0} to {:.0}",
            percentile(&rates, 0),
            percentile(&rates, 100)
        ),
    })
}

async fn drain(messages: u64) -> Result<f64> {
    let handled = Arc::new(AtomicU64::new(0));
    let count = handled.clone();
    let punctual = Punctual::builder()
        .storage(Arc::new(MemoryStorage::default()))
        .queue("default", CONCURRENCY)
        .handler("tick", move |(): (), _: Context| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(())
        })
        .build()?;
    fill(&punctual.publisher(), messages, None).await?;
    let start = Instant::now();
    punctual.start().await?;
    while settled(&punctual) < messages {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let seconds = start.elapsed().as_secs_f64();
    let ran = handled.load(Ordering::Relaxed);
    anyhow::ensure!(ran == messages, "{ran} of {messages} messages were handled");
    punctual.shutdown().await;
    // Exact: far below the 52 bits of a mantissa.
    #[allow(clippy::cast_precision_loss)]
    Ok(messages as f64 / seconds)
}

/// Returns the number of decided attempts; each is settled or waits in a buffer of at most 1,024.
fn settled(punctual: &Punctual) -> u64 {
    punctual.events().count("attempt.succeeded")
}

async fn fill(publisher: &Publisher, count: u64, after: Option<Duration>) -> Result<()> {
    const BATCH: u64 = 1_000;
    for _ in 0..count / BATCH {
        let publish = || {
            let publish = publisher.publish_body("tick", Body::empty());
            match after {
                Some(wait) => publish.after(wait),
                None => publish,
            }
        };
        publisher.publish_all((0..BATCH).map(|_| publish()).collect()).await?;
    }
    Ok(())
}

/// Measures the time to compute the next occurrence of common cron expressions.
fn next_occurrence() -> Result<Vec<Figure>> {
    const EVERYDAY: [(&str, &str); 8] = [
        ("* * * * *", "UTC"),
        ("*/5 * * * *", "Europe/Warsaw"),
        ("0 * * * *", "America/New_York"),
        ("0 2 * * *", "Europe/Warsaw"),
        ("30 8 * * 1-5", "America/New_York"),
        ("0 0 1 * *", "UTC"),
        ("0 9 L * *", "Europe/London"),
        ("*/10 * * * * *", "Asia/Tokyo"),
    ];
    let mut figures = Vec::new();
    for (text, zone) in EVERYDAY {
        let schedule = Schedule::cron(text, zone)?;
        let mut samples = Vec::new();
        let mut from: Timestamp = "2026-01-01T00:00:00Z".parse()?;
        for _ in 0..2_000 {
            const CALLS: u32 = 50;
            let start = Instant::now();
            for _ in 0..CALLS {
                from = black_box(schedule.next(black_box(from))).context("the schedule ended")?;
            }
            samples.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
            if from > "2030-01-01T00:00:00Z".parse()? {
                from = "2026-01-01T00:00:00Z".parse()?;
            }
        }
        samples.sort_by(f64::total_cmp);
        figures.push(Figure {
            name: format!("next occurrence of {text} in {zone}, p50"),
            value: percentile(&samples, 50),
            unit: "ns",
            target: "under 1,000",
            how: format!(
                "100,000 calls, each from the previous result; p99 {:.0} ns",
                percentile(&samples, 99)
            ),
        });
    }
    Ok(figures)
}

const SCHEDULES: usize = 100_000;

/// Measures the processor use of 100,000 jobs and as many future messages while nothing is due.
fn idleness(runtime: &Runtime) -> Result<Figure> {
    runtime.block_on(async {
        let mut builder = Punctual::builder().handler("tick", |(): (), _: Context| async {});
        for index in 0..SCHEDULES {
            builder = builder.declare(Job::cron(format!("job-{index}"), "0 0 1 1 *").topic("tick"));
        }
        let punctual = builder.build()?;
        fill(&punctual.publisher(), SCHEDULES as u64, Some(Duration::from_secs(86_400))).await?;
        punctual.start().await?;
        while punctual.events().count("job.declared") < SCHEDULES as u64 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (cpu, start) = (cpu_seconds()?, Instant::now());
        tokio::time::sleep(Duration::from_secs(10)).await;
        let share = (cpu_seconds()? - cpu) / start.elapsed().as_secs_f64() * 100.0;
        punctual.shutdown().await;
        Ok(Figure {
            name: format!("processor while {SCHEDULES} schedules wait"),
            value: share,
            unit: "% of a core",
            target: "not measurable",
            how: format!(
                "{SCHEDULES} jobs and {SCHEDULES} future messages, ten seconds with nothing due"
            ),
        })
    })
}

/// Measures the lateness of one-time messages in real time.
fn punctuality(runtime: &Runtime) -> Result<Vec<Figure>> {
    const COUNT: u32 = 2_000;
    const SPAN: Duration = Duration::from_secs(10);
    let lateness = runtime.block_on(async {
        let late = Arc::new(Mutex::new(Vec::new()));
        let seen = late.clone();
        let punctual = Punctual::builder()
            .queue("default", 64)
            .handler("tick", move |due: Timestamp, context: Context| {
                let late = between(due, context.started_at()).as_secs_f64() * 1e3;
                assert!(context.started_at() >= due, "started before it was due");
                if let Ok(mut seen) = seen.lock() {
                    seen.push(late);
                }
                std::future::ready(())
            })
            .build()?;
        punctual.start().await?;
        let begin = add(Timestamp::now(), Duration::from_millis(500));
        for index in 0..COUNT {
            // Spread unevenly over the span, so that no two share a timer tick by design.
            let due = add(
                begin,
                SPAN * index / COUNT + Duration::from_micros(u64::from(index * 7_919 % 4_999)),
            );
            punctual.publisher().publish("tick", &due).at(due).await?;
        }
        tokio::time::sleep(SPAN + Duration::from_secs(1)).await;
        punctual.shutdown().await;
        let sorted = late.lock().map(|late| late.clone()).unwrap_or_default();
        anyhow::ensure!(sorted.len() == COUNT as usize, "{} of {COUNT} messages ran", sorted.len());
        anyhow::Ok(sorted)
    })?;
    let mut sorted = lateness;
    sorted.sort_by(f64::total_cmp);
    let figure = |percent, target| Figure {
        name: format!("lateness of one-time messages, p{percent}"),
        value: percentile(&sorted, percent),
        unit: "ms",
        target,
        how: format!("{COUNT} messages within {} s, real clock, SystemClock", SPAN.as_secs()),
    };
    Ok(vec![figure(50, ""), figure(99, "under 2 on an idle machine")])
}
