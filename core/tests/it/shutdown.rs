//! Start and shutdown: running messages finish or are released, a shutdown spends no attempt, and it always ends.

use punctual::model::{DeadReason, Ending, HandlerOptions, MessageState, WhenInterrupted};
use punctual::{CancelCause, Context, Job, Occurrence, Outcome, Punctual, Retry, ShutdownReport};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, run_until_idle, seconds, world};
use crate::test_handlers::{
    Gate, endings, history, logging, never_returning, retrying, stop_within, waiting,
};

const QUIET: ShutdownReport = ShutdownReport { interrupted: 0, abandoned: 0 };

// spec: U-28, H-28
#[tokio::test]
async fn what_is_in_flight_finishes_within_the_drain() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("report", waiting::<()>(&log, &gate))).await;
    let sent = bench.punctual.publisher().publish("report", &()).await.unwrap();
    bench.run_until_idle().await;
    let stopping = async {
        bench.advance(seconds(20)).await;
        gate.open(1);
        bench.run_until_idle().await;
    };
    let (stopped, ()) = tokio::join!(bench.punctual.shutdown(), stopping);
    assert_eq!(stopped, QUIET);
    assert_eq!(log.lines(), ["began", "ended"]);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Succeeded]);
}

// spec: U-28
#[tokio::test]
async fn no_process_takes_over_messages_that_finish_within_the_drain() {
    let (log, gate) = (Log::default(), Gate::shut());
    let leaving = Bench::start(|builder| {
        builder
            .handler("report", waiting::<()>(&log, &gate))
            .options(|options| options.drain_timeout = seconds(240))
    })
    .await;
    let sent = leaving.punctual.publisher().publish("report", &()).await.unwrap();
    leaving.run_until_idle().await;
    let world = (leaving.clock.clone(), leaving.storage.clone());
    let _staying =
        Bench::start_in(world, |builder| builder.handler("report", waiting::<()>(&log, &gate)))
            .await;
    let stopping = async {
        leaving.advance(seconds(200)).await;
        gate.open(2);
        leaving.run_until_idle().await;
    };
    let (stopped, ()) = tokio::join!(leaving.punctual.shutdown(), stopping);
    assert_eq!(stopped, QUIET);
    assert_eq!(log.lines(), ["began", "ended"], "it ran once, here");
    assert_eq!(endings(&leaving.storage, sent.id).await, [Ending::Succeeded]);
}

// spec: H-28
#[tokio::test]
async fn unfinished_messages_are_released_without_using_an_attempt() {
    let log = Log::default();
    let recorded = log.clone();
    let leaving = Bench::start(|builder| {
        builder.handler_with("report", retrying(Retry::none()), move |(): (), context: Context| {
            let recorded = recorded.clone();
            async move {
                recorded.push(format!("{:?}", context.cancelled().await));
                Err::<(), _>("broken off")
            }
        })
    })
    .await;
    let sent = leaving.punctual.publisher().publish("report", &()).await.unwrap();
    leaving.run_until_idle().await;
    let stopped = stop_within(&leaving, seconds(31)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 0));
    assert_eq!(log.lines(), ["Shutdown"]);
    let record = leaving.message(sent.id).await;
    assert_eq!((record.state, record.attempt), (MessageState::Pending, 0));
    assert_eq!(record.due_at, leaving.clock.now(), "it is due at once");

    let world = (leaving.clock.clone(), leaving.storage.clone());
    let _staying = Bench::start_in(world, |builder| {
        builder.handler("report", logging::<()>(&log, |(), context| context.attempt().to_string()))
    })
    .await;
    assert_eq!(log.lines(), ["Shutdown", "1"], "the next process has it at once");
    let history = history(&leaving.storage, sent.id).await;
    let endings: Vec<Ending> = history.iter().map(|execution| execution.ending).collect();
    assert_eq!(endings, [Ending::Released, Ending::Succeeded]);
    assert_ne!(history[0].process, history[1].process);
}

// Finding P9 of the newcomer's review.
#[tokio::test]
async fn what_is_not_run_again_when_interrupted_is_dead_after_the_drain() {
    let log = Log::default();
    let leaving = Bench::start(|builder| {
        let handler_options = HandlerOptions::new().when_interrupted(WhenInterrupted::Lost);
        builder.handler_with("report", handler_options, never_returning::<()>(&log))
    })
    .await;
    let sent = leaving.punctual.publisher().publish("report", &()).await.unwrap();
    leaving.run_until_idle().await;
    let stopped = stop_within(&leaving, seconds(36)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 0));
    let record = leaving.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Interrupted)));
    assert_eq!(endings(&leaving.storage, sent.id).await, [Ending::Lost]);
}

// spec: U-28
#[tokio::test]
async fn a_result_that_arrives_while_stopping_is_stored() {
    let bench = Bench::start(|builder| {
        builder.handler("report", |(): (), context: Context| async move {
            assert_eq!(context.cancelled().await, CancelCause::Shutdown);
            Outcome::Done
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("report", &()).await.unwrap();
    bench.run_until_idle().await;
    let stopped = stop_within(&bench, seconds(31)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 0));
    assert_eq!(bench.message(sent.id).await.state, MessageState::Done);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Succeeded]);
}

#[tokio::test]
async fn a_handler_that_never_returns_does_not_hold_the_shutdown_up() {
    let log = Log::default();
    let bench =
        Bench::start(|builder| builder.handler("report", never_returning::<()>(&log))).await;
    let sent = bench.punctual.publisher().publish("report", &()).await.unwrap();
    bench.run_until_idle().await;
    // The drain timeout of 30 s and the cancel timeout of 5 s, after which the handler is dropped.
    let stopped = stop_within(&bench, seconds(36)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 0));
    assert_eq!(bench.message(sent.id).await.state, MessageState::Pending);
    assert_eq!(bench.message(sent.id).await.attempt, 0);
}

#[tokio::test]
async fn a_storage_that_is_gone_does_not_hold_the_shutdown_up() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let bench = Bench::start_in(world, |builder| {
        builder.storage(faulty.clone()).handler("report", never_returning::<()>(&log))
    })
    .await;
    bench.punctual.publisher().publish("report", &()).await.unwrap();
    bench.run_until_idle().await;
    faulty.fail(&crate::faulty_storage::ALL_CALLS);
    // The drain timeout, the cancel timeout and as much again to store what cannot be stored.
    let stopped = stop_within(&bench, seconds(41)).await;
    assert_eq!((stopped.interrupted, stopped.abandoned), (1, 1));
}

// spec: T-60
#[tokio::test]
async fn starting_twice_starts_once() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.job(
            Job::cron("hourly", "0 * * * *"),
            logging::<Occurrence>(&log, |occurrence, _| occurrence.nominal.to_string()),
        )
    })
    .await;
    let sleepers = bench.clock.sleepers();
    bench.punctual.start().await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(bench.clock.sleepers(), sleepers, "no second set of services");
    assert_eq!(bench.punctual.events().count("process.started"), 1);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["2026-03-02T08:00:00Z"]);
}

// spec: T-61
#[tokio::test]
async fn services_can_be_switched_off() {
    let log = Log::default();
    let job = || Job::cron("hourly", "0 * * * *");
    let handler = || logging::<Occurrence>(&log, |_, _| "ran".to_owned());
    let idle = Bench::start(|builder| {
        builder.job(job(), handler()).options(|options| {
            options.scheduling = false;
            options.handling = false;
        })
    })
    .await;
    let sent = idle.punctual.publisher().publish("hourly", &()).await.unwrap();
    idle.advance(seconds(7_200)).await;
    assert_eq!(log.len(), 0);
    assert_eq!(idle.message(sent.id).await.state, MessageState::Pending);
    let jobs = idle.punctual.admin().jobs().await.unwrap();
    assert_eq!(jobs.len(), 1, "declared, and not fired");
    assert_eq!(idle.punctual.events().count("job.fired"), 0);
}

// spec: T-62, H-14
#[tokio::test]
async fn stopping_before_the_start_and_while_waiting_is_quiet() {
    let (clock, storage) = world();
    let never = Punctual::builder().clock(clock).storage(storage).build().unwrap();
    assert_eq!(never.shutdown().await, QUIET);
    never.start().await.unwrap();
    run_until_idle().await;
    assert_eq!(never.events().count("service.failed"), 0);

    let log = Log::default();
    let waiting = Bench::start(|builder| {
        builder.job(Job::cron("yearly", "0 0 1 1 *"), never_returning::<Occurrence>(&log))
    })
    .await;
    waiting.advance(seconds(3_600)).await;
    let before = waiting.clock.now();
    assert_eq!(waiting.punctual.shutdown().await, QUIET);
    assert_eq!(waiting.clock.now(), before, "no time had to pass");
    assert_eq!(waiting.punctual.events().count("service.failed"), 0);
    assert_eq!(waiting.clock.sleepers(), 0, "no service is left behind");
    assert_eq!(waiting.punctual.shutdown().await, QUIET, "twice is fine");
}

#[tokio::test]
async fn after_the_stop_is_requested_nothing_new_is_claimed() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("report", waiting::<()>(&log, &gate))).await;
    let publisher = bench.punctual.publisher();
    publisher.publish("report", &()).await.unwrap();
    bench.run_until_idle().await;
    let late = async {
        bench.run_until_idle().await;
        let late = publisher.publish("report", &()).await.unwrap();
        bench.advance(seconds(10)).await;
        gate.open(2);
        bench.run_until_idle().await;
        late
    };
    let (_, late) = tokio::join!(bench.punctual.shutdown(), late);
    assert_eq!(log.lines(), ["began", "ended"]);
    assert_eq!(bench.message(late.id).await.state, MessageState::Pending);
}

#[tokio::test]
async fn deregistering_releases_abandoned_messages_immediately() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let leaving = Bench::start_in(world.clone(), |builder| {
        builder.storage(faulty.clone()).handler("report", never_returning::<()>(&log))
    })
    .await;
    let sent = leaving.punctual.publisher().publish("report", &()).await.unwrap();
    leaving.run_until_idle().await;
    faulty.fail(&["settle"]);
    assert_eq!(stop_within(&leaving, seconds(41)).await.abandoned, 1);
    assert_eq!(leaving.message(sent.id).await.state, MessageState::Running);
    let done = logging::<()>(&log, |(), _| "rescued".to_owned());
    let staying = Bench::start_in(world, |builder| builder.handler("report", done)).await;
    staying.advance(seconds(1)).await;
    assert_eq!(log.lines()[1..], ["rescued"], "without waiting for missing heartbeats");
}
