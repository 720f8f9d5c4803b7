//! Faults: what is wrong is said with its place and its way out and without the secret, and an outage ends
//! by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::transport::Consumer;
use punctual::{Clock as _, Error, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::cases;
use punctual_conformance::own::Proxy;
use punctual_conformance::own::letters::{
    ack, body, in_time, message, next, next_again, publish, receipt, sent, soon, subscribe,
};
use punctual_sqs::SqsTransport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::place::Place;
use crate::raw;

cases! {
    an_endpoint_that_is_not_there_is_named_without_the_secret,
    a_key_that_is_refused_is_said_without_the_secret,
    an_outage_is_temporary_and_ends_by_itself,
    a_queue_that_was_removed_is_made_again,
}

async fn refused_at(port: u16) -> Error {
    let address = format!("http://me:hush@127.0.0.1:{port}/?region=nowhere");
    let builder = SqsTransport::builder(address).timeout(Duration::from_secs(2));
    let error = builder.connect().await.unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    error
}

async fn an_endpoint_that_is_not_there_is_named_without_the_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = refused_at(port).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn a_key_that_is_refused_is_said_without_the_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // The stand-in for SQS takes every key, so that this is said in its place.
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 16 * 1024];
        let _ = stream.read(&mut request).await.unwrap();
        let told = r#"{"__type":"com.amazonaws.sqs#InvalidClientTokenId","message":"no"}"#;
        let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/x-amz-json-1.0";
        let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{told}", told.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        let _ = stream.read(&mut request).await;
    });
    let error = refused_at(port).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("check both"), "{error}");
    answering.abort();
}

async fn an_outage_is_temporary_and_ends_by_itself() {
    let place = Place::new();
    let proxy = Proxy::to(&place.address).await;
    // A poll that was cut may still be given a message, which is free again when its hold has run out.
    let builder = place.builder_at(proxy.address()).hold_length(Duration::from_secs(5));
    let transport = builder.connect().await.unwrap();
    let mut consumer = subscribe(&transport, "office", 10).await;
    publish(&transport, &["before"]).await;
    let before = next(&mut *consumer).await;
    proxy.cut();
    let batch = vec![sent(message("lost"))];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let error = error_of(&mut *consumer).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = receipt(before).ack().await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    proxy.mend();
    publish(&transport, &["after"]).await;
    let mut found = BTreeSet::new();
    while found.len() < 2 {
        let delivery = next_again(&mut *consumer).await;
        found.insert((body(&delivery), delivery.attempt));
        ack(delivery).await;
    }
    let wanted = [("after".to_owned(), 1), ("before".to_owned(), 2)];
    assert_eq!(found, BTreeSet::from(wanted), "what was not acknowledged comes again");
    place.remove().await;
}

async fn error_of(consumer: &mut dyn Consumer) -> Error {
    in_time(consumer.receive(1)).await.err().expect("an error")
}

async fn a_queue_that_was_removed_is_made_again() {
    let place = Place::new();
    let transport = place.open().await;
    let mut consumer = subscribe(&transport, "office", 10).await;
    let queue = raw::queue(&place.client, &place.name("orders-office")).await;
    place.client.delete_queue().queue_url(queue).send().await.unwrap();
    let receiving = tokio::spawn(async move {
        let delivery = next(&mut *consumer).await;
        let found = body(&delivery);
        ack(delivery).await;
        found
    });
    let until = soon();
    while !place.queues().await.contains(&"orders-office".to_owned()) {
        assert!(SystemClock.now() < until, "it is made again");
        tokio::task::yield_now().await;
    }
    publish(&transport, &["hello"]).await;
    assert_eq!(receiving.await.unwrap(), "hello");
    place.remove().await;
}
