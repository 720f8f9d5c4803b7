//! Planned one-time jobs: paused, resumed and triggered by name and key.

use punctual::backend::storage::CommandResult;
use punctual::client::{PauseRequest, TriggerResult};
use punctual::inspect::PageRequest;
use punctual::model::{MessageRecord, MessageState};
use punctual::{Builder, ErrorKind, Job, Retry};

use crate::harness::{Bench, Log, instant, seconds};
use crate::test_handlers::{Gate, failing, logging, waiting};

fn reminding(log: &Log) -> impl FnOnce(Builder) -> Builder + use<'_> {
    |builder| {
        builder.handler(
            "remind",
            logging::<Option<String>>(log, |_, context| {
                let key = context.key().map_or("nothing", |key| key.as_str());
                format!("{key} at {}", context.started_at())
            }),
        )
    }
}

fn request() -> PauseRequest {
    PauseRequest { by: "ada".to_owned(), reason: "outage".to_owned(), until: None }
}

// Decision 3.32.
// spec: T-75
#[tokio::test]
async fn a_paused_one_keeps_its_time_or_runs_now_when_it_passed() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    let early = jobs.once("remind").after(seconds(600)).key("early").await.unwrap();
    let late = jobs.once("remind").after(seconds(7_200)).key("late").await.unwrap();
    let paused = jobs.planned("remind").pause(request()).await.unwrap();
    assert_eq!((paused.changed.len(), paused.unchanged), (2, 0));
    let again = jobs.planned("remind").pause(request()).await.unwrap();
    assert_eq!((again.changed.len(), again.unchanged), (0, 2), "they are paused already");
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 0, "a paused one does not run");
    let listed = jobs.planned("remind").list(PageRequest::first(9)).await.unwrap().rows;
    let reasons: Vec<_> = listed.iter().filter_map(|one| one.paused.as_ref()).collect();
    assert_eq!(reasons.len(), 2);
    assert_eq!(reasons[0].pause.by, "ada");
    assert_eq!(bench.message(late.id).await.own_due_at(), instant("2026-03-02T09:00:00Z"));
    let resumed = jobs.planned("remind").resume().await.unwrap();
    assert_eq!((resumed.changed.len(), resumed.were_paused), (2, 2));
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["early at 2026-03-02T08:00:00Z"], "its time has passed");
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[1..], ["late at 2026-03-02T09:00:00Z"], "it kept its time");
    assert_eq!(bench.message(early.id).await.state, MessageState::Done);
}

// spec: T-75
#[tokio::test]
async fn a_paused_one_does_not_run_after_a_restart_or_in_another_process() {
    let log = Log::default();
    let first = Bench::start(reminding(&log)).await;
    first.punctual.jobs().once("remind").after(seconds(60)).key("order-7").await.unwrap();
    first.punctual.jobs().planned("remind").key("order-7").pause(request()).await.unwrap();
    first.punctual.shutdown().await;
    let world = (first.clock.clone(), first.storage.clone());
    let second = Bench::start_in(world, reminding(&log)).await;
    second.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 0);
    second.punctual.jobs().planned("remind").key("order-7").resume().await.unwrap();
    second.run_until_idle().await;
    assert_eq!(log.len(), 1);
}

// Decision 3.15: a trigger works for a paused job, and reports it.
// spec: T-75
#[tokio::test]
async fn a_triggered_one_runs_now_and_never_again() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    jobs.once("remind").after(seconds(600)).key("plain").await.unwrap();
    let triggered = jobs.planned("remind").key("plain").trigger().await.unwrap();
    assert_eq!((triggered.changed.len(), triggered.were_paused), (1, 0));
    bench.run_until_idle().await;
    jobs.once("remind").after(seconds(600)).key("paused").await.unwrap();
    jobs.planned("remind").key("paused").pause(request()).await.unwrap();
    let triggered = jobs.planned("remind").key("paused").trigger().await.unwrap();
    assert_eq!((triggered.changed.len(), triggered.were_paused), (1, 1), "it is reported");
    bench.run_until_idle().await;
    bench.advance(seconds(3_600)).await;
    assert_eq!(
        log.lines(),
        ["plain at 2026-03-02T07:00:00Z", "paused at 2026-03-02T07:00:00Z"],
        "once each"
    );
}

// spec: T-75, T-43
#[tokio::test]
async fn a_paused_one_is_cancelled_or_replaced_by_name_and_key() {
    let log = Log::default();
    let bench = Bench::start(reminding(&log)).await;
    let jobs = bench.punctual.jobs();
    let gone = jobs.once("remind").after(seconds(60)).key("order-7").await.unwrap();
    let kept = jobs.once("remind").after(seconds(60)).key("order-8").await.unwrap();
    jobs.planned("remind").pause(request()).await.unwrap();
    assert_eq!(jobs.cancel("remind", "order-7").await.unwrap(), 1);
    assert_eq!(bench.message(gone.id).await.state, MessageState::Cancelled);
    assert_eq!(bench.message(kept.id).await.state, MessageState::Pending);
    jobs.once("remind").after(seconds(90)).key("order-8").replace().await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(log.lines(), ["order-8 at 2026-03-02T07:01:30Z"], "a replacement is a new one");
    let error = jobs.planned("remind").key("order-7").resume().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_running_one_and_a_pause_with_an_end_are_refused() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("remind", waiting::<()>(&log, &gate))).await;
    let jobs = bench.punctual.jobs();
    jobs.once("remind").key("order-7").await.unwrap();
    bench.run_until_idle().await;
    let paused = jobs.planned("remind").pause(request()).await.unwrap();
    assert_eq!((paused.changed.len(), paused.unchanged), (0, 1), "a running one continues");
    let until = Some(instant("2026-03-03T00:00:00Z"));
    let ending = PauseRequest { until, ..request() };
    let error = jobs.planned("remind").pause(ending).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["began", "ended"]);
}

// A dead letter that was sent again is the same one-time job.
// spec: T-75
#[tokio::test]
async fn a_redriven_one_accepts_commands_as_before() {
    let log = Log::default();
    let bench = Bench::start(|builder| builder.handler("remind", failing::<()>(&log))).await;
    let jobs = bench.punctual.jobs();
    let retry = Retry::intervals([seconds(600)]);
    let sent = jobs.once("remind").payload(&()).key("order-7").retry(retry).await.unwrap();
    bench.run_until_idle().await;
    bench.advance(seconds(600)).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Dead);
    let redriven = bench.punctual.admin().redrive(sent.id).await.unwrap();
    assert_eq!(redriven, CommandResult::Applied(1));
    bench.run_until_idle().await;
    assert_eq!(log.len(), 3, "it waits for its retry");
    let planned = jobs.planned("remind").key("order-7");
    assert_eq!(planned.list(PageRequest::first(9)).await.unwrap().rows.len(), 1);
    assert_eq!(planned.pause(request()).await.unwrap().changed, [sent.id]);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.len(), 3, "a paused one does not run");
    assert_eq!(planned.trigger().await.unwrap().were_paused, 1);
    bench.run_until_idle().await;
    assert_eq!(log.len(), 4);
}

// spec: T-75
#[tokio::test]
async fn a_redriven_run_of_a_recurring_job_is_not_a_one_time_job() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        let job = Job::every("remind", seconds(3_600)).retry(Retry::intervals([seconds(60)]));
        builder.handler("remind", failing::<()>(&log)).declare(job)
    })
    .await;
    let run = bench.punctual.admin().trigger("remind", false).await.unwrap();
    let TriggerResult::Started(run) = run else { panic!("{run:?}") };
    bench.run_until_idle().await;
    bench.advance(seconds(60)).await;
    assert_eq!(bench.message(run).await.state, MessageState::Dead);
    bench.punctual.admin().redrive(run).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(bench.message(run).await.state, MessageState::Pending, "it waits for its retry");
    let listed = bench.punctual.jobs().planned("remind").list(PageRequest::first(9)).await.unwrap();
    assert_eq!(listed.rows, []);
}

// spec: T-75
#[tokio::test]
async fn planned_jobs_of_all_names_are_paged() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        reminding(&log)(builder).declare(Job::every("remind", seconds(3_600)))
    })
    .await;
    let jobs = bench.punctual.jobs();
    let first = jobs.once("remind").after(seconds(7_200)).key("order-7").await.unwrap();
    bench.punctual.publisher().publish("remind", "a message").after(seconds(9)).await.unwrap();
    let second = jobs.once("invoice").after(seconds(7_200)).await.unwrap();
    let page = jobs.list_planned(PageRequest::first(1)).await.unwrap();
    let ids =
        |rows: &[MessageRecord]| -> Vec<_> { rows.iter().map(|row| row.message.id).collect() };
    assert_eq!(ids(&page.rows), [second.id], "newest first");
    let rest = jobs.list_planned(PageRequest::after(page.next.unwrap(), 9)).await.unwrap();
    assert_eq!((ids(&rest.rows), rest.next), (vec![first.id], None));
    jobs.planned("remind").trigger().await.unwrap();
    bench.run_until_idle().await;
    let left = jobs.list_planned(PageRequest::first(9)).await.unwrap();
    assert_eq!(ids(&left.rows), [second.id], "what has run is left out");
}

// Decision 3.37: neither a planned nor a paused one blocks the schedule.
// spec: T-75
#[tokio::test]
async fn a_paused_one_does_not_affect_the_recurring_job_of_its_name() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        reminding(&log)(builder).declare(Job::every("remind", seconds(3_600)))
    })
    .await;
    let jobs = bench.punctual.jobs();
    jobs.once("remind").after(seconds(60)).key("order-7").await.unwrap();
    jobs.planned("remind").pause(request()).await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["nothing at 2026-03-02T08:00:00Z"], "the occurrence of 8 o'clock");
    let record = bench.punctual.admin().job("remind").await.unwrap();
    assert_eq!(record.paused, None, "only the one-time job is paused");
}
