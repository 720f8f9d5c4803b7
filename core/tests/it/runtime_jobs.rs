//! Runtime jobs: created, changed and retired while a process runs, one by one and as the set of a source.

use punctual::backend::storage::DeclareResult;
use punctual::client::{DeclareReport, PauseRequest};
use punctual::model::{JobName, JobPhase, Origin, Retirement};
use punctual::policy::Edit;
use punctual::{ErrorKind, Job, JobBuilder, Occurrence};

use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::logging;

const FILE: &str = "punctual.toml";

fn names(names: &[&str]) -> Vec<JobName> {
    names.iter().map(|name| JobName::new(name).unwrap()).collect()
}

fn every_minute(name: &str) -> JobBuilder {
    Job::cron(name, "* * * * *").topic("http")
}

// spec: U-40, T-57
#[tokio::test]
async fn a_job_created_at_run_time_runs_by_its_topic_and_survives_restarts() {
    let (log, world) = (Log::default(), world());
    let handler = || logging::<String>(&log, |payload, _| payload.clone());
    let code = || Job::cron("hourly", "0 * * * *");
    let bench = Bench::start_in(world.clone(), |builder| {
        builder.handler("http", handler()).job(code(), |_: Occurrence| async {}).release(3)
    })
    .await;
    let made = bench.punctual.admin().declare(every_minute("ping").payload("pong")).await.unwrap();
    assert_eq!((made.0.origin, made.1), (Origin::Runtime, DeclareResult::Created));
    assert_eq!(made.0.cursor, Some(instant("2026-03-02T07:01:00Z")));
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["pong"], "the scheduler was notified at once");
    bench.punctual.shutdown().await;
    let bench = Bench::start_in(world, |builder| {
        builder.handler("http", handler()).job(code(), |_: Occurrence| async {}).release(4)
    })
    .await;
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["pong", "pong"], "a start retires only what starts declare");
}

// spec: T-46, T-49, T-59
#[tokio::test]
async fn a_change_keeps_operator_settings_and_a_repeat_writes_nothing() {
    let world = world();
    let faulty = FaultyStorage::over(&world.1);
    let bench = Bench::start_in(world, |builder| builder.storage(faulty.clone())).await;
    let admin = bench.punctual.admin();
    admin.declare(every_minute("ping")).await.unwrap();
    let written = faulty.calls("declare");
    let again = admin.declare(every_minute("ping")).await.unwrap();
    assert_eq!((again.1, faulty.calls("declare")), (DeclareResult::Unchanged, written));
    let request = PauseRequest { by: "ada".to_owned(), reason: "audit".to_owned(), until: None };
    admin.pause("ping", request).await.unwrap();
    admin.edit("ping", Edit::new().timeout(seconds(9))).await.unwrap();
    let (changed, declared) =
        admin.declare(Job::cron("ping", "0 * * * *").topic("mail")).await.unwrap();
    assert_eq!((declared, changed.phase()), (DeclareResult::Changed, JobPhase::Paused));
    assert_eq!(
        (changed.job.topic.as_str(), changed.job.handler_options.timeout),
        ("mail", Some(seconds(9)))
    );
    assert_eq!(changed.cursor, Some(instant("2026-03-02T08:00:00Z")));
    assert_eq!(admin.job("ping").await.unwrap(), changed, "the stored job is returned");
}

// spec: T-3, T-48
#[tokio::test]
async fn a_job_of_another_source_is_not_overwritten() {
    let world = world();
    let bench = Bench::start_in(world.clone(), |builder| {
        builder.app("shop").declare(Job::cron("hourly", "0 * * * *"))
    })
    .await;
    let admin = bench.punctual.admin();
    let error = admin.declare(every_minute("hourly")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("\"hourly\" of \"shop\""), "{error}");
    admin.declare(every_minute("ping")).await.unwrap();
    let bank = Bench::start_in(world, |builder| builder.app("bank")).await;
    let error = bank.punctual.admin().declare(every_minute("ping")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let error = admin.declare(Job::cron("other", "every now and then")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("\"other\""), "{error}");
    assert_eq!(admin.jobs().await.unwrap().len(), 2);
}

// spec: T-59
#[tokio::test]
async fn a_retired_job_fires_no_more_until_it_is_declared_again() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("http", logging::<Occurrence>(&log, |_, _| "ran".to_owned()))
    })
    .await;
    let admin = bench.punctual.admin();
    admin.declare(every_minute("ping")).await.unwrap();
    let retired = admin.retire("ping").await.unwrap();
    assert_eq!(retired.retired, Some(Retirement::Removed));
    bench.advance(seconds(600)).await;
    assert_eq!(log.len(), 0);
    let (back, declared) = admin.declare(every_minute("ping")).await.unwrap();
    assert_eq!((declared, back.phase()), (DeclareResult::Changed, JobPhase::Active));
    bench.advance(seconds(60)).await;
    assert_eq!(log.len(), 1, "and no missed occurrence is run");
    let error = admin.retire("pong").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

// spec: U-39, U-40, T-59
#[tokio::test]
async fn the_set_of_a_source_is_replaced_in_one_go() {
    let bench = Bench::start(|builder| builder.declare(Job::cron("code", "0 * * * *"))).await;
    let admin = bench.punctual.admin();
    admin.declare(every_minute("made")).await.unwrap();
    let set = |names: &[&str]| names.iter().map(|name| every_minute(name)).collect::<Vec<_>>();
    let first = admin.reconcile(FILE, set(&["a", "b", "c"])).await.unwrap();
    assert_eq!(
        first,
        DeclareReport { created: names(&["a", "b", "c"]), ..DeclareReport::default() }
    );
    let mut second = set(&["a", "d"]);
    second.push(Job::cron("b", "0 * * * *").topic("http"));
    let second = admin.reconcile(FILE, second).await.unwrap();
    assert_eq!(
        second,
        DeclareReport {
            created: names(&["d"]),
            changed: names(&["b"]),
            unchanged: names(&["a"]),
            retired: names(&["c"]),
        }
    );
    let third = admin.reconcile(FILE, set(&["c"])).await.unwrap();
    assert_eq!(third.changed, names(&["c"]), "it comes back");
    assert_eq!(third.retired, names(&["a", "b", "d"]));
    let empty = admin.reconcile(FILE, Vec::new()).await.unwrap();
    assert_eq!(empty.retired, names(&["c"]));
    for spared in ["code", "made"] {
        assert_eq!(admin.job(spared).await.unwrap().retired, None, "{spared}");
    }
}

#[tokio::test]
async fn a_set_can_be_declared_without_retiring_missing_jobs() {
    let bench = Bench::start(|builder| builder).await;
    let admin = bench.punctual.admin();
    let set = |names: &[&str]| names.iter().map(|name| every_minute(name)).collect::<Vec<_>>();
    admin.reconcile(FILE, set(&["a", "b"])).await.unwrap();
    let some = admin.declare_all(FILE, set(&["b", "c"])).await.unwrap();
    assert_eq!((some.created.len(), some.unchanged.len(), some.retired.len()), (1, 1, 0));
    assert_eq!(admin.job("a").await.unwrap().retired, None);
    // They have the same source: the whole set retires the others.
    let whole = admin.reconcile(FILE, set(&["b"])).await.unwrap();
    assert_eq!((whole.unchanged.len(), whole.retired.len()), (1, 2));
}

// spec: U-39
#[tokio::test]
async fn a_set_with_one_wrong_job_changes_nothing() {
    let bench = Bench::start(|builder| builder.declare(Job::cron("code", "0 * * * *"))).await;
    let admin = bench.punctual.admin();
    admin.reconcile(FILE, vec![every_minute("old")]).await.unwrap();
    let before = admin.jobs().await.unwrap();
    for (wrong, kind) in [
        (Job::cron("bad", "61 * * * *"), ErrorKind::Invalid),
        (every_minute("huge").payload(&"x".repeat(2 << 20)), ErrorKind::Invalid),
        (Job::cron("NEW", "0 0 * * *"), ErrorKind::Conflict),
        (every_minute("code"), ErrorKind::Conflict),
    ] {
        let error = admin.reconcile(FILE, vec![every_minute("new"), wrong]).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(admin.jobs().await.unwrap(), before, "{error}");
    }
    for source in ["", "default"] {
        let error = admin.reconcile(source, Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

// spec: H-54
#[tokio::test]
async fn the_configuration_applies_to_jobs_created_later() {
    let bench = Bench::start(|builder| builder.cron_override("ping", "30 * * * *")).await;
    let (made, _) = bench.punctual.admin().declare(every_minute("ping")).await.unwrap();
    assert_eq!(made.cursor, Some(instant("2026-03-02T07:30:00Z")));
    assert!(made.configured.is_some());
}

// spec: T-46
#[tokio::test]
async fn a_thousand_jobs_of_a_source_are_read_once_and_written_once() {
    let world = world();
    let faulty = FaultyStorage::over(&world.1);
    let bench = Bench::start_in(world, |builder| builder.storage(faulty.clone())).await;
    let admin = bench.punctual.admin();
    let set = || (0..1_000).map(|number| every_minute(&format!("job-{number}"))).collect();
    assert_eq!(admin.reconcile(FILE, set()).await.unwrap().created.len(), 1_000);
    assert_eq!(faulty.calls("declare"), 1_000);
    assert_eq!(admin.reconcile(FILE, set()).await.unwrap().unchanged.len(), 1_000);
    assert_eq!(faulty.calls("declare"), 1_000);
}
