//! Schedule cursor: operators skip an occurrence, or move the cursor forward or back. Every nominal time has one
//! record in the history.

use punctual::inspect::ExecutionFilter;
use punctual::model::{Ending, JobPhase, SkipReason};
use punctual::{ErrorKind, Job, Misfire, Occurrence, Schedule};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::{executions, logging};

async fn started(job: punctual::JobBuilder, log: &Log) -> Bench {
    let line = |occurrence: &Occurrence, _: &_| occurrence.nominal.strftime("%H:%M").to_string();
    Bench::start(|builder| builder.job(job, logging(log, line))).await
}

async fn hourly(log: &Log) -> Bench {
    started(Job::cron("hourly", "0 * * * *"), log).await
}

/// Returns the nominal times that an operator skipped, oldest first, with the notes.
async fn skipped(bench: &Bench) -> Vec<(String, Option<String>)> {
    let filter = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    let found = executions(&bench.storage, filter).await;
    let notes = found.into_iter().map(|execution| {
        assert_eq!(execution.ending, Ending::Skipped(SkipReason::Operator));
        let nominal = execution.nominal.unwrap().strftime("%H:%M").to_string();
        (nominal, execution.note.map(|note| note.to_string()))
    });
    notes.collect()
}

#[tokio::test]
async fn the_next_occurrence_is_skipped_and_recorded() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    assert_eq!(admin.skip_next("hourly").await.unwrap(), instant("2026-03-02T08:00:00Z"));
    assert_eq!(skipped(&bench).await, [("08:00".to_owned(), None)], "at once");
    assert_eq!(admin.skip_next("hourly").await.unwrap(), instant("2026-03-02T09:00:00Z"));
    bench.advance(seconds(4 * 3_600)).await;
    assert_eq!(log.lines(), ["10:00", "11:00"]);
}

#[tokio::test]
async fn an_occurrence_further_ahead_is_skipped_when_it_comes() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    let nine = instant("2026-03-02T09:00:00Z");
    admin.skip("hourly", nine).await.unwrap();
    let again = admin.skip("hourly", nine).await.unwrap();
    assert_eq!(again.overrides.skips.len(), 1, "twice is once");
    assert_eq!(
        admin.upcoming("hourly", 2).await.unwrap(),
        ["2026-03-02T08:00:00Z", "2026-03-02T10:00:00Z"].map(instant)
    );
    bench.advance(seconds(4 * 3_600)).await;
    assert_eq!(log.lines(), ["08:00", "10:00", "11:00"]);
    assert_eq!(skipped(&bench).await, [("09:00".to_owned(), None)]);
    let record = admin.job("hourly").await.unwrap();
    assert!(record.overrides.is_empty(), "what is over is forgotten");
    assert_eq!(record.runs, 3);
}

#[tokio::test]
async fn what_is_no_occurrence_or_has_been_decided_cannot_be_skipped() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    let between = admin.skip("hourly", instant("2026-03-02T09:30:00Z")).await.unwrap_err();
    assert_eq!(between.kind(), ErrorKind::Invalid);
    assert!(between.to_string().contains("2026-03-02T10:00:00Z"), "{between}");
    bench.advance(seconds(3_600)).await;
    let over = admin.skip("hourly", instant("2026-03-02T08:00:00Z")).await.unwrap_err();
    assert_eq!(over.kind(), ErrorKind::Conflict);
    assert_eq!(admin.skip_next("weekly").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(log.len(), 1);
}

#[tokio::test]
async fn skipping_the_only_occurrence_finishes_a_job() {
    let log = Log::default();
    let bench = started(Job::once("launch", instant("2026-03-02T08:00:00Z")), &log).await;
    let admin = bench.punctual.admin();
    admin.skip_next("launch").await.unwrap();
    let record = admin.job("launch").await.unwrap();
    assert_eq!((record.phase(), record.cursor), (JobPhase::Retired, None));
    bench.advance(seconds(7_200)).await;
    assert_eq!(log.len(), 0);
    assert_eq!(admin.skip_next("launch").await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_cursor_moved_forward_skips_the_occurrences_in_between() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    let record = admin.move_cursor("hourly", instant("2026-03-02T09:30:00Z")).await.unwrap();
    assert_eq!(record.cursor, Some(instant("2026-03-02T10:00:00Z")));
    let passed: Vec<String> = skipped(&bench).await.into_iter().map(|(at, _)| at).collect();
    assert_eq!(passed, ["08:00", "09:00"]);
    bench.advance(seconds(3 * 3_600)).await;
    assert_eq!(log.lines(), ["10:00"]);
    // A month of hours is one record.
    admin.move_cursor("hourly", instant("2026-04-01T00:00:00Z")).await.unwrap();
    let folded = skipped(&bench).await.pop().unwrap();
    assert!(folded.1.unwrap().starts_with("709 occurrences from 2026-03-02T11:00:00Z"));
}

#[tokio::test]
async fn a_cursor_moved_back_replays_on_purpose_by_the_misfire_policy() {
    for (misfire, expected) in [
        (Misfire::fire_all(), vec!["08:00", "09:00", "10:00", "08:00", "09:00", "10:00"]),
        (Misfire::fire_once(), vec!["08:00", "09:00", "10:00", "10:00"]),
    ] {
        let log = Log::default();
        let bench = started(Job::cron("hourly", "0 * * * *").misfire(misfire), &log).await;
        let admin = bench.punctual.admin();
        bench.advance(seconds(3 * 3_600 + 600)).await;
        admin.move_cursor("hourly", instant("2026-03-02T08:00:00Z")).await.unwrap();
        bench.advance(seconds(60)).await;
        assert_eq!(log.lines(), expected);
        let record = admin.job("hourly").await.unwrap();
        assert_eq!(record.cursor, Some(instant("2026-03-02T11:00:00Z")), "and on from there");
    }
}

#[tokio::test]
async fn a_cursor_cannot_be_moved_where_nothing_fires() {
    let log = Log::default();
    let until = Schedule::cron_utc("0 * * * *").unwrap();
    let until = until.ending(instant("2026-03-02T12:00:00Z")).unwrap();
    let bench = started(Job::scheduled("morning", until), &log).await;
    let admin = bench.punctual.admin();
    let error = admin.move_cursor("morning", instant("2026-03-02T13:00:00Z")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    bench.advance(seconds(6 * 3_600)).await;
    assert_eq!(log.lines(), ["08:00", "09:00", "10:00", "11:00"]);
    assert_eq!(admin.job("morning").await.unwrap().phase(), JobPhase::Retired);
    // Moving back replays the past of a finished job.
    admin.move_cursor("morning", instant("2026-03-02T11:00:00Z")).await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines()[4..], ["11:00"]);
    let request = punctual::client::PauseRequest {
        by: "ada".to_owned(),
        reason: "audit".to_owned(),
        until: None,
    };
    let paused = hourly(&log).await;
    let admin = paused.punctual.admin();
    admin.pause("hourly", request).await.unwrap();
    let back = admin.move_cursor("hourly", instant("2026-03-02T01:00:00Z")).await;
    assert_eq!(back.unwrap_err().kind(), ErrorKind::Conflict);
}
