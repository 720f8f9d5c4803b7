//! Timeouts: which limit applies, how the handler is cancelled, and what happens to an attempt that took too long.

use punctual::model::{DeadReason, Ending, HandlerOptions, MessageState, OnTimeout};
use punctual::{CancelCause, Context, Event, Job, Occurrence, Outcome, Retry};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{Gate, endings, logging, never_returning, retrying, waiting};

fn limited(limit: u64, retry: Retry) -> HandlerOptions {
    retrying(retry).timeout(seconds(limit))
}

// spec: H-25, H-24
#[tokio::test]
async fn the_limit_is_the_message_s_own_else_the_global_one() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .options(|options| options.timeout = Some(seconds(60)))
            .handler_with("own", limited(10, Retry::none()), never_returning::<()>(&log))
            .handler_with("global", retrying(Retry::none()), never_returning::<()>(&log))
            .handler_with("sent", limited(10, Retry::none()), never_returning::<()>(&log))
            .queue("default", 8)
    })
    .await;
    let publisher = bench.punctual.publisher();
    let own = publisher.publish("own", &()).await.unwrap();
    let global = publisher.publish("global", &()).await.unwrap();
    let sent = publisher.publish("sent", &()).handler_options(limited(90, Retry::none()));
    let sent = sent.await.unwrap();
    // The limit, and the cancel timeout of 5 s that a handler has after it.
    let alive = async || {
        let mut alive = Vec::new();
        for (name, id) in [("own", own.id), ("global", global.id), ("sent", sent.id)] {
            if bench.message(id).await.state == MessageState::Running {
                alive.push(name);
            }
        }
        alive
    };
    bench.advance(seconds(14)).await;
    assert_eq!(alive().await, ["own", "global", "sent"]);
    bench.advance(seconds(1)).await;
    assert_eq!(alive().await, ["global", "sent"]);
    bench.advance(seconds(50)).await;
    assert_eq!(alive().await, ["sent"]);
    bench.advance(seconds(30)).await;
    assert!(alive().await.is_empty());
}

// spec: H-29, H-78
#[tokio::test]
async fn without_a_limit_a_handler_is_never_cancelled_by_time() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("report", waiting::<()>(&log, &gate))).await;
    let sent = bench.punctual.publisher().publish("report", &()).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["began"]);
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended"]);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Succeeded]);
}

// spec: H-26, H-27
#[tokio::test]
async fn a_timeout_cancels_the_handler_with_its_cause_fails_the_attempt_and_is_retried() {
    let log = Log::default();
    let recorded = log.clone();
    let handler_options = limited(30, Retry::intervals([seconds(100)]));
    let bench = Bench::start(|builder| {
        builder.handler_with("slow", handler_options, move |(): (), context: Context| {
            let recorded = recorded.clone();
            async move {
                let cause = context.cancelled().await;
                recorded.push(format!("{cause:?}"));
                assert_eq!(context.cancel_cause(), Some(CancelCause::Timeout));
                // A result after the timeout is ignored.
                Outcome::Done
            }
        })
    })
    .await;
    let mut events = bench.punctual.events().listen();
    let sent = bench.punctual.publisher().publish("slow", &()).await.unwrap();
    bench.advance(seconds(30)).await;
    assert_eq!(log.lines(), ["Timeout"]);
    let record = bench.message(sent.id).await;
    assert_eq!(record.state, MessageState::Pending);
    assert_eq!(record.due_at, bench.clock.now() + punctual::jiff::SignedDuration::from_secs(100));
    assert_eq!(record.error.as_deref(), Some("took longer than the 30s allowed"));
    bench.advance(seconds(130)).await;
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::TimedOut, Ending::TimedOut]);
    assert_eq!(bench.message(sent.id).await.dead, Some(DeadReason::AttemptsSpent));
    let mut attempts = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let Event::AttemptTimedOut { attempt, again_at, .. } = *event {
            attempts.push((attempt, again_at.is_some()));
        }
    }
    assert_eq!(attempts, [(1, true), (2, false)]);
    let level = Event::LIST.iter().find(|info| info.name == "attempt.timed_out").unwrap().level;
    assert_eq!(level, "ERROR");
}

#[tokio::test]
async fn a_timeout_is_dead_immediately_when_the_options_set_that() {
    let log = Log::default();
    let handler_options = limited(30, Retry::exponential()).on_timeout(OnTimeout::Fail);
    let bench = Bench::start(|builder| {
        builder.handler_with("slow", handler_options, never_returning::<()>(&log))
    })
    .await;
    let sent = bench.punctual.publisher().publish("slow", &()).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 1);
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::TimedOut)));
}

// spec: H-27
#[tokio::test]
async fn a_handler_that_ignores_the_signal_is_dropped_after_its_grace() {
    struct DropLog(Log);
    impl Drop for DropLog {
        fn drop(&mut self) {
            self.0.push("dropped");
        }
    }
    let log = Log::default();
    let recorded = log.clone();
    let bench = Bench::start(|builder| {
        builder.options(|options| options.cancel_timeout = seconds(7)).handler_with(
            "ignores",
            limited(30, Retry::none()),
            move |(): (), _: Context| {
                let recorded = DropLog(recorded.clone());
                async move {
                    std::future::pending::<()>().await;
                    drop(recorded);
                }
            },
        )
    })
    .await;
    let sent = bench.punctual.publisher().publish("ignores", &()).await.unwrap();
    bench.advance(seconds(36)).await;
    assert_eq!(log.len(), 0);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Running);
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["dropped"]);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::TimedOut]);
}

// spec: H-21, H-22, H-23
#[tokio::test]
async fn a_job_declares_its_limit_and_zero_means_none() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .job(
                Job::cron("limited", "0 8 * * *").timeout(seconds(20)),
                never_returning::<Occurrence>(&log),
            )
            .job(
                Job::cron("free", "0 8 * * *").timeout(seconds(0)),
                logging::<Occurrence>(&log, |_, _| "free".to_owned()),
            )
    })
    .await;
    let admin = bench.punctual.admin();
    assert_eq!(admin.job("limited").await.unwrap().job.handler_options.timeout, Some(seconds(20)));
    assert_eq!(admin.job("free").await.unwrap().job.handler_options.timeout, Some(seconds(0)));
    bench.advance(seconds(3_600 + 25)).await;
    assert_eq!(bench.punctual.events().count("attempt.timed_out"), 1);
    let history = admin.history("limited", punctual::inspect::PageRequest::first(9)).await.unwrap();
    assert_eq!(history.rows[0].ending, Ending::TimedOut);
}
