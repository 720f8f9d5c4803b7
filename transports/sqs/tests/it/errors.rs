//! Errors: each names the place and the way out without the secret, and an outage ends by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::backend::transport::Consumer;
use punctual::{Clock as _, Error, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    ack, body, deadline, message, next, next_retrying, outgoing, publish, receipt, subscribe,
    with_timeout,
};
use punctual_conformance::cases;
use punctual_sqs::SqsTransport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::fixture::Fixture;
use crate::raw;

cases! {
    an_unreachable_endpoint_is_named_without_the_secret,
    a_key_that_is_refused_is_reported_without_the_secret,
    an_outage_is_temporary_and_ends_by_itself,
    a_queue_that_was_removed_is_created_again,
}

async fn refused_at(port: u16) -> Error {
    let address = format!("http://me:hush@127.0.0.1:{port}/?region=nowhere");
    let builder = SqsTransport::builder(address).timeout(Duration::from_secs(2));
    let error = builder.connect().await.unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(!format!("{error} {error:?}").contains("hush"), "{error:?}");
    error
}

async fn an_unreachable_endpoint_is_named_without_the_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = refused_at(port).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

async fn a_key_that_is_refused_is_reported_without_the_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // The emulator of SQS accepts every key, so the test responds in its place.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 16 * 1024];
        let _ = stream.read(&mut request).await.unwrap();
        let body = r#"{"__type":"com.amazonaws.sqs#InvalidClientTokenId","message":"no"}"#;
        let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/x-amz-json-1.0";
        let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(response.as_bytes()).await.unwrap();
        let _ = stream.read(&mut request).await;
    });
    let error = refused_at(port).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("check both"), "{error}");
    server.abort();
}

async fn an_outage_is_temporary_and_ends_by_itself() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    // SQS may still deliver a message to a poll that was cut; it is visible again when its visibility timeout
    // ends.
    let builder = fixture.builder_at(proxy.address()).visibility_timeout(Duration::from_secs(5));
    let transport = builder.connect().await.unwrap();
    let mut consumer = subscribe(&transport, "office", 10).await;
    publish(&transport, &["before"]).await;
    let before = next(&mut *consumer).await;
    proxy.cut();
    let batch = vec![outgoing(message("lost"))];
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
        let delivery = next_retrying(&mut *consumer).await;
        found.insert((body(&delivery), delivery.attempt));
        ack(delivery).await;
    }
    let wanted = [("after".to_owned(), 1), ("before".to_owned(), 2)];
    assert_eq!(found, BTreeSet::from(wanted), "what was not acknowledged comes again");
    fixture.remove().await;
}

async fn error_of(consumer: &mut dyn Consumer) -> Error {
    with_timeout(consumer.receive(1)).await.err().expect("an error")
}

async fn a_queue_that_was_removed_is_created_again() {
    let fixture = Fixture::new();
    let transport = fixture.open().await;
    let mut consumer = subscribe(&transport, "office", 10).await;
    let queue = raw::queue(&fixture.client, &fixture.name("orders-office")).await;
    fixture.client.delete_queue().queue_url(queue).send().await.unwrap();
    let receiving = tokio::spawn(async move {
        let delivery = next(&mut *consumer).await;
        let found = body(&delivery);
        ack(delivery).await;
        found
    });
    let until = deadline();
    while !fixture.queues().await.contains(&"orders-office".to_owned()) {
        assert!(SystemClock.now() < until, "it is created again");
        tokio::task::yield_now().await;
    }
    publish(&transport, &["hello"]).await;
    assert_eq!(receiving.await.unwrap(), "hello");
    fixture.remove().await;
}
