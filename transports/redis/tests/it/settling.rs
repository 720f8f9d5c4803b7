//! Done, back, given up: what becomes of a delivery, and where it is found afterwards.

use std::time::Duration;

use punctual::model::DeadReason;
use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::letters::{
    ack, body, close, is_silent, message, next, publish, receipt, rejection, sent, some, soon,
    subscribe,
};
use punctual_redis::Keep;
use redis::cmd;

use crate::place::Place;

cases![
    a_put_back_delivery_comes_again_to_its_group_alone_with_one_more_attempt,
    a_dropped_delivery_comes_again_at_once,
    a_strangers_message_stays_the_same_when_it_is_put_back,
    a_delay_is_refused_and_the_message_is_not_lost,
    a_message_for_one_group_reaches_no_other,
    a_rejected_delivery_is_one_dead_letter,
    poison_goes_to_the_invalid_place,
    what_every_group_has_handled_is_removed,
    closing_hands_back_what_nobody_has_seen,
    many_acknowledgements_are_all_done,
];

const MOMENT: Duration = Duration::from_millis(300);

// spec: D-15, D-26
async fn a_put_back_delivery_comes_again_to_its_group_alone_with_one_more_attempt() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut billing = subscribe(&transport, "billing", 10).await;
    let mut mailing = subscribe(&transport, "mailing", 10).await;
    publish(&transport, &["one"]).await;
    let other = next(&mut *mailing).await;
    ack(other).await;
    let mut delivery = next(&mut *billing).await;
    for attempt in 1..=4 {
        assert_eq!((delivery.attempt, body(&delivery).as_str()), (attempt, "one"));
        assert_eq!(delivery.message.headers.get("tenant"), Some("acme"));
        assert_eq!(delivery.message.body.content_type, "text/plain");
        let before = delivery.message.clone();
        receipt(delivery).requeue(Duration::ZERO).await.unwrap();
        delivery = next(&mut *billing).await;
        assert_eq!(*delivery.message, *before);
    }
    ack(delivery).await;
    assert!(is_silent(&mut *mailing, MOMENT).await && is_silent(&mut *billing, MOMENT).await);
    assert_eq!(place.length("~billing/orders").await, 0);
    place.remove().await;
}

async fn a_dropped_delivery_comes_again_at_once() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one"]).await;
    let delivery = next(&mut *consumer).await;
    let id = delivery.message.id;
    drop(delivery);
    let again = next(&mut *consumer).await;
    assert_eq!((again.message.id, again.attempt), (id, 2));
    ack(again).await;
    place.remove().await;
}

async fn a_strangers_message_stays_the_same_when_it_is_put_back() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let mut add = cmd("XADD");
    add.arg(place.key("orders")).arg("*").arg("body").arg("{}").arg("tenant").arg(b"\xff");
    place.ask::<String>(&mut add).await;
    let delivery = next(&mut *consumer).await;
    assert!(delivery.poison.as_ref().unwrap().contains("tenant"));
    let before = delivery.message.clone();
    receipt(delivery).requeue(Duration::ZERO).await.unwrap();
    let again = next(&mut *consumer).await;
    assert!(again.poison.is_some(), "what cannot be read is put back as it was");
    assert_eq!((again.message.id, again.attempt), (before.id, 2));
    assert_eq!(again.message.created_at, before.created_at);
    ack(again).await;
    place.remove().await;
}

// spec: D-2, D-3
async fn a_delay_is_refused_and_the_message_is_not_lost() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let mut late = sent(message("late"));
    late.delay = Duration::from_secs(1);
    let batch = vec![sent(message("first")), late];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(place.length("orders").await, 0, "nothing of a refused batch is sent");
    publish(&transport, &["one"]).await;
    let delivery = next(&mut *consumer).await;
    let error = receipt(delivery).requeue(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(next(&mut *consumer).await.attempt, 2);
    place.remove().await;
}

async fn a_message_for_one_group_reaches_no_other() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut mailing = subscribe(&transport, "mailing", 10).await;
    let mut outgoing = sent(message("one"));
    outgoing.group = Some("billing".to_owned());
    outgoing.attempt = 4;
    transport.publish(vec![outgoing], SystemClock.now()).await.unwrap();
    let mut billing = subscribe(&transport, "billing", 10).await;
    let delivery = next(&mut *billing).await;
    assert_eq!(delivery.attempt, 5);
    ack(delivery).await;
    assert!(is_silent(&mut *mailing, MOMENT).await);
    place.remove().await;
}

// spec: D-27, D-28
async fn a_rejected_delivery_is_one_dead_letter() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one"]).await;
    let delivery = next(&mut *consumer).await;
    let id = delivery.message.id.to_string();
    receipt(delivery).reject(&rejection(DeadReason::AttemptsSpent)).await.unwrap();
    assert!(is_silent(&mut *consumer, MOMENT).await);
    let mut range = cmd("XRANGE");
    range.arg(place.key("orders.billing.dead")).arg("-").arg("+");
    let letters: Vec<(String, Vec<String>)> = place.ask(&mut range).await;
    assert_eq!(letters.len(), 1);
    let fields = &letters[0].1;
    for (name, value) in [
        ("body", "one"),
        ("tenant", "acme"),
        ("punctual-id", &id),
        ("punctual-dead-reason", DeadReason::AttemptsSpent.as_str()),
        ("punctual-dead-topic", "orders"),
        ("punctual-dead-attempts", "3"),
        ("punctual-dead-at", "2026-01-02T03:04:05Z"),
        ("punctual-dead-error", "no such customer"),
    ] {
        assert!(fields.chunks(2).any(|pair| pair == [name, value]), "{name} in {fields:?}");
    }
    let pending: (usize, Option<String>, Option<String>, Option<Vec<String>>) =
        place.ask(cmd("XPENDING").arg(place.key("orders")).arg("billing")).await;
    assert_eq!(pending.0, 0);
    place.remove().await;
}

async fn poison_goes_to_the_invalid_place() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let mut add = cmd("XADD");
    add.arg(place.key("orders")).arg("*").arg("payload").arg("{}");
    place.ask::<String>(&mut add).await;
    let delivery = next(&mut *consumer).await;
    assert!(delivery.poison.as_ref().unwrap().contains("\"body\""));
    receipt(delivery).reject(&rejection(DeadReason::Poison)).await.unwrap();
    assert_eq!(place.length("orders.billing.invalid").await, 1);
    assert_eq!(place.length("orders.billing.dead").await, 0);
    place.remove().await;
}

async fn what_every_group_has_handled_is_removed() {
    const COUNT: usize = 500;
    let place = Place::new().await;
    let hold = Duration::from_millis(150);
    let transport = place.builder().hold_length(hold).connect().await.unwrap();
    let forever = place.builder().keep(Keep::Forever).connect().await.unwrap();
    let mut billing = subscribe(&transport, "billing", 100).await;
    close(subscribe(&transport, "mailing", 100).await).await;
    publish(&forever, &["x"; COUNT]).await;
    let mut handled = 0;
    while handled < COUNT {
        for delivery in some(&mut *billing, 50).await {
            ack(delivery).await;
            handled += 1;
        }
    }
    assert_eq!(place.length("orders").await, COUNT, "a group that is away keeps everything");
    place.ask::<()>(cmd("XGROUP").arg("DESTROY").arg(place.key("orders")).arg("mailing")).await;
    // The server removes whole nodes of a hundred.
    let until = soon();
    while place.length("orders").await > 100 {
        assert!(SystemClock.now() < until);
        assert!(is_silent(&mut *billing, hold).await);
    }
    place.remove().await;
}

async fn closing_hands_back_what_nobody_has_seen() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut first = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one", "two", "three"]).await;
    let in_hand = next(&mut *first).await;
    first.close(soon()).await.unwrap();
    let error = first.receive(1).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut second = subscribe(&transport, "billing", 10).await;
    let rest = some(&mut *second, 2).await;
    assert!(rest.iter().all(|delivery| delivery.attempt == 1), "no attempt was spent");
    ack(in_hand).await;
    for delivery in rest {
        ack(delivery).await;
    }
    close(second).await;
    let mut info = cmd("XINFO");
    info.arg("CONSUMERS").arg(place.key("~billing/orders")).arg("billing");
    let consumers: Vec<redis::Value> = place.ask(&mut info).await;
    assert!(consumers.is_empty(), "{consumers:?}");
    place.remove().await;
}

async fn many_acknowledgements_are_all_done() {
    let place = Place::new().await;
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "billing", 2_000).await;
    publish(&transport, &vec!["x"; 3_000]).await;
    let mut left = 3_000;
    while left > 0 {
        let mut settling = tokio::task::JoinSet::new();
        for delivery in consumer.receive(500).await.unwrap() {
            left -= 1;
            settling.spawn(receipt(delivery).ack());
        }
        for done in settling.join_all().await {
            done.unwrap();
        }
    }
    let pending: (usize, Option<String>, Option<String>, Option<Vec<String>>) =
        place.ask(cmd("XPENDING").arg(place.key("orders")).arg("billing")).await;
    assert_eq!(pending.0, 0);
    place.remove().await;
}
