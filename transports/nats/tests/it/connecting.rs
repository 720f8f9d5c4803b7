//! The first connection, and the errors when it fails.

use punctual::ErrorKind;
use punctual::backend::transport::Transport as _;
use punctual_conformance::cases;
use punctual_nats::NatsTransport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::fixture::Fixture;

cases![
    an_unreachable_broker_is_named,
    refused_credentials_are_reported_without_the_password,
    a_broker_that_is_too_old_is_refused,
    an_invalid_address_is_refused,
    invalid_settings_are_refused,
    the_limit_of_bodies_comes_from_the_broker,
];

async fn an_unreachable_broker_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let address = format!("nats://ada:secret@127.0.0.1:{port}");
    let error = NatsTransport::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

async fn refused_credentials_are_reported_without_the_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let refusing = tokio::spawn(async move {
        // The client may try more than once.
        for _ in 0..20 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let info = r#"{"server_id":"x","version":"2.15.1","max_payload":1048576,"proto":1,"auth_required":true,"headers":true}"#;
            let _ = stream.write_all(format!("INFO {info}\r\n").as_bytes()).await;
            let _ = stream.write_all(b"-ERR 'Authorization Violation'\r\n").await;
        }
    });
    let address = format!("nats://ada:secret@127.0.0.1:{port}");
    let error = NatsTransport::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("password"), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    refusing.abort();
}

async fn a_broker_that_is_too_old_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let old = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let info = r#"{"server_id":"x","version":"2.9.10","max_payload":1048576,"proto":1,"headers":true}"#;
        stream.write_all(format!("INFO {info}\r\n").as_bytes()).await.unwrap();
        // The client sends CONNECT and PING; after PONG it is connected.
        let mut buffer = [0; 4_096];
        let _ = stream.read(&mut buffer).await;
        let _ = stream.write_all(b"PONG\r\n").await;
        // The client disconnects by itself.
        while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
    });
    let address = format!("nats://ada:secret@127.0.0.1:{port}");
    let error = NatsTransport::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("\"2.9.10\""), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    old.await.unwrap();
}

async fn an_invalid_address_is_refused() {
    for address in ["", "http://127.0.0.1:1", "nats://127.0.0.1:port"] {
        let error = NatsTransport::connect(address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{address}: {error}");
    }
}

async fn invalid_settings_are_refused() {
    use std::time::Duration;
    let fixture = Fixture::new();
    for builder in [
        fixture.builder().prefix("a.b"),
        fixture.builder().visibility_timeout(Duration::from_millis(10)),
        fixture.builder().replicas(0),
        fixture.builder().timeout(Duration::ZERO),
        fixture.builder().deduplicate(Duration::ZERO),
    ] {
        assert_eq!(builder.connect().await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

async fn the_limit_of_bodies_comes_from_the_broker() {
    let fixture = Fixture::new();
    let limit = fixture.jetstream().await.client().max_payload();
    let payload_max = fixture.open().await.capabilities().payload_max.unwrap();
    assert!(payload_max < limit && payload_max > limit / 2, "{payload_max} of {limit}");
}
