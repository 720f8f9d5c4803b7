//! Deliveries: how the outcome of a handler is applied to a broker's message, for every set of capabilities.
//! Each delivery is settled once, and no message is lost.

use std::sync::Arc;

use punctual::backend::storage::CommandResult;
use punctual::backend::transport::{AttemptCount, Capabilities, Delay};
use punctual::model::{DeadReason, Ending, MessageState, Recording};
use punctual::{Builder, Context, Event, Inspect, Outcome, Retry};

use crate::broker::{Broker, PLAIN};
use crate::faulty_storage::FaultyStorage;
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{Gate, endings, failing, history, logging, retrying};

/// Starts a process that receives "mail" with these options.
async fn post(
    capabilities: Capabilities,
    build: impl FnOnce(Builder) -> Builder,
) -> (Bench, Arc<Broker>) {
    let world = world();
    let broker = Broker::new(&world.0, capabilities);
    let bench = Bench::start_in(world, |builder| {
        build(builder.transport("post", broker.clone()).subscribe("post", "mail", "office"))
    })
    .await;
    (bench, broker)
}

fn failing_with(log: &Log, retry: Retry) -> impl FnOnce(Builder) -> Builder + use<'_> {
    move |builder| builder.handler_with("mail", retrying(retry), failing::<String>(log))
}

// spec: D-1, D-16, D-26, D-27, D-28
#[tokio::test]
async fn a_plain_broker_s_message_waits_in_the_storage_and_dies_at_its_last_attempt() {
    let log = Log::default();
    let (bench, broker) =
        post(PLAIN, failing_with(&log, Retry::intervals([seconds(10), seconds(60)]))).await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(
        log.lines(),
        ["1 2026-03-02T07:00:00Z", "2 2026-03-02T07:00:10Z", "3 2026-03-02T07:01:10Z"]
    );
    // Stored first, then acknowledged; the last failure is rejected.
    assert_eq!(broker.settlements(), ["ack", "ack", "reject attempts spent"]);
    let record = bench.message(sent.id).await;
    assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::AttemptsSpent)));
    assert_eq!(record.attempt, 3);
    assert_eq!(endings(&bench.storage, sent.id).await, [Ending::Failed; 3]);
    assert_eq!(bench.punctual.events().count("message.dead"), 1, "exactly once");
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
}

// Trap 15: an operator sends it again, and the count starts anew.
#[tokio::test]
async fn a_redriven_dead_letter_has_its_attempts_reset() {
    let log = Log::default();
    let (bench, _broker) = post(PLAIN, failing_with(&log, Retry::intervals([seconds(10)]))).await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Dead);
    assert_eq!(bench.punctual.admin().redrive(sent.id).await.unwrap(), CommandResult::Applied(1));
    bench.advance(seconds(60)).await;
    let attempts: Vec<u32> =
        history(&bench.storage, sent.id).await.iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [1, 2, 1, 2]);
}

// spec: D-26, D-27, D-16, D-21
#[tokio::test]
async fn a_broker_that_can_delay_and_count_does_it_by_itself() {
    let capabilities =
        Capabilities { requeue_delay: Delay::Any, attempts: AttemptCount::Counted, ..PLAIN };
    let log = Log::default();
    let (bench, broker) =
        post(capabilities, failing_with(&log, Retry::intervals([seconds(10), seconds(60)]))).await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(
        log.lines(),
        ["1 2026-03-02T07:00:00Z", "2 2026-03-02T07:00:10Z", "3 2026-03-02T07:01:10Z"]
    );
    assert_eq!(broker.settlements(), ["requeue 10s", "requeue 60s", "reject attempts spent"]);
    assert_eq!(bench.message(sent.id).await.state, MessageState::Dead);
}

// spec: D-21
#[tokio::test]
async fn a_broker_that_can_delay_uses_the_storage_when_it_is_preferred() {
    let capabilities =
        Capabilities { requeue_delay: Delay::Any, attempts: AttemptCount::Counted, ..PLAIN };
    let log = Log::default();
    let failing = failing_with(&log, Retry::intervals([seconds(10)]));
    let preferring = |builder: Builder| failing(builder).prefer_storage("post");
    let (bench, broker) = post(capabilities, preferring).await;
    bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(3_600)).await;
    assert_eq!(log.lines(), ["1 2026-03-02T07:00:00Z", "2 2026-03-02T07:00:10Z"]);
    assert_eq!(broker.settlements(), ["ack", "reject attempts spent"]);
}

// The count must survive a requeue on every transport, also where only Punctual counts.
// spec: D-26, D-27
#[tokio::test]
async fn the_count_survives_a_requeue_without_a_delay() {
    let log = Log::default();
    let at_once = Retry::intervals([seconds(0)]).attempts(3);
    let (bench, broker) = post(PLAIN, failing_with(&log, at_once)).await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(log.len(), 3, "{:?}", log.lines());
    assert_eq!(bench.message(sent.id).await.state, MessageState::Dead);
    assert_eq!(broker.settlements().last().unwrap(), "reject attempts spent");
    assert_eq!(broker.unsettled(), 0);
}

// spec: D-1
#[tokio::test]
async fn other_messages_flow_while_one_waits() {
    let log = Log::default();
    let recorded = log.clone();
    let (bench, _broker) = post(PLAIN, |builder| {
        let builder = builder.options(|options| options.concurrency = 1);
        builder.handler("mail", move |text: String, context: Context| {
            let recorded = recorded.clone();
            async move {
                recorded.push(format!("{text} {}", context.started_at().strftime("%H:%M")));
                match text.as_str() {
                    "busy" if context.attempt() == 1 => Outcome::RetryAfter(seconds(600)),
                    _ => Outcome::Done,
                }
            }
        })
    })
    .await;
    let publisher = bench.punctual.publisher();
    publisher.publish("mail", "busy").via("post").await.unwrap();
    publisher.publish("mail", "next").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["busy 07:00", "next 07:00"]);
    bench.advance(seconds(600)).await;
    assert_eq!(log.lines()[2], "busy 07:10");
}

// Trap 5: the storage cannot be reached between the failure and the hold.
// spec: D-25
#[tokio::test]
async fn what_cannot_be_stored_is_not_acknowledged() {
    let (world, log) = (world(), Log::default());
    let (broker, faulty) = (Broker::new(&world.0, PLAIN), FaultyStorage::over(&world.1));
    let bench = Bench::start_in(world, |builder| {
        failing_with(&log, Retry::intervals([seconds(10)]))(
            builder
                .storage(faulty.clone())
                .transport("post", broker.clone())
                .subscribe("post", "mail", "office"),
        )
    })
    .await;
    faulty.fail(&["enqueue"]);
    bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(broker.settlements(), ["redeliver"], "the broker still has it");
    assert_eq!(bench.punctual.events().count("service.failed"), 1);
    faulty.heal();
    bench.advance(seconds(30)).await;
    assert_eq!(broker.settlements(), ["redeliver", "ack", "reject attempts spent"]);
}

// Trap 14: the error is reported, the loop continues, and the message is not lost.
// spec: D-11
#[tokio::test]
async fn without_a_storage_a_delayed_retry_is_reported_and_the_message_stays_with_the_broker() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, |builder| {
        let builder = builder.without_storage().options(|options| options.concurrency = 1);
        let recorded = log.clone();
        builder.handler("mail", move |text: String, _: Context| {
            recorded.push(text.clone());
            std::future::ready(if text == "busy" {
                Outcome::RetryAfter(seconds(600))
            } else {
                Outcome::Done
            })
        })
    })
    .await;
    let mut events = bench.punctual.events().listen();
    let publisher = bench.punctual.publisher();
    let busy = publisher.publish("mail", "busy").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(broker.settlements(), ["redeliver"]);
    assert_eq!(broker.waiting(), 1, "it is not lost");
    let mut recorded = String::new();
    while let Ok(event) = events.try_recv() {
        if let Event::ServiceFailed { error, .. } = &*event {
            recorded.clone_from(error);
        }
    }
    assert!(
        recorded.contains(&busy.id.to_string()) && recorded.contains("give the builder a storage"),
        "{recorded}"
    );
    publisher.publish("mail", "next").via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(log.lines(), ["busy", "next"], "the loop is alive");
}

// spec: D-15
#[tokio::test]
async fn each_outcome_settles_a_delivery_once() {
    let (bench, broker) = post(PLAIN, |builder| {
        builder.handler("mail", |text: String, context: Context| async move {
            match text.as_str() {
                "cancel" => Outcome::Cancel,
                "discard" => Outcome::Discard("not ours".to_owned()),
                "snooze" if context.started_at().strftime("%S").to_string() == "00" => {
                    Outcome::Snooze(seconds(5))
                }
                _ => Outcome::Done,
            }
        })
    })
    .await;
    let cases = [
        ("done", vec!["ack"], MessageState::Done),
        ("cancel", vec!["ack"], MessageState::Done),
        ("discard", vec!["reject discarded"], MessageState::Dead),
        ("snooze", vec!["ack", "ack"], MessageState::Done),
    ];
    let mut all_settlements = Vec::new();
    for (text, expected, state) in cases {
        let sent = bench.punctual.publisher().publish("mail", text).via("post").await.unwrap();
        bench.advance(seconds(60)).await;
        all_settlements.extend(expected);
        assert_eq!(broker.settlements(), all_settlements, "{text}");
        if state == MessageState::Dead {
            assert_eq!(bench.message(sent.id).await.dead, Some(DeadReason::Discarded));
        }
        let last = history(&bench.storage, sent.id).await.last().unwrap().clone();
        assert_eq!(last.attempt, 1, "a snooze spends no attempt");
    }
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
}

#[tokio::test]
async fn an_unreadable_message_is_rejected_and_kept_for_operators() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, |builder| {
        builder.handler("mail", logging::<String>(&log, |text, _| text.clone()))
    })
    .await;
    let publisher = bench.punctual.publisher();
    let sent = publisher.publish("mail", "x").after(seconds(9_999)).await.unwrap();
    let message = bench.message(sent.id).await.message;
    bench.punctual.admin().delete(sent.id).await.unwrap();
    broker.garble(message);
    let misfit = publisher.publish("mail", &[1, 2, 3]).via("post").await.unwrap();
    bench.run_until_idle().await;
    assert_eq!(broker.settlements(), ["reject poison", "reject poison"]);
    assert_eq!(log.len(), 0);
    for id in [sent.id, misfit.id] {
        let record = bench.message(id).await;
        assert_eq!((record.state, record.dead), (MessageState::Dead, Some(DeadReason::Poison)));
    }
    assert_eq!(bench.message(sent.id).await.error.as_deref(), Some("not one of our envelopes"));
}

// The broker delivers before it confirms, and the handler fails before the relay has settled.
#[tokio::test]
async fn a_failure_quicker_than_the_relay_is_not_lost() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, failing_with(&log, Retry::intervals([seconds(10)]))).await;
    let gate = Gate::shut();
    broker.confirm_at(&gate);
    let sent = bench
        .punctual
        .publisher()
        .publish("mail", "x")
        .after(seconds(60))
        .via("post")
        .await
        .unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(log.len(), 1, "handled before it was confirmed");
    gate.open(99);
    bench.advance(seconds(120)).await;
    let record = bench.storage.message(sent.id).await.unwrap().unwrap();
    assert_eq!(
        record.state,
        MessageState::Dead,
        "it was tried to the end: {:?} {:?}",
        log.lines(),
        broker.settlements()
    );
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
}

// Decision 3.34.
#[tokio::test]
async fn history_is_kept_as_the_options_say() {
    for (recording, expected) in
        [(Recording::All, 2), (Recording::Failures, 1), (Recording::None, 0)]
    {
        let handler_options = retrying(Retry::intervals([seconds(10)])).recording(recording);
        let (bench, broker) = post(PLAIN, |builder| {
            builder.handler_with(
                "mail",
                handler_options,
                |_: String, context: Context| async move {
                    if context.attempt() == 1 { Err("once") } else { Ok(()) }
                },
            )
        })
        .await;
        let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
        bench.advance(seconds(60)).await;
        assert_eq!(broker.settlements(), ["ack", "ack"]);
        assert_eq!(endings(&bench.storage, sent.id).await.len(), expected, "{recording:?}");
    }
}

// A broker that counts would count a snooze as well.
#[tokio::test]
async fn a_snooze_spends_no_attempt_where_the_broker_counts() {
    let capabilities =
        Capabilities { requeue_delay: Delay::Any, attempts: AttemptCount::Counted, ..PLAIN };
    let log = Log::default();
    let recorded = log.clone();
    let (bench, broker) = post(capabilities, |builder| {
        builder.handler("mail", move |_: String, context: Context| {
            recorded.push(context.attempt().to_string());
            let third = recorded.len() == 3;
            std::future::ready(if third { Outcome::Done } else { Outcome::Snooze(seconds(5)) })
        })
    })
    .await;
    bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(log.lines(), ["1", "1", "1"]);
    assert_eq!(broker.settlements(), ["ack", "ack", "ack"]);
}

// Two groups fail over the same message: each gets its own retry and not the other's.
#[tokio::test]
async fn a_retry_returns_to_its_own_group() {
    let (world, log) = (world(), Log::default());
    let groups = ["office", "archive"].map(str::to_owned).to_vec();
    let broker = Broker::with_groups(&world.0, PLAIN, groups);
    let retry = Retry::intervals([seconds(10)]);
    let office = Bench::start_in(world.clone(), |builder| {
        let builder = builder.transport("post", broker.clone()).subscribe("post", "mail", "office");
        failing_with(&log, retry)(builder)
    })
    .await;
    let archived = Log::default();
    let _archive = Bench::start_in(world, |builder| {
        let builder =
            builder.transport("post", broker.clone()).subscribe("post", "mail", "archive");
        builder.handler("mail", logging::<String>(&archived, |text, _| text.clone()))
    })
    .await;
    office.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    office.advance(seconds(60)).await;
    assert_eq!(log.len(), 2);
    assert_eq!(archived.lines(), ["x"], "the archive had no reason to see it twice");
}

// Decision 3.9: each retry is measured by how far ahead the message was planned at first.
// spec: T-38
#[tokio::test]
async fn proportional_retries_do_not_drift_while_a_message_is_stored() {
    let log = Log::default();
    let (bench, _broker) = post(PLAIN, failing_with(&log, Retry::proportional())).await;
    let publish = bench.punctual.publisher().publish("mail", "x");
    publish.after(seconds(600)).via("post").await.unwrap();
    bench.advance(seconds(3_600)).await;
    let minutes: Vec<String> = log.lines().iter().map(|line| line[13..21].to_owned()).collect();
    assert_eq!(minutes, ["07:10:00", "07:11:00", "07:13:00", "07:16:00"]);
}

#[tokio::test]
async fn a_message_with_the_most_headers_can_still_be_stored() {
    let log = Log::default();
    let (bench, broker) = post(PLAIN, failing_with(&log, Retry::intervals([seconds(10)]))).await;
    let publish = bench.punctual.publisher().publish("mail", "x").via("post");
    let full = (0..punctual::model::HEADERS_MAX)
        .fold(publish, |publish, index| publish.header(format!("h{index}"), "v"));
    let sent = full.await.unwrap();
    bench.advance(seconds(60)).await;
    assert_eq!(broker.settlements(), ["ack", "reject attempts spent"]);
    let dead_letter = bench.message(sent.id).await;
    let headers = &dead_letter.message.headers;
    let theirs = headers.iter().filter(|(name, _)| !name.starts_with("punctual-")).count();
    assert_eq!(theirs, punctual::model::HEADERS_MAX);
    assert_eq!(headers.len(), theirs, "nothing of ours is left in it");
    let route = dead_letter.message.route.as_ref().unwrap();
    assert_eq!(route.group.as_deref(), Some("office"), "where a redrive sends it");
}

/// Found by the simulation: a stored retry replaced another accepted message, because both had
/// been published under one key, one after the other.
#[tokio::test]
async fn a_stored_retry_replaces_no_other_message() {
    let log = Log::default();
    let (bench, _broker) = post(PLAIN, failing_with(&log, Retry::intervals([seconds(60)]))).await;
    let publisher = bench.punctual.publisher();
    let publish =
        |wait| publisher.publish("mail", "x").via("post").unique("one").after(seconds(wait));
    // The second is accepted while the first is with the broker and waits when the first comes back.
    publish(0).await.unwrap();
    let second = publish(3_600).await.unwrap();
    assert_eq!(second.duplicate_of, None);
    bench.advance(seconds(30)).await;
    assert_eq!(bench.message(second.id).await.state, MessageState::Pending);
    bench.advance(seconds(2 * 3_600)).await;
    assert_eq!(log.len(), 4, "two attempts for each");
}

// A snooze spends no attempt, so it has a bound of its own, on brokers as in the storage.
#[tokio::test]
async fn a_message_cannot_be_snoozed_for_ever() {
    let log = Log::default();
    let recorded = log.clone();
    let handler_options = retrying(Retry::none()).snoozes_max(3);
    let (bench, broker) = post(PLAIN, |builder| {
        builder.handler_with("mail", handler_options, move |_: String, _: Context| {
            recorded.push("snoozed");
            std::future::ready(Outcome::Snooze(seconds(5)))
        })
    })
    .await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(log.len(), 4);
    assert_eq!(broker.settlements(), ["ack", "ack", "ack", "reject attempts spent"]);
    let dead_letter = bench.message(sent.id).await;
    assert_eq!((dead_letter.state, dead_letter.attempt), (MessageState::Dead, 1));
    bench.punctual.admin().redrive(sent.id).await.unwrap();
    bench.advance(seconds(600)).await;
    assert_eq!(log.len(), 8, "and counted anew when it is sent again");
}
