//! Overlap: what an occurrence does while the previous run is still alive.

use punctual::inspect::{ExecutionFilter, MessageFilter, PageRequest};
use punctual::model::{Ending, MessageState, SkipReason};
use punctual::{CancelCause, Context, Inspect, Job, Occurrence, Overlap, Retry};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::{Gate, executions, never_returning, waiting};

async fn skipped(bench: &Bench) -> Vec<String> {
    let filter = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    let mut rows: Vec<String> = executions(&bench.storage, filter)
        .await
        .iter()
        .map(|run| {
            assert_eq!(run.ending, Ending::Skipped(SkipReason::Overlap));
            run.nominal.unwrap().strftime("%H:%M").to_string()
        })
        .collect();
    rows.sort();
    rows
}

async fn alive(bench: &Bench) -> usize {
    let states = vec![MessageState::Pending, MessageState::Running];
    let filter = MessageFilter { states, ..MessageFilter::default() };
    bench.storage.messages(filter, PageRequest::first(100)).await.unwrap().rows.len()
}

// Trap 7: a skipped occurrence advances the schedule, so there is no busy loop.
// spec: U-42, U-5
#[tokio::test]
async fn skip_records_the_occurrence_and_moves_on() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = Job::cron("hourly", "0 * * * *");
    let bench = Bench::start(|builder| {
        builder.queue("default", 8).job(job, waiting::<Occurrence>(&log, &gate))
    })
    .await;
    bench.advance(seconds(3 * 3_600)).await;
    assert_eq!(log.lines(), ["began"]);
    assert_eq!(skipped(&bench).await, ["09:00", "10:00"]);
    let record = bench.punctual.admin().job("hourly").await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T11:00:00Z")));
    assert_eq!(bench.punctual.events().count("job.skipped"), 2, "each once");
    gate.open(8);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["began", "ended", "began", "ended"]);
}

// spec: U-43
#[tokio::test]
async fn a_failed_run_is_over_and_the_next_one_fires() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *");
    let bench =
        Bench::start(|builder| builder.job(job, crate::test_handlers::failing::<Occurrence>(&log)))
            .await;
    bench.advance(seconds(2 * 3_600)).await;
    assert_eq!(log.len(), 2);
    assert!(skipped(&bench).await.is_empty());
}

#[tokio::test]
async fn a_run_that_waits_for_its_retry_is_alive() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *").retry(Retry::intervals([seconds(5_400)]));
    let bench =
        Bench::start(|builder| builder.job(job, crate::test_handlers::failing::<Occurrence>(&log)))
            .await;
    bench.advance(seconds(2 * 3_600)).await;
    assert_eq!(skipped(&bench).await, ["09:00"]);
}

#[tokio::test]
async fn allow_runs_them_side_by_side_up_to_its_limit() {
    for (parallel_max, expected) in [(None, 4), (Some(2), 2)] {
        let log = Log::default();
        let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::Allow { parallel_max });
        let bench = Bench::start(|builder| {
            builder.queue("default", 8).job(job, never_returning::<Occurrence>(&log))
        })
        .await;
        bench.advance(seconds(4 * 3_600)).await;
        assert_eq!(log.len(), expected, "{parallel_max:?}");
        assert_eq!(skipped(&bench).await.len(), 4 - expected);
    }
}

#[tokio::test]
async fn queue_one_keeps_one_waiting_and_skips_the_third() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::QueueOne);
    let bench = Bench::start(|builder| {
        builder.queue("default", 1).job(job, waiting::<Occurrence>(&log, &gate))
    })
    .await;
    bench.advance(seconds(4 * 3_600)).await;
    assert_eq!(alive(&bench).await, 2);
    assert_eq!(skipped(&bench).await, ["10:00", "11:00"]);
    gate.open(2);
    bench.run_until_idle().await;
    assert_eq!(
        log.lines(),
        ["began", "ended", "began", "ended"],
        "the second waited for the first"
    );
}

#[tokio::test]
async fn queue_one_waits_although_there_is_room_to_run() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::QueueOne);
    let bench = Bench::start(|builder| {
        builder.queue("default", 8).job(job, waiting::<Occurrence>(&log, &gate))
    })
    .await;
    bench.advance(seconds(3 * 3_600)).await;
    assert_eq!(log.lines(), ["began"]);
    gate.open(2);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended", "began", "ended"]);
}

#[tokio::test]
async fn cancel_running_stops_the_old_run_and_starts_the_new_one() {
    let log = Log::default();
    let recorded = log.clone();
    let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::CancelRunning);
    let bench = Bench::start(|builder| {
        builder.queue("default", 8).job(job, move |occurrence: Occurrence, context: Context| {
            let recorded = recorded.clone();
            async move {
                let hour = occurrence.nominal.strftime("%H").to_string();
                recorded.push(format!("{hour} began"));
                assert_eq!(context.cancelled().await, CancelCause::Cancelled);
                recorded.push(format!("{hour} stopped"));
            }
        })
    })
    .await;
    bench.advance(seconds(2 * 3_600 + 600)).await;
    assert_eq!(log.lines(), ["08 began", "08 stopped", "09 began"]);
    assert!(skipped(&bench).await.is_empty());
    assert_eq!(alive(&bench).await, 1);
}

#[tokio::test]
async fn cancel_running_also_replaces_a_run_that_only_waits() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::CancelRunning).queue("elsewhere");
    let bench = Bench::start(|builder| {
        builder
            .queue("default", 1)
            .only_named_queues()
            .job(job, never_returning::<Occurrence>(&log))
    })
    .await;
    bench.advance(seconds(3 * 3_600)).await;
    assert_eq!(alive(&bench).await, 1, "only the newest waits");
    let cancelled =
        MessageFilter { states: vec![MessageState::Cancelled], ..MessageFilter::default() };
    assert_eq!(
        bench.storage.messages(cancelled, PageRequest::first(9)).await.unwrap().rows.len(),
        2
    );
}
