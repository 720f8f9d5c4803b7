//! Job commands of operators: trigger, pause, resume.

use punctual::client::{PauseRequest, TriggerResult};
use punctual::inspect::{ExecutionFilter, PageRequest};
use punctual::model::{Ending, JobPhase, MessageState, SkipReason, Source};
use punctual::{Context, ErrorKind, Event, Job, Misfire, Occurrence, Overlap};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::{Gate, executions, logging, never_returning, waiting};

fn pause(until: Option<&str>) -> PauseRequest {
    PauseRequest {
        by: "ada".to_owned(),
        reason: "stocktaking".to_owned(),
        until: until.map(instant),
    }
}

async fn hourly(log: &Log) -> Bench {
    let line = |occurrence: &Occurrence, context: &Context| {
        format!("{} {:?}", occurrence.nominal.strftime("%H:%M"), context.source())
    };
    Bench::start(|builder| builder.job(Job::cron("hourly", "0 * * * *"), logging(log, line))).await
}

// trap 8
// spec: U-33, U-32, T-58, T-35
#[tokio::test]
async fn a_trigger_runs_a_paused_job_and_does_not_change_its_schedule() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    admin.pause("hourly", pause(None)).await.unwrap();
    let before = admin.job("hourly").await.unwrap();
    bench.advance(seconds(600)).await;
    let triggered = admin.trigger("hourly", false).await.unwrap();
    assert!(matches!(triggered, TriggerResult::StartedWhilePaused(_)), "the result reports it");
    assert!(triggered.message().is_some());
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["07:10 Manual"]);
    let after = admin.job("hourly").await.unwrap();
    assert_eq!((after.cursor, after.runs), (before.cursor, before.runs));
    assert_eq!((after.last_nominal, &after.paused), (before.last_nominal, &before.paused));
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 1, "it stays paused");
}

// spec: U-33
#[tokio::test]
async fn a_trigger_between_two_occurrences_disturbs_neither() {
    let log = Log::default();
    let bench = hourly(&log).await;
    bench.advance(seconds(1_800)).await;
    bench.punctual.admin().trigger("hourly", false).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["07:30 Manual", "08:00 Scheduled"]);
    let manual = bench.punctual.admin().history("hourly", PageRequest::first(9)).await.unwrap();
    let sources: Vec<Source> = manual.rows.iter().map(|run| run.source).collect();
    assert_eq!(sources, [Source::Scheduled, Source::Manual]);
}

// spec: T-58
#[tokio::test]
async fn a_trigger_of_an_unknown_job_is_refused() {
    let bench = hourly(&Log::default()).await;
    let error = bench.punctual.admin().trigger("weekly", false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("\"weekly\""), "{error}");
    assert_eq!(bench.punctual.admin().counts().await.unwrap().total(MessageState::Pending), 0);
}

#[tokio::test]
async fn a_trigger_respects_the_overlap_policy_unless_it_overrides_it() {
    let log = Log::default();
    let job = Job::cron("hourly", "0 * * * *").overlap(Overlap::Skip);
    let bench = Bench::start(|builder| {
        builder.queue("default", 8).job(job, never_returning::<Occurrence>(&log))
    })
    .await;
    let admin = bench.punctual.admin();
    admin.trigger("hourly", false).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(admin.trigger("hourly", false).await.unwrap(), TriggerResult::Overlapping(1));
    assert!(matches!(admin.trigger("hourly", true).await.unwrap(), TriggerResult::Started(_)));
    bench.run_until_idle().await;
    assert_eq!(log.len(), 2);
}

// Decision 3.16.
// spec: U-34
#[tokio::test]
async fn a_run_finishes_during_a_pause_and_a_resume_replays_nothing() {
    let (log, gate) = (Log::default(), Gate::shut());
    let job = Job::cron("hourly", "0 * * * *").misfire(Misfire::fire_all());
    let bench = Bench::start(|builder| builder.job(job, waiting::<Occurrence>(&log, &gate))).await;
    let admin = bench.punctual.admin();
    bench.advance(seconds(3_600)).await;
    let paused = admin.pause("hourly", pause(None)).await.unwrap();
    assert_eq!(paused.phase(), JobPhase::Paused);
    gate.open(9);
    bench.advance(seconds(3 * 3_600)).await;
    assert_eq!(log.lines(), ["began", "ended"]);
    let resumed = admin.resume("hourly").await.unwrap();
    assert_eq!(resumed.phase(), JobPhase::Active);
    assert_eq!(resumed.cursor, Some(instant("2026-03-02T12:00:00Z")), "strictly after now");
    bench.advance(seconds(3_599)).await;
    assert_eq!(log.len(), 2);
    bench.advance(seconds(1)).await;
    assert_eq!(log.len(), 4);
    let skipped = ExecutionFilter { endings: vec!["skipped"], ..ExecutionFilter::default() };
    let skipped = executions(&bench.storage, skipped).await;
    assert!(skipped.iter().all(|run| run.ending == Ending::Skipped(SkipReason::Paused)));
}

#[tokio::test]
async fn a_pause_ends_by_itself_and_replays_nothing() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    admin.pause("hourly", pause(Some("2026-03-02T09:30:00Z"))).await.unwrap();
    bench.advance(seconds(9_000)).await;
    assert_eq!(log.len(), 0);
    let record = admin.job("hourly").await.unwrap();
    assert_eq!(
        (record.phase(), record.cursor),
        (JobPhase::Active, Some(instant("2026-03-02T10:00:00Z")))
    );
    let history = admin.history("hourly", PageRequest::first(9)).await.unwrap();
    assert_eq!(history.rows.len(), 1);
    assert_eq!(history.rows[0].ending, Ending::Skipped(SkipReason::Paused));
    assert!(history.rows[0].note.as_deref().unwrap().starts_with("2 occurrences"));
    bench.advance(seconds(1_800)).await;
    assert_eq!(log.lines(), ["10:00 Scheduled"]);
}

// Decision 3.32: a one-time job keeps its time, or runs now if that has passed.
// spec: H-45
#[tokio::test]
async fn a_paused_one_time_job_runs_when_the_pause_is_over() {
    for by_itself in [true, false] {
        let log = Log::default();
        let job = Job::once("launch", instant("2026-03-02T08:00:00Z"));
        let done = logging::<Occurrence>(&log, |_, context| context.started_at().to_string());
        let bench = Bench::start(|builder| builder.job(job, done)).await;
        let admin = bench.punctual.admin();
        let until = by_itself.then_some("2026-03-02T09:00:00Z");
        admin.pause("launch", pause(until)).await.unwrap();
        bench.advance(seconds(7_200)).await;
        if !by_itself {
            assert_eq!(log.len(), 0);
            admin.resume("launch").await.unwrap();
            bench.run_until_idle().await;
        }
        assert_eq!(log.lines(), ["2026-03-02T09:00:00Z"], "by itself: {by_itself}");
    }
}

#[tokio::test]
async fn pausing_and_resuming_an_unknown_job_is_refused() {
    let bench = hourly(&Log::default()).await;
    let admin = bench.punctual.admin();
    assert_eq!(admin.pause("weekly", pause(None)).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(admin.resume("weekly").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(admin.pause("", pause(None)).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn what_operators_do_is_reported() {
    let log = Log::default();
    let bench = hourly(&log).await;
    let admin = bench.punctual.admin();
    let mut events = bench.punctual.events().listen();
    let sent = bench.punctual.publisher().publish("hourly", &()).after(seconds(60)).await.unwrap();
    admin.cancel(sent.id).await.unwrap();
    admin.redrive(sent.id).await.unwrap();
    admin.pause("hourly", pause(None)).await.unwrap();
    admin.resume("hourly").await.unwrap();
    let mut recorded = Vec::new();
    while let Ok(event) = events.try_recv() {
        match &*event {
            Event::MessageChanged { command, .. } => recorded.push(*command),
            Event::JobChanged { change, .. } => recorded.push(*change),
            _ => {}
        }
    }
    assert_eq!(recorded, ["cancel", "redrive", "paused", "resumed"]);
}

// Decision 3.16: a message that waits for its retry is paused with its job.
#[tokio::test]
async fn a_paused_job_delays_its_retries() {
    let log = Log::default();
    let retry = punctual::Retry::intervals([seconds(60)]);
    let job = Job::cron("hourly", "0 * * * *").retry(retry);
    let bench =
        Bench::start(|builder| builder.job(job, crate::test_handlers::failing::<Occurrence>(&log)))
            .await;
    bench.advance(seconds(3_600)).await;
    bench.punctual.admin().pause("hourly", pause(None)).await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(log.lines(), ["1 2026-03-02T08:00:00Z"]);
}
