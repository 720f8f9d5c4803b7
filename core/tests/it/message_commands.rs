//! Message commands of operators: cancel, redrive, reschedule, delete.

use punctual::backend::storage::CommandResult;
use punctual::inspect::PageRequest;
use punctual::model::{Ending, MessageState, Source};
use punctual::{CancelCause, Context, Outcome, Retry};

use crate::harness::{Bench, Log, instant, seconds, world};
use crate::test_handlers::{
    Gate, endings, failing, history, logging, never_returning, retrying, waiting,
};

#[tokio::test]
async fn a_pending_message_is_cancelled_immediately() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder.handler("mail", logging::<()>(&log, |(), _| "sent".to_owned()))
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", &()).after(seconds(60)).await.unwrap();
    let admin = bench.punctual.admin();
    assert_eq!(admin.cancel(sent.id).await.unwrap(), CommandResult::Applied(1));
    bench.advance(seconds(120)).await;
    assert_eq!(log.len(), 0);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Cancelled);
    assert_eq!(
        admin.cancel(sent.id).await.unwrap(),
        CommandResult::Refused(MessageState::Cancelled)
    );
}

// Decision 3.28: the handler on another node is asked to stop, and its result is ignored.
#[tokio::test]
async fn a_running_message_is_cancelled_across_processes() {
    let log = Log::default();
    let recorded = log.clone();
    let world = world();
    let worker = Bench::start_in(world.clone(), |builder| {
        builder.handler("long", move |(): (), context: Context| {
            let recorded = recorded.clone();
            async move {
                let cause = context.cancelled().await;
                recorded.push(format!("{cause:?}"));
                Err::<(), _>("broken off")
            }
        })
    })
    .await;
    let office =
        Bench::start_in(world, |builder| builder.options(|options| options.handling = false)).await;
    let sent = office.punctual.publisher().publish("long", &()).await.unwrap();
    office.advance(seconds(5)).await;
    assert_eq!(office.punctual.admin().cancel(sent.id).await.unwrap(), CommandResult::Requested);
    // The worker learns of it when it renews the lease, at a third of its duration at the latest.
    office.advance(seconds(100)).await;
    assert_eq!(log.lines(), ["Cancelled"]);
    assert_eq!(office.message(sent.id).await.state, MessageState::Cancelled);
    assert_eq!(
        endings(&worker.storage, sent.id).await,
        [Ending::Cancelled],
        "neither failed nor retried"
    );
}

#[tokio::test]
async fn what_is_done_before_the_cancel_arrives_stays_done() {
    let (log, gate) = (Log::default(), Gate::shut());
    let bench = Bench::start(|builder| builder.handler("long", waiting::<()>(&log, &gate))).await;
    let sent = bench.punctual.publisher().publish("long", &()).await.unwrap();
    bench.run_until_idle().await;
    bench.punctual.admin().cancel(sent.id).await.unwrap();
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Done);
}

#[tokio::test]
async fn a_failure_of_a_message_that_is_to_be_cancelled_ends_it() {
    let gate = Gate::shut();
    let passed = gate.clone();
    let bench = Bench::start(|builder| {
        builder.handler("long", move |(): (), _: Context| {
            let passed = passed.clone();
            async move {
                passed.pass().await;
                Err::<(), _>("on its own")
            }
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("long", &()).await.unwrap();
    bench.run_until_idle().await;
    bench.punctual.admin().cancel(sent.id).await.unwrap();
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Cancelled);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Cancelled]);
}

// Trap 15.
// spec: T-34
#[tokio::test]
async fn a_redrive_resets_the_attempts() {
    let log = Log::default();
    let handler_options = retrying(Retry::intervals([seconds(10)]));
    let bench =
        Bench::start(|builder| builder.handler_with("mail", handler_options, failing::<()>(&log)))
            .await;
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Dead);
    assert_eq!(log.len(), 2);
    let admin = bench.punctual.admin();
    assert_eq!(admin.redrive(sent.id).await.unwrap(), CommandResult::Applied(1));
    bench.advance(seconds(600)).await;
    let attempts: Vec<u32> =
        history(&bench.storage, sent.id).await.iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 2, 1, 2]);
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.message.source), (MessageState::Dead, Source::Redriven));
    assert_eq!(admin.dead_letters(PageRequest::first(9)).await.unwrap().rows.len(), 1, "once");
}

#[tokio::test]
async fn a_pending_message_is_moved_and_a_running_one_is_not() {
    let log = Log::default();
    let bench = Bench::start(|builder| {
        builder
            .handler("mail", logging::<()>(&log, |(), context| context.started_at().to_string()))
            .handler("stuck", never_returning::<()>(&Log::default()))
    })
    .await;
    let admin = bench.punctual.admin();
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("mail", &()).after(seconds(3_600)).await.unwrap();
    let running = publisher.publish("stuck", &()).await.unwrap();
    bench.run_until_idle().await;
    let sooner = instant("2026-03-02T07:01:00Z");
    assert_eq!(admin.reschedule(sent.id, sooner).await.unwrap(), CommandResult::Applied(1));
    assert_eq!(
        admin.reschedule(running.id, sooner).await.unwrap(),
        CommandResult::Refused(MessageState::Running)
    );
    assert_eq!(
        admin.delete(running.id).await.unwrap(),
        CommandResult::Refused(MessageState::Running)
    );
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["2026-03-02T07:01:00Z"]);
    assert_eq!(admin.delete(sent.id).await.unwrap(), CommandResult::Applied(1));
    assert_eq!(admin.message(sent.id).await.unwrap(), None);
    assert!(history(&bench.storage, sent.id).await.is_empty(), "its history goes with it");
    assert_eq!(admin.redrive(sent.id).await.unwrap(), CommandResult::Unknown);
}

#[tokio::test]
async fn a_handler_may_cancel_its_own_message() {
    let bench = Bench::start(|builder| {
        builder.handler("mail", |(): (), context: Context| async move {
            assert_eq!(context.cancel_cause(), None::<CancelCause>);
            Outcome::Cancel
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", &()).await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Cancelled);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Cancelled]);
}

// spec: U-32, H-62
#[tokio::test]
async fn a_deleted_job_loses_its_history_and_is_new_when_declared_again() {
    let log = Log::default();
    let world = world();
    let declare = |builder: punctual::Builder| {
        let job = punctual::Job::every("report", seconds(60));
        builder.job(job, logging::<punctual::Occurrence>(&log, |_, _| "ran".to_owned()))
    };
    let bench = Bench::start_in(world.clone(), declare).await;
    bench.advance(seconds(120)).await;
    let admin = bench.punctual.admin();
    assert_eq!(admin.history("report", PageRequest::first(9)).await.unwrap().rows.len(), 2);
    assert_eq!(admin.delete_job("report").await.unwrap().runs, 2);
    assert!(admin.job("report").await.is_err());
    assert!(admin.history("report", PageRequest::first(9)).await.unwrap().rows.is_empty());
    bench.advance(seconds(300)).await;
    assert_eq!(log.len(), 2, "nobody fires what is not there");
    assert!(admin.delete_job("report").await.unwrap_err().to_string().contains("report"));
    let again = Bench::start_in(world, declare).await;
    again.advance(seconds(60)).await;
    assert_eq!(log.len(), 3);
    assert_eq!(again.punctual.admin().job("report").await.unwrap().runs, 1);
}
