//! Test harness: the library for tests of applications.

use std::time::Duration;

use punctual::model::HandlerOptions;
use punctual::testing::{START, TestHarness};
use punctual::{Context, Job, Occurrence, Punctual, Retry, blocking};

use crate::harness::seconds;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn handler_options() -> HandlerOptions {
    HandlerOptions::new().retry(Retry::intervals([DAY; 6]))
}

// spec: T-61
#[tokio::test]
async fn a_retry_schedule_of_a_week_passes_in_a_moment() {
    let harness = TestHarness::start(|builder| {
        builder
            .handler_with("dunning", handler_options(), async |_: String| Err::<(), _>("not paid"))
    })
    .await
    .unwrap();
    harness.publisher().publish("dunning", "invoice 7").await.unwrap();
    harness.advance((3 * DAY).saturating_sub(seconds(1))).await;
    harness.assert_executed("dunning", 3);
    harness.assert_dead("dunning", 0);
    harness.advance(4 * DAY).await;
    harness.assert_executed("dunning", 7);
    harness.assert_dead("dunning", 1);
    harness.assert_published("dunning", "invoice 7", 1);
    let days: Vec<i64> = harness
        .executions("dunning")
        .iter()
        .map(|one| one.started_at.duration_since(START).as_hours() / 24)
        .collect();
    assert_eq!(days, [0, 1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn attempts_can_be_made_to_fail_and_their_consequences_are_immediate() {
    let harness = TestHarness::start(|builder| {
        builder
            .handler("order", async |name: String, context: Context| {
                context.publisher().publish("invoice", &name).await.map(|_| ())
            })
            .handler("invoice", async |_: String| {})
    })
    .await
    .unwrap();
    harness.fail_next("order", 1, "the shop is closed");
    harness.publisher().publish("order", "tea").await.unwrap();
    harness.run_due().await;
    harness.assert_executed("order", 1);
    harness.assert_published("invoice", "tea", 0);
    harness.advance(DAY).await;
    harness.assert_executed("order", 2);
    assert_eq!(harness.published::<String>("invoice"), ["tea"]);
    harness.assert_executed("invoice", 1);
}

#[tokio::test]
async fn jobs_run_at_their_times_also_on_a_second_node() {
    let harness = TestHarness::start(|builder| {
        builder.job(Job::cron("report", "0 8 * * *"), async |_: Occurrence| {})
    })
    .await
    .unwrap();
    let other = harness.another(|builder| builder).await.unwrap();
    harness.advance(7 * DAY).await;
    harness.assert_executed("report", 7);
    other.assert_executed("report", 7);
    let hours: Vec<String> =
        harness.executions("report").iter().map(|one| one.started_at.to_string()).collect();
    assert!(hours.iter().all(|time| time.contains("T08:00:00Z")), "{hours:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_waits_for_handlers_on_other_threads() {
    let harness = TestHarness::start(|builder| {
        builder.handler(
            "thumbnail",
            blocking(|_: String| {
                // A thread that is busy for a moment, independent of the manual clock.
                (0..10_000_u64).fold(0, u64::wrapping_add);
            }),
        )
    })
    .await
    .unwrap()
    .timeout(seconds(10));
    for _ in 0..20 {
        harness.publisher().publish("thumbnail", "cat.png").await.unwrap();
    }
    harness.run_due().await;
    harness.assert_executed("thumbnail", 20);
    let _: &Punctual = &harness;
}

#[tokio::test]
#[should_panic(
    expected = "expected 2 attempts of \"mail\", found 1: [2026-03-02T07:00:00Z failed (no route)]"
)]
async fn a_failed_assertion_lists_the_attempts() {
    let harness = TestHarness::start(|builder| {
        builder.handler("mail", async |_: String| Err::<(), _>("no route"))
    })
    .await
    .unwrap();
    harness.publisher().publish("mail", "ada").await.unwrap();
    harness.run_due().await;
    harness.assert_executed("mail", 2);
}
