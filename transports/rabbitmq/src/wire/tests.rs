//! Wire tests: what is written is read back, and what the broker adds is not.

use super::*;

fn wire(headers: &[(&'static str, &str)]) -> Wire {
    let headers = headers.iter().map(|(name, value)| (Cow::Borrowed(*name), (*value).to_owned()));
    Wire { headers: headers.collect(), body: Bytes::from("b"), content_type: "text/plain".into() }
}

fn delivery(properties: BasicProperties, redelivered: bool) -> Delivery {
    let mut delivery = Delivery::mock(7, "".into(), "".into(), redelivered, b"b".to_vec());
    delivery.properties = properties;
    delivery
}

fn read_back(properties: BasicProperties, redelivered: bool) -> DecodedDelivery {
    let topic = Topic::new("t").unwrap();
    decode(&topic, "s", &mut delivery(properties, redelivered), Timestamp::UNIX_EPOCH)
}

#[test]
fn what_is_written_is_read_back() {
    let written = properties(&wire(&[("tenant", "acme"), ("punctual-attempt", "2")]), 0).unwrap();
    assert_eq!(*written.delivery_mode(), Some(2), "it must survive a restart of the broker");
    let DecodedDelivery { received, redeliveries } = read_back(written, false);
    assert_eq!(received.message.headers.get("tenant"), Some("acme"));
    assert_eq!(&*received.message.body.bytes, b"b");
    assert_eq!(received.message.body.content_type, "text/plain");
    assert_eq!((received.attempt, redeliveries, received.poison), (2, 0, None));
}

#[test]
fn headers_added_by_the_broker_are_removed() {
    let names = ["x-first-death-queue", "x-last-death-reason", "x-delay", "x-own"];
    let written = properties(&wire(&names.map(|name| (name, "v"))), 0).unwrap();
    let headers = read_back(written, false).received.message.headers;
    assert_eq!(headers.iter().collect::<Vec<_>>(), [("x-own", "v")]);
}

#[test]
fn the_brokers_count_overrides_its_flag() {
    let mut headers = FieldTable::default();
    headers.insert(DELIVERY_COUNT.into(), AMQPValue::LongLongInt(4));
    let counted = BasicProperties::default().with_headers(headers);
    assert_eq!(read_back(counted, true).redeliveries, 4);
    assert_eq!(read_back(BasicProperties::default(), true).redeliveries, 1);
    assert_eq!(read_back(BasicProperties::default(), false).redeliveries, 0);
}

#[test]
fn values_that_amqp_cannot_carry_are_refused_by_name() {
    let long = "x".repeat(300);
    let mut wordy = wire(&[]);
    wordy.content_type = Cow::Owned(long.clone());
    let error = properties(&wordy, 0).unwrap_err().to_string();
    assert!(error.contains("content type") && error.contains("300 bytes"), "{error}");
    let large = "v".repeat(HEADERS_BYTES_MAX - HEADERS_RESERVED - 10);
    assert!(properties(&wire(&[("n", &large)]), HEADERS_RESERVED).is_ok());
    assert!(properties(&wire(&[("longer", &large)]), HEADERS_RESERVED).is_err());
    assert!(
        properties(&wire(&[("longer", &large)]), 0).is_ok(),
        "a requeue may use the reserved bytes"
    );
}
