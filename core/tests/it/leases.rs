//! Leases: which process may work on a message, how a lease is renewed, and what happens when it is lost.

use std::sync::Arc;

use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::measure::{LabelNames, readings};
use punctual::model::{DeadReason, Ending, MessageState, Phase, WhenInterrupted};
use punctual::{
    Builder, Context, Event, Inspect, Job, ManualClock, MemoryStorage, Occurrence, Outcome, Retry,
};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, endings, history, logging, never_returning, retrying, waiting};

/// Kills a process: its services end without deregistering.
fn kill(bench: Bench) -> (Arc<ManualClock>, Arc<MemoryStorage>) {
    let Bench { clock, storage, punctual } = bench;
    drop(punctual);
    (clock, storage)
}

fn short_lease(builder: Builder) -> Builder {
    builder.options(|options| options.lease_duration = seconds(60))
}

// spec: U-59, H-6
#[tokio::test]
async fn a_job_much_longer_than_its_lease_runs_once() {
    let (log, gate) = (Log::default(), Gate::shut());
    let world = world();
    let first = Bench::start_in(world.clone(), |builder| {
        short_lease(builder).handler("long", waiting::<()>(&log, &gate))
    })
    .await;
    let sent = first.punctual.publisher().publish("long", &()).await.unwrap();
    first.run_until_idle().await;
    let _second = Bench::start_in(world, |builder| {
        short_lease(builder).handler("long", waiting::<()>(&log, &gate))
    })
    .await;
    for _ in 0..10 {
        first.advance(seconds(60)).await;
        let record = first.message(sent.id).await;
        assert_eq!(record.phase(first.clock.now()), Phase::Running);
    }
    gate.open(2);
    first.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended"]);
    assert_eq!(endings(&first.storage, sent.id).await, [Ending::Succeeded]);
    assert_eq!(first.punctual.events().count("leases.rescued"), 0);
}

#[tokio::test]
async fn the_handler_sees_its_lease_move_ahead() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (recorded, passed) = (log.clone(), gate.clone());
    let bench = Bench::start(|builder| {
        short_lease(builder).handler("long", move |(): (), context: Context| {
            let (recorded, passed) = (recorded.clone(), passed.clone());
            async move {
                for _ in 0..2 {
                    recorded.push(context.lease_until().unwrap().to_string());
                    passed.pass().await;
                }
            }
        })
    })
    .await;
    bench.punctual.publisher().publish("long", &()).await.unwrap();
    bench.advance(seconds(45)).await;
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines()[0], "2026-03-02T07:01:00Z");
    assert!(log.lines()[1] > log.lines()[0], "{:?}", log.lines());
}

// Trap 4: renewal is blocked, so the work is cancelled and its late result refused.
#[tokio::test]
async fn without_renewal_the_handler_is_cancelled_and_its_late_result_is_refused() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let recorded = log.clone();
    let cut_off = Bench::start_in(world.clone(), |builder| {
        short_lease(builder).storage(faulty.clone()).handler(
            "long",
            move |(): (), context: Context| {
                let recorded = recorded.clone();
                async move {
                    recorded.push(format!("{:?}", context.cancelled().await));
                    Outcome::Done
                }
            },
        )
    })
    .await;
    let sent = cut_off.punctual.publisher().publish("long", &()).await.unwrap();
    cut_off.run_until_idle().await;
    faulty.fail(&["extend", "heartbeat", "time"]);
    cut_off.advance(seconds(59)).await;
    assert_eq!(log.len(), 0, "the lease still holds");
    let done = logging::<()>(&log, |(), context| format!("attempt {}", context.attempt()));
    let other = Bench::start_in(world, |builder| builder.handler("long", done)).await;
    other.advance(seconds(60)).await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["LeaseLost", "attempt 1"]);
    assert!(cut_off.punctual.events().count("lease.lost") >= 1);
    let history = history(&cut_off.storage, sent.id).await;
    let endings: Vec<Ending> = history.iter().map(|execution| execution.ending).collect();
    assert_eq!(endings, [Ending::Lost, Ending::Succeeded], "it wrote nothing any more");
    assert_eq!(history[1].process, Some(other.punctual.process_id()));
}

#[tokio::test]
async fn a_result_that_comes_after_the_lease_was_taken_over_changes_nothing() {
    let world = world();
    let (faulty, log, gate) = (FaultyStorage::over(&world.1), Log::default(), Gate::shut());
    let paused = Bench::start_in(world.clone(), |builder| {
        short_lease(builder).storage(faulty.clone()).handler("long", waiting::<()>(&log, &gate))
    })
    .await;
    let sent = paused.punctual.publisher().publish("long", &()).await.unwrap();
    paused.run_until_idle().await;
    // The whole process hangs while its lease expires, and finishes before its next check.
    faulty.fail(&["extend", "heartbeat"]);
    let other_log = Log::default();
    let other = Bench::start_in(world, |builder| {
        builder.handler("long", never_returning::<()>(&other_log))
    })
    .await;
    paused.clock.set(paused.clock.now() + punctual::jiff::SignedDuration::from_secs(61));
    gate.open(1);
    other.advance(seconds(60)).await;
    assert_eq!(other_log.len(), 1, "the other process has it");
    let record = paused.message(sent.id).await;
    assert_eq!(record.state, MessageState::Running);
    assert_eq!(record.lease.unwrap().owner, other.punctual.process_id());
    assert!(!endings(&paused.storage, sent.id).await.contains(&Ending::Succeeded));
}

// Finding P9 of the newcomer's review.
#[tokio::test]
async fn work_that_is_not_run_again_when_interrupted_is_dead_after_its_process_was_killed() {
    let log = Log::default();
    let killed = Bench::start(|builder| builder.handler("work", never_returning::<()>(&log))).await;
    let publish = killed.punctual.publisher().publish("work", &());
    let sent = publish.when_interrupted(WhenInterrupted::Lost).await.unwrap();
    killed.run_until_idle().await;
    let other = Bench::start_in(kill(killed), |builder| {
        builder.handler("work", never_returning::<()>(&log))
    })
    .await;
    other.advance(seconds(120)).await;
    assert_eq!(log.len(), 1, "it does not run again");
    let record = other.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Interrupted)));
    let expected = "interrupted: the process ended while it ran, and when_interrupted is lost";
    assert_eq!(record.error.as_deref(), Some(expected));
    assert_eq!(endings(&other.storage, sent.id).await, [Ending::Lost]);
    assert_eq!(other.punctual.events().count("message.dead"), 1);
    other.punctual.admin().redrive(sent.id).await.unwrap();
    other.run_until_idle().await;
    assert_eq!(log.len(), 2, "a person may send it again");
}

// Regression: runs that ended with their process were in no metric of jobs.
#[tokio::test]
async fn a_run_of_a_job_that_ended_with_its_process_is_counted_as_lost() {
    let log = Log::default();
    let job = Job::cron("minutely", "* * * * *").when_interrupted(WhenInterrupted::Lost);
    let killed =
        Bench::start(|builder| builder.job(job, never_returning::<Occurrence>(&log))).await;
    killed.advance(seconds(61)).await;
    assert_eq!(log.len(), 1, "one run began");
    let other = Bench::start_in(kill(killed), |builder| {
        builder.handler("minutely", never_returning::<Occurrence>(&log))
    })
    .await;
    let (mut events, names) = (other.punctual.events().listen(), LabelNames::default());
    other.advance(seconds(40)).await;
    let mut runs = Vec::new();
    while let Ok(event) = events.try_recv() {
        readings(&event, &names, &mut |reading| {
            if reading.meter.name == "punctual.job.runs" {
                runs.push(format!("{:?} {:?}", reading.labels, reading.amount));
            }
        });
    }
    assert_eq!(runs, [r#"[("job_name", "minutely"), ("result", "lost")] Count(1)"#]);
}

// spec: H-3, H-5, H-7, H-77, T-25
#[tokio::test]
async fn the_work_of_a_killed_process_is_rescued_after_its_heartbeats_stop() {
    let log = Log::default();
    let killed = Bench::start(|builder| builder.handler("work", never_returning::<()>(&log))).await;
    let sent = killed.punctual.publisher().publish("work", &()).await.unwrap();
    killed.advance(seconds(60)).await;
    let world = kill(killed);
    let killed_at = world.0.now();
    let done = logging::<()>(&log, |(), context| format!("attempt {}", context.attempt()));
    let other = Bench::start_in(world, |builder| builder.handler("work", done)).await;
    let mut events = other.punctual.events().listen();
    other.advance(seconds(20)).await;
    assert_eq!(log.len(), 1, "three heartbeats must be missing first");
    other.advance(seconds(45)).await;
    assert_eq!(log.lines()[1..], ["attempt 1"], "long before the lease of five minutes is over");
    let history = history(&other.storage, sent.id).await;
    let endings: Vec<Ending> = history.iter().map(|execution| execution.ending).collect();
    assert_eq!(endings, [Ending::Lost, Ending::Succeeded]);
    assert!(history[0].ended_at > killed_at);
    assert_eq!(history[0].note.as_deref(), Some("its process was lost (crash 1)"));
    let mut counts = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let Event::LeasesRescued { count } = *event {
            counts.push(count);
        }
    }
    assert_eq!(counts, [1]);
}

// Regression: a run was rescued up to a minute after its process had ended, at the next tick of an
// interval, although its heartbeat had long expired.
// spec: H-3, H-5
#[tokio::test]
async fn a_process_is_rescued_as_soon_as_its_heartbeat_has_expired() {
    let log = Log::default();
    let killed = Bench::start(|builder| builder.handler("work", never_returning::<()>(&log))).await;
    killed.punctual.publisher().publish("work", &()).await.unwrap();
    // The last heartbeat is that of second 40, just after a tick of the rescue interval.
    killed.advance(seconds(41)).await;
    let world = kill(killed);
    let done = logging::<()>(&log, |(), _| "again".to_owned());
    let other = Bench::start_in(world, |builder| builder.handler("work", done)).await;
    other.advance(seconds(29)).await;
    assert_eq!(log.len(), 1, "exactly at its end, at second 70, the heartbeat still holds");
    assert_eq!(other.punctual.admin().health().await.stale, 0);
    other.advance(seconds(2)).await;
    assert_eq!(log.lines()[1..], ["again"]);
}

// spec: H-48
#[tokio::test]
async fn health_is_degraded_while_a_message_belongs_to_a_lost_process() {
    let log = Log::default();
    let killed = Bench::start(|builder| builder.handler("work", never_returning::<()>(&log))).await;
    killed.punctual.publisher().publish("work", &()).await.unwrap();
    killed.advance(seconds(11)).await;
    let world = kill(killed);
    let other =
        Bench::start_in(world, |builder| builder.options(|options| options.maintenance = false))
            .await;
    other.advance(seconds(40)).await;
    let health = other.punctual.admin().health().await;
    assert_eq!(health.condition, punctual::health::Condition::Degraded);
    assert_eq!(health.reasons, ["1 message belongs to a process that has ended"]);
}

#[tokio::test]
async fn a_rescuer_beside_long_runs_does_not_query_at_every_poll() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let bench = Bench::start_in(world, |builder| {
        builder.storage(faulty.clone()).handler("work", never_returning::<()>(&log))
    })
    .await;
    bench.punctual.publisher().publish("work", &()).await.unwrap();
    bench.run_until_idle().await;
    let reclaims = faulty.calls("reclaim");
    bench.advance(seconds(300)).await;
    let turns = faulty.calls("reclaim") - reclaims;
    assert!((10..=31).contains(&turns), "{turns} turns in five minutes");
    assert_eq!(bench.punctual.events().count("leases.rescued"), 0);
}

// spec: H-9, H-12
#[tokio::test]
async fn a_rescuer_that_finds_nothing_reports_nothing() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let bench = Bench::start_in(world, |builder| {
        builder
            .storage(faulty.clone())
            .handler("work", logging::<()>(&log, |(), _| "done".to_owned()))
    })
    .await;
    bench.punctual.publisher().publish("work", &()).await.unwrap();
    bench.advance(seconds(600)).await;
    assert!(faulty.calls("reclaim") >= 20, "it looked");
    assert_eq!(bench.punctual.events().count("leases.rescued"), 0);
}

// spec: H-11
#[tokio::test]
async fn the_rescuer_runs_every_rescue_interval_not_at_every_poll() {
    let world = world();
    let faulty = FaultyStorage::over(&world.1);
    let bench = Bench::start_in(world, |builder| {
        builder.storage(faulty.clone()).options(|options| {
            options.poll_interval = seconds(1);
            options.rescue_interval = seconds(30);
        })
    })
    .await;
    let (reclaims, heartbeats) = (faulty.calls("reclaim"), faulty.calls("heartbeat"));
    bench.advance(seconds(300)).await;
    assert_eq!(faulty.calls("reclaim") - reclaims, 10);
    assert_eq!(faulty.calls("heartbeat") - heartbeats, 30);
}

// spec: H-8
#[tokio::test]
async fn a_message_that_keeps_killing_its_process_ends_as_a_dead_letter() {
    let log = Log::default();
    let handler_options = retrying(Retry::intervals([seconds(1)])).crashes_max(2);
    let mut world = world();
    let mut sent = None;
    for _ in 0..8 {
        let bench = Bench::start_in(world, |builder| {
            builder.handler_with("fatal", handler_options.clone(), never_returning::<()>(&log))
        })
        .await;
        if sent.is_none() {
            sent = Some(bench.punctual.publisher().publish("fatal", &()).await.unwrap().id);
        }
        bench.advance(seconds(61)).await;
        world = kill(bench);
    }
    let record = world.1.message(sent.unwrap()).await.unwrap().unwrap();
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::CrashLoop)));
    // Two crashes are free; then each one spends an attempt, of which there are two.
    assert_eq!(endings(&world.1, sent.unwrap()).await, [Ending::Lost; 4]);
    assert_eq!(log.len(), 4);
}

// spec: H-15, U-30, T-21
#[tokio::test]
async fn a_storage_error_in_one_pass_ends_no_loop() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let bench = Bench::start_in(world, |builder| {
        builder
            .storage(faulty.clone())
            .handler("work", logging::<()>(&log, |(), _| "done".to_owned()))
            .job(
                punctual::Job::cron("minutely", "* * * * *"),
                logging::<punctual::Occurrence>(&log, |slot, _| slot.nominal.to_string()),
            )
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("work", &()).after(seconds(30)).await.unwrap();
    faulty.fail(&["claim", "due_jobs", "reclaim", "heartbeat", "extend", "next_due"]);
    bench.advance(seconds(45)).await;
    assert_eq!(log.len(), 0);
    assert!(bench.punctual.events().count("service.failed") >= 4, "each of them reported it");
    faulty.heal();
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["done", "2026-03-02T07:01:00Z"]);
    let reclaims = faulty.calls("reclaim");
    bench.advance(seconds(60)).await;
    assert!(faulty.calls("reclaim") > reclaims, "the rescuer still runs");
}

#[tokio::test]
async fn a_result_is_stored_when_the_storage_comes_back() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let bench = Bench::start_in(world, |builder| {
        builder
            .storage(faulty.clone())
            .handler("work", logging::<()>(&log, |(), _| "done".to_owned()))
    })
    .await;
    faulty.fail(&["settle"]);
    let sent = bench.punctual.publisher().publish("work", &()).await.unwrap();
    bench.advance(seconds(20)).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Running);
    faulty.heal();
    bench.advance(seconds(30)).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Done);
    assert_eq!(log.len(), 1, "the handler did not have to run again");
}

#[tokio::test]
async fn two_processes_with_the_same_configuration_are_two_owners() {
    let log = Log::default();
    let world = world();
    let start = || {
        Bench::start_in(world.clone(), |builder| {
            builder.app("shop").queue("default", 1).handler("work", never_returning::<()>(&log))
        })
    };
    let (first, second) = (start().await, start().await);
    assert_ne!(first.punctual.process_id(), second.punctual.process_id());
    let publisher = first.punctual.publisher();
    let sent = [
        publisher.publish("work", &()).await.unwrap().id,
        publisher.publish("work", &()).await.unwrap().id,
    ];
    first.run_until_idle().await;
    let mut owners = Vec::new();
    for id in sent {
        owners.push(first.message(id).await.lease.unwrap().owner);
    }
    owners.sort();
    let mut both = [first.punctual.process_id(), second.punctual.process_id()];
    both.sort();
    assert_eq!(owners, both);
}

// Trap 5: the process dies after the claim, before anything was started.
#[tokio::test]
async fn a_claim_that_never_started_costs_no_attempt() {
    let log = Log::default();
    let (clock, storage) = world();
    let bench = Bench::start_in((clock.clone(), storage.clone()), |builder| {
        builder.options(|options| options.handling = false)
    })
    .await;
    let sent = bench.punctual.publisher().publish("work", &()).await.unwrap();
    let claim = punctual::backend::storage::Claim::new(
        punctual::model::Queue::default(),
        punctual::model::ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(7)),
        1,
        clock.now() + punctual::jiff::SignedDuration::from_secs(60),
    );
    let claimed = punctual::Storage::claim(&*storage, claim, clock.now()).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let done = logging::<()>(&log, |(), context| format!("attempt {}", context.attempt()));
    let worker = Bench::start_in((clock, storage), |builder| {
        builder.handler_with("work", retrying(Retry::none()), done)
    })
    .await;
    worker.advance(seconds(120)).await;
    assert_eq!(log.lines(), ["attempt 1"]);
    assert_eq!(worker.message(sent.id).await.state, MessageState::Done);
    let all =
        worker.storage.executions(ExecutionFilter::default(), PageRequest::first(9)).await.unwrap();
    assert_eq!(all.rows.len(), 2);
}
