//! One-time jobs: planned at run time with a key, cancellable, retried in proportion to how far ahead they were
//! planned.

use std::future::IntoFuture;

use punctual::backend::storage::CommandResult;
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{DeadReason, Ending, MessageState, Source};
use punctual::{Builder, Context, ErrorKind, Inspect, Job, Retry};

use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::{Gate, advance_in_steps, endings, failing, logging, waiting};

async fn stored(bench: &Bench) -> usize {
    bench
        .storage
        .messages(MessageFilter::default(), PageRequest::first(99))
        .await
        .unwrap()
        .rows
        .len()
}

fn reminding(log: &Log) -> impl FnOnce(Builder) -> Builder + use<'_> {
    |builder| {
        builder.handler(
            "remind",
            logging::<Option<String>>(log, |payload, context| {
                let key = context.key().map_or("nothing", |key| key.as_str());
                let payload = payload.as_deref().unwrap_or("no payload");
                format!("{payload} about {key} at {}", context.started_at())
            }),
        )
    }
}

// spec: H-30, H-31, H-35, T-12, T-42, T-8, U-56
#[tokio::test]
async fn a_one_time_job_runs_at_its_instant_and_never_again() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    let at = instant("2026-03-02T08:00:00Z");
    let first = jobs.once("remind").at(at).key("order-7").payload("pay").await.unwrap();
    jobs.once("remind").after(seconds(7_200)).await.unwrap();
    let record = bench.message(first.id).await;
    assert_eq!((record.state, record.attempt), (MessageState::Pending, 0));
    assert_eq!((record.due_at, record.message.source), (at, Source::Deferred));
    bench.advance(seconds(3_599)).await;
    assert_eq!(log.len(), 0);
    bench.advance(seconds(4 * 3_600)).await;
    assert_eq!(
        log.lines(),
        [
            "pay about order-7 at 2026-03-02T08:00:00Z",
            "no payload about nothing at 2026-03-02T09:00:00Z"
        ]
    );
    assert_eq!(bench.message(first.id).await.state, MessageState::Done);
    let history = bench.punctual.admin().history("remind", PageRequest::first(9)).await.unwrap();
    assert_eq!(history.rows.len(), 2, "listed as runs of the job");
}

// Decision 3.30.
// spec: H-32
#[tokio::test]
async fn an_instant_in_the_past_is_refused_and_nothing_is_stored() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    let error = jobs.once("remind").at(instant("2026-03-02T06:59:58.999Z")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("in the past"), "{error}");
    assert_eq!(stored(&bench).await, 0);
    // A second is tolerated, because clocks differ a little.
    jobs.once("remind").at(instant("2026-03-02T06:59:59Z")).await.unwrap();
    jobs.once("remind").at(instant("2020-01-01T00:00:00Z")).allow_past().await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.len(), 2);
}

// spec: H-33, H-34, H-75
#[tokio::test]
async fn the_process_that_plans_does_not_need_the_handler() {
    let log = Log::default();
    let world = world();
    let planner = Bench::start_in(world.clone(), |builder| {
        builder.options(|options| options.handling = false)
    })
    .await;
    planner.punctual.jobs().once("remind").after(seconds(60)).await.unwrap();
    let worker = Bench::start_in(world, reminding(&log)).await;
    worker.advance(seconds(60)).await;
    assert_eq!(log.len(), 1);
}

// spec: T-44
#[tokio::test]
async fn a_one_time_job_survives_a_restart() {
    let log = Log::default();
    let first = Bench::start(reminding(&log)).await;
    first.punctual.jobs().once("remind").after(seconds(3_600)).key("order-7").await.unwrap();
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant("2026-03-05T00:00:00Z"));
    let _second = Bench::start_in(world, reminding(&log)).await;
    assert_eq!(log.lines(), ["no payload about order-7 at 2026-03-05T00:00:00Z"]);
}

// Decision 3.30: a pending one with the same key is a conflict, unless it is to be replaced.
// spec: D-33
#[tokio::test]
async fn a_second_one_time_job_with_the_same_name_and_key_is_a_conflict_or_a_replacement() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    let first =
        jobs.once("remind").after(seconds(60)).key("order-7").payload("first").await.unwrap();
    let error = jobs.once("remind").after(seconds(90)).key("order-7").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains(&first.id.to_string()), "{error}");
    jobs.once("remind").after(seconds(90)).key("order-8").payload("other").await.unwrap();
    let replacing =
        jobs.once("remind").after(seconds(120)).key("order-7").payload("second").replace();
    replacing.await.unwrap();
    bench.advance(seconds(600)).await;
    let runs: Vec<String> = log.lines().iter().map(|line| line[..6].trim().to_owned()).collect();
    assert_eq!(runs, ["other", "second"]);
    jobs.once("remind").after(seconds(60)).key("order-7").await.unwrap();
}

#[tokio::test]
async fn names_and_keys_are_not_confused() {
    let bench = Bench::start(|builder| builder).await;
    let jobs = bench.punctual.jobs();
    jobs.once("a/b").after(seconds(60)).key("c").await.unwrap();
    jobs.once("a").after(seconds(60)).key("b/c").await.unwrap();
    bench.punctual.publisher().publish("x", &()).unique("a/b/c").after(seconds(60)).await.unwrap();
    assert_eq!(stored(&bench).await, 3);
}

#[tokio::test]
async fn a_running_one_time_job_is_not_replaced() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("remind", waiting::<()>(&log, &gate))).await;
    let jobs = bench.punctual.jobs();
    jobs.once("remind").key("order-7").await.unwrap();
    bench.run_until_idle().await;
    let error = jobs.once("remind").key("order-7").replace().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended"]);
}

// spec: T-43, D-35
#[tokio::test]
async fn a_cancel_by_name_and_key_cancels_pending_messages_only() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("remind", waiting::<()>(&log, &gate))).await;
    let jobs = bench.punctual.jobs();
    let running = jobs.once("remind").key("order-7").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(jobs.cancel("remind", "order-7").await.unwrap(), 0, "a running one continues");
    let pending = jobs.once("remind").after(seconds(60)).key("order-8").await.unwrap();
    let other = jobs.once("other").after(seconds(60)).key("order-8").await.unwrap();
    assert_eq!(jobs.cancel("remind", "order-8").await.unwrap(), 1);
    assert_eq!(jobs.cancel("remind", "order-8").await.unwrap(), 0);
    assert_eq!(jobs.cancel("nobody", "nothing").await.unwrap(), 0, "no mistake");
    gate.open(1);
    bench.advance(seconds(30)).await;
    assert_eq!(bench.message(running.id).await.state, MessageState::Done);
    assert_eq!(bench.message(pending.id).await.state, MessageState::Cancelled);
    assert_eq!(bench.message(other.id).await.state, MessageState::Pending);
    jobs.once("remind").after(seconds(60)).key("order-8").await.unwrap();
}

// spec: T-37, T-38, T-39, T-41, T-30, T-73
#[tokio::test]
async fn retries_wait_in_proportion_and_end_as_a_dead_letter() {
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("remind", failing::<()>(&log))).await;
    let two = Retry::proportional().retries_max(2);
    let sent = bench.punctual.jobs().once("remind").after(seconds(900)).retry(two).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(
        log.lines(),
        ["1 2026-03-02T07:15:00Z", "2 2026-03-02T07:16:30Z", "3 2026-03-02T07:19:30Z"],
        "a tenth of the quarter of an hour later, then two"
    );
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::AttemptsSpent)));
    assert_eq!(record.error.as_deref(), Some("out of order"));
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Failed; 3]);
    let admin = bench.punctual.admin();
    assert_eq!(admin.redrive(sent.id).await.unwrap(), CommandResult::Applied(1));
    bench.run_until_idle().await;
    assert_eq!(log.lines()[3], "1 2026-03-02T08:00:00Z", "an operator starts the count anew");
}

// spec: T-40
#[tokio::test]
async fn a_job_planned_two_days_ahead_retries_by_the_hour() {
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("remind", failing::<()>(&log))).await;
    bench.punctual.jobs().once("remind").after(seconds(48 * 3_600)).await.unwrap();
    advance_in_steps(&bench, seconds(56 * 3_600), seconds(3_600)).await;
    let hours: Vec<String> = log.lines().iter().map(|line| line[13..15].to_owned()).collect();
    assert_eq!(
        hours,
        ["07", "08", "09", "10"],
        "three retries, each an hour later: {:?}",
        log.lines()
    );
}

// Decision 3.10: the loss of its process spends one of its attempts.
// spec: T-26
#[tokio::test]
async fn a_lost_process_counts_as_a_failed_attempt() {
    let log = Log::default();
    let first = Bench::start(|builder| {
        builder.handler("remind", crate::test_handlers::never_returning::<()>(&log))
    })
    .await;
    let sent = first.punctual.jobs().once("remind").after(seconds(600)).await.unwrap();
    first.advance(seconds(600)).await;
    let Bench { clock, storage, punctual } = first;
    drop(punctual);
    let done =
        logging::<()>(&log, |(), context: &Context| format!("attempt {}", context.attempt()));
    let second = Bench::start_in((clock, storage), |builder| builder.handler("remind", done)).await;
    second.advance(seconds(61)).await;
    let record = second.message(sent.id).await;
    assert_eq!((record.state, record.attempt, record.crashes), (MessageState::Pending, 1, 1));
    second.advance(seconds(60)).await;
    assert_eq!(log.lines()[1..], ["attempt 2"], "with its delay, not at once");
}

// spec: T-1, U-40
#[tokio::test]
async fn declarations_leave_one_time_jobs_alone() {
    let log = Log::default();
    let first = Bench::start(|builder| builder).await;
    first.punctual.jobs().once("remind").after(seconds(600)).await.unwrap();
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    let second = Bench::start_in(world, |builder| {
        builder
            .options(|options| options.allow_empty_reconcile = true)
            .handler("remind", logging::<()>(&log, |(), _| "reminded".to_owned()))
            .declare(Job::cron("unrelated", "0 0 1 1 *"))
    })
    .await;
    second.advance(seconds(600)).await;
    assert_eq!(log.lines(), ["reminded"]);
    assert_eq!(second.punctual.admin().jobs().await.unwrap().len(), 1);
}

// spec: D-32, D-34
#[tokio::test]
async fn many_concurrent_replacements_leave_exactly_one() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    let plan = |number: u64| {
        let once = jobs.once("remind").after(seconds(60 + number)).key("order-7");
        once.payload(&number.to_string()).replace().into_future()
    };
    let planned = futures_util::future::join_all((0..50).map(plan)).await;
    assert!(planned.iter().all(Result::is_ok));
    bench.advance(seconds(30)).await;
    assert_eq!(bench.punctual.admin().counts().await.unwrap().total(MessageState::Pending), 1);
    bench.advance(seconds(600)).await;
    assert_eq!(log.len(), 1);
}

// Decision 3.43.
// spec: T-43
#[tokio::test]
async fn cancelling_one_time_jobs_does_not_change_published_messages_of_the_topic() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    let publisher = bench.punctual.publisher();
    let planned = jobs.once("remind").after(seconds(60)).key("order-7").await.unwrap();
    let published = publisher.publish("remind", &None::<String>).key("order-7");
    let published = published.after(seconds(60)).await.unwrap();
    assert_eq!(jobs.cancel("remind", "order-7").await.unwrap(), 1);
    assert_eq!(bench.message(planned.id).await.state, MessageState::Cancelled);
    assert_eq!(bench.message(published.id).await.state, MessageState::Pending);
}
