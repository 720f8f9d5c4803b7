//! Scheduling: occurrences become messages, once each, at their instant, independent of the handlers.

use std::sync::Arc;

use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::model::{
    Ending, JobPhase, MessageRecord, MessageState, Retirement, SkipReason, Source,
};
use punctual::schedule::{Spread, SpreadLimit};
use punctual::{Context, Inspect, Job, JobBuilder, Misfire, Occurrence, Overlap, Retry, Schedule};

use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::{advance_in_steps, executions, failing, logging, never_returning};

/// A handler that logs when a run was planned.
fn planned(
    log: &Log,
) -> impl Fn(Occurrence, Context) -> std::future::Ready<()> + Send + Sync + 'static {
    logging::<Occurrence>(log, |occurrence, _| occurrence.nominal.to_string())
}

/// Runs a job from an instant for a while and returns its planned instants.
async fn runs(job: JobBuilder, from: &str, duration: u64) -> Vec<String> {
    let log = Log::default();
    let world = world();
    world.0.set(instant(from));
    let bench = Bench::start_in(world, |builder| {
        builder.options(|options| options.poll_interval = seconds(3_600)).job(job, planned(&log))
    })
    .await;
    advance_in_steps(&bench, seconds(duration), seconds(900)).await;
    log.lines()
}

// spec: U-47, U-45, T-64
#[tokio::test]
async fn three_nodes_fire_an_occurrence_once() {
    let log = Log::default();
    let world = world();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let job = Job::cron("hourly", "0 * * * *");
        nodes.push(Bench::start_in(world.clone(), |builder| builder.job(job, planned(&log))).await);
    }
    nodes[0].advance(seconds(5 * 3_600)).await;
    let hours: Vec<String> = (8..=12).map(|hour| format!("2026-03-02T{hour:02}:00:00Z")).collect();
    assert_eq!(log.lines(), hours);
    let fired: u64 = nodes.iter().map(|node| node.punctual.events().count("job.fired")).sum();
    assert_eq!(fired, 5);
}

// Trap 1: a node whose clock is a little ahead fires the slot; the others must not fire it again.
#[tokio::test]
async fn a_clock_that_steps_back_fires_nothing_twice() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *");
    let bench = Bench::start(|builder| builder.job(job, planned(&log))).await;
    bench.advance(seconds(3_600)).await;
    bench.clock.set(instant("2026-03-02T07:59:59.900Z"));
    bench.advance(seconds(30)).await;
    assert_eq!(log.lines(), ["2026-03-02T08:00:00Z"]);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["2026-03-02T08:00:00Z", "2026-03-02T09:00:00Z"]);
}

// spec: T-4, T-18, T-24, U-30
#[tokio::test]
async fn scheduling_waits_for_no_handler() {
    let log = Log::default();
    let stuck_log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .queue("slow", 1)
            .queue("default", 4)
            .job(
                Job::cron("stuck", "0 * * * *").queue("slow"),
                never_returning::<Occurrence>(&stuck_log),
            )
            .job(Job::cron("quick", "30 * * * *"), planned(&log))
    })
    .await;
    bench.advance(seconds(3 * 3_600)).await;
    assert_eq!(stuck_log.len(), 1, "the first run never ended");
    assert_eq!(log.len(), 3, "the other job did not notice");
    let skipped = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    assert_eq!(
        executions(&bench.storage, skipped).await.len(),
        2,
        "and its own slots have an answer"
    );
}

// spec: U-2, U-3, U-20, U-25, U-27, T-28, T-35, U-13
#[tokio::test]
async fn a_handler_receives_the_occurrence_or_the_payload_of_its_job() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .job(
                Job::cron("plain", "0 8 * * *"),
                logging::<Occurrence>(&log, |occurrence, context| {
                    assert_eq!(context.occurrence(), Some(occurrence));
                    format!("{} {} {:?}", occurrence.job, occurrence.nominal, occurrence.schedule)
                }),
            )
            .job(
                Job::cron("with-payload", "0 9 * * *").payload(&vec![1, 2, 3]).topic("work"),
                logging::<Vec<u8>>(&log, |payload, context| {
                    let (job, nominal) = (context.job().unwrap(), context.nominal().unwrap());
                    assert_eq!(context.source(), Source::Scheduled);
                    format!("{payload:?} {job} {nominal} {}", context.topic())
                }),
            )
    })
    .await;
    bench.advance(seconds(2 * 3_600)).await;
    assert_eq!(
        log.lines(),
        [
            "plain 2026-03-02T08:00:00Z Some(\"0 8 * * * in UTC\")",
            "[1, 2, 3] with-payload 2026-03-02T09:00:00Z work"
        ]
    );
    let history =
        bench.punctual.admin().history("with-payload", PageRequest::first(20)).await.unwrap();
    assert_eq!(history.rows.len(), 1);
    let run = &history.rows[0];
    assert_eq!((run.ending, run.source, run.attempt), (Ending::Succeeded, Source::Scheduled, 1));
    assert_eq!(run.nominal, Some(instant("2026-03-02T09:00:00Z")));
}

// spec: U-20, T-29
#[tokio::test]
async fn a_job_without_a_handler_waits_and_disturbs_nothing_else() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .declare(Job::cron("orphan", "0 8 * * *"))
            .job(Job::cron("known", "0 8 * * *"), planned(&log))
    })
    .await;
    advance_in_steps(&bench, seconds(25 * 3_600), seconds(3_600)).await;
    assert_eq!(log.len(), 2);
    let history = bench.punctual.admin().history("orphan", PageRequest::first(9)).await.unwrap();
    let endings: Vec<Ending> = history.rows.iter().map(|run| run.ending).collect();
    assert_eq!(endings, [Ending::Skipped(SkipReason::Overlap)], "the first run still waits");
    let counts = bench.storage.counts(bench.clock.now()).await.unwrap();
    assert_eq!((counts.total(MessageState::Pending), counts.total(MessageState::Dead)), (1, 0));
}

// spec: T-31, U-26
#[tokio::test]
async fn a_recurring_job_is_not_retried_its_next_occurrence_is() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.job(Job::cron("hourly", "0 * * * *"), failing::<Occurrence>(&log))
    })
    .await;
    bench.advance(seconds(2 * 3_600 + 1_800)).await;
    assert_eq!(log.lines(), ["1 2026-03-02T08:00:00Z", "1 2026-03-02T09:00:00Z"]);
}

// spec: U-26, U-27, U-31, U-5
#[tokio::test]
async fn a_recurring_job_with_intervals_is_retried_and_has_all_attempts_at_its_next_occurrence() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *").retry(Retry::intervals([seconds(1), seconds(5)]));
    let bench = Bench::start(|builder| builder.job(job, failing::<Occurrence>(&log))).await;
    bench.advance(seconds(3_600 + 1_800)).await;
    let first = ["1 2026-03-02T08:00:00Z", "2 2026-03-02T08:00:01Z", "3 2026-03-02T08:00:06Z"];
    assert_eq!(log.lines(), first);
    bench.advance(seconds(1_800)).await;
    assert_eq!(log.lines()[3], "1 2026-03-02T09:00:00Z", "the count starts anew");
    let job = bench.punctual.admin().job("hourly").await.unwrap();
    assert_eq!(job.phase(), JobPhase::Active);
}

// spec: H-45, U-40
#[tokio::test]
async fn a_declared_one_time_job_runs_however_late_and_once() {
    let log = Log::default();
    let job =
        || Job::once("launch", instant("2026-03-02T09:00:00Z")).misfire(Misfire::skip_to_next());
    let first = Bench::start(|builder| builder.job(job(), planned(&log))).await;
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant("2026-03-09T00:00:00Z"));
    let second = Bench::start_in(world.clone(), |builder| builder.job(job(), planned(&log))).await;
    assert_eq!(log.lines(), ["2026-03-02T09:00:00Z"]);
    let record = second.punctual.admin().job("launch").await.unwrap();
    assert_eq!((record.retired, record.cursor), (Some(Retirement::Finished), None));
    second.punctual.shutdown().await;
    let third = Bench::start_in(world, |builder| builder.job(job(), planned(&log))).await;
    advance_in_steps(&third, seconds(86_400), seconds(3_600)).await;
    assert_eq!(log.len(), 1, "declared again it does not run again");
}

#[tokio::test]
async fn a_schedule_ends_after_its_runs_or_at_its_end() {
    let hourly = || Schedule::cron_utc("0 * * * *").unwrap();
    let three = Job::scheduled("three", hourly().at_most(3));
    assert_eq!(runs(three, "2026-03-02T07:00:00Z", 86_400).await.len(), 3);
    let morning = hourly().ending(instant("2026-03-02T10:30:00Z")).unwrap();
    let morning = runs(Job::scheduled("morning", morning), "2026-03-02T07:00:00Z", 86_400).await;
    assert_eq!(morning.last().map(String::as_str), Some("2026-03-02T10:00:00Z"));
    assert_eq!(morning.len(), 3);
    let afternoon = hourly().starting(instant("2026-03-02T12:30:00Z")).unwrap();
    let afternoon =
        runs(Job::scheduled("afternoon", afternoon), "2026-03-02T07:00:00Z", 6 * 3_600).await;
    assert_eq!(afternoon, ["2026-03-02T13:00:00Z"]);
}

#[tokio::test]
async fn a_job_that_is_over_shows_it_and_is_kept() {
    let log = Log::default();
    let twice = Job::scheduled("twice", Schedule::cron_utc("0 * * * *").unwrap().at_most(2));
    let bench = Bench::start(|builder| builder.job(twice, planned(&log))).await;
    advance_in_steps(&bench, seconds(86_400), seconds(3_600)).await;
    let record = bench.punctual.admin().job("twice").await.unwrap();
    assert_eq!((record.phase(), record.runs), (JobPhase::Retired, 2));
    assert_eq!(record.retired, Some(Retirement::Finished));
    assert_eq!(bench.punctual.events().count("job.retired"), 1);
}

#[tokio::test]
async fn a_spread_moves_the_start_and_not_the_planned_time() {
    let log = Log::default();
    let spread = Spread::Stable(SpreadLimit::Duration(seconds(600)));
    let started = logging::<Occurrence>(&log, |occurrence, context| {
        format!("{} {}", occurrence.nominal, context.started_at())
    });
    let job = Job::cron("spread", "0 * * * *").spread(spread);
    let bench = Bench::start(|builder| builder.job(job, started)).await;
    bench.advance(seconds(3 * 3_600)).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 2);
    for (index, line) in lines.iter().enumerate() {
        let nominal = instant(&format!("2026-03-02T{:02}:00:00Z", index + 8));
        let next = nominal + punctual::jiff::SignedDuration::from_hours(1);
        let moved = nominal
            + punctual::jiff::SignedDuration::try_from(spread.offset(
                "spread",
                nominal,
                Some(next),
            ))
            .unwrap();
        assert_ne!(moved, nominal, "the name was chosen to be moved");
        assert_eq!(*line, format!("{nominal} {moved}"));
    }
}

// spec: U-19
#[tokio::test]
async fn days_on_which_clocks_change_have_every_run_once() {
    let daily = |zone: &str| Job::cron("daily", "30 2 * * *").zone(zone);
    let day = 86_400;
    // New York, 8 March 2026: 02:30 does not exist, so it runs when the clocks have jumped.
    let spring = runs(daily("America/New_York"), "2026-03-07T12:00:00Z", 2 * day).await;
    assert_eq!(spring, ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
    // Warsaw, 25 October 2026: 02:30 exists twice; the earlier one counts.
    let autumn = runs(daily("Europe/Warsaw"), "2026-10-24T12:00:00Z", 2 * day).await;
    assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    // Lord Howe, 4 April 2027: 02:00 falls back by half an hour, so 01:45 exists twice.
    let quarter = Job::cron("daily", "45 1 * * *").zone("Australia/Lord_Howe");
    let howe = runs(quarter, "2027-04-03T00:00:00Z", 2 * day).await;
    assert_eq!(howe, ["2027-04-03T14:45:00Z", "2027-04-04T15:15:00Z"]);
}

// spec: U-19
#[tokio::test]
async fn what_runs_by_elapsed_time_keeps_running_through_a_clock_change() {
    let job =
        Job::cron("half-hourly", "*/30 * * * *").zone("America/New_York").overlap(Overlap::Skip);
    let night = runs(job, "2026-11-01T04:00:00Z", 4 * 3_600).await;
    assert_eq!(
        night.len(),
        8,
        "four hours are eight halves, although the clock showed one twice: {night:?}"
    );
}

#[tokio::test]
async fn many_jobs_at_one_instant_all_fire() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let names = (0..250).map(|index| format!("job-{index}"));
        names.fold(builder.options(|options| options.batch_max = 10), |builder, name| {
            builder.job(Job::cron(name, "0 8 * * *"), planned(&log))
        })
    })
    .await;
    for _ in 0..4 {
        bench.advance(seconds(1_000)).await;
    }
    assert_eq!(log.len(), 250);
    let left = MessageFilter {
        states: vec![MessageState::Pending, MessageState::Running],
        ..MessageFilter::default()
    };
    let storage = Arc::clone(&bench.storage);
    assert!(storage.messages(left, PageRequest::first(1)).await.unwrap().rows.is_empty());
}

#[tokio::test]
async fn what_a_job_with_the_longest_name_sends_can_be_written_and_read_back() {
    let log = Log::default();
    let name = "n".repeat(200);
    let bench = Bench::start(|builder| {
        let job = Job::cron(&*name, "0 8 * * *").overlap(Overlap::Allow { parallel_max: None });
        builder.job(job, never_returning::<Occurrence>(&log))
    })
    .await;
    bench.punctual.jobs().once(&name).key(&name).after(seconds(60)).await.unwrap();
    bench.advance(seconds(3_600)).await;
    let sent =
        bench.storage.messages(MessageFilter::default(), PageRequest::first(9)).await.unwrap();
    assert_eq!(sent.rows.len(), 2);
    for record in sent.rows {
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<MessageRecord>(&text).unwrap(), record);
    }
}

// From the last occurrence that was decided about, else from the moment the job was declared; in its zone.
// spec: T-17, M-8
#[tokio::test]
async fn the_next_occurrence_is_the_first_after_the_last_one_or_after_the_declaration() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let job = Job::cron("report", "15 * * * *").zone("Asia/Kathmandu");
        builder.job(job, logging::<Occurrence>(&log, |run, _| run.nominal.to_string()))
    })
    .await;
    // Declared at 07:00 UTC, which is 12:45 there: the next quarter past is at 07:30 UTC.
    let cursor = || async { bench.punctual.admin().job("report").await.unwrap().cursor };
    assert_eq!(cursor().await, Some(instant("2026-03-02T07:30:00Z")));
    bench.advance(seconds(1_800)).await;
    assert_eq!(log.lines(), ["2026-03-02T07:30:00Z"]);
    assert_eq!(cursor().await, Some(instant("2026-03-02T08:30:00Z")));
}
