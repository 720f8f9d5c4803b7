//! Walkthroughs: end-to-end behaviour of an application on a manual clock.

use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Ending, MessageState};
use punctual::{Context, Inspect, Job, Misfire, Occurrence, Outcome, Retry};

use crate::harness::{Bench, Log, instant, seconds};

// spec: U-1, D-37
#[tokio::test]
async fn a_message_now_and_a_message_later() {
    let log = Log::default();
    let seen = log.clone();
    let bench = Bench::start(|builder| {
        builder.handler("greet", move |name: String, context: Context| {
            let seen = seen.clone();
            async move { seen.push(format!("{name} {}", context.started_at())) }
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("greet", "now").await.unwrap();
    publisher.publish("greet", "later").after(seconds(3600)).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["now 2026-03-02T07:00:00Z"]);
    bench.advance(seconds(3599)).await;
    assert_eq!(log.len(), 1);
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines()[1], "later 2026-03-02T08:00:00Z");
}

// spec: U-26, T-30
#[tokio::test]
async fn a_failure_is_retried_by_the_policy_and_ends_as_a_dead_letter() {
    let log = Log::default();
    let seen = log.clone();
    let handler_options =
        punctual::model::HandlerOptions::new().retry(Retry::intervals([seconds(10), seconds(60)]));
    let bench = Bench::start(|builder| {
        builder.handler_with("charge", handler_options, move |(): (), context: Context| {
            let seen = seen.clone();
            async move {
                seen.push(format!("{} of {:?}", context.attempt(), context.attempts_max()));
                Err::<(), _>("card declined")
            }
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("charge", &()).await.unwrap();
    bench.advance(seconds(9)).await;
    assert_eq!(log.len(), 1);
    bench.advance(seconds(61)).await;
    assert_eq!(log.lines(), ["1 of Some(3)", "2 of Some(3)", "3 of Some(3)"]);
    bench.advance(seconds(86_400)).await;
    assert_eq!(log.len(), 3, "a dead letter is never picked up by itself");
    let record = bench.message(sent.id).await;
    assert_eq!(record.state, MessageState::Dead);
    assert_eq!(record.error.as_deref(), Some("card declined"));
    let dead = bench.punctual.admin().dead_letters(PageRequest::first(10)).await.unwrap();
    assert_eq!(dead.rows.len(), 1);
    assert_eq!(bench.punctual.events().count("message.dead"), 1);
}

#[tokio::test]
async fn a_snooze_uses_no_attempt_and_a_discard_is_dead_immediately() {
    let bench = Bench::start(|builder| {
        builder
            .handler("nap", |(): (), context: Context| async move {
                if context.attempt() == 1 && context.started_at() < instant("2026-03-02T07:03:00Z")
                {
                    return Outcome::Snooze(seconds(60));
                }
                Outcome::Done
            })
            .handler("drop", |(): ()| async { Outcome::Discard("not ours".to_owned()) })
    })
    .await;
    let nap = bench.punctual.publisher().publish("nap", &()).await.unwrap();
    let dropped = bench.punctual.publisher().publish("drop", &()).await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(bench.message(nap.id).await.state, MessageState::Done);
    assert_eq!(bench.message(nap.id).await.snoozes, 3);
    assert_eq!(bench.message(dropped.id).await.state, MessageState::Dead);
}

// spec: H-66, H-69, M-17
#[tokio::test]
async fn a_cron_job_after_an_outage_of_two_hours() {
    let log = Log::default();
    let job = || {
        Job::cron("nightly-report", "0 2 * * *").zone("Europe/Warsaw").misfire(Misfire::fire_once())
    };
    let handler = |log: &Log| {
        let seen = log.clone();
        move |occurrence: Occurrence, context: Context| {
            let seen = seen.clone();
            async move {
                let missed = occurrence.misfire.map_or(0, |misfire| misfire.missed_count);
                seen.push(format!(
                    "{} at {} missed {missed}",
                    occurrence.nominal,
                    context.started_at()
                ));
            }
        }
    };
    let first = Bench::start(|builder| builder.job(job(), handler(&log))).await;
    first.advance(seconds(3600)).await;
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    // 02:00 in Warsaw is 01:00 UTC; the process is away from 08:00 until 03:10 the next day.
    world.0.set(instant("2026-03-03T03:10:00Z"));
    let second = Bench::start_in(world, |builder| builder.job(job(), handler(&log))).await;
    assert_eq!(log.lines(), ["2026-03-03T01:00:00Z at 2026-03-03T03:10:00Z missed 1"]);
    second.advance(seconds(24 * 3600)).await;
    assert_eq!(log.lines()[1..], ["2026-03-04T01:00:00Z at 2026-03-04T01:00:00Z missed 0"]);
    let history = second
        .storage
        .executions(ExecutionFilter::default(), PageRequest::first(10))
        .await
        .unwrap();
    assert!(history.rows.iter().all(|execution| execution.ending == Ending::Succeeded));
}
