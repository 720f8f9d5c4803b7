//! Status view: every job in one list, before anything ran, after a restart, with another node, and while the
//! storage is unavailable.

use punctual::client::PauseRequest;
use punctual::client::RECENT_RUNS_MAX;
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Ending, JobPhase, Retirement};
use punctual::policy::{Edit, Field};
use punctual::status::{JobStatus, Status};
use punctual::{Builder, Job, Occurrence};

use crate::faulty_storage::{ALL_CALLS, FaultyStorage};
use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::{Gate, advance_in_steps, executions, failing, logging, waiting};

fn of<'s>(status: &'s Status, name: &str) -> &'s JobStatus {
    status.jobs.iter().find(|job| job.name.as_str() == name).unwrap()
}

fn jobs(builder: Builder, log: &Log, gate: &Gate) -> Builder {
    let done = logging::<Occurrence>(log, |_, _| "done".to_owned());
    builder
        .job(Job::cron("good", "0 * * * *").description("does well").tag("daily"), done)
        .job(Job::cron("bad", "0 * * * *"), failing::<Occurrence>(log))
        .job(Job::cron("slow", "0 * * * *"), waiting::<Occurrence>(log, gate))
        .declare(Job::cron("orphan", "0 0 1 1 *"))
}

// spec: T-47, T-56, T-57
#[tokio::test]
async fn the_status_is_complete_before_anything_ran() {
    let bench = Bench::start(|builder| jobs(builder, &Log::default(), &Gate::shut())).await;
    let status = bench.punctual.admin().status().await;
    assert_eq!(status.storage_error, None);
    let words: Vec<(&str, &str)> =
        status.jobs.iter().map(|job| (job.name.as_str(), job.word())).collect();
    let expected =
        [("bad", "never run"), ("good", "never run"), ("orphan", "broken"), ("slow", "never run")];
    assert_eq!(words, expected);
    let good = of(&status, "good");
    assert_eq!(good.next_at, Some(instant("2026-03-02T08:00:00Z")));
    assert!(good.never_run && good.last.is_none() && good.running == 0);
    assert_eq!(
        (good.description.as_deref(), good.tags.as_slice()),
        (Some("does well"), &["daily".to_owned()][..])
    );
    assert_eq!(good.schedule, "0 * * * * in UTC");
    let broken = of(&status, "orphan").broken.as_ref().unwrap();
    assert!(broken.contains("no handler") && broken.contains("orphan"), "{broken}");
}

// spec: T-47, T-56, T-57
#[tokio::test]
async fn the_status_is_complete_before_the_declarations_are_stored() {
    let (clock, storage) = world();
    let builder = punctual::Punctual::builder().clock(clock).storage(storage);
    let punctual = jobs(builder, &Log::default(), &Gate::shut()).build().unwrap();
    let status = punctual.admin().status().await;
    assert_eq!(status.jobs.len(), 4);
    assert!(status.jobs.iter().all(|job| job.never_run && job.next_at.is_some()));
}

// spec: T-55, T-56, M-21
#[tokio::test]
async fn the_status_shows_endings_durations_and_running_attempts() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| jobs(builder, &log, &gate)).await;
    let admin = bench.punctual.admin();
    bench.advance(seconds(3_600)).await;
    let status = admin.status().await;
    assert_eq!((of(&status, "good").word(), of(&status, "bad").word()), ("succeeded", "failed"));
    assert_eq!((of(&status, "slow").word(), of(&status, "slow").running), ("running", 1));
    let last = of(&status, "bad").last.as_ref().unwrap();
    assert_eq!((last.ending, last.note.as_deref()), (Ending::Failed, Some("out of order")));
    bench.advance(seconds(90)).await;
    gate.open(1);
    bench.run_until_idle().await;
    let status = admin.status().await;
    assert_eq!(of(&status, "slow").last_took_ms, Some(90_000));
    assert_eq!(of(&status, "slow").word(), "succeeded");
}

#[tokio::test]
async fn the_status_shows_pauses_changes_and_removed_jobs() {
    let world = world();
    let log = Log::default();
    let first = Bench::start_in(world.clone(), |builder| {
        builder.declare(Job::cron("old", "0 * * * *")).declare(Job::cron("kept", "0 * * * *"))
    })
    .await;
    first.punctual.shutdown().await;
    let done = logging::<Occurrence>(&log, |_, _| "done".to_owned());
    let bench = Bench::start_in(world, |builder| builder.job(Job::cron("kept", "0 * * * *"), done));
    let bench = bench.await;
    let admin = bench.punctual.admin();
    admin.edit("kept", Edit::new().retries_max(2).cron("30 * * * *")).await.unwrap();
    let later = instant("2026-03-02T09:30:00Z");
    admin.skip("kept", later).await.unwrap();
    let (by, reason) = ("ada".to_owned(), "audit".to_owned());
    admin.pause("kept", PauseRequest { by, reason, until: None }).await.unwrap();
    let status = admin.status().await;
    let kept = of(&status, "kept");
    assert_eq!((kept.phase, kept.word(), kept.next_at), (JobPhase::Paused, "paused", None));
    assert_eq!(kept.paused.as_ref().unwrap().reason, "audit");
    assert_eq!(kept.overridden, [Field::Schedule, Field::Zone, Field::Retry]);
    assert_eq!(kept.skips, [later]);
    let old = of(&status, "old");
    assert_eq!((old.retired, old.word()), (Some(Retirement::Removed), "removed"));
}

// spec: T-56
#[tokio::test]
async fn the_status_includes_runs_of_other_nodes_and_of_earlier_processes() {
    let (log, gate) = (Log::default(), Gate::shut());
    let world = world();
    let worker = Bench::start_in(world.clone(), |builder| jobs(builder, &log, &gate)).await;
    let office = Bench::start_in(world, |builder| {
        jobs(builder, &log, &gate).options(|options| {
            options.handling = false;
            options.scheduling = false;
        })
    })
    .await;
    worker.advance(seconds(3_600)).await;
    let status = office.punctual.admin().status().await;
    assert_eq!((of(&status, "good").word(), of(&status, "slow").word()), ("succeeded", "running"));
    assert_eq!(of(&status, "orphan").broken, None, "this one handles nothing at all");
    assert!(office.punctual.admin().recent("good").unwrap().is_empty(), "but ran nothing itself");
}

// spec: T-55
#[tokio::test]
async fn the_last_fifty_runs_are_in_memory_beside_the_stored_ones() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let done = logging::<Occurrence>(&log, |_, _| "done".to_owned());
        builder.job(Job::every("often", seconds(60)), done)
    })
    .await;
    advance_in_steps(&bench, seconds(60 * 60), seconds(60)).await;
    let admin = bench.punctual.admin();
    let recent = admin.recent("often").unwrap();
    assert_eq!((log.len(), recent.len()), (60, RECENT_RUNS_MAX));
    let mut stored = executions(&bench.storage, ExecutionFilter::default()).await;
    stored.reverse();
    stored.truncate(RECENT_RUNS_MAX);
    let here: Vec<_> = recent.iter().map(|run| (**run).clone()).collect();
    assert_eq!(here, stored, "the same records, newest first");
    let page = admin.history("often", PageRequest::default()).await.unwrap();
    assert_eq!(page.rows.len(), 20, "a page of history");
    let next = admin.history("often", PageRequest::after(page.next.unwrap(), 20)).await.unwrap();
    assert!(next.rows[0].id < page.rows[19].id);
}

// spec: T-2, T-55
#[tokio::test]
async fn the_status_shows_local_data_while_the_storage_is_unavailable() {
    let (clock, storage) = world();
    let faulty = FaultyStorage::over(&storage);
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start_in((clock, storage), |builder| {
        jobs(builder.storage(faulty.clone()), &log, &gate)
    })
    .await;
    bench.advance(seconds(3_600)).await;
    faulty.fail(&ALL_CALLS);
    let status = bench.punctual.admin().status().await;
    assert!(status.storage_error.as_ref().unwrap().contains("out of reach"));
    assert_eq!(status.jobs.len(), 4);
    assert_eq!((of(&status, "good").word(), of(&status, "bad").word()), ("succeeded", "failed"));
    assert_eq!(of(&status, "slow").running, 1);
    assert_eq!(of(&status, "good").next_at, Some(instant("2026-03-02T09:00:00Z")));
}
