//! Demo: jobs of several kinds that fail, run late, report progress or leave dead letters, and messages for later.
//! Nothing leaves the process.

use std::sync::Arc;
use std::time::Duration;

use punctual::clock::{Clock, add};
use punctual::model::HandlerOptions;
use punctual::{
    Builder, Context, HandlerError, HandlerResult, Job, Misfire, Occurrence, Outcome, Overlap,
    Publisher, Punctual, Result, Retry,
};
use serde_json::{Value, json};

/// How often new orders are published.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(2);
/// A queue with too little concurrency, so that its messages are late.
const NARROW: &str = "demo-narrow";

/// Registers the jobs and handlers of the demo.
pub(super) fn register(builder: Builder) -> Builder {
    let soon = |waits: &[u64]| Retry::intervals(waits.iter().map(|s| Duration::from_secs(*s)));
    let every = |name: &str, seconds| Job::every(name, Duration::from_secs(seconds)).tag("demo");
    let handler_options = HandlerOptions::new().retry(soon(&[3, 6, 12]));
    builder
        .queue(NARROW, 1)
        .queue("demo", 20)
        .job(
            every("demo-heartbeat", 5)
                .queue("demo")
                .description("Reports success every five seconds"),
            |context: Context| async move { context.report_success("alive") },
        )
        .job(
            every("demo-import", 30)
                .queue("demo")
                .overlap(Overlap::QueueOne)
                .description("Runs for twenty seconds and reports progress"),
            import,
        )
        .job(
            every("demo-flaky", 10)
                .queue("demo")
                .retry(soon(&[2, 4]))
                .description("Fails on its first attempt"),
            flaky,
        )
        .job(
            every("demo-broken", 20)
                .queue("demo")
                .retry(soon(&[1]))
                .description("Never succeeds, and leaves dead letters"),
            |_: Occurrence| async { Err::<(), _>("the ledger is not in balance") },
        )
        .job(
            every("demo-late", 7)
                .queue(NARROW)
                .overlap(Overlap::Allow { parallel_max: Some(5) })
                .description("Waits in a queue with too little concurrency"),
            slow,
        )
        .job(
            Job::cron("demo-nightly-report", "0 2 * * *")
                .zone("Europe/Warsaw")
                .queue("demo")
                .misfire(Misfire::fire_once())
                .tag("demo")
                .tag("report")
                .description("A report every night"),
            |context: Context| async move { context.report_success("812 lines") },
        )
        .handler_with("demo.order", handler_options.clone(), order)
        .handler_with("demo.mail", handler_options, mail)
}

/// Sleeps for `duration`; returns false when the attempt was cancelled before.
async fn sleep(context: &Context, duration: Duration) -> bool {
    let clock = punctual::SystemClock;
    tokio::select! {
        _ = context.cancelled() => false,
        () = clock.sleep_until(add(clock.now(), duration)) => true,
    }
}

async fn import(context: Context) -> HandlerResult {
    for step in 1..=20_u8 {
        if !sleep(&context, Duration::from_secs(1)).await {
            return Err(HandlerError::new("the import was interrupted"));
        }
        context.progress((step * 5, format!("{step} of 20 files")));
        context.log(format!("file {step} read"));
    }
    Ok(Outcome::Done)
}

async fn flaky(context: Context) -> HandlerResult {
    sleep(&context, Duration::from_millis(300)).await;
    match context.attempt() {
        1 => Err(HandlerError::new("connection to billing.internal refused")),
        _ => Ok(Outcome::Done),
    }
}

async fn slow(context: Context) -> HandlerResult {
    sleep(&context, Duration::from_secs(9)).await;
    Ok(Outcome::Done)
}

async fn order(order: Value, context: Context) -> HandlerResult {
    let number = order["number"].as_u64().unwrap_or(0);
    sleep(&context, Duration::from_millis(100 + number % 7 * 150)).await;
    match number {
        number if number % 11 == 0 => {
            Err(HandlerError::new(format!("order {number}: the card was declined")).permanent())
        }
        number if number % 5 == 0 && context.attempt() < 3 => {
            Err(HandlerError::new("the warehouse did not respond within 5s"))
        }
        _ => Ok(Outcome::Done),
    }
}

async fn mail(to: Value, context: Context) -> HandlerResult {
    sleep(&context, Duration::from_millis(200)).await;
    context.report_success(format!("written to {to}"));
    Ok(Outcome::Done)
}

/// Publishes a few orders and a delayed reminder at each interval until `stopped` resolves.
pub(super) async fn publish_orders(
    punctual: Arc<Punctual>,
    clock: Arc<dyn Clock>,
    stopped: impl Future<Output = ()>,
) {
    let mut stopped = std::pin::pin!(stopped);
    let publisher = punctual.publisher();
    let mut number = 1;
    loop {
        if let Err(error) = publish_batch(&publisher, number).await {
            tracing::warn!(%error, "the demo could not publish");
        }
        number += 3;
        tokio::select! {
            () = &mut stopped => return,
            () = clock.sleep_until(add(clock.now(), PUBLISH_INTERVAL)) => {}
        }
    }
}

async fn publish_batch(publisher: &Publisher, number: u64) -> Result<()> {
    for number in number..number + 3 {
        let order = json!({"number": number, "customer": format!("c{}", number % 9)});
        let key = format!("customer {}", number % 9);
        publisher.publish("demo.order", &order).key(key).queue("demo").await?;
    }
    let later = Duration::from_secs(30 + number % 600);
    publisher.publish("demo.mail", "ada@example.com").after(later).queue("demo").await?;
    Ok(())
}
