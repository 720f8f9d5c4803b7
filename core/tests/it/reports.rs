//! Reports of a handler: success, failure, progress and log lines; and the contract under which a missing report
//! is a failure.

use punctual::handler::{ProgressReport, SelfReport};
use punctual::model::{Ending, MessageState};
use punctual::policy::AttemptEnd;
use punctual::testing::HandlerTest;
use punctual::{Context, Event, Job, Outcome, Retry, State, must_report};

use crate::harness::{Bench, Log, seconds};
use crate::test_handlers::{history, retrying};

async fn silent(context: Context) {
    context.progress((99, "nearly there"));
}

async fn succeeds(context: Context) {
    context.report_success("812 lines");
}

async fn fails_politely(context: Context) -> Outcome {
    context.report_failure("card declined");
    Outcome::Done
}

async fn explodes(_: Context) {
    panic!("no report");
}

// spec: T-5, T-9, T-11, T-13
#[tokio::test]
async fn a_handler_that_must_report_and_does_not_has_failed() {
    let result = HandlerTest::new().run(must_report(silent)).await.unwrap();
    let AttemptEnd::Failed { error } = &result.report else { panic!("{:?}", result.report) };
    assert!(error.contains("returned without report_success() or report_failure()"), "{error}");
    assert!(error.contains("progress alone is no report"), "{error}");
    assert_eq!(result.context.progressed().unwrap().percent, Some(99));
    assert_eq!(result.context.reported(), None);
    // Without the contract, returning is enough.
    assert_eq!(HandlerTest::new().run(silent).await.unwrap().report, AttemptEnd::Done);
}

// spec: T-5, T-8, T-13
#[tokio::test]
async fn what_is_reported_counts_and_can_be_tested_without_storage_or_queue() {
    let result = HandlerTest::new().run(must_report(succeeds)).await.unwrap();
    assert_eq!(result.report, AttemptEnd::Done);
    assert_eq!(result.context.reported(), Some(SelfReport::Success("812 lines".into())));
    assert_eq!(result.note(), Some("812 lines".into()));
    for result in [
        HandlerTest::new().run(must_report(fails_politely)).await.unwrap(),
        HandlerTest::new().run(fails_politely).await.unwrap(),
    ] {
        assert_eq!(result.report, AttemptEnd::Failed { error: "card declined".into() });
    }
}

// spec: T-10
#[tokio::test]
async fn a_panic_or_an_error_without_a_report_is_a_failure_and_nothing_more() {
    let result = HandlerTest::new().run(must_report(explodes)).await.unwrap();
    let error = "the handler panicked: no report".into();
    assert_eq!(result.report, AttemptEnd::Panicked { error });
    let wrong = must_report(|_: Context| async { Err::<(), _>("no route") });
    let result = HandlerTest::new().run(wrong).await.unwrap();
    assert_eq!(result.report, AttemptEnd::Failed { error: "no route".into() });
    // An error after a reported success: the work that followed it failed.
    let late = |context: Context| async move {
        context.report_success("done");
        Err::<(), _>("but the receipt was not sent")
    };
    let result = HandlerTest::new().run(must_report(late)).await.unwrap();
    assert_eq!(result.report, AttemptEnd::Failed { error: "but the receipt was not sent".into() });
}

// spec: T-8
#[tokio::test]
async fn the_context_has_its_identity_and_its_start() {
    let now = crate::harness::instant("2026-03-02T07:00:00Z");
    let context = HandlerTest::new().at(now).key("order-7").context().unwrap();
    assert_eq!(context.key().unwrap().as_str(), "order-7");
    assert_eq!(context.execution_id().to_string().len(), 36);
    assert_eq!(context.started_at(), now);
    let recurring = HandlerTest::new().at(now).job("nightly").context().unwrap();
    assert_eq!((recurring.key(), recurring.nominal()), (None, Some(now)));
}

// spec: T-5, T-9, T-10, T-11
#[tokio::test]
async fn the_history_contains_the_reports() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .state(log.clone())
            .handler_with("silent", retrying(Retry::none()), must_report(silent))
            .handler_with("explodes", retrying(Retry::none()), must_report(explodes))
            .handler_with("politely", retrying(Retry::none()), fails_politely)
            .handler("succeeds", must_report(succeeds))
            .handler("calm", |State(log): State<Log>| async move { log.push("calm") })
    })
    .await;
    let publisher = bench.punctual.publisher();
    for (topic, ending, note) in [
        ("silent", Ending::Failed, "the handler must report"),
        ("explodes", Ending::Panicked, "the handler panicked: no report"),
        ("politely", Ending::Failed, "card declined"),
        ("succeeds", Ending::Succeeded, "812 lines"),
    ] {
        let sent = publisher.publish(topic, &()).await.unwrap();
        bench.run_until_idle().await;
        let history = history(&bench.storage, sent.id).await;
        assert_eq!(history.len(), 1, "{topic}");
        assert_eq!(history[0].ending, ending, "{topic}");
        let stored_note = history[0].note.as_deref().unwrap_or_default();
        assert!(stored_note.starts_with(note), "{topic}: {stored_note}");
    }
    publisher.publish("calm", &()).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["calm"], "the host lives");
}

// spec: T-9, T-11
#[tokio::test]
async fn a_job_chooses_the_contract_for_its_handler() {
    let bench = Bench::start(|builder| {
        builder
            .job(Job::every("silent", seconds(60)).must_report(), silent)
            .job(Job::every("talkative", seconds(60)).must_report(), succeeds)
    })
    .await;
    bench.advance(seconds(60)).await;
    for (topic, ending) in [("silent", Ending::Failed), ("talkative", Ending::Succeeded)] {
        let filter = punctual::inspect::ExecutionFilter {
            job: Some(punctual::model::JobName::new(topic).unwrap()),
            ..Default::default()
        };
        let runs = crate::test_handlers::executions(&bench.storage, filter).await;
        assert_eq!(runs.iter().map(|run| run.ending).collect::<Vec<_>>(), [ending], "{topic}");
    }
}

// spec: T-8
#[tokio::test]
async fn progress_has_a_percentage_and_a_note_and_is_reported_as_it_happens() {
    let bench = Bench::start(|builder| {
        builder.handler("packs", |context: Context| async move {
            context.progress("reading");
            context.progress(40);
            context.progress((200, "writing"));
        })
    })
    .await;
    let mut events = bench.punctual.events().listen();
    let sent = bench.punctual.publisher().publish("packs", &()).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Done);
    let mut recorded = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let Event::AttemptProgressed { percent, note, .. } = &*event {
            recorded.push((*percent, note.to_string()));
        }
    }
    let (reading, writing) = ("reading".to_owned(), "writing".to_owned());
    assert_eq!(recorded, [(None, reading), (Some(40), String::new()), (Some(100), writing)]);
    assert_eq!(ProgressReport::from("x").percent, None);
}

#[tokio::test]
async fn lines_are_kept_with_the_attempt_within_bounds() {
    let chatty = |context: Context| async move {
        for number in 0..250 {
            context.log(format!("line {number}"));
        }
        context.log("x".repeat(5_000));
    };
    let result = HandlerTest::new().run(chatty).await.unwrap();
    let lines = result.context.logged();
    assert_eq!(lines.len(), 100);
    assert_eq!((&*lines[0], &*lines[98]), ("line 151", "line 249"));
    assert_eq!(lines[99].len(), 1_000);
}
