//! A connection that is cut, by a relay between the transport and the broker that a test can close.

use std::time::Duration;

use punctual::clock::{add, between, within};
use punctual::transport::{Consumer, Delivery, Transport as _};
use punctual::{Clock as _, SystemClock};
use punctual_nats::NatsTransport;

use crate::cases;
use crate::place::{Place, SOON, ack_all, close, now, out, receipt, receive_one, subscribe, text};
use crate::relay::Relay;

cases![
    a_lost_connection_is_told_and_made_again,
    nothing_is_lost_when_the_connection_is_cut_under_load,
    settling_while_the_broker_is_away_ends,
    closing_while_the_broker_is_away_ends,
    a_consumer_that_was_removed_is_made_again,
];

/// Lets a moment pass between two tries.
pub(crate) async fn rest() {
    SystemClock.sleep_until(add(now(), Duration::from_millis(50))).await;
}

/// Receives as the engine does: after an error it rests and calls again.
pub(crate) async fn receive_again(consumer: &mut Box<dyn Consumer>) -> Delivery {
    let begun = now();
    while between(begun, now()) < SOON * 2 {
        match within(&SystemClock, add(now(), SOON), consumer.receive(1)).await {
            Some(Ok(mut deliveries)) => return deliveries.pop().unwrap(),
            Some(Err(error)) => assert!(error.is_temporary(), "{error}"),
            None => break,
        }
        rest().await;
    }
    panic!("nothing came");
}

async fn through(relay: &Relay, place: &Place) -> NatsTransport {
    let builder = NatsTransport::builder(relay.address()).prefix(&place.prefix);
    let builder = builder.ack_wait(Duration::from_secs(2)).patience(Duration::from_secs(2));
    builder.connect().await.unwrap()
}

async fn a_lost_connection_is_told_and_made_again() {
    let place = Place::new();
    let relay = Relay::new(&place.url).await.unwrap();
    let transport = through(&relay, &place).await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    transport.publish(vec![out(place.message("before"))], now()).await.unwrap();
    ack_all(vec![receive_one(&mut consumer).await]).await;
    relay.set(false);
    let error = within(&SystemClock, add(now(), SOON), consumer.receive(1)).await.unwrap();
    let error = error.err().unwrap();
    assert!(error.is_temporary() && error.to_string().contains("127.0.0.1"), "{error}");
    let error = transport.publish(vec![out(place.message("lost"))], now()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    relay.set(true);
    while transport.publish(vec![out(place.message("after"))], now()).await.is_err() {
        rest().await;
    }
    assert_eq!(text(&receive_again(&mut consumer).await), "after");
    place.remove().await;
}

async fn nothing_is_lost_when_the_connection_is_cut_under_load() {
    let place = Place::new();
    let relay = Relay::new(&place.url).await.unwrap();
    let transport = through(&relay, &place).await;
    let mut consumer = subscribe(&transport, "mail", 50).await;
    let mut expected = std::collections::BTreeSet::new();
    for number in 0..30 {
        if number % 10 == 9 {
            relay.set(false);
            relay.set(true);
        }
        let batch: Vec<String> = (0..20).map(|index| format!("{number}-{index}")).collect();
        let outgoing: Vec<_> = batch.iter().map(|text| out(place.message(text))).collect();
        while transport.publish(outgoing.clone(), now()).await.is_err() {
            rest().await;
        }
        expected.extend(batch);
    }
    let begun = now();
    while !expected.is_empty() {
        assert!(between(begun, now()) < SOON * 3, "{} are missing", expected.len());
        let delivery = receive_again(&mut consumer).await;
        expected.remove(&text(&delivery));
        receipt(delivery).ack().await.unwrap();
    }
    place.remove().await;
}

async fn settling_while_the_broker_is_away_ends() {
    let place = Place::new();
    let relay = Relay::new(&place.url).await.unwrap();
    let transport = through(&relay, &place).await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    let batch = ["acked", "requeued"].map(|text| out(place.message(text)));
    transport.publish(batch.into(), now()).await.unwrap();
    let acked = receive_one(&mut consumer).await;
    let requeued = receive_one(&mut consumer).await;
    relay.set(false);
    assert!(within(&SystemClock, add(now(), SOON), consumer.receive(1)).await.unwrap().is_err());
    // Kept by the client until it is connected again.
    receipt(acked).ack().await.unwrap();
    let error = receipt(requeued).requeue(Duration::from_secs(9)).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    relay.set(true);
    let delivery = receive_again(&mut consumer).await;
    assert_eq!((text(&delivery).as_str(), delivery.attempt), ("requeued", 2));
    place.remove().await;
}

async fn closing_while_the_broker_is_away_ends() {
    let place = Place::new();
    let relay = Relay::new(&place.url).await.unwrap();
    let transport = through(&relay, &place).await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    transport.publish(vec![out(place.message("held"))], now()).await.unwrap();
    let held = receive_one(&mut consumer).await;
    relay.set(false);
    assert!(within(&SystemClock, add(now(), SOON), consumer.receive(1)).await.unwrap().is_err());
    let until = add(now(), Duration::from_secs(1));
    let error = within(&SystemClock, add(now(), SOON), consumer.close(until)).await.unwrap();
    assert!(error.unwrap_err().to_string().contains("orders"));
    drop((held, consumer));
    relay.set(true);
    let transport = place.builder().ack_wait(Duration::from_secs(2)).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "mail", 10).await;
    assert_eq!(text(&receive_one(&mut consumer).await), "held");
    close(&mut consumer).await;
    place.remove().await;
}

async fn a_consumer_that_was_removed_is_made_again() {
    let place = Place::new();
    let transport = place.transport().await;
    let mut consumer = subscribe(&transport, "mail", 10).await;
    transport.publish(vec![out(place.message("before"))], now()).await.unwrap();
    ack_all(vec![receive_one(&mut consumer).await]).await;
    let stream = format!("{}_orders", place.prefix);
    place.jetstream().await.delete_consumer_from_stream("mail", stream).await.unwrap();
    let error = within(&SystemClock, add(now(), SOON), consumer.receive(1)).await.unwrap();
    assert!(error.err().unwrap().to_string().contains("mail"));
    // It may miss what is published while it does not exist, so it is sent until it comes.
    for _ in 0..100 {
        transport.publish(vec![out(place.message("after"))], now()).await.ok();
        let received =
            within(&SystemClock, add(now(), Duration::from_millis(200)), consumer.receive(1));
        if let Some(Ok(deliveries)) = received.await {
            assert_eq!(text(&deliveries[0]), "after");
            place.remove().await;
            return;
        }
        rest().await;
    }
    panic!("it does not come back");
}
