//! Settling: where a delivery is found after ack, requeue, reject or drop.

use std::time::Duration;

use punctual::model::DeadReason;
use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    ack, body, close, deadline, message, next, outgoing, publish, receipt, receive_exactly,
    receives_nothing, rejection, subscribe,
};
use punctual_conformance::cases;
use punctual_redis::Retention;
use redis::cmd;

use crate::fixture::Fixture;

cases![
    a_requeued_delivery_is_redelivered_to_its_group_alone_with_one_more_attempt,
    a_dropped_delivery_is_redelivered_at_once,
    a_foreign_message_stays_the_same_when_it_is_requeued,
    a_delay_is_refused_and_the_message_is_not_lost,
    a_message_for_one_group_reaches_no_other,
    a_rejected_delivery_is_one_dead_letter,
    poison_goes_to_the_invalid_stream,
    a_message_handled_by_every_group_is_removed,
    closing_requeues_unreturned_deliveries,
    many_acknowledgements_are_all_done,
];

const MOMENT: Duration = Duration::from_millis(300);

// spec: D-15, D-26
async fn a_requeued_delivery_is_redelivered_to_its_group_alone_with_one_more_attempt() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
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
    assert!(
        receives_nothing(&mut *mailing, MOMENT).await
            && receives_nothing(&mut *billing, MOMENT).await
    );
    assert_eq!(fixture.length("~billing/orders").await, 0);
    fixture.remove().await;
}

async fn a_dropped_delivery_is_redelivered_at_once() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one"]).await;
    let delivery = next(&mut *consumer).await;
    let id = delivery.message.id;
    drop(delivery);
    let again = next(&mut *consumer).await;
    assert_eq!((again.message.id, again.attempt), (id, 2));
    ack(again).await;
    fixture.remove().await;
}

async fn a_foreign_message_stays_the_same_when_it_is_requeued() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let mut add = cmd("XADD");
    add.arg(fixture.key("orders")).arg("*").arg("body").arg("{}").arg("tenant").arg(b"\xff");
    fixture.command::<String>(&mut add).await;
    let delivery = next(&mut *consumer).await;
    assert!(delivery.poison.as_ref().unwrap().contains("tenant"));
    let before = delivery.message.clone();
    receipt(delivery).requeue(Duration::ZERO).await.unwrap();
    let again = next(&mut *consumer).await;
    assert!(again.poison.is_some(), "an unreadable entry is requeued unchanged");
    assert_eq!((again.message.id, again.attempt), (before.id, 2));
    assert_eq!(again.message.created_at, before.created_at);
    ack(again).await;
    fixture.remove().await;
}

// spec: D-2, D-3
async fn a_delay_is_refused_and_the_message_is_not_lost() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let mut late = outgoing(message("late"));
    late.delay = Duration::from_secs(1);
    let batch = vec![outgoing(message("first")), late];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(fixture.length("orders").await, 0, "nothing of a refused batch is sent");
    publish(&transport, &["one"]).await;
    let delivery = next(&mut *consumer).await;
    let error = receipt(delivery).requeue(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(next(&mut *consumer).await.attempt, 2);
    fixture.remove().await;
}

async fn a_message_for_one_group_reaches_no_other() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut mailing = subscribe(&transport, "mailing", 10).await;
    let mut outgoing = outgoing(message("one"));
    outgoing.group = Some("billing".to_owned());
    outgoing.attempt = 4;
    transport.publish(vec![outgoing], SystemClock.now()).await.unwrap();
    let mut billing = subscribe(&transport, "billing", 10).await;
    let delivery = next(&mut *billing).await;
    assert_eq!(delivery.attempt, 5);
    ack(delivery).await;
    assert!(receives_nothing(&mut *mailing, MOMENT).await);
    fixture.remove().await;
}

// spec: D-27, D-28
async fn a_rejected_delivery_is_one_dead_letter() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one"]).await;
    let delivery = next(&mut *consumer).await;
    let id = delivery.message.id.to_string();
    receipt(delivery).reject(&rejection(DeadReason::AttemptsSpent)).await.unwrap();
    assert!(receives_nothing(&mut *consumer, MOMENT).await);
    let mut range = cmd("XRANGE");
    range.arg(fixture.key("orders.billing.dead")).arg("-").arg("+");
    let letters: Vec<(String, Vec<String>)> = fixture.command(&mut range).await;
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
        fixture.command(cmd("XPENDING").arg(fixture.key("orders")).arg("billing")).await;
    assert_eq!(pending.0, 0);
    fixture.remove().await;
}

async fn poison_goes_to_the_invalid_stream() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "billing", 10).await;
    let mut add = cmd("XADD");
    add.arg(fixture.key("orders")).arg("*").arg("payload").arg("{}");
    fixture.command::<String>(&mut add).await;
    let delivery = next(&mut *consumer).await;
    assert!(delivery.poison.as_ref().unwrap().contains("\"body\""));
    receipt(delivery).reject(&rejection(DeadReason::Poison)).await.unwrap();
    assert_eq!(fixture.length("orders.billing.invalid").await, 1);
    assert_eq!(fixture.length("orders.billing.dead").await, 0);
    fixture.remove().await;
}

async fn a_message_handled_by_every_group_is_removed() {
    const COUNT: usize = 500;
    let fixture = Fixture::new().await;
    let visibility = Duration::from_millis(150);
    let transport = fixture.builder().visibility_timeout(visibility).connect().await.unwrap();
    let forever = fixture.builder().retention(Retention::Forever).connect().await.unwrap();
    let mut billing = subscribe(&transport, "billing", 100).await;
    close(subscribe(&transport, "mailing", 100).await).await;
    publish(&forever, &["x"; COUNT]).await;
    let mut handled = 0;
    while handled < COUNT {
        for delivery in receive_exactly(&mut *billing, 50).await {
            ack(delivery).await;
            handled += 1;
        }
    }
    assert_eq!(fixture.length("orders").await, COUNT, "a group that is away retains everything");
    fixture
        .command::<()>(cmd("XGROUP").arg("DESTROY").arg(fixture.key("orders")).arg("mailing"))
        .await;
    // The server removes whole nodes of a hundred entries.
    let until = deadline();
    while fixture.length("orders").await > 100 {
        assert!(SystemClock.now() < until);
        assert!(receives_nothing(&mut *billing, visibility).await);
    }
    fixture.remove().await;
}

async fn closing_requeues_unreturned_deliveries() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
    let mut first = subscribe(&transport, "billing", 10).await;
    publish(&transport, &["one", "two", "three"]).await;
    let in_flight = next(&mut *first).await;
    first.close(deadline()).await.unwrap();
    let error = first.receive(1).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let mut second = subscribe(&transport, "billing", 10).await;
    let rest = receive_exactly(&mut *second, 2).await;
    assert!(rest.iter().all(|delivery| delivery.attempt == 1), "no attempt was spent");
    ack(in_flight).await;
    for delivery in rest {
        ack(delivery).await;
    }
    close(second).await;
    let mut info = cmd("XINFO");
    info.arg("CONSUMERS").arg(fixture.key("~billing/orders")).arg("billing");
    let consumers: Vec<redis::Value> = fixture.command(&mut info).await;
    assert!(consumers.is_empty(), "{consumers:?}");
    fixture.remove().await;
}

async fn many_acknowledgements_are_all_done() {
    let fixture = Fixture::new().await;
    let transport = fixture.open().await;
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
        fixture.command(cmd("XPENDING").arg(fixture.key("orders")).arg("billing")).await;
    assert_eq!(pending.0, 0);
    fixture.remove().await;
}
