//! Declared jobs: the attribute declares the same job as the builder, found by discovery or registered by
//! name; errors in a declaration have its name, its place and its field.

use std::time::Duration;

use punctual::inspect::JobFilter;
use punctual::model::{
    BackOffKind, Body, Ending, JobRecord, MisfirePolicy, OnTimeout, WhenInterrupted,
};
use punctual::policy::AttemptEnd;
use punctual::schedule::{Calendar, Zone};
use punctual::testing::HandlerTest;
use punctual::{
    Builder, Context, Declare, DeclaredJob, ErrorKind, Inspect, Job, Misfire, Occurrence, Overlap,
    Punctual, Retry, State, job,
};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::executions;

#[derive(Clone, Default)]
struct SharedLog(Log);

#[job(
    name = "nightly-report",
    cron = "0 2 * * MON-FRI",
    zone = "Europe/Warsaw",
    start = "2026-01-01T00:00:00Z",
    end = "2027-01-01T00:00:00+01:00",
    runs_max = 200,
    exclude = ["holidays", "stocktaking"],
    misfire = "fire_once",
    misfire_threshold = "10m",
    misfire_window = "1d",
    catch_up_max = 7,
    overlap = "allow(3)",
    retry = "1m, 5m",
    attempts = 4,
    timeout = "30m",
    on_timeout = "fail",
    when_interrupted = "lost",
    queue = "reports",
    priority = 7,
    spread = "stable 30s",
    topic = "report",
    tags = ["finance", "nightly"],
    description = "The figures of the day."
)]
async fn full(_: Occurrence, State(SharedLog(log)): State<SharedLog>) {
    log.push("full");
}

fn full_by_hand() -> punctual::JobBuilder {
    Job::cron("nightly-report", "0 2 * * MON-FRI")
        .zone("Europe/Warsaw")
        .start(instant("2026-01-01T00:00:00Z"))
        .end(instant("2026-12-31T23:00:00Z"))
        .runs_max(200)
        .exclude("holidays")
        .exclude(stocktaking())
        .misfire(
            Misfire::fire_once()
                .threshold(Duration::from_secs(600))
                .window(Duration::from_secs(86_400))
                .catch_up_max(7),
        )
        .overlap(Overlap::Allow { parallel_max: Some(3) })
        .retry(Retry::intervals([seconds(60), seconds(300)]).attempts(4))
        .timeout(seconds(1_800))
        .on_timeout(OnTimeout::Fail)
        .when_interrupted(WhenInterrupted::Lost)
        .queue("reports")
        .priority(7)
        .spread("stable 30s".parse().unwrap())
        .topic("report")
        .tag("finance")
        .tag("nightly")
        .description("The figures of the day.")
}

fn holidays() -> Calendar {
    Calendar::new("holidays", Zone::named("Europe/Warsaw").unwrap(), ["12-25".parse().unwrap()])
        .unwrap()
}

fn stocktaking() -> Calendar {
    Calendar::new("stocktaking", Zone::utc(), ["SUN".parse().unwrap()]).unwrap()
}

#[job(name = "heartbeat", every = "5m", anchor = "2026-01-01T00:01:00Z", misfire_window = "1h")]
async fn heartbeat() {}

#[job(name = "migration", once = "2026-06-01T00:00:00Z", retry = exponential(first = "10s", factor = 3, jitter = 0.0))]
async fn migration() {}

#[job(
    name = "compaction",
    cron = "H H(1-4) * * *",
    jitter = "random 10%",
    overlap = "queue_one",
    blocking,
    must_report
)]
fn compaction(context: Context, State(SharedLog(log)): State<SharedLog>) {
    log.push("compacted");
    if context.attempt() == 1 {
        context.report_success("3 files");
    }
}

#[job(name = "sweep", every = "90s", retry = proportional(ratio = 0.5, floor = "2s"), overlap = "cancel_running", misfire = "skip_to_next")]
async fn sweep() -> Result<(), std::io::Error> {
    Ok(())
}

/// Returns the stored jobs of a builder.
async fn declared(build: impl FnOnce(Builder) -> Builder) -> Vec<JobRecord> {
    let bench = Bench::start(|builder| {
        build(builder.state(SharedLog::default()).calendar(holidays()).calendar(stocktaking()))
    })
    .await;
    let mut jobs = bench.storage.jobs(JobFilter::default()).await.unwrap();
    jobs.sort_by(|a, b| a.job.name.cmp(&b.job.name));
    jobs
}

// spec: U-37, H-38, T-71
#[tokio::test]
async fn the_attribute_declares_the_same_job_as_the_builder() {
    let attribute = declared(|builder| {
        builder
            .register::<full>()
            .register::<heartbeat>()
            .register::<migration>()
            .register::<compaction>()
            .register::<sweep>()
    })
    .await;
    let exponential = BackOffKind::Exponential {
        first: seconds(10),
        factor: 3.0,
        cap: seconds(3_600),
        jitter: 0.0,
    };
    let proportional =
        BackOffKind::Proportional { ratio: 0.5, cap: seconds(3_600), floor: seconds(2) };
    let by_hand = declared(|builder| {
        builder
            .job(full_by_hand(), full)
            .job(
                Job::every("heartbeat", seconds(300))
                    .anchor(instant("2026-01-01T00:01:00Z"))
                    .misfire(Misfire::default().window(seconds(3_600))),
                heartbeat,
            )
            .job(
                Job::once("migration", instant("2026-06-01T00:00:00Z"))
                    .retry(Retry { attempts_max: Some(5), backoff: exponential }),
                migration,
            )
            .job(
                Job::cron("compaction", "H H(1-4) * * *")
                    .spread("random 10%".parse().unwrap())
                    .overlap(Overlap::QueueOne)
                    .must_report(),
                punctual::blocking(compaction),
            )
            .job(
                Job::every("sweep", seconds(90))
                    .retry(Retry { attempts_max: Some(4), backoff: proportional })
                    .overlap(Overlap::CancelRunning)
                    .misfire(Misfire::skip_to_next()),
                sweep,
            )
    })
    .await;
    assert_eq!(attribute.len(), 5);
    assert_eq!(attribute, by_hand);
    let full = attribute.iter().find(|job| job.job.name.as_str() == "nightly-report").unwrap();
    assert_eq!(full.job.schedule.calendars(), [holidays(), stocktaking()]);
    assert_eq!(full.job.schedule.runs_max(), Some(200));
    assert_eq!(full.job.tags, ["finance", "nightly"]);
    assert_eq!(full.job.misfire.policy, Some(MisfirePolicy::FireOnce));
    assert_eq!(full.job.misfire.threshold, Some(seconds(600)));
}

// spec: U-35, U-46
#[tokio::test]
async fn discovery_finds_every_declaration_of_the_program_by_name() {
    let found = declared(Builder::discover).await;
    let names: Vec<&str> = found.iter().map(|job| job.job.name.as_str()).collect();
    assert_eq!(names, ["compaction", "heartbeat", "migration", "nightly-report", "sweep"]);
    // Registered as well, so found twice: it is one job.
    let again = declared(|builder| builder.register::<full>().discover().discover()).await;
    assert_eq!(again, found);
}

// spec: U-35, U-20
#[tokio::test]
async fn a_declared_job_runs_its_function() {
    let seen = SharedLog::default();
    let bench = Bench::start(|builder| {
        builder.state(seen.clone()).calendar(holidays()).calendar(stocktaking()).register::<full>()
    })
    .await;
    // Tuesday, 02:00 in Warsaw, and up to 30 seconds of spread.
    bench.advance(Duration::from_secs(18 * 3_600 + 30)).await;
    assert_eq!(seen.0.lines(), ["full"]);
    // The function can still be called.
    let occurrence = Occurrence {
        job: punctual::model::JobName::new("by-hand").unwrap(),
        nominal: bench.clock.now(),
        schedule: None,
        misfire: None,
    };
    full(occurrence, State(seen.clone())).await;
    assert_eq!(seen.0.len(), 2);
}

#[tokio::test]
async fn without_registration_or_discovery_there_is_no_job() {
    assert!(declared(|builder| builder).await.is_empty());
}

// spec: U-36
#[tokio::test]
async fn discovery_subscribes_to_nothing() {
    let (world, seen) = (crate::harness::world(), SharedLog::default());
    let broker = Broker::new(&world.0, PLAIN);
    let bench = Bench::start_in(world, |builder| {
        builder
            .transport("post", broker.clone())
            .state(seen.clone())
            .calendar(holidays())
            .calendar(stocktaking())
            .discover()
    })
    .await;
    // Messages in the broker for the topic of a discovered job stay there.
    let publisher = bench.punctual.publisher();
    publisher.publish_body("report", Body::empty()).via("post").await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!((broker.waiting(), broker.unsettled()), (1, 0));
    assert_eq!(seen.0.len(), 0);
}

// spec: T-9, T-11, T-13
#[tokio::test]
async fn the_attribute_chooses_the_reporting_contract_and_the_blocking_pool() {
    let handler_test = || HandlerTest::new().state(SharedLog::default());
    let result = handler_test().run_declared::<compaction>().await.unwrap();
    assert_eq!((result.report.clone(), result.note()), (AttemptEnd::Done, Some("3 files".into())));
    assert_eq!(result.context.job().unwrap().as_str(), "compaction");
    let result = handler_test().attempt(2).run_declared::<compaction>().await.unwrap();
    assert!(matches!(result.report, AttemptEnd::Failed { .. }), "{:?}", result.report);
}

enum One {}
enum Two {}

impl Declare for One {
    fn declared() -> DeclaredJob {
        let job = Job::every("Twin", seconds(60)).declared_at("shop::one (src/one.rs:7)");
        DeclaredJob::new(job, || async {})
    }
}

impl Declare for Two {
    fn declared() -> DeclaredJob {
        let job = Job::every("twin", seconds(90)).declared_at("shop::two (src/two.rs:9)");
        DeclaredJob::new(job, || async {})
    }
}

#[test]
fn build_reports_mistakes_across_the_program_with_name_place_and_field() {
    let holidais = Calendar::new("holidais", Zone::utc(), []).unwrap();
    let unknown =
        Punctual::builder().state(SharedLog::default()).calendar(holidais).register::<full>();
    let text = unknown.build().err().unwrap().to_string();
    assert!(text.starts_with("the job \"nightly-report\" at it::declared_jobs::full ("), "{text}");
    assert!(text.contains("tests/it/declared_jobs.rs:"), "{text}");
    let field = "exclude: there is no calendar \"holidays\"; did you mean holidais?";
    assert!(text.ends_with(field), "{text}");

    let both = Punctual::builder().register::<One>().register::<Two>();
    let error = both.build().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(
        error.to_string(),
        "the job \"twin\" is declared twice, at shop::one (src/one.rs:7) and at shop::two (src/two.rs:9) (names are compared without regard to case); rename one of them"
    );

    for (job, field) in [
        (Job::cron("x", "0 25 * * *"), "cron: hour (position 3)"),
        (Job::cron("x", "0 2 * * *").zone("Europe/Warsav"), "zone: there is no time zone"),
        (Job::every("x", seconds(9)).zone("Europe/Warsaw"), "zone: only a cron expression"),
        (Job::cron("x", "0 2 * * *").anchor(instant("2026-01-01T00:00:00Z")), "anchor: only an"),
        (Job::cron("x", "0 2 * * *").anchor_at_last_run(), "anchor: only an"),
        (Job::every("x", Duration::ZERO), "every: the duration"),
        (Job::every("x", seconds(1)).runs_max(0), "runs_max: 0 is out of range"),
        (
            Job::every("x", seconds(1))
                .start(instant("2026-01-02T00:00:00Z"))
                .end(instant("2026-01-01T00:00:00Z")),
            "end: the schedule starts at",
        ),
        (Job::every("x", seconds(1)).retry(Retry::exponential().unlimited()), ""),
        (
            Job::every("x", seconds(1)).retry(Retry::intervals([]).attempts(3)),
            "retry: retries need",
        ),
    ] {
        let built = Punctual::builder().job(job, heartbeat).build();
        match (built, field) {
            (Ok(_), "") => {}
            (Ok(_), field) => panic!("no error for {field}"),
            (Err(error), field) => {
                let text = error.to_string();
                assert!(
                    text.starts_with(&format!("the job \"x\" cannot be declared: {field}")),
                    "{text}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_job_is_over_after_its_runs() {
    let seen = SharedLog::default();
    let bench = Bench::start(|builder| {
        builder.state(seen.clone()).job(
            Job::every("thrice", seconds(60)).runs_max(3),
            |State(SharedLog(log)): State<SharedLog>| async move { log.push("ran") },
        )
    })
    .await;
    bench.advance(seconds(600)).await;
    assert_eq!(seen.0.len(), 3);
    let filter = punctual::inspect::ExecutionFilter::default();
    let runs = executions(&bench.storage, filter).await;
    assert_eq!(runs.iter().filter(|run| run.ending == Ending::Succeeded).count(), 3);
}
