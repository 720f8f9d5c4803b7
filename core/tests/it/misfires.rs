//! Misfires end to end: after an outage each policy is applied once to the missed occurrences.

use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::model::{Ending, MessageRecord, MisfirePolicy, SkipReason};
use punctual::{Builder, Event, Inspect, Job, JobBuilder, Misfire, Occurrence, Punctual};

use crate::harness::{Bench, Log, instant, run_until_idle, seconds};
use crate::test_handlers::{Gate, advance_in_steps, executions, logging, stop_within};

/// Starts a process that declares a job at 07:00, stops it, and starts it again later the same day.
async fn away_until(back: &str, job: impl Fn() -> JobBuilder) -> (Bench, Log) {
    let log = Log::default();
    let first = Bench::start(|builder| builder.job(job(), logging(&log, line))).await;
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant(&format!("2026-03-02T{back}Z")));
    let second = Bench::start_in(world, |builder| {
        builder.queue("default", 1).job(job(), logging(&log, line))
    })
    .await;
    second.run_until_idle().await;
    (second, log)
}

fn line(occurrence: &Occurrence, context: &punctual::Context) -> String {
    let planned = occurrence.nominal.strftime("%H:%M");
    let started = context.started_at().strftime("%H:%M");
    match context.misfire() {
        None => format!("{planned} at {started}"),
        Some(facts) => format!(
            "{planned} at {started}: {} of {} from {} late {}s",
            facts.index,
            facts.missed_count,
            facts.misfired_from.strftime("%H:%M"),
            facts.delay_ms / 1_000
        ),
    }
}

// spec: H-43, M-2, M-3, M-14, M-21
#[tokio::test]
async fn fire_now_runs_once_with_the_nominal_time_of_the_oldest() {
    let (bench, log) = away_until("10:05:00", || Job::cron("hourly", "0 * * * *")).await;
    assert_eq!(log.lines(), ["08:00 at 10:05: 0 of 3 from 08:00 late 7500s"]);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[1..], ["11:00 at 11:00"]);
}

// spec: M-17, M-12
#[tokio::test]
async fn fire_once_runs_once_with_the_nominal_time_of_the_newest() {
    let job =
        || Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_once().threshold(seconds(60)));
    let (bench, log) = away_until("10:05:00", job).await;
    assert_eq!(log.lines(), ["10:00 at 10:05: 0 of 3 from 10:00 late 300s"]);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[1..], ["11:00 at 11:00"]);
}

// spec: H-42, H-46, M-15
#[tokio::test]
async fn skip_to_next_runs_nothing_and_records_each() {
    let job =
        || Job::cron("hourly", "0 * * * *").misfire(Misfire::skip_to_next().threshold(seconds(60)));
    let (bench, log) = away_until("10:05:00", job).await;
    assert_eq!(log.len(), 0);
    let skipped = executions(&bench.storage, ExecutionFilter::default()).await;
    let mut answers: Vec<_> =
        skipped.iter().map(|run| (run.nominal.unwrap(), run.ending)).collect();
    answers.sort_by_key(|(nominal, _)| *nominal);
    let expected = ["08:00", "09:00", "10:00"].map(|hour| {
        let nominal = instant(&format!("2026-03-02T{hour}:00Z"));
        (nominal, Ending::Skipped(SkipReason::Misfire))
    });
    assert_eq!(answers, expected);
    assert_eq!(bench.punctual.events().count("job.misfired"), 1);
    let record = bench.punctual.admin().job("hourly").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T11:00:00Z")));
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["11:00 at 11:00"]);
}

// Trap 9: capped and in order.
// spec: M-16, M-19, M-12
#[tokio::test]
async fn fire_all_runs_each_in_its_order_and_is_capped() {
    let job = || {
        let all = Misfire::fire_all().threshold(seconds(60)).catch_up_max(3);
        Job::cron("hourly", "0 * * * *").misfire(all)
    };
    let (bench, log) = away_until("13:05:00", job).await;
    assert_eq!(
        log.lines(),
        [
            "11:00 at 13:05: 0 of 6 from 11:00 late 7500s",
            "12:00 at 13:05: 1 of 6 from 12:00 late 3900s",
            "13:00 at 13:05: 2 of 6 from 13:00 late 300s",
        ]
    );
    let dropped = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    let dropped = executions(&bench.storage, dropped).await;
    assert_eq!(dropped.len(), 3);
    assert!(dropped.iter().all(|run| run.ending == Ending::Skipped(SkipReason::CatchUpLimit)));
}

// Trap 9: a restart in the middle.
// spec: M-16
#[tokio::test]
async fn a_restart_in_the_middle_of_fire_all_repeats_nothing() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job =
        || Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_all().threshold(seconds(60)));
    let handler = || {
        let (log, gate) = (log.clone(), gate.clone());
        move |occurrence: Occurrence, _: punctual::Context| {
            let (log, gate) = (log.clone(), gate.clone());
            async move {
                gate.pass().await;
                log.push(occurrence.nominal.strftime("%H").to_string());
            }
        }
    };
    let first = Bench::start(|builder| builder.queue("default", 1).job(job(), handler())).await;
    first.punctual.shutdown().await;
    let mut world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant("2026-03-02T13:05:00Z"));
    for _ in 0..6 {
        let bench =
            Bench::start_in(world, |builder| builder.queue("default", 1).job(job(), handler()))
                .await;
        gate.open(1);
        bench.run_until_idle().await;
        stop_within(&bench, seconds(60)).await;
        world = (bench.clock.clone(), bench.storage.clone());
    }
    // A run that a shutdown releases is queued behind the waiting ones, so only the first is certain.
    let mut runs = log.lines();
    assert_eq!(runs[0], "08");
    runs.sort();
    assert_eq!(runs, ["08", "09", "10", "11", "12", "13"], "each once, none lost");
}

// spec: H-40, H-44, M-4, M-11, M-20
#[tokio::test]
async fn exactly_at_the_threshold_is_late_but_not_missed() {
    let job = || Job::cron("daily", "0 8 * * *").misfire(Misfire::skip_to_next());
    // A policy without an explicit threshold has one of five minutes.
    let (at, log) = away_until("08:05:00", job).await;
    assert_eq!(log.lines(), ["08:00 at 08:05"]);
    assert_eq!(at.punctual.events().count("job.misfired"), 0);
    let (past, log) = away_until("08:05:00.000000001", job).await;
    assert_eq!(log.len(), 0);
    assert_eq!(past.punctual.events().count("job.misfired"), 1);
}

// spec: M-18, M-5
#[tokio::test]
async fn a_threshold_of_two_hours_forgives_an_outage_of_one() {
    let two_hours = Misfire::fire_once().threshold(seconds(7_200));
    let job = || Job::cron("daily", "0 8 * * *").misfire(two_hours.clone());
    let (bench, log) = away_until("09:00:00", job).await;
    assert_eq!(log.lines(), ["08:00 at 09:00"]);
    assert_eq!(bench.punctual.events().count("job.misfired"), 0);
}

// spec: H-41
#[tokio::test]
async fn a_misfire_is_noticed_at_any_time_not_only_at_the_start() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *").misfire(Misfire::skip_to_next());
    let bench = Bench::start(|builder| builder.job(job, logging(&log, line))).await;
    let mut events = bench.punctual.events().listen();
    // The machine sleeps for two hours and a half.
    bench.clock.set(instant("2026-03-02T09:30:00Z"));
    bench.run_until_idle().await;
    assert_eq!(log.len(), 0);
    let mut misfire = None;
    while let Ok(event) = events.try_recv() {
        if let Event::JobMisfired { missed, policy, threshold, cursor, .. } = *event {
            misfire = Some((missed, policy, threshold, cursor));
        }
    }
    let next = Some(instant("2026-03-02T10:00:00Z"));
    assert_eq!(misfire, Some((2, MisfirePolicy::SkipToNext, seconds(300), next)));
}

// spec: M-6, M-13
#[tokio::test]
async fn what_was_missed_is_decided_before_anything_runs_and_summarised_at_the_start() {
    let log = Log::default();
    let build = |builder: Builder| {
        let daily = Job::cron("daily", "0 8 * * *").misfire(Misfire::skip_to_next());
        builder
            .job(Job::cron("hourly", "0 * * * *"), logging(&log, line))
            .job(daily, logging(&log, line))
            .job(Job::cron("late", "0 23 * * *"), logging(&log, line))
    };
    let first = Bench::start(build).await;
    assert_eq!(first.punctual.events().count("misfires.found"), 0, "nothing was missed");
    first.punctual.shutdown().await;
    first.clock.set(instant("2026-03-02T10:05:00Z"));
    let builder = Punctual::builder().clock(first.clock.clone()).storage(first.storage.clone());
    let second = build(builder).build().unwrap();
    let mut events = second.events().listen();
    second.start().await.unwrap();
    run_until_idle().await;
    let (mut names, mut sums) = (Vec::new(), Vec::new());
    while let Ok(event) = events.try_recv() {
        names.push(event.name());
        if let Event::MisfiresFound { jobs, missed } = *event {
            sums.push((jobs, missed));
        }
    }
    assert_eq!(sums, [(2, 4)], "three of one job and one of the other");
    let decided = names.iter().rposition(|name| *name == "job.misfired").unwrap();
    let ran = names.iter().position(|name| *name == "attempt.started").unwrap();
    assert!(decided < ran, "{names:?}");
    assert_eq!(log.lines(), ["08:00 at 10:05: 0 of 3 from 08:00 late 7500s"]);
}

// spec: H-39, H-42
#[tokio::test]
async fn a_job_without_a_threshold_uses_the_one_of_the_options() {
    let log = Log::default();
    let start = |world, threshold: u64| {
        Bench::start_in(world, move |builder| {
            builder.options(|options| options.misfire_threshold = seconds(threshold))
        })
    };
    let first =
        Bench::start(|builder| builder.job(Job::cron("daily", "0 8 * * *"), logging(&log, line)))
            .await;
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant("2026-03-02T08:01:30Z"));
    let patient = start(world.clone(), 90).await;
    assert_eq!(patient.punctual.events().count("job.misfired"), 0);
    patient.punctual.shutdown().await;
    world.0.set(instant("2026-03-03T08:01:30Z"));
    let strict = start(world, 89).await;
    assert_eq!(strict.punctual.events().count("job.misfired"), 1);
}

// Trap 2: what was overdue stays overdue across a restart, and the policy is applied once.
#[tokio::test]
async fn a_second_restart_does_not_apply_the_policy_again() {
    let job = || Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_once());
    let (back, log) = away_until("10:30:00", job).await;
    assert_eq!(log.len(), 1);
    back.punctual.shutdown().await;
    let world = (back.clock.clone(), back.storage.clone());
    let again = Bench::start_in(world, |builder| builder.job(job(), logging(&log, line))).await;
    advance_in_steps(&again, seconds(1_800), seconds(900)).await;
    assert_eq!(log.lines()[1..], ["11:00 at 11:00"]);
    assert_eq!(again.punctual.events().count("job.misfired"), 0);
}

// spec: M-23
#[tokio::test]
async fn a_year_of_missed_seconds_is_decided_in_one_bounded_step() {
    let job = || Job::cron("secondly", "* * * * * *").misfire(Misfire::fire_once());
    let idle = |builder: Builder| {
        let builder = builder.options(|options| options.handling = false);
        builder.declare(job())
    };
    let first = Bench::start(idle).await;
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    world.0.set(instant("2027-03-02T07:00:00Z"));
    let back = Bench::start_in(world, idle).await;
    let record = back.punctual.admin().job("secondly").await.unwrap();
    assert!(record.cursor > Some(back.clock.now()));
    // One for all that was missed. The one of this second is in time, and the one before it is late by no
    // more than the distance between them.
    let fired =
        back.storage.messages(MessageFilter::default(), PageRequest::first(1_000)).await.unwrap();
    assert_eq!(fired.rows.len(), 3);
    let facts = |row: &MessageRecord| row.message.occurrence.as_ref().unwrap().misfire.clone();
    let made_up: Vec<_> = fired.rows.iter().filter_map(facts).collect();
    assert_eq!(made_up.len(), 1);
    let facts = &made_up[0];
    assert_eq!((facts.missed_count, facts.missed_more), (10_000, true), "counted up to a bound");
}
