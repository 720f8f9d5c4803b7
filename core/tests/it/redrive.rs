//! Redrive of dead letters of brokers: each group has its own, and an operator sends one back to the group that
//! gave it up and to no other.

use std::sync::Arc;

use punctual::backend::storage::CommandResult;
use punctual::inspect::PageRequest;
use punctual::model::{MessageRecord, MessageState, Source};
use punctual::{Builder, Retry};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, Log, seconds, world};
use crate::test_handlers::{failing, logging, retrying};

/// Starts two processes, one per group, on one storage.
async fn groups(
    office: impl FnOnce(Builder) -> Builder,
    archive: impl FnOnce(Builder) -> Builder,
) -> (Bench, Bench, Arc<Broker>) {
    let world = world();
    let names = ["office", "archive"].map(str::to_owned).to_vec();
    let broker = Broker::with_groups(&world.0, PLAIN, names);
    let office = Bench::start_in(world.clone(), |builder| {
        office(builder.transport("post", broker.clone()).subscribe("post", "mail", "office"))
    })
    .await;
    let archive = Bench::start_in(world, |builder| {
        archive(builder.transport("post", broker.clone()).subscribe("post", "mail", "archive"))
    })
    .await;
    (office, archive, broker)
}

async fn dead_letters(bench: &Bench) -> Vec<MessageRecord> {
    bench.punctual.admin().dead_letters(PageRequest::first(10)).await.unwrap().rows
}

fn retrying_twice(log: &Log) -> impl FnOnce(Builder) -> Builder + use<'_> {
    let handler_options = retrying(Retry::intervals([seconds(10), seconds(20)]));
    |builder| builder.handler_with("mail", handler_options, failing::<String>(log))
}

fn failing_once(log: &Log) -> impl FnOnce(Builder) -> Builder + use<'_> {
    |builder| builder.handler_with("mail", retrying(Retry::none()), failing::<String>(log))
}

// Brighter issues 1755 and 104: a requeue that reaches every subscriber.
// spec: D-28
#[tokio::test]
async fn a_redriven_dead_letter_returns_to_its_group_only() {
    let (failed, archived) = (Log::default(), Log::default());
    let (bench, _archive, broker) = groups(failing_once(&failed), |builder| {
        builder.handler("mail", logging::<String>(&archived, |text, _| text.clone()))
    })
    .await;
    let publish = bench.punctual.publisher().publish("mail", "x").header("tenant", "acme");
    let sent = publish.correlation("order-7").via("post").await.unwrap();
    bench.advance(seconds(1)).await;
    assert_eq!(bench.message(sent.id).await.state, MessageState::Dead);
    assert_eq!(bench.punctual.admin().redrive(sent.id).await.unwrap(), CommandResult::Applied(1));
    bench.advance(seconds(1)).await;
    assert_eq!(archived.lines(), ["x"], "the archive had handled it and sees nothing of this");
    assert_eq!(failed.len(), 2);
    assert!(failed.lines()[1].starts_with("1 "), "its attempts began anew: {:?}", failed.lines());
    let dead_letter = bench.message(sent.id).await;
    assert_eq!((dead_letter.state, dead_letter.attempt), (MessageState::Dead, 1));
    assert_eq!(dead_letter.message.headers.get("tenant"), Some("acme"));
    assert_eq!(dead_letter.message.correlation.id.as_deref(), Some("order-7"));
    assert_eq!(dead_letter.message.source, Source::Redriven);
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
}

#[tokio::test]
async fn two_groups_that_fail_one_message_have_a_dead_letter_each() {
    let logs = [Log::default(), Log::default()];
    let (bench, _archive, broker) = groups(failing_once(&logs[0]), failing_once(&logs[1])).await;
    let sent = bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(1)).await;
    let dead_letters = dead_letters(&bench).await;
    let mut groups: Vec<_> = dead_letters
        .iter()
        .filter_map(|dead_letter| dead_letter.message.route.as_ref()?.group.as_deref())
        .collect();
    groups.sort_unstable();
    assert_eq!(groups, ["archive", "office"]);
    assert_eq!(
        dead_letters.iter().filter(|dead_letter| dead_letter.message.id == sent.id).count(),
        1
    );
    for dead_letter in &dead_letters {
        bench.punctual.admin().redrive(dead_letter.message.id).await.unwrap();
        bench.advance(seconds(1)).await;
    }
    assert_eq!([logs[0].len(), logs[1].len()], [2, 2], "each came back to its own group");
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
}

// Both fail over the same message at the same moment, and both wait in one storage.
// spec: D-16, D-25
#[tokio::test]
async fn two_groups_that_retry_one_message_get_a_retry_each() {
    let logs = [Log::default(), Log::default()];
    let (bench, _archive, broker) =
        groups(retrying_twice(&logs[0]), retrying_twice(&logs[1])).await;
    bench.punctual.publisher().publish("mail", "x").via("post").await.unwrap();
    bench.advance(seconds(60)).await;
    let expected = ["1 2026-03-02T07:00:00Z", "2 2026-03-02T07:00:10Z", "3 2026-03-02T07:00:30Z"];
    assert_eq!(logs[0].lines(), expected);
    assert_eq!(logs[1].lines(), expected);
    assert_eq!(dead_letters(&bench).await.len(), 2);
    assert_eq!((broker.waiting(), broker.unsettled()), (0, 0));
}
