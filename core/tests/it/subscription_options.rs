//! Subscription options: concurrency and rate, number of deliveries, and at-most-once.

use std::sync::Arc;

use punctual::backend::transport::{AttemptCount, Capabilities, Delay};
use punctual::builtin::memory_transport;
use punctual::inspect::PageRequest;
use punctual::model::{DeadReason, Ending, MessageState, ProcessId};
use punctual::{Context, Inspect, Outcome, Retry, Subscribe, Transport};

use crate::broker::{Broker, PLAIN, post};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{
    Gate, endings, failing, history, logging, retrying, stop_within, waiting,
};

fn mail() -> Subscribe {
    Subscribe::new("post", "mail", "office")
}

async fn send(bench: &Bench, texts: &[&str]) {
    for text in texts {
        let publish = bench.punctual.publisher().publish("mail", text);
        // The first character is the key.
        publish.key(&text[..1]).via("post").await.unwrap();
    }
    bench.run_until_idle().await;
}

#[tokio::test]
async fn no_more_run_in_parallel_than_the_subscription_allows() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (bench, broker) = post(PLAIN, |builder| {
        builder.handler("mail", waiting::<String>(&log, &gate)).subscription(mail().concurrency(2))
    })
    .await;
    send(&bench, &["a1", "a2", "b1", "b2", "c1"]).await;
    assert_eq!((log.len(), broker.waiting()), (2, 3), "the rest stays with the broker");
    assert_eq!(bench.punctual.subscriptions().list()[0].running, 2);
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!((log.len(), broker.waiting()), (4, 2), "two began, one ended, one more began");
    gate.open(9);
    bench.run_until_idle().await;
    assert_eq!(broker.settlements().len(), 5);
}

#[tokio::test]
async fn messages_of_one_key_go_one_after_the_other_and_others_pass_them() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (recorded, held) = (log.clone(), gate.clone());
    let (bench, broker) = post(PLAIN, |builder| {
        let handler = move |text: String, _: Context| {
            let (recorded, held) = (recorded.clone(), held.clone());
            async move {
                recorded.push(format!("{text} began"));
                if text.starts_with('a') {
                    held.pass().await;
                }
                recorded.push(format!("{text} ended"));
            }
        };
        builder
            .handler("mail", handler)
            .subscription(mail().concurrency(5).prefetch(10).key_concurrency(1))
    })
    .await;
    send(&bench, &["a1", "a2", "a3", "b1", "b2"]).await;
    assert_eq!(log.lines(), ["a1 began", "b1 began", "b1 ended", "b2 began", "b2 ended"]);
    assert_eq!(broker.waiting(), 0, "what waits for its turn is in hand");
    gate.open(1);
    bench.run_until_idle().await;
    assert_eq!(log.lines()[5..], ["a1 ended", "a2 began"]);
    gate.open(2);
    bench.run_until_idle().await;
    assert_eq!(log.lines()[7..], ["a2 ended", "a3 began", "a3 ended"], "in their order");
    assert_eq!(broker.settlements().len(), 5);
}

#[tokio::test]
async fn what_waits_for_its_turn_is_bounded_by_the_prefetch() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (bench, broker) = post(PLAIN, |builder| {
        builder
            .handler("mail", waiting::<String>(&log, &gate))
            .subscription(mail().concurrency(2).prefetch(3).key_concurrency(1))
    })
    .await;
    send(&bench, &["a1", "a2", "a3", "a4", "a5"]).await;
    assert_eq!((log.len(), broker.waiting(), broker.unsettled()), (1, 2, 3));
    // Buffered messages that were not started are back at the broker.
    gate.open(1);
    stop_within(&bench, seconds(60)).await;
    assert_eq!(log.lines(), ["began", "ended"]);
    assert_eq!(broker.unsettled(), 0);
    assert_eq!(broker.waiting(), 4);
}

#[tokio::test]
async fn no_more_start_in_a_span_than_the_rate_allows() {
    let log = Log::default();
    let handler = logging::<String>(&log, |text, context| {
        format!("{text} {}", context.started_at().strftime("%S"))
    });
    let (bench, broker) = post(PLAIN, |builder| {
        builder.handler("mail", handler).subscription(mail().rate(2, seconds(10)))
    })
    .await;
    send(&bench, &["a", "b", "c", "d", "e"]).await;
    assert_eq!(log.lines(), ["a 00", "b 00"]);
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["a 00", "b 00", "c 10", "d 10", "e 20"]);
    assert_eq!(broker.unsettled(), 0);
}

#[tokio::test]
async fn a_rate_per_key_delays_only_that_key() {
    let log = Log::default();
    let handler = logging::<String>(&log, |text, context| {
        format!("{text} {}", context.started_at().strftime("%S"))
    });
    let (bench, _broker) = post(PLAIN, |builder| {
        builder.handler("mail", handler).subscription(mail().key_rate(1, seconds(10)))
    })
    .await;
    send(&bench, &["a1", "a2", "b1", "a3", "c1"]).await;
    bench.advance(seconds(30)).await;
    assert_eq!(log.lines(), ["a1 00", "b1 00", "c1 00", "a2 10", "a3 20"]);
}

// A claim that waits for its turn longer than its lease is still ours.
#[tokio::test]
async fn a_claim_that_waits_for_its_turn_is_kept() {
    let (world, log) = (world(), Log::default());
    let owner = ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(1));
    let stored = Arc::new(memory_transport(world.0.clone(), owner));
    let handler = logging::<String>(&log, |text, context| {
        format!("{text} {}", context.started_at().strftime("%H:%M"))
    });
    let bench = Bench::start_in(world, |builder| {
        builder
            .transport("post", stored)
            .handler("mail", handler)
            .subscription(mail().rate(1, seconds(1_200)))
    })
    .await;
    send(&bench, &["a", "b"]).await;
    bench.advance(seconds(1_300)).await;
    assert_eq!(log.lines(), ["a 07:00", "b 07:20"]);
    assert_eq!(bench.punctual.events().count("lease.lost"), 0);
    assert_eq!(bench.punctual.events().count("attempt.succeeded"), 2);
}

// Decision 3.23: at most n calls, the nth failure rejects, 0 and 1 mean no requeue.
// spec: D-26, D-27, D-28
#[tokio::test]
async fn the_last_delivery_that_fails_is_rejected() {
    for (deliveries, calls) in [(0, 1), (1, 1), (3, 3), (9, 5)] {
        let log = Log::default();
        let handler_options = retrying(Retry::intervals([seconds(10)]).attempts(5));
        let (bench, broker) = post(PLAIN, |builder| {
            builder
                .handler_with("mail", handler_options, failing::<String>(&log))
                .subscription(mail().deliveries_max(deliveries))
        })
        .await;
        let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
        bench.advance(seconds(600)).await;
        assert_eq!(log.len(), calls, "of {deliveries}");
        assert_eq!(broker.settlements().last().unwrap(), "reject attempts spent");
        assert_eq!(broker.settlements().len(), calls, "each delivery is settled once");
        let dead_letter = bench.message(sent.id).await;
        assert_eq!((dead_letter.state, dead_letter.attempt as usize), (MessageState::Dead, calls));
    }
}

// A process that dies with the message reports no failure; the broker counts nevertheless.
// spec: D-27
#[tokio::test]
async fn a_message_whose_last_delivery_was_lost_is_not_handled_again() {
    let log = Log::default();
    let capabilities = Capabilities { attempts: AttemptCount::Counted, ..PLAIN };
    let (bench, broker) = post(capabilities, |builder| {
        builder
            .handler("mail", logging::<String>(&log, |text, _| text.clone()))
            .subscription(mail().deliveries_max(3))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("mail", "x").after(seconds(9_999)).await.unwrap();
    let message = bench.message(sent.id).await.message;
    bench.punctual.admin().delete(sent.id).await.unwrap();
    broker.deliver(message, 4);
    bench.run_until_idle().await;
    assert_eq!(log.len(), 0);
    assert_eq!(broker.settlements(), ["reject attempts spent"]);
    assert_eq!(bench.message(sent.id).await.dead, Some(DeadReason::AttemptsSpent));
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Lost]);
}

#[tokio::test]
async fn inline_retries_are_first_and_count_as_attempts() {
    let capabilities =
        Capabilities { requeue_delay: Delay::Any, attempts: AttemptCount::Counted, ..PLAIN };
    for capabilities in [PLAIN, capabilities] {
        let log = Log::default();
        let handler_options = retrying(Retry::intervals([seconds(10)]).attempts(5));
        let (bench, broker) = post(capabilities, |builder| {
            builder
                .handler_with("mail", handler_options, failing::<String>(&log))
                .subscription(mail().inline_retries(2))
        })
        .await;
        let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
        bench.advance(seconds(60)).await;
        let at = |second: u32, attempt: u32| format!("{attempt} 2026-03-02T07:00:{second:02}Z");
        assert_eq!(log.lines(), [at(0, 1), at(0, 2), at(0, 3), at(10, 4), at(10, 5)]);
        assert_eq!(broker.settlements(), ["ack", "reject attempts spent"], "stored with its count");
        let runs = history(&bench.storage, sent.id).await;
        let mut attempts: Vec<u32> = runs.iter().map(|run| run.attempt).collect();
        attempts.sort_unstable();
        assert_eq!(attempts, [1, 2, 3, 4, 5], "each is in the history");
        assert_eq!(bench.message(sent.id).await.attempt, 5);
    }
}

#[tokio::test]
async fn an_inline_retry_that_succeeds_spares_the_wait() {
    let log = Log::default();
    let recorded = log.clone();
    let (bench, broker) = post(PLAIN, |builder| {
        let handler = move |_: String, context: Context| {
            recorded.push(context.attempt().to_string());
            std::future::ready(if context.attempt() < 3 { Err("busy") } else { Ok(()) })
        };
        builder.handler("mail", handler).subscription(mail().inline_retries(5))
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["1", "2", "3"]);
    assert_eq!(broker.settlements(), ["ack"]);
    let endings = endings(&bench.storage, sent.id).await;
    assert_eq!(endings.iter().filter(|ending| **ending == Ending::Failed).count(), 2);
    assert_eq!(bench.punctual.events().count("attempt.started"), 3);
}

async fn at_most_once(
    transport: Arc<dyn Transport>,
    bench_world: crate::subscription_options::World,
) {
    let log = Log::default();
    let recorded = log.clone();
    let bench = Bench::start_in(bench_world, |builder| {
        let handler = move |text: String, _: Context| {
            recorded.push(text.clone());
            std::future::ready(match text.as_str() {
                "fails" => Err("out of order"),
                "snoozes" if recorded.len() < 4 => Ok(Outcome::Snooze(seconds(60))),
                _ => Ok(Outcome::Done),
            })
        };
        builder
            .transport("post", transport)
            .handler("mail", handler)
            .subscription(mail().at_most_once())
    })
    .await;
    send(&bench, &["works", "fails", "snoozes"]).await;
    assert_eq!(log.lines(), ["works", "fails", "snoozes"]);
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines()[3..], ["snoozes"], "only the snoozed message came again");
    let dead_letters =
        bench.punctual.admin().dead_letters(PageRequest::first(9)).await.unwrap().rows;
    assert_eq!(dead_letters.len(), 1);
    assert_eq!(dead_letters[0].message.body.read::<String>().unwrap(), "fails");
    assert_eq!(dead_letters[0].dead, Some(DeadReason::AttemptsSpent));
    // An operator may decide otherwise.
    bench.punctual.admin().redrive(dead_letters[0].message.id).await.unwrap();
    bench.advance(seconds(5)).await;
    assert_eq!(log.lines()[4..], ["fails"]);
}

pub(crate) type World = (Arc<punctual::ManualClock>, Arc<punctual::MemoryStorage>);

#[tokio::test]
async fn at_most_once_acknowledges_first_and_tries_once() {
    let world = world();
    let broker = Broker::new(&world.0, PLAIN);
    at_most_once(broker.clone(), world).await;
    assert!(broker.settlements().iter().all(|line| line == "ack"), "{:?}", broker.settlements());
    let world = crate::harness::world();
    let owner = ProcessId::from_uuid(punctual::uuid::Uuid::from_u128(1));
    at_most_once(Arc::new(memory_transport(world.0.clone(), owner)), world).await;
}

#[tokio::test]
async fn at_most_once_is_acknowledged_while_the_handler_runs() {
    let (log, gate) = (Log::default(), Gate::shut());
    let (bench, broker) = post(PLAIN, |builder| {
        builder.handler("mail", waiting::<String>(&log, &gate)).subscription(mail().at_most_once())
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(
        (log.lines(), broker.settlements()),
        (vec!["began".to_owned()], vec!["ack".to_owned()])
    );
    // A shutdown that interrupts it cannot requeue it, so it becomes a dead letter.
    stop_within(&bench, seconds(60)).await;
    let dead_letter = bench.storage.message(sent.id).await.unwrap().unwrap();
    assert_eq!(dead_letter.state, MessageState::Dead);
    assert!(
        dead_letter.error.as_deref().unwrap().contains("acknowledged"),
        "{:?}",
        dead_letter.error
    );
}

#[tokio::test]
async fn a_subscription_may_have_a_handler_of_its_own() {
    let (world, log) = (world(), Log::default());
    let groups = ["office", "archive"].map(str::to_owned).to_vec();
    let broker = Broker::with_groups(&world.0, PLAIN, groups);
    let [office, archive] = ["office", "archive"]
        .map(|group| logging::<String>(&log, move |text, _| format!("{group}: {text}")));
    let bench = Bench::start_in(world, |builder| {
        builder
            .transport("post", broker)
            .handler("mail", office)
            .subscription(mail())
            .subscription(Subscribe::new("post", "mail", "archive").handler(archive))
    })
    .await;
    bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.run_until_idle().await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["archive: x", "office: x"]);
}

// A broken connection is reopened, and no message is lost.
#[tokio::test]
async fn a_broken_connection_is_reopened() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, |builder| {
        builder
            .handler("mail", logging::<String>(&log, |text, _| text.clone()))
            .subscription(mail())
    })
    .await;
    send(&bench, &["a"]).await;
    broker.break_off(true);
    bench.advance(seconds(20)).await;
    assert!(!bench.punctual.subscriptions().list()[0].connected);
    send(&bench, &["b"]).await;
    broker.break_off(false);
    bench.advance(seconds(30)).await;
    assert_eq!(log.lines(), ["a", "b"]);
    assert!(bench.punctual.subscriptions().list()[0].connected);
}
