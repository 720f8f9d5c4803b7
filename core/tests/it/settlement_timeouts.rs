//! Settlement timeouts: a settlement that never returns has a deadline, its slot is free after it, and nothing
//! is lost.

use punctual::backend::transport::{AttemptCount, Capabilities, Delay};
use punctual::model::{Ending, MessageState};
use punctual::{Retry, Storage, Subscribe};

use crate::broker::{PLAIN, post};
use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{endings, failing, logging, retrying};

/// The default of `settle_timeout`.
const DEADLINE: u64 = 60;

/// Counts deliveries and requeues them with any delay.
const COUNTING: Capabilities =
    Capabilities { requeue_delay: Delay::Any, attempts: AttemptCount::Counted, ..PLAIN };

fn mail() -> Subscribe {
    Subscribe::new("post", "mail", "office").concurrency(2)
}

async fn send(bench: &Bench, texts: &[&str]) {
    for text in texts {
        bench.punctual.publisher().publish("mail", text).via("post").await.unwrap();
    }
    bench.run_until_idle().await;
}

fn running(bench: &Bench) -> usize {
    bench.punctual.subscriptions().list()[0].running
}

// A consumer stalled for good when acknowledgements on a lost connection never returned.
#[tokio::test]
async fn an_acknowledgement_that_never_returns_frees_its_slot_at_its_deadline() {
    let log = Log::default();
    let handler = logging::<String>(&log, |text, _| text.clone());
    let (bench, broker) =
        post(PLAIN, |builder| builder.handler("mail", handler).subscription(mail())).await;
    broker.hang_settlements(true);
    send(&bench, &["a", "b", "c"]).await;
    assert_eq!((log.lines(), running(&bench)), (vec!["a".to_owned(), "b".to_owned()], 2));
    bench.advance(seconds(DEADLINE - 1)).await;
    assert_eq!((log.len(), running(&bench)), (2, 2), "both slots are taken until the deadline");
    assert_eq!(bench.punctual.events().count("service.failed"), 0);
    broker.hang_settlements(false);
    bench.advance(seconds(1)).await;
    assert_eq!(
        (log.len(), running(&bench)),
        (3, 0),
        "the slots are free and the next one is handled"
    );
    assert_eq!(bench.punctual.events().count("service.failed"), 2);
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines()[3..], ["a", "b"], "what was not confirmed comes again");
    let settlements = broker.settlements();
    assert_eq!(
        settlements,
        ["ack hangs", "ack hangs", "redeliver", "redeliver", "ack", "ack", "ack"],
        "each is settled once"
    );
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
    let succeeded = bench.punctual.events().count("attempt.succeeded");
    assert_eq!(succeeded, 5, "one for each call of the handler");
}

#[tokio::test]
async fn a_requeue_that_never_returns_frees_its_slot_and_the_message_is_tried_again() {
    let log = Log::default();
    let (bench, broker) = post(COUNTING, |builder| {
        let handler_options = retrying(Retry::intervals([seconds(0)]).unlimited());
        builder.handler_with("mail", handler_options, failing::<String>(&log)).subscription(mail())
    })
    .await;
    broker.hang_settlements(true);
    send(&bench, &["a", "b", "c"]).await;
    assert_eq!(broker.settlements(), ["requeue hangs", "requeue hangs"]);
    bench.advance(seconds(DEADLINE)).await;
    assert_eq!(broker.settlements()[2..], ["redeliver", "redeliver", "requeue hangs"]);
    assert_eq!(running(&bench), 1, "the third message has one slot, the other is free");
    bench.advance(seconds(1)).await;
    assert!(log.lines()[3..].iter().all(|line| line.starts_with("2 ")), "{:?}", log.lines());
}

#[tokio::test]
async fn a_rejection_that_never_returns_frees_its_slot() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, |builder| {
        let handler_options = retrying(Retry::none());
        builder.handler_with("mail", handler_options, failing::<String>(&log)).subscription(mail())
    })
    .await;
    broker.hang_settlements(true);
    send(&bench, &["a", "b", "c"]).await;
    assert_eq!(running(&bench), 2);
    broker.hang_settlements(false);
    bench.advance(seconds(DEADLINE + 1)).await;
    assert_eq!((running(&bench), broker.waiting(), broker.unsettled()), (0, 0, 0));
    let rejected =
        broker.settlements().iter().filter(|line| *line == "reject attempts spent").count();
    assert_eq!(rejected, 3, "{:?}", broker.settlements());
}

#[tokio::test]
async fn a_message_that_cannot_be_acknowledged_first_is_not_handled_and_frees_its_slot() {
    let log = Log::default();
    let handler = logging::<String>(&log, |text, _| text.clone());
    let (bench, broker) =
        post(PLAIN, |builder| builder.handler("mail", handler).subscription(mail().at_most_once()))
            .await;
    broker.hang_settlements(true);
    send(&bench, &["a", "b", "c"]).await;
    assert_eq!((log.len(), running(&bench)), (0, 2));
    broker.hang_settlements(false);
    bench.advance(seconds(DEADLINE)).await;
    assert_eq!((log.lines(), running(&bench)), (vec!["c".to_owned()], 0));
    bench.advance(seconds(1)).await;
    assert_eq!(log.lines(), ["c", "a", "b"], "each is handled once");
}

#[tokio::test]
async fn a_settlement_that_never_returns_times_out_and_its_messages_are_rescued() {
    let world = world();
    let (faulty, log) = (FaultyStorage::over(&world.1), Log::default());
    let bench = Bench::start_in(world, |builder| {
        let handler = logging::<()>(&log, |(), context| context.attempt().to_string());
        builder.storage(faulty.clone()).handler("work", handler)
    })
    .await;
    faulty.hang_settlements();
    let first = bench.punctual.publisher().publish("work", &()).await.unwrap().id;
    bench.advance(seconds(DEADLINE - 1)).await;
    faulty.heal();
    let second = bench.punctual.publisher().publish("work", &()).await.unwrap().id;
    bench.run_until_idle().await;
    assert_eq!(
        bench.message(second).await.state,
        MessageState::Running,
        "it waits behind the first"
    );
    assert_eq!(bench.punctual.events().count("lease.lost"), 0);
    bench.advance(seconds(1)).await;
    assert_eq!(bench.message(second).await.state, MessageState::Done);
    assert_eq!(bench.message(first).await.state, MessageState::Running, "its lease runs out");
    let events = bench.punctual.events();
    assert_eq!((events.count("lease.lost"), events.count("service.failed")), (1, 1));
    bench.advance(seconds(6 * 60)).await;
    assert_eq!(bench.message(first).await.state, MessageState::Done);
    assert_eq!(endings(&bench.storage, first).await, [Ending::Lost, Ending::Succeeded]);
}

/// A handler that settles its message itself, as inside a transaction, and fails afterwards.
async fn settling(settle: bool) -> (Bench, punctual::model::MessageId) {
    let world = world();
    let storage = world.1.clone();
    let bench = Bench::start_in(world, |builder| {
        builder.handler("pay", move |(): (), context: punctual::Context| {
            let storage = storage.clone();
            async move {
                let settlement = context.settlement().map_err(|error| error.to_string())?;
                if settle {
                    let now = context.started_at();
                    let _ = storage.settle(vec![settlement], now).await;
                }
                Err::<(), _>("the printer is out of paper".to_owned())
            }
        })
    })
    .await;
    let id = bench.punctual.publisher().publish("pay", &()).await.unwrap().id;
    bench.run_until_idle().await;
    (bench, id)
}

#[tokio::test]
async fn an_error_after_a_settlement_of_the_handler_is_an_event_of_its_own() {
    let (bench, id) = settling(true).await;
    assert_eq!(bench.message(id).await.state, MessageState::Done);
    assert_eq!(endings(&bench.storage, id).await, [Ending::Succeeded]);
    let events = bench.punctual.events();
    assert_eq!((events.count("attempt.succeeded"), events.count("attempt.failed")), (1, 0));
    assert_eq!(events.count("attempt.error_after_settle"), 1);
    assert_eq!(events.count("lease.lost"), 0);
}

#[tokio::test]
async fn an_error_after_a_settlement_that_was_rolled_back_is_a_failure() {
    let (bench, id) = settling(false).await;
    assert_eq!(bench.message(id).await.state, MessageState::Pending);
    assert_eq!(endings(&bench.storage, id).await, [Ending::Failed]);
    let events = bench.punctual.events();
    assert_eq!((events.count("attempt.succeeded"), events.count("attempt.failed")), (0, 1));
    assert_eq!(events.count("attempt.error_after_settle"), 0);
}
