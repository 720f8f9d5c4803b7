//! Lifecycle: one call from start to stop, repeated registrations, and signals before the start.

use std::future::pending;
#[cfg(unix)]
use std::io::{BufRead as _, BufReader, Read as _};

use punctual::{Context, ErrorKind, Job, Occurrence, Punctual, ShutdownReport};
use tokio::sync::oneshot;

use crate::harness::{Bench, Log, run_until_idle, seconds, world};
use crate::test_handlers::{logging, never_returning};

fn builder() -> punctual::Builder {
    let (clock, storage) = world();
    Punctual::builder().clock(clock).storage(storage)
}

// spec: T-62
#[tokio::test]
async fn a_process_runs_until_the_signal_and_reports_how_it_ended() {
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("long", never_returning::<()>(&log))).await;
    bench.punctual.publisher().publish("long", &()).await.unwrap();
    let (stop, signal) = oneshot::channel::<()>();
    let send_signal = async {
        bench.advance(seconds(10)).await;
        stop.send(()).unwrap();
        bench.advance(seconds(60)).await;
    };
    let running = bench.punctual.run_until(async { signal.await.unwrap() });
    let (stopped, ()) = tokio::join!(running, send_signal);
    let stopped = stopped.unwrap();
    assert_eq!(stopped, ShutdownReport { interrupted: 1, abandoned: 0 });
    assert!(!stopped.is_clean());
    assert_eq!(stopped.to_string(), "stopped; 1 attempt was interrupted");
    assert_eq!(bench.punctual.events().count("process.stopped"), 1);
}

// spec: T-62
#[tokio::test]
async fn a_signal_before_the_start_ends_the_process_without_an_error() {
    let punctual = builder().build().unwrap();
    let stopped = punctual.run_until(std::future::ready(())).await.unwrap();
    assert!(stopped.is_clean());
    assert_eq!(punctual.events().count("process.started"), 0);
    assert_eq!(punctual.events().count("service.failed"), 0);
}

// spec: T-62
#[tokio::test]
async fn a_dropped_run_until_stops_with_the_process() {
    let (clock, storage) = world();
    let punctual = Punctual::builder().clock(clock.clone()).storage(storage).build().unwrap();
    tokio::select! {
        biased;
        _ = punctual.run_until(pending()) => unreachable!("nobody signals"),
        () = run_until_idle() => {}
    }
    assert!(clock.sleepers() > 0, "the services wait");
    drop(punctual);
    run_until_idle().await;
    assert_eq!(clock.sleepers(), 0, "and are gone with it");
}

// spec: T-60
#[tokio::test]
async fn the_same_job_from_two_modules_is_one_job() {
    let log = Log::default();
    let job = || Job::cron("hourly", "0 * * * *").zone("Europe/Warsaw").tag("both");
    let bench = Bench::start(|builder| {
        builder.job(job(), logging::<Occurrence>(&log, |_, _| "ran".to_owned())).declare(job())
    })
    .await;
    assert_eq!(bench.punctual.events().count("job.declared"), 1);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 1);
    let other = builder().declare(job()).declare(job().tag("one more")).build();
    let error = other.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

// spec: T-61, U-38
#[tokio::test]
async fn clients_work_where_services_are_switched_off() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .handler("mail", |(): (), _: Context| async {})
            .job(Job::cron("hourly", "0 * * * *"), never_returning::<Occurrence>(&log))
            .options(|options| {
                options.scheduling = false;
                options.handling = false;
            })
    })
    .await;
    bench.punctual.publisher().publish("mail", &()).await.unwrap();
    bench.advance(seconds(3_600)).await;
    let status = bench.punctual.admin().status().await;
    assert!(status.jobs[0].never_run);
    assert_eq!(log.len(), 0);
}

// This test starts itself as a child process, because a signal is for a whole process.
// spec: U-28
#[cfg(unix)]
#[tokio::test]
async fn a_process_that_is_asked_to_end_stops_gracefully() {
    const CHILD: &str = "PUNCTUAL_TEST_IS_ASKED_TO_END";
    if std::env::var_os(CHILD).is_some() {
        let punctual = Punctual::builder().build().unwrap();
        let ready = async {
            run_until_idle().await;
            println!("ready");
        };
        let (stopped, ()) = tokio::join!(punctual.run(), ready);
        println!("{}", stopped.unwrap());
        return;
    }
    let test = "lifecycle::a_process_that_is_asked_to_end_stops_gracefully";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "yes")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
    }
    let id = child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(sent.success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(rest.contains("stopped; everything that ran has finished"), "{rest}");
}

// spec: T-45
#[tokio::test]
async fn declared_jobs_are_stored_when_the_start_returns() {
    let job = Job::cron("nightly", "0 2 * * *");
    let punctual = builder().job(job, async |_: Occurrence| {}).build().unwrap();
    punctual.start().await.unwrap();
    assert_eq!(punctual.admin().job("nightly").await.unwrap().job.name.as_str(), "nightly");
}

#[tokio::test]
async fn a_process_that_fires_no_jobs_declares_its_own_and_retires_none() {
    let world = world();
    let first =
        Bench::start_in(world.clone(), |builder| builder.declare(Job::cron("old", "0 2 * * *")))
            .await;
    first.punctual.shutdown().await;
    let bench = Bench::start_in(world, |builder| {
        builder
            .job(Job::cron("fresh", "0 3 * * *"), async |_: Occurrence| {})
            .options(|options| options.scheduling = false)
    })
    .await;
    let admin = bench.punctual.admin();
    assert!(admin.job("fresh").await.unwrap().retired.is_none());
    assert!(admin.job("old").await.unwrap().retired.is_none());
    bench.advance(seconds(24 * 3_600)).await;
    assert_eq!(bench.punctual.events().count("job.fired"), 0);
}

#[tokio::test]
async fn a_start_without_a_storage_returns_and_the_jobs_come_later() {
    for scheduling in [true, false] {
        let (clock, storage) = world();
        let faulty = crate::faulty_storage::FaultyStorage::over(&storage);
        faulty.fail(&crate::faulty_storage::ALL_CALLS);
        let punctual = Punctual::builder()
            .clock(clock.clone())
            .storage(faulty.clone())
            .declare(Job::cron("nightly", "0 2 * * *"))
            .options(|options| options.scheduling = scheduling)
            .build()
            .unwrap();
        punctual.start().await.unwrap();
        faulty.heal();
        assert!(punctual.admin().job("nightly").await.is_err());
        let bench = Bench { clock, storage, punctual };
        bench.advance(seconds(90)).await;
        assert!(bench.punctual.admin().job("nightly").await.is_ok(), "scheduling {scheduling}");
    }
}
