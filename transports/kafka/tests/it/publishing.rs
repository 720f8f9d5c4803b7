//! Records as they are stored on the broker.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::backend::transport::OutgoingMessage;
use punctual::model::{Body, Message};
use punctual::{Clock, ErrorKind, SystemClock, Transport};
use punctual_conformance::backend_tests::messaging::outgoing;

use crate::cluster::Cluster;
use crate::fixture::{ack, keyed, message, publish, subscribe, text_of, topic};

// Other programs read the same topics: they see a plain record, and a key has the same meaning for them.
#[tokio::test]
async fn a_record_is_readable_by_other_programs_and_keys_stay_together() {
    let cluster = Cluster::new();
    cluster.make_with("mail", 1, &[]).unwrap();
    let transport = cluster.builder().connect().await.unwrap();
    let mut sent = keyed("customer", "hello");
    sent.headers.insert("tenant", "acme").unwrap();
    publish(&transport, vec![sent.clone()]).await.unwrap();
    let records = cluster.read_topic("mail".to_owned()).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].body, sent.body.bytes);
    assert_eq!(records[0].content_type, "application/json");
    assert_eq!(records[0].header("tenant"), Some("acme"));
    assert_eq!(records[0].header("punctual-id"), Some(sent.id.to_string().as_str()));
}

#[tokio::test]
async fn an_invalid_message_is_refused_before_any_of_its_batch_is_sent() {
    let cluster = Cluster::new();
    cluster.make_with("mail", 1, &[]).unwrap();
    let transport = cluster.builder().payload_max(100).connect().await.unwrap();
    let body = Body::raw(vec![7; 101], "application/octet-stream");
    let large = Message { body, ..message("") };
    let error = publish(&transport, vec![message("first"), large]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("101") && error.to_string().contains("100"), "{error}");
    let late = OutgoingMessage { delay: Duration::from_secs(1), ..outgoing(message("late")) };
    let batch = vec![outgoing(message("first")), late];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let odd = Message { topic: topic("a topic"), ..message("") };
    let error = publish(&transport, vec![message("first"), odd]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(cluster.read_topic("mail".to_owned()).await.unwrap().is_empty());
}

#[tokio::test]
async fn headers_that_make_a_record_too_large_are_refused_with_its_size() {
    let cluster = Cluster::new();
    cluster.make_with("mail", 1, &[]).unwrap();
    let transport = cluster.builder().payload_max(100).connect().await.unwrap();
    let mut heavy = message("");
    for number in 0..60 {
        heavy.headers.insert(format!("header-{number}"), "x".repeat(2_000)).unwrap();
    }
    let error = publish(&transport, vec![heavy]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("headers of"), "{error}");
}

#[tokio::test]
async fn a_batch_larger_than_the_client_s_queue_is_sent_whole() {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    let small = cluster.builder().property("queue.buffering.max.messages", "50");
    let transport = small.connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 1_000).await;
    let texts: BTreeSet<String> = (0..500).map(|number| number.to_string()).collect();
    publish(&transport, texts.iter().map(|text| message(text)).collect()).await.unwrap();
    let mut received = BTreeSet::new();
    while received.len() < 500 {
        let delivery = office.next().await;
        assert!(received.insert(text_of(&delivery)), "each once");
        ack(delivery).await.unwrap();
    }
    assert_eq!(received, texts);
    office.close().await;
}

#[tokio::test]
async fn header_bytes_that_are_not_utf8_stop_nothing() {
    let cluster = Cluster::new();
    cluster.make_with("mail", 1, &["office"]).unwrap();
    let transport = cluster.builder().connect().await.unwrap();
    let mut office = subscribe(&transport, "office", 10).await;
    cluster.put_raw(None, &[("odd", &[0xff])]).await;
    cluster.put_raw(Some(b"\"x\""), &[("punctual-id", &[0xff])]).await;
    let first = office.next().await;
    assert_eq!((first.poison.as_deref(), first.message.body.bytes.len()), (None, 0));
    assert!(first.message.headers.is_empty());
    let second = office.next().await;
    assert!(second.poison.clone().unwrap().contains("punctual-id"));
    ack(first).await.unwrap();
    ack(second).await.unwrap();
    office.close().await;
}
