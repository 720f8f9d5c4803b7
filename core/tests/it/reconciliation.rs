//! Reconciliation: every start merges the declarations of the code, the overrides of the configuration and the
//! stored jobs, without undoing changes of operators.

use std::sync::Arc;

use punctual::client::PauseRequest;
use punctual::model::{JobPhase, JobRecord, Retirement};
use punctual::{Builder, ErrorKind, Job, ManualClock, MemoryStorage, Misfire, Occurrence};

use crate::faulty_storage::{ALL_CALLS, FaultyStorage};
use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::logging;

type World = (Arc<ManualClock>, Arc<MemoryStorage>);

/// Starts a process, lets it reconcile, stops it, and returns the stored jobs.
async fn deploy(world: &World, build: impl FnOnce(Builder) -> Builder) -> Vec<JobRecord> {
    let bench = Bench::start_in(world.clone(), |builder| build(builder).release(1)).await;
    let jobs = bench.punctual.admin().jobs().await.unwrap();
    bench.punctual.shutdown().await;
    jobs
}

fn hourly(builder: Builder) -> Builder {
    builder.declare(Job::cron("hourly", "0 * * * *"))
}

fn daily(builder: Builder) -> Builder {
    builder.declare(Job::cron("daily", "0 8 * * *"))
}

// spec: U-39a, U-38, T-45, T-47, T-57
#[tokio::test]
async fn a_new_job_is_stored_with_its_next_occurrence() {
    let jobs = deploy(&world(), |builder| daily(hourly(builder))).await;
    let names: Vec<&str> = jobs.iter().map(|record| record.job.name.as_str()).collect();
    assert_eq!(names, ["daily", "hourly"]);
    assert_eq!(jobs[1].cursor, Some(instant("2026-03-02T08:00:00Z")));
    assert_eq!((jobs[1].last_nominal, jobs[1].version), (None, 1), "it never ran");
}

// spec: U-39b, U-37, T-46
#[tokio::test]
async fn another_schedule_is_stored_and_moves_the_cursor() {
    let world = world();
    deploy(&world, hourly).await;
    let changed = deploy(&world, |builder| {
        builder.declare(Job::cron("hourly", "30 * * * *").zone("Europe/Warsaw"))
    })
    .await;
    assert_eq!(changed[0].cursor, Some(instant("2026-03-02T07:30:00Z")));
    assert_eq!(changed[0].version, 2);
    let zone_only = deploy(&world, |builder| {
        builder.declare(Job::cron("hourly", "30 * * * *").zone("Asia/Kathmandu"))
    })
    .await;
    // Half past the hour in that zone is a quarter to the hour in UTC.
    assert_eq!(zone_only[0].cursor, Some(instant("2026-03-02T07:45:00Z")));
}

// Trap 2: a deploy without a change writes nothing.
// spec: U-39d, T-46
#[tokio::test]
async fn the_same_declaration_writes_nothing_and_keeps_overdue_occurrences() {
    let world = world();
    let first = deploy(&world, |builder| daily(hourly(builder))).await;
    world.0.set(instant("2026-03-02T10:30:00Z"));
    let faulty = FaultyStorage::over(&world.1);
    let second = Bench::start_in(world.clone(), |builder| {
        daily(hourly(builder.storage(faulty.clone()))).release(2)
    })
    .await;
    assert_eq!(faulty.calls("declare"), 0, "not even asked to");
    assert_eq!(second.punctual.events().count("job.declared"), 0);
    // The overdue occurrence was not forgotten: the misfire policy decided about it.
    assert_eq!(second.punctual.events().count("job.misfired"), 2);
    let daily = second.punctual.admin().job("daily").await.unwrap();
    assert_eq!(daily.created_at, first[0].created_at);
    assert_eq!(daily.version, first[0].version + 1, "by the firing alone");
}

// Trap 3.
// spec: U-39c, T-59
#[tokio::test]
async fn a_vanished_job_is_retired_and_comes_back_when_it_is_declared_again() {
    let world = world();
    deploy(&world, |builder| daily(hourly(builder))).await;
    let without = deploy(&world, hourly).await;
    assert_eq!(without.len(), 2, "it is kept");
    assert_eq!((without[0].retired, without[0].cursor), (Some(Retirement::Removed), None));
    assert_eq!(without[1].retired, None);
    world.0.set(instant("2026-03-05T00:00:00Z"));
    let again = deploy(&world, |builder| daily(hourly(builder))).await;
    assert_eq!((again[0].retired, again[0].phase()), (None, JobPhase::Active));
    assert_eq!(
        again[0].cursor,
        Some(instant("2026-03-05T08:00:00Z")),
        "no missed occurrence is run"
    );
}

// Trap 3: what an operator paused stays paused, across changes, removal and return.
// spec: T-59, T-46
#[tokio::test]
async fn an_operator_s_pause_is_kept() {
    let world = world();
    let bench = Bench::start_in(world.clone(), |builder| daily(hourly(builder)).release(1)).await;
    let request = PauseRequest { by: "ada".to_owned(), reason: "audit".to_owned(), until: None };
    bench.punctual.admin().pause("daily", request).await.unwrap();
    bench.punctual.shutdown().await;
    for step in ["same", "changed", "removed", "back"] {
        let jobs = match step {
            "same" | "back" => deploy(&world, |builder| daily(hourly(builder))).await,
            "changed" => {
                deploy(&world, |builder| hourly(builder).declare(Job::cron("daily", "0 9 * * *")))
                    .await
            }
            _ => deploy(&world, hourly).await,
        };
        let pause = jobs[0].paused.as_ref().unwrap_or_else(|| panic!("{step} ended the pause"));
        assert_eq!((pause.by.as_str(), pause.reason.as_str()), ("ada", "audit"), "{step}");
    }
}

// Trap 16.
// spec: H-55, H-57, T-21
#[tokio::test]
async fn a_configured_cron_that_cannot_be_read_is_reported_and_not_used() {
    let log = Log::default();
    let fired = logging::<Occurrence>(&log, |occurrence, _| occurrence.nominal.to_string());
    let bench = Bench::start(|builder| {
        builder
            .job(Job::cron("hourly", "0 * * * *"), fired)
            .cron_override("hourly", "every now and then")
    })
    .await;
    assert_eq!(bench.punctual.events().count("job.configuration_invalid"), 1);
    let record = bench.punctual.admin().job("hourly").await.unwrap();
    assert_eq!(record.configured, None);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["2026-03-02T08:00:00Z"], "the declared one is in force");
}

// spec: H-54, H-56
#[tokio::test]
async fn a_configured_cron_wins_and_replaces_the_cron_alone() {
    let job = || {
        Job::cron("daily", "0 8 * * *")
            .zone("Europe/Warsaw")
            .timeout(seconds(9))
            .misfire(Misfire::skip_to_next())
    };
    let world = world();
    let with =
        deploy(&world, |builder| builder.declare(job()).cron_override("daily", "0 12 * * *")).await;
    // Noon in Warsaw.
    assert_eq!(with[0].cursor, Some(instant("2026-03-02T11:00:00Z")));
    assert_eq!(with[0].job.handler_options.timeout, Some(seconds(9)));
    assert_eq!(with[0].job.misfire, Misfire::skip_to_next());
    let without = deploy(&world, |builder| builder.declare(job())).await;
    assert_eq!(
        without[0].cursor,
        Some(instant("2026-03-03T07:00:00Z")),
        "the declared one is back"
    );
}

// Trap 20.
#[tokio::test]
async fn two_releases_side_by_side_do_not_flip_a_job() {
    let world = world();
    let old = |builder: Builder| {
        builder
            .release(7)
            .declare(Job::cron("report", "0 8 * * *"))
            .declare(Job::cron("old", "0 1 * * *"))
    };
    let new = |builder: Builder| {
        builder
            .release(8)
            .declare(Job::cron("report", "0 9 * * *"))
            .declare(Job::cron("new", "0 1 * * *"))
    };
    let mut seen = Vec::new();
    for round in 0..3 {
        // Nodes of both releases start again and again while the deploy rolls.
        let first = Bench::start_in(world.clone(), old).await;
        first.punctual.shutdown().await;
        let second = Bench::start_in(world.clone(), new).await;
        let jobs = second.punctual.admin().jobs().await.unwrap();
        second.punctual.shutdown().await;
        if round > 0 {
            assert_eq!(seen, jobs, "nothing changed in round {round}");
        }
        seen = jobs;
    }
    let phases: Vec<_> =
        seen.iter().map(|record| (record.job.name.as_str(), record.phase())).collect();
    let expected =
        [("new", JobPhase::Active), ("old", JobPhase::Retired), ("report", JobPhase::Active)];
    assert_eq!(phases, expected);
    assert_eq!(seen[2].cursor, Some(instant("2026-03-02T09:00:00Z")));
}

// spec: T-2, T-65
#[tokio::test]
async fn a_storage_that_is_down_at_the_start_delays_scheduling_and_nothing_else() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    faulty.fail(&ALL_CALLS);
    let fired = logging::<Occurrence>(&log, |occurrence, _| occurrence.nominal.to_string());
    let bench = Bench::start_in(world, |builder| {
        builder.storage(faulty.clone()).job(Job::cron("hourly", "0 * * * *"), fired)
    })
    .await;
    let error = bench.punctual.publisher().publish("x", &()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    bench.advance(seconds(1_800)).await;
    assert!(bench.punctual.events().count("service.failed") > 0);
    faulty.heal();
    bench.advance(seconds(1_800)).await;
    assert_eq!(log.lines(), ["2026-03-02T08:00:00Z"]);
    assert_eq!(bench.punctual.admin().jobs().await.unwrap().len(), 1);
}

// Decision 3.5.
#[tokio::test]
async fn declaring_nothing_retires_nothing_unless_that_is_allowed() {
    let world = world();
    deploy(&world, hourly).await;
    let nothing = deploy(&world, |builder| builder).await;
    assert_eq!(nothing[0].phase(), JobPhase::Active, "taken for a mistake");
    let meant =
        deploy(&world, |builder| builder.options(|options| options.allow_empty_reconcile = true))
            .await;
    assert_eq!(meant[0].retired, Some(Retirement::Removed));
}

#[tokio::test]
async fn jobs_of_another_application_are_not_changed() {
    let world = world();
    deploy(&world, |builder| hourly(builder.app("shop"))).await;
    let bench = Bench::start_in(world, |builder| {
        daily(builder.app("bank").release(9)).declare(Job::cron("hourly", "59 * * * *"))
    })
    .await;
    let jobs = bench.punctual.admin().jobs().await.unwrap();
    assert_eq!(jobs.len(), 2);
    assert_eq!((jobs[1].app.as_str(), jobs[1].phase()), ("shop", JobPhase::Active));
    assert_eq!(jobs[1].cursor, Some(instant("2026-03-02T08:00:00Z")));
    assert_eq!(bench.punctual.events().count("job.name_conflict"), 1, "and that is reported");
}

#[tokio::test]
async fn several_nodes_that_start_together_declare_a_job_once() {
    let world = world();
    let start = || Bench::start_in(world.clone(), |builder| daily(hourly(builder)));
    let nodes = tokio::join!(start(), start(), start());
    let declared: u64 = [&nodes.0, &nodes.1, &nodes.2]
        .iter()
        .map(|node| node.punctual.events().count("job.declared"))
        .sum();
    assert_eq!(declared, 2);
    let jobs = nodes.0.punctual.admin().jobs().await.unwrap();
    assert!(jobs.iter().all(|record| record.version == 1));
    let missing = nodes.0.punctual.admin().job("weekly").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

// The storage is the authority while processes run: a deploy of another process takes effect here.
// spec: T-19, T-20
#[tokio::test]
async fn a_running_node_follows_changes_of_another_deploy() {
    let log = Log::default();
    let world = world();
    let fired = logging::<Occurrence>(&log, |occurrence, _| occurrence.nominal.to_string());
    let running = Bench::start_in(world.clone(), |builder| {
        builder.release(1).job(Job::cron("report", "0 * * * *"), fired)
    })
    .await;
    running.advance(seconds(600)).await;
    let half_past =
        |builder: Builder| builder.release(2).declare(Job::cron("report", "30 * * * *"));
    let deploy = Bench::start_in(world, half_past).await;
    deploy.punctual.shutdown().await;
    running.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["2026-03-02T07:30:00Z"]);
}

// Decision 3.5: only what code declared vanishes with the code.
// spec: U-40
#[tokio::test]
async fn one_time_jobs_are_not_touched_by_a_deploy() {
    let world = world();
    let log = Log::default();
    let first = Bench::start_in(world.clone(), |builder| hourly(builder).release(1)).await;
    let later = first.punctual.jobs().once("reminder").key("order-7").after(seconds(7_200));
    let planned = later.await.unwrap();
    let before = first.message(planned.id).await;
    first.punctual.shutdown().await;
    let ran = logging::<()>(&log, |(), context| context.started_at().to_string());
    let second =
        Bench::start_in(world, |builder| daily(builder).release(2).handler("reminder", ran)).await;
    assert_eq!(second.message(planned.id).await, before);
    second.advance(seconds(7_200)).await;
    assert_eq!(log.lines(), ["2026-03-02T09:00:00Z"]);
}

// Trap 2: each policy decides once about what was missed while nothing ran, whatever else
// the deploy changes.
// spec: U-39d
#[tokio::test]
async fn what_was_missed_over_a_deploy_is_decided_once_by_the_policy() {
    for (misfire, expected) in [
        (Misfire::fire_now(), vec!["08:00"]),
        (Misfire::fire_once(), vec!["10:00"]),
        (Misfire::fire_all(), vec!["08:00", "09:00", "10:00"]),
        (Misfire::skip_to_next(), vec![]),
    ] {
        let world = world();
        let log = Log::default();
        let job = || Job::cron("report", "0 * * * *").misfire(misfire.clone());
        deploy(&world, |builder| builder.declare(job())).await;
        world.0.set(instant("2026-03-02T10:30:00Z"));
        for release in [2, 3] {
            let line =
                |occurrence: &Occurrence, _: &_| occurrence.nominal.strftime("%H:%M").to_string();
            let next = Bench::start_in(world.clone(), |builder| {
                // Another timeout is another definition, but the same schedule.
                let job = job().timeout(seconds(release));
                builder.release(release).job(job, logging::<Occurrence>(&log, line))
            })
            .await;
            next.advance(seconds(1)).await;
            next.punctual.shutdown().await;
        }
        assert_eq!(log.lines(), expected, "{misfire:?}");
    }
}

// A storage that fails in the middle of a reconciliation: what is left is done later, once.
// spec: T-2
#[tokio::test]
async fn an_interrupted_reconciliation_continues_later() {
    let world = world();
    let faulty = FaultyStorage::over(&world.1);
    faulty.fail(&["declare"]);
    let bench =
        Bench::start_in(world, |builder| daily(hourly(builder.storage(faulty.clone())))).await;
    assert!(bench.punctual.admin().jobs().await.unwrap().is_empty());
    faulty.heal();
    bench.advance(seconds(60)).await;
    let jobs = bench.punctual.admin().jobs().await.unwrap();
    assert_eq!(jobs.iter().map(|record| record.version).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(bench.punctual.events().count("job.declared"), 2);
}
