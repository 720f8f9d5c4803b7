//! Outages: which occurrences are missed and which are only late, in which order they run, and that they do not
//! block later ones.

use punctual::client::{PauseRequest, TriggerResult};
use punctual::inspect::ExecutionFilter;
use punctual::model::{Ending, MessageState, MisfirePolicy, SkipReason};
use punctual::{Context, Job, JobBuilder, Misfire, Occurrence, Overlap};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::{Gate, executions, logging};

const EVERY_OVERLAP: [Overlap; 4] = [
    Overlap::Skip,
    Overlap::QueueOne,
    Overlap::Allow { parallel_max: None },
    Overlap::CancelRunning,
];

fn line(occurrence: &Occurrence, context: &Context) -> String {
    let planned = occurrence.nominal.strftime("%H:%M");
    match context.misfire() {
        None => planned.to_string(),
        Some(facts) => format!("{planned} for {}", facts.missed_count),
    }
}

/// Starts a process that declares a job at 07:00, stops it at once, and starts it again later the same day
/// with eight slots.
async fn away_until(back: &str, job: impl Fn() -> JobBuilder) -> (Bench, Log) {
    let log = Log::default();
    let first = Bench::start(|builder| builder.job(job(), logging(&log, line))).await;
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant(&format!("2026-03-02T{back}Z")));
    let build =
        |builder: punctual::Builder| builder.queue("default", 8).job(job(), logging(&log, line));
    let second = Bench::start_in(world, build).await;
    second.run_until_idle().await;
    (second, log)
}

async fn skipped(bench: &Bench) -> Vec<(String, SkipReason)> {
    let filter = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    let mut rows: Vec<_> = executions(&bench.storage, filter)
        .await
        .iter()
        .map(|run| {
            let Ending::Skipped(reason) = run.ending else { panic!("{run:?}") };
            (run.nominal.unwrap().strftime("%H:%M").to_string(), reason)
        })
        .collect();
    rows.sort();
    rows
}

// spec: M-4, M-11
#[tokio::test]
async fn a_short_outage_of_a_frequent_job_follows_its_policy() {
    for (policy, ran) in [
        (MisfirePolicy::FireNow, &["07:01 for 2", "07:03"][..]),
        (MisfirePolicy::FireOnce, &["07:02 for 2", "07:03"]),
        (MisfirePolicy::FireAll, &["07:01 for 2", "07:02 for 2", "07:03"]),
        (MisfirePolicy::SkipToNext, &["07:03"]),
    ] {
        for overlap in EVERY_OVERLAP {
            let job = || Job::cron("minutely", "* * * * *").misfire(policy.into()).overlap(overlap);
            let (bench, log) = away_until("07:03:10", job).await;
            assert_eq!(log.lines(), ran, "{policy} {overlap}");
            let left: Vec<_> = skipped(&bench).await;
            let none = policy == MisfirePolicy::SkipToNext;
            assert_eq!(left.len(), if none { 2 } else { 0 }, "{policy} {overlap}: {left:?}");
            assert!(left.iter().all(|(_, reason)| *reason == SkipReason::Misfire));
            bench.advance(seconds(60)).await;
            assert_eq!(log.lines()[ran.len()..], ["07:04"], "{policy} {overlap}");
        }
    }
}

// spec: M-11, M-12, M-16
#[tokio::test]
async fn the_newest_occurrence_runs_after_the_older_ones_under_every_overlap_policy() {
    for overlap in EVERY_OVERLAP {
        let job =
            || Job::cron("often", "*/5 * * * *").misfire(Misfire::fire_all()).overlap(overlap);
        let (bench, log) = away_until("07:31:00", job).await;
        let oldest_first =
            ["07:05 for 5", "07:10 for 5", "07:15 for 5", "07:20 for 5", "07:25 for 5", "07:30"];
        assert_eq!(log.lines(), oldest_first, "{overlap}");
        assert_eq!(skipped(&bench).await, [], "{overlap}");
    }
}

/// A handler that logs its nominal time, and waits at a gate.
fn gated(
    log: &Log,
    gate: &Gate,
) -> impl Fn(Occurrence, Context) -> futures_util::future::BoxFuture<'static, ()> + Send + Sync + 'static
{
    let (log, gate) = (log.clone(), gate.clone());
    move |occurrence: Occurrence, context: Context| {
        log.push(line(&occurrence, &context));
        let gate = gate.clone();
        Box::pin(async move { gate.pass().await })
    }
}

/// As [`away_until`], with runs that end when the test opens the gate.
async fn slow_until(back: &str, job: impl Fn() -> JobBuilder) -> (Bench, Log, Gate) {
    let (log, gate) = (Log::default(), Gate::shut());
    let first = Bench::start(|builder| builder.job(job(), gated(&log, &gate))).await;
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant(&format!("2026-03-02T{back}Z")));
    let build =
        |builder: punctual::Builder| builder.queue("default", 8).job(job(), gated(&log, &gate));
    let second = Bench::start_in(world, build).await;
    second.run_until_idle().await;
    (second, log, gate)
}

#[tokio::test]
async fn late_runs_of_a_job_start_together_only_under_fire_all() {
    let allow = Overlap::Allow { parallel_max: None };
    // An explicit threshold is used unchanged: all three are in time.
    let misfire = Misfire::skip_to_next().threshold(seconds(300));
    for overlap in [Overlap::Skip, Overlap::QueueOne, allow] {
        let job = || Job::cron("minutely", "* * * * *").misfire(misfire.clone()).overlap(overlap);
        let (bench, log, gate) = slow_until("07:03:10", job).await;
        let mut begun = Vec::new();
        for minute in ["07:01", "07:02", "07:03"] {
            begun.push(minute);
            assert_eq!(log.lines(), begun, "{overlap}: one after the other, oldest first");
            gate.open(1);
            bench.run_until_idle().await;
        }
        assert_eq!(skipped(&bench).await, [], "{overlap}");
    }
    // One run for what was missed, and one in time: neither beside the other.
    let job = || Job::cron("minutely", "* * * * *").misfire(Misfire::fire_now()).overlap(allow);
    let (bench, log, gate) = slow_until("07:03:10", job).await;
    assert_eq!(log.lines(), ["07:01 for 2"]);
    // They do not prevent the next one from starting in time.
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["07:01 for 2", "07:04"]);
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["07:01 for 2", "07:04", "07:03"]);
    // With its own limit a job has no place for another run: the runs wait for each other.
    let job = || {
        Job::cron("minutely", "* * * * *")
            .misfire(Misfire::fire_now())
            .overlap(allow)
            .concurrency(5)
    };
    let (_bench, log, _gate) = slow_until("07:03:10", job).await;
    assert_eq!(log.lines(), ["07:01 for 2"]);
    for (overlap, together) in [(allow, 3), (Overlap::Allow { parallel_max: Some(2) }, 2)] {
        let job =
            || Job::cron("minutely", "* * * * *").misfire(Misfire::fire_all()).overlap(overlap);
        let (_bench, log, _gate) = slow_until("07:03:10", job).await;
        assert_eq!(log.len(), together, "{overlap}: all that it asks for");
    }
}

#[tokio::test]
async fn a_run_from_before_the_outage_makes_overlap_skip() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = || Job::cron("minutely", "* * * * *").misfire(Misfire::fire_now());
    let build =
        |builder: punctual::Builder| builder.queue("default", 8).job(job(), gated(&log, &gate));
    let bench = Bench::start(build).await;
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["07:01"]);
    // The machine sleeps for five minutes during a run.
    bench.clock.set(instant("2026-03-02T07:06:10Z"));
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["07:01"]);
    let overlapping = ["07:02", "07:06"].map(|at| (at.to_owned(), SkipReason::Overlap));
    assert_eq!(skipped(&bench).await, overlapping);
}

#[tokio::test]
async fn a_run_that_is_planned_for_later_stops_neither_the_schedule_nor_a_trigger() {
    let next_week = instant("2026-03-09T08:30:00Z");
    for overlap in EVERY_OVERLAP {
        let log = Log::default();
        let job = Job::cron("report", "0 * * * *").overlap(overlap);
        let bench = Bench::start(|builder| builder.job(job, logging(&log, line))).await;
        let planned = bench.punctual.jobs().once("report").at(next_week).await.unwrap();
        bench.advance(seconds(2 * 3_600)).await;
        assert_eq!(log.lines(), ["08:00", "09:00"], "{overlap}");
        let triggered = bench.punctual.admin().trigger("report", false).await.unwrap();
        assert!(matches!(triggered, TriggerResult::Started(_)), "{overlap}: {triggered:?}");
        bench.run_until_idle().await;
        assert_eq!((log.len(), skipped(&bench).await), (3, vec![]), "{overlap}");
        assert_eq!(bench.message(planned.id).await.state, MessageState::Pending, "{overlap}");
    }
}

#[tokio::test]
async fn a_one_time_run_that_is_due_blocks_the_schedule() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = Job::cron("report", "0 * * * *");
    let bench = Bench::start(|builder| builder.job(job, gated(&log, &gate))).await;
    bench.punctual.jobs().once("report").at(instant("2026-03-02T07:30:00Z")).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["07:30"]);
    assert_eq!(skipped(&bench).await, [("08:00".to_owned(), SkipReason::Overlap)]);
    let again = bench.punctual.admin().trigger("report", false).await.unwrap();
    assert_eq!(again, TriggerResult::Overlapping(1));
}

// spec: M-8
#[tokio::test]
async fn what_was_missed_after_the_end_of_a_pause_is_decided_as_after_any_outage() {
    let log = Log::default();
    let job = || Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_all());
    let build = |builder: punctual::Builder| builder.job(job(), logging(&log, line));
    let first = Bench::start(build).await;
    let pause = PauseRequest {
        by: "ada".to_owned(),
        reason: "an audit".to_owned(),
        until: Some(instant("2026-03-02T10:30:00Z")),
    };
    first.punctual.admin().pause("hourly", pause).await.unwrap();
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant("2026-03-02T13:30:00Z"));
    let back = Bench::start_in(world, build).await;
    back.run_until_idle().await;
    assert_eq!(log.lines(), ["11:00 for 3", "12:00 for 3", "13:00 for 3"]);
    assert_eq!(skipped(&back).await, [("10:00".to_owned(), SkipReason::Paused)], "08:00 to 10:00");
    assert_eq!(back.punctual.events().count("misfires.found"), 1, "reported with the others");
    let record = back.punctual.admin().job("hourly").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T14:00:00Z")));
    assert!(record.paused.is_none());
}

#[tokio::test]
async fn a_pause_resumed_after_its_end_was_over_at_its_end() {
    let log = Log::default();
    let job = || Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_once());
    let office = |builder: punctual::Builder| {
        builder.options(|options| options.scheduling = false).declare(job())
    };
    let first = Bench::start(|builder| builder.job(job(), logging(&log, line))).await;
    let pause = PauseRequest {
        by: "ada".to_owned(),
        reason: "an audit".to_owned(),
        until: Some(instant("2026-03-02T10:30:00Z")),
    };
    first.punctual.admin().pause("hourly", pause).await.unwrap();
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant("2026-03-02T13:30:00Z"));
    let operator = Bench::start_in(world.clone(), office).await;
    let record = operator.punctual.admin().resume("hourly").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T11:00:00Z")));
    operator.punctual.shutdown().await;
    let back = Bench::start_in(world, |builder| builder.job(job(), logging(&log, line))).await;
    back.run_until_idle().await;
    assert_eq!(log.lines(), ["13:00 for 3"]);
}

// spec: M-7
#[tokio::test]
async fn an_interval_keeps_its_grid_unless_it_follows_its_last_run() {
    let job = || Job::every("sync", seconds(1_200));
    let (bench, log) = away_until("08:07:00.123456789", job).await;
    assert_eq!(log.lines(), ["07:20 for 3"]);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[1..], ["08:20", "08:40", "09:00"]);

    let job = || Job::every("sync", seconds(1_200)).anchor_at_last_run();
    let (bench, log) = away_until("08:07:00.123456789", job).await;
    assert_eq!(log.lines(), ["07:20 for 3"]);
    let record = bench.punctual.admin().job("sync").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T08:27:00.123456Z")), "whole microseconds");
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[1..], ["08:27", "08:47", "09:07"]);
    // A deployment does not move it back.
    bench.punctual.shutdown().await;
    let world = (bench.clock.clone(), bench.storage.clone());
    let again = Bench::start_in(world, |builder| builder.job(job(), logging(&log, line))).await;
    again.advance(seconds(1_200)).await;
    assert_eq!(log.lines().last().unwrap(), "09:27");
}

#[tokio::test]
async fn nominal_times_have_whole_microseconds() {
    let log = Log::default();
    let nominal = logging::<Occurrence>(&log, |occurrence, _| occurrence.nominal.to_string());
    let bench =
        Bench::start(|builder| builder.job(Job::cron("report", "0 9 * * *"), nominal)).await;
    bench.clock.set(instant("2026-03-02T07:00:01.000001999Z"));
    bench.punctual.admin().trigger("report", false).await.unwrap();
    bench.run_until_idle().await;
    bench
        .punctual
        .jobs()
        .once("report")
        .at(instant("2026-03-02T07:30:00.123456789Z"))
        .await
        .unwrap();
    bench.advance(seconds(1_800)).await;
    assert_eq!(log.lines(), ["2026-03-02T07:00:01.000001Z", "2026-03-02T07:30:00.123456Z"]);
}
