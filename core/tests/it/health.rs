//! Health of a process while its storage becomes unavailable and available again.

use punctual::backend::storage::{Claim, Storage};
use punctual::health::{Condition, Lifecycle};
use punctual::{Inspect, Job, Occurrence, Punctual};

use crate::faulty_storage::{ALL_CALLS, FaultyStorage};
use crate::harness::{Bench, Log, run_until_idle, seconds, world};
use crate::test_handlers::{Gate, failing, logging, retrying, waiting};

// spec: T-2, H-47, H-49
#[tokio::test]
async fn a_process_starts_without_its_storage_reports_it_and_works_when_it_is_back() {
    let (clock, storage) = world();
    let faulty = FaultyStorage::over(&storage);
    faulty.fail(&ALL_CALLS);
    let log = Log::default();
    let punctual = Punctual::builder()
        .clock(clock.clone())
        .storage(faulty.clone())
        .job(
            Job::every("often", seconds(60)),
            logging::<Occurrence>(&log, |occurrence, _| occurrence.nominal.to_string()),
        )
        .build()
        .unwrap();
    punctual.start().await.unwrap();
    let bench = Bench { clock, storage, punctual };
    bench.advance(seconds(90)).await;
    let health = bench.punctual.admin().health().await;
    assert_eq!(health.condition, Condition::Unhealthy);
    assert!(health.reasons[0].contains("the storage is out of reach"), "{:?}", health.reasons);
    assert_eq!(health.last_tick_age, None, "never ticked");
    assert_eq!(log.len(), 0);
    faulty.heal();
    bench.advance(seconds(90)).await;
    let health = bench.punctual.admin().health().await;
    assert_eq!((health.condition, health.reasons), (Condition::Healthy, Vec::new()));
    assert!(health.last_tick_age.unwrap() <= seconds(2));
    assert!(log.len() >= 1, "the job runs");
}

// The page waits five seconds for the response, and is red only when there is one.
// spec: H-49
#[tokio::test]
async fn a_storage_that_never_returns_makes_it_unhealthy_within_three_seconds() {
    let (clock, storage) = world();
    let faulty = FaultyStorage::over(&storage);
    let idle = Punctual::builder().clock(clock.clone()).storage(faulty.clone()).build().unwrap();
    faulty.hang_next_due();
    let admin = idle.admin();
    let three_seconds = async {
        for _ in 0..3 {
            run_until_idle().await;
            clock.advance(seconds(1));
        }
        run_until_idle().await;
    };
    let health = tokio::select! {
        biased;
        health = admin.health() => health,
        () = three_seconds => panic!("health did not return within three seconds"),
    };
    assert_eq!(health.condition, Condition::Unhealthy);
    assert!(health.reasons[0].contains("no response within 2 s"), "{:?}", health.reasons);
    assert_eq!(health.storage_latency, None);
}

// trap 17
// spec: H-48, H-52
#[tokio::test]
async fn reading_stale_messages_degrades_health_and_frees_none_of_them() {
    let (clock, storage) = world();
    let faulty = FaultyStorage::over(&storage);
    let idle = Punctual::builder()
        .clock(clock.clone())
        .storage(faulty.clone())
        .declare(Job::cron("hourly", "0 * * * *"))
        .build()
        .unwrap();
    let id = idle.publisher().publish("report", &()).await.unwrap().id;
    let claim = Claim::new(
        punctual::model::Queue::default(),
        punctual::model::ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(7)),
        1,
        clock.now() + punctual::jiff::SignedDuration::from_secs(300),
    );
    storage.claim(claim, clock.now()).await.unwrap();
    clock.advance(seconds(301));
    let before = storage.message(id).await.unwrap();
    let asked = faulty.total_calls();
    let health = idle.admin().health().await;
    assert_eq!(health.stale, 1);
    assert!(health.reasons.iter().any(|reason| reason.contains("to a process that has ended")));
    let reads: u64 =
        ["next_due_all", "counts", "due_jobs"].map(|call| faulty.calls(call)).iter().sum();
    assert_eq!(faulty.total_calls() - asked, reads, "it only reads");
    assert_eq!(storage.message(id).await.unwrap(), before, "it is as stale as before");
}

// spec: H-47, H-50
#[tokio::test]
async fn late_schedules_dead_letters_and_the_depth_of_queues_are_reported() {
    let log = Log::default();
    let world = world();
    let bench = Bench::start_in(world.clone(), |builder| {
        builder
            .declare(Job::cron("hourly", "0 * * * *"))
            .declare(
                Job::cron("patient", "0 * * * *")
                    .misfire(punctual::Misfire::fire_now().threshold(seconds(3_600))),
            )
            .handler_with("post", retrying(punctual::Retry::none()), failing::<()>(&log))
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("post", &()).await.unwrap();
    publisher.publish("later", &()).after(seconds(9_999)).await.unwrap();
    bench.run_until_idle().await;
    let health = bench.punctual.admin().health().await;
    assert_eq!((health.condition, health.late_schedules), (Condition::Healthy, 0));
    assert_eq!((health.dead, health.queue_depth), (1, 1));
    bench.punctual.shutdown().await;
    // No process fires any more.
    bench.clock.advance(seconds(3_600 + 60));
    assert_eq!(bench.punctual.admin().health().await.late_schedules, 0, "exactly at the threshold");
    bench.clock.advance(seconds(1));
    let health = bench.punctual.admin().health().await;
    assert_eq!(health.late_schedules, 1, "by each job's own threshold");
    assert_eq!(health.condition, Condition::Unhealthy, "the services stand still");
}

// Regression: a job of every minute was late after five minutes only, long after its occurrence was missed.
#[tokio::test]
async fn a_job_is_late_beyond_the_effective_threshold_which_its_interval_bounds() {
    let bench = Bench::start_in(world(), |builder| {
        builder
            .declare(Job::cron("minutely", "* * * * *").misfire(punctual::Misfire::skip_to_next()))
            .declare(
                Job::cron("patient", "* * * * *")
                    .misfire(punctual::Misfire::skip_to_next().threshold(seconds(300))),
            )
    })
    .await;
    bench.run_until_idle().await;
    bench.punctual.shutdown().await;
    let (admin, now) = (bench.punctual.admin(), bench.clock.now());
    let next = admin.job("minutely").await.unwrap().cursor.unwrap();
    bench.clock.advance(punctual::clock::between(now, next) + seconds(60));
    assert_eq!(admin.health().await.late_schedules, 0, "exactly at the threshold");
    bench.clock.advance(seconds(1));
    assert_eq!(admin.health().await.late_schedules, 1, "not after five minutes only");
}

// spec: H-50, H-52
#[tokio::test]
async fn reading_health_changes_nothing() {
    let bench = Bench::start(|builder| builder).await;
    let id =
        bench.punctual.publisher().publish("unhandled", &()).after(seconds(60)).await.unwrap().id;
    let before = bench.message(id).await;
    for _ in 0..3 {
        assert_eq!(bench.punctual.admin().health().await.condition, Condition::Healthy);
    }
    assert_eq!(bench.message(id).await, before);
}

// Decision 3.44.
// spec: H-49
#[tokio::test]
async fn health_reports_stopping_immediately_and_then_stopped() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("slow", waiting::<()>(&log, &gate))).await;
    bench.punctual.publisher().publish("slow", &()).await.unwrap();
    bench.run_until_idle().await;
    let admin = bench.punctual.admin();
    assert_eq!(admin.health().await.lifecycle, Lifecycle::Running);
    let seen = async {
        tokio::task::yield_now().await;
        let health = admin.health().await;
        gate.open(1);
        health
    };
    let (stopped, stopping) = tokio::join!(bench.punctual.shutdown(), seen);
    assert_eq!(stopped.abandoned, 0);
    assert_eq!(stopping.condition, Condition::Unhealthy);
    assert_eq!(stopping.reasons, ["the process is stopping"]);
    let after = admin.health().await;
    assert_eq!((after.condition, after.lifecycle), (Condition::Unhealthy, Lifecycle::Stopped));
    assert_eq!(after.reasons, ["the process has stopped"]);
}

#[tokio::test]
async fn a_queue_with_due_messages_that_no_process_works_on_degrades_health() {
    let bench = Bench::start(|builder| builder.handler("mail", async |(): ()| {})).await;
    let publish = || bench.punctual.publisher().publish("mail", &());
    publish().queue("forgotten").await.unwrap();
    publish().queue("later").after(seconds(3_600)).await.unwrap();
    bench.advance(seconds(60)).await;
    let admin = bench.punctual.admin();
    assert_eq!(admin.health().await.condition, Condition::Healthy);
    bench.advance(seconds(1)).await;
    let health = admin.health().await;
    assert_eq!(health.condition, Condition::Degraded);
    let reason = "the queue \"forgotten\" has due messages and no process works on it";
    assert_eq!(health.reasons, [reason]);
}
