//! Bulk commands for many messages: counted first, limited, and safe to repeat.

use punctual::client::{BulkResult, MatchCount};
use punctual::inspect::{MessageFilter, PageRequest};
use punctual::model::{MessageState, Topic};
use punctual::{Context, ErrorKind, Retry};

use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{failing, never_returning, retrying};

fn of(topic: &str) -> MessageFilter {
    MessageFilter { topic: Some(Topic::new(topic).unwrap()), ..MessageFilter::default() }
}

/// Starts a process with five dead letters of `mail` and two of `post`.
async fn with_dead_letters(log: &Log) -> Bench {
    let bench = Bench::start(|builder| {
        builder.handler_with("mail", retrying(Retry::none()), failing::<()>(log)).handler_with(
            "post",
            retrying(Retry::none()),
            failing::<()>(log),
        )
    })
    .await;
    for topic in ["mail", "mail", "mail", "mail", "mail", "post", "post"] {
        bench.punctual.publisher().publish(topic, &()).await.unwrap();
    }
    bench.advance(seconds(1)).await;
    assert_eq!(log.len(), 7);
    bench
}

#[tokio::test]
async fn dead_letters_are_counted_and_redriven_by_filter() {
    let log = Log::default();
    let bench = with_dead_letters(&log).await;
    let admin = bench.punctual.admin();
    let dead = |filter| MessageFilter { states: vec![MessageState::Dead], ..filter };
    assert_eq!(admin.count(&dead(of("mail"))).await.unwrap(), MatchCount { count: 5, more: false });
    let in_all = admin.count(&dead(MessageFilter::default())).await.unwrap();
    assert_eq!(in_all, MatchCount { count: 7, more: false });
    let bulk_result = admin.redrive_all(of("mail"), 3).await.unwrap();
    assert_eq!(bulk_result, BulkResult { applied: 3, more: true, ..BulkResult::default() });
    bench.advance(seconds(1)).await;
    assert_eq!(log.len(), 10, "three ran again, and are dead again");
    let bulk_result = admin.redrive_all(of("mail"), 100).await.unwrap();
    assert_eq!((bulk_result.applied, bulk_result.more), (5, false));
}

#[tokio::test]
async fn dead_letters_are_discarded_by_filter_and_nothing_else_is() {
    let log = Log::default();
    let bench = with_dead_letters(&log).await;
    let admin = bench.punctual.admin();
    let waiting = bench.punctual.publisher().publish("mail", &()).after(seconds(60)).await.unwrap();
    let bulk_result = admin.discard_all(of("mail"), 100).await.unwrap();
    assert_eq!(bulk_result, BulkResult { applied: 5, ..BulkResult::default() });
    let again = admin.discard_all(of("mail"), 100).await.unwrap();
    assert_eq!(again, BulkResult::default(), "repeated it finds nothing");
    assert_eq!(bench.message(waiting.id).await.state, MessageState::Pending);
    assert_eq!(
        admin.dead_letters(PageRequest::default()).await.unwrap().rows.len(),
        2,
        "the other topic's"
    );
    assert_eq!(bench.punctual.events().count("message.changed"), 5);
}

// Decision 3.28: what runs on another node is asked to stop.
#[tokio::test]
async fn pending_and_running_messages_are_cancelled_across_processes() {
    let world = world();
    let (log, recorded) = (Log::default(), Log::default());
    let cancellations = recorded.clone();
    let worker = Bench::start_in(world.clone(), |builder| {
        builder.handler("stuck", never_returning::<()>(&log)).handler(
            "long",
            move |(): (), context: Context| {
                let cancellations = cancellations.clone();
                async move {
                    cancellations.push(format!("{:?}", context.cancelled().await));
                    Err::<(), _>("broken off")
                }
            },
        )
    })
    .await;
    let office =
        Bench::start_in(world, |builder| builder.options(|options| options.handling = false)).await;
    let publisher = office.punctual.publisher();
    let running = publisher.publish("long", &()).await.unwrap();
    let waiting = publisher.publish("long", &()).after(seconds(600)).await.unwrap();
    let other = publisher.publish("stuck", &()).await.unwrap();
    office.advance(seconds(5)).await;
    let admin = office.punctual.admin();
    let bulk_result = admin.cancel_all(of("long"), 100).await.unwrap();
    assert_eq!(bulk_result, BulkResult { applied: 1, requested: 1, ..BulkResult::default() });
    office.advance(seconds(100)).await;
    assert_eq!(recorded.lines(), ["Cancelled"]);
    for id in [running.id, waiting.id] {
        assert_eq!(worker.message(id).await.state, MessageState::Cancelled);
    }
    assert_eq!(worker.message(other.id).await.state, MessageState::Running);
    assert_eq!(admin.cancel_all(of("long"), 100).await.unwrap(), BulkResult::default());
}

#[tokio::test]
async fn states_and_limits_that_make_no_sense_are_refused() {
    let bench = Bench::start(|builder| builder).await;
    let admin = bench.punctual.admin();
    let in_state = |state| MessageFilter { states: vec![state], ..MessageFilter::default() };
    let refused = [
        admin.redrive_all(in_state(MessageState::Pending), 9).await,
        admin.discard_all(in_state(MessageState::Done), 9).await,
        admin.cancel_all(in_state(MessageState::Dead), 9).await,
        admin.cancel_all(MessageFilter::default(), 0).await,
        admin.redrive_all(MessageFilter::default(), 10_001).await,
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
}
