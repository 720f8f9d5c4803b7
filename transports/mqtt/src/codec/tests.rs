//! Tests of the codec: round trips, and malformed packets, which are refused.

use bytes::{Bytes, BytesMut};

use super::*;

const VERSIONS: [Version; 2] = [Version::V5, Version::V311];

fn written(version: Version) -> BytesMut {
    let mut out = BytesMut::new();
    let head =
        PublishHeader { topic: "a/b", id: 7, retained: true, content_type: Some("text/plain") };
    let headers = [("tenant", "za\u{17c}\u{f3}\u{142}\u{107}"), ("empty", "")];
    assert!(publish(&mut out, version, head, headers.into_iter(), b"\0body"));
    out
}

#[test]
fn a_message_reads_back_as_it_was_written() {
    for version in VERSIONS {
        let mut bytes = written(version);
        let read = next(&mut bytes, version).unwrap().unwrap();
        assert!(bytes.is_empty());
        let Incoming::Publish(publish) = read else { panic!("{read:?}") };
        assert_eq!((publish.topic.as_str(), publish.id, publish.retained), ("a/b", 7, true));
        assert_eq!(publish.payload, &b"\0body"[..]);
        let is_v5 = version == Version::V5;
        assert_eq!(publish.content_type.is_some(), is_v5);
        assert_eq!(publish.properties.len(), if is_v5 { 2 } else { 0 });
    }
}

#[test]
fn lengths_of_every_size_read_back() {
    for size in [0, 100, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
        let mut out = BytesMut::new();
        let head = PublishHeader { topic: "t", id: 1, retained: false, content_type: None };
        assert!(publish(&mut out, Version::V5, head, std::iter::empty(), &vec![7; size]));
        let Some(Incoming::Publish(read)) = next(&mut out, Version::V5).unwrap() else {
            panic!("{size}")
        };
        assert_eq!(read.payload.len(), size);
        assert!(out.is_empty());
    }
}

#[test]
fn an_incomplete_packet_is_not_read() {
    for version in VERSIONS {
        let whole = written(version);
        for length in 0..whole.len() {
            let mut part = BytesMut::from(&whole[..length]);
            assert_eq!(next(&mut part, version), Ok(None), "{length}");
        }
    }
}

#[test]
fn protocol_violations_are_refused() {
    let cases: [&[u8]; 9] = [
        b"\x30\xff\xff\xff\xff\x01",      // a length of five bytes
        b"\x32\x03\x00\x09a",             // a topic longer than its packet
        b"\x32\x05\x00\x01t\x00\x00",     // packet identifier zero
        b"\x34\x05\x00\x01t\x00\x01",     // QoS 2, which is never requested
        b"\x30\x05\x00\x01\xff\x00x",     // a topic that is not UTF-8
        b"\x30\x06\x00\x01t\x02\x7f\x00", // an unknown property
        b"\x30\x05\x00\x01t\x09\x01",     // properties longer than their packet
        b"\x20\x01\x00",                  // half a CONNACK
        b"\xf0\x00",                      // a type that brokers do not send
    ];
    for case in cases {
        let read = next(&mut BytesMut::from(case), Version::V5);
        assert!(read.is_err(), "{case:?}: {read:?}");
    }
}

#[test]
fn no_input_makes_it_panic() {
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for round in 0..20_000 {
        let version = VERSIONS[round % 2];
        let mut bytes = written(version);
        for _ in 0..=random() % 4 {
            let place = usize::try_from(random()).unwrap() % bytes.len();
            bytes[place] = u8::try_from(random() & 0xff).unwrap();
        }
        let _ = next(&mut bytes, version);
    }
}

#[test]
fn a_connack_contains_the_limits_of_the_broker() {
    let bytes: &[u8] =
        b"\x20\x14\x01\x00\x11\x21\x00\x14\x27\x00\x01\x00\x00\x24\x01\x2a\x00\x25\x00\x13\x00\x3c";
    let read = next(&mut BytesMut::from(bytes), Version::V5).unwrap();
    let Some(Incoming::ConnAck(connack)) = read else { panic!("{read:?}") };
    let expected = ConnAck {
        code: 0,
        session_present: true,
        receive_max: 20,
        packet_max: 65_536,
        keep_alive: Some(60),
        qos_max: 1,
        shared_subscriptions: false,
        retain_available: false,
    };
    assert_eq!(connack, expected);
    let old = next(&mut BytesMut::from(&b"\x20\x02\x00\x01"[..]), Version::V5).unwrap();
    let Some(Incoming::ConnAck(connack)) = old else { panic!("{old:?}") };
    assert_eq!((connack.code, connack.receive_max), (1, u16::MAX));
}

#[test]
fn responses_are_read_with_and_without_a_code() {
    let read = |bytes: &[u8], version| next(&mut BytesMut::from(bytes), version).unwrap().unwrap();
    let confirmed = |code| Incoming::PubAck { id: 5, code };
    assert_eq!(read(b"\x40\x02\x00\x05", Version::V5), confirmed(0));
    assert_eq!(read(b"\x40\x03\x00\x05\x10", Version::V5), confirmed(0x10));
    assert_eq!(read(b"\x40\x02\x00\x05", Version::V311), confirmed(0));
    let codes = vec![1, 0x80];
    assert_eq!(
        read(b"\x90\x05\x00\x05\x00\x01\x80", Version::V5),
        Incoming::SubAck { id: 5, codes: codes.clone() }
    );
    assert_eq!(read(b"\x90\x04\x00\x05\x01\x80", Version::V311), Incoming::SubAck { id: 5, codes });
    assert_eq!(read(b"\xe0\x02\x8e\x00", Version::V5), Incoming::Disconnect { code: 0x8e });
    assert_eq!(read(b"\xd0\x00", Version::V5), Incoming::PingResponse);
}

#[test]
fn a_message_larger_than_the_protocol_allows_is_not_written() {
    let mut out = BytesMut::new();
    let head = PublishHeader { topic: "t", id: 1, retained: false, content_type: None };
    let large = Bytes::from(vec![0; PACKET_MAX]);
    assert!(!publish(&mut out, Version::V311, head, std::iter::empty(), &large));
    assert!(out.is_empty());
}
