//! Groups: each group gets a copy of every message; consumers of one group share it.

use std::collections::BTreeMap;

use super::Fixture;
use super::fixture::{Action, QUIET, TIMEOUT, ack, id_of, mail, outgoing, sleep, topic};
use punctual::backend::transport::{OutgoingMessage, Subscription};
use punctual::model::Message;
use punctual::{Clock, SystemClock};

behaviours! {
    each_group_gets_one_copy,
    replicas_of_a_group_share_its_messages,
    a_group_that_settles_takes_nothing_from_another,
    a_message_for_one_group_reaches_no_other,
    topics_do_not_see_each_other,
    an_invalid_group_is_refused,
}

pub async fn each_group_gets_one_copy(f: Fixture) {
    if !f.capabilities.fan_out {
        return f.refused("it declares one group per topic");
    }
    let mut office = f.subscribe("office").await;
    let mut archive = f.another_node().await.subscribe("archive").await;
    let sent = f.publish(f.messages(5)).await;
    for group in [&mut office, &mut archive] {
        let deliveries = group.take(5).await;
        let mut texts = super::fixture::texts_of(&deliveries);
        texts.sort();
        assert_eq!(texts, ["0", "1", "2", "3", "4"]);
        for delivery in deliveries {
            ack(delivery).await;
        }
        group.expect_nothing().await;
    }
    assert_eq!(sent.len(), 5);
}

// spec: D-4
pub async fn replicas_of_a_group_share_its_messages(f: Fixture) {
    let one = f.worker("office").concurrency(4).start(|_| Action::Done).await;
    let node = f.another_node().await;
    let other = node.worker("office").concurrency(4).start(|_| Action::Done).await;
    f.publish(f.messages(60)).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    super::fixture::eventually("every message at one of them", || async {
        (one.calls().len() + other.calls().len() >= 60).then_some(())
    })
    .await;
    sleep(QUIET).await;
    for call in one.calls().into_iter().chain(other.calls()) {
        *counts.entry(call.text).or_default() += 1;
    }
    assert_eq!(counts.len(), 60);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    one.stop().await;
    other.stop().await;
}

pub async fn a_group_that_settles_takes_nothing_from_another(f: Fixture) {
    if !f.capabilities.fan_out {
        return f.refused("it declares one group per topic");
    }
    let mut office = f.subscribe("office").await;
    let mut archive = f.subscribe("archive").await;
    f.send("hello").await;
    let rejected = office.next().await;
    let rejection =
        super::fixture::rejection(&rejected, punctual::model::DeadReason::Discarded, "no");
    super::fixture::reject(rejected, &rejection).await;
    office.expect_nothing().await;
    let kept = archive.next().await;
    assert_eq!(kept.attempt, 1);
    ack(kept).await;
    archive.expect_nothing().await;
}

pub async fn a_message_for_one_group_reaches_no_other(f: Fixture) {
    if !f.capabilities.fan_out {
        return f.refused("it declares one group per topic");
    }
    let mut office = f.subscribe("office").await;
    let mut archive = f.subscribe("archive").await;
    let back = OutgoingMessage {
        group: Some("office".to_owned()),
        attempt: 2,
        ..outgoing(f.message("put back"))
    };
    let id = back.message.id;
    f.transport.publish(vec![back], SystemClock.now()).await.unwrap();
    let delivery = office.next().await;
    assert_eq!(id_of(&delivery), id);
    ack(delivery).await;
    office.expect_nothing().await;
    archive.expect_nothing().await;
}

pub async fn topics_do_not_see_each_other(f: Fixture) {
    let mut office = f.subscribe("office").await;
    let subscription =
        Subscription { topic: topic("mail.sent"), group: "office".to_owned(), prefetch: 10 };
    let mut sent = f.transport.subscribe(subscription).await.unwrap();
    let mut message = f.message("other");
    message = Message { topic: topic("mail.sent"), ..message };
    f.publish(vec![message.clone()]).await;
    let until = super::fixture::deadline(TIMEOUT);
    let deliveries =
        punctual::clock::within(&SystemClock, until, sent.receive(10)).await.unwrap().unwrap();
    assert_eq!(deliveries.len(), 1);
    for delivery in deliveries {
        assert_eq!((id_of(&delivery), &delivery.message.topic), (message.id, &message.topic));
        ack(delivery).await;
    }
    office.expect_nothing().await;
    f.send("hello").await;
    let delivery = office.next().await;
    assert_eq!(delivery.message.topic, mail());
    ack(delivery).await;
}

pub async fn an_invalid_group_is_refused(f: Fixture) {
    for group in ["", "two\nlines"] {
        let subscription = Subscription { topic: mail(), group: group.to_owned(), prefetch: 1 };
        let Err(error) = f.transport.subscribe(subscription).await else {
            panic!("the group {group:?} was accepted")
        };
        assert_eq!(error.kind(), punctual::ErrorKind::Invalid, "{error}");
    }
}
