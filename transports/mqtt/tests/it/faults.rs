//! Faults: brokers that are unreachable, refuse the client, do not respond, or go away.

use std::time::Duration;

use punctual::Clock as _;
use punctual::clock::between;
use punctual::{ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    ack, body, message, next, next_retrying, outgoing, publish,
};
use punctual_conformance::cases;
use punctual_mqtt::MqttTransport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, is_quiet, subscribe};

cases! {
    an_unreachable_broker_is_named,
    refused_credentials_are_reported_without_the_password,
    a_broker_of_another_version_is_reported_with_the_way_out,
    an_unresponsive_broker_fails_within_the_timeout,
    a_server_without_mqtt_is_refused,
    an_invalid_certificate_is_reported,
    publishing_fails_as_temporary_while_the_broker_is_unreachable_and_resumes,
    a_body_over_the_limit_is_refused_before_anything_is_sent,
}

async fn an_unreachable_broker_is_named() {
    let error = refused("mqtt://ada:secret@127.0.0.1:1").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

async fn refused_credentials_are_reported_without_the_password() {
    let (port, _broker) = broker(b"\x20\x03\x00\x86\x00").await;
    let error = refused(&format!("mqtt://ada:secret@127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("user or password"), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

async fn a_broker_of_another_version_is_reported_with_the_way_out() {
    let (port, _broker) = broker(b"\x20\x02\x00\x01").await;
    let error = refused(&format!("mqtt://127.0.0.1:{port}")).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("V311"), "{error}");
}

async fn an_unresponsive_broker_fails_within_the_timeout() {
    let (port, _broker) = broker(b"").await;
    let started = SystemClock.now();
    let builder = MqttTransport::builder(format!("mqtt://127.0.0.1:{port}"));
    let error = builder.timeout(Duration::from_millis(300)).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(between(started, SystemClock.now()) < Duration::from_secs(5));
}

async fn a_server_without_mqtt_is_refused() {
    let (port, _broker) = broker(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let address = format!("mqtt://127.0.0.1:{port}");
    let builder = MqttTransport::builder(address).timeout(Duration::from_secs(1));
    assert!(builder.connect().await.is_err());
}

async fn an_invalid_certificate_is_reported() {
    let builder = MqttTransport::builder("mqtts://127.0.0.1:1").root_certificate("no certificate");
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let builder = MqttTransport::builder("mqtt://127.0.0.1:1").root_certificate("pem");
    let error = builder.connect().await.unwrap_err();
    assert!(error.to_string().contains("mqtts://"), "{error}");
}

async fn publishing_fails_as_temporary_while_the_broker_is_unreachable_and_resumes() {
    let fixture = Fixture::new();
    let proxy = Proxy::to(&fixture.address).await;
    let transport = fixture.builder_at(proxy.address()).connect().await.unwrap();
    let mut consumer = subscribe(&transport, "billing").await;
    publish(&transport, &["before"]).await;
    ack(next(&mut *consumer).await).await;
    proxy.cut();
    assert!(consumer.receive(1).await.is_err_and(|error| error.is_temporary()));
    let batch = vec![outgoing(message("meanwhile"))];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("127.0.0.1"), "{error}");
    // Messages that others publish meanwhile wait in the session.
    publish(&fixture.open().await, &["waits"]).await;
    proxy.mend();
    publish(&transport, &["after"]).await;
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let delivery = next_retrying(&mut *consumer).await;
        bodies.push(body(&delivery));
        ack(delivery).await;
    }
    bodies.sort();
    assert_eq!(bodies, ["after", "waits"], "nothing lost, and what was acknowledged not repeated");
}

async fn a_body_over_the_limit_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new();
    let transport = fixture.builder().payload_max(10).connect().await.unwrap();
    assert_eq!(transport.capabilities().payload_max, Some(10));
    let mut consumer = subscribe(&transport, "billing").await;
    let batch = vec![outgoing(message("short")), outgoing(message("much too long"))];
    let error = transport.publish(batch, SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("13") && error.to_string().contains("10"), "{error}");
    assert!(is_quiet(&mut *consumer).await);
}

async fn refused(address: &str) -> punctual::Error {
    MqttTransport::builder(address).connect().await.unwrap_err()
}

/// Starts a broker that sends the same bytes to every client and nothing else.
async fn broker(response: &'static [u8]) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut streams = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 256];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(response).await;
            streams.push(stream);
        }
    });
    (port, task)
}
