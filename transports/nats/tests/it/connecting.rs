//! The first connection, and what is said when there is none.

use punctual::ErrorKind;
use punctual::transport::Transport as _;
use punctual_conformance::cases;
use punctual_nats::NatsTransport;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::place::Place;

cases![
    a_broker_that_is_not_there_is_named,
    wrong_credentials_are_named_without_the_password,
    a_broker_that_is_too_old_is_refused,
    a_broken_address_is_refused,
    settings_that_cannot_work_are_refused,
    the_limit_of_bodies_comes_from_the_broker,
];

async fn a_broker_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let address = format!("nats://ada:secret@127.0.0.1:{port}");
    let error = NatsTransport::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

async fn wrong_credentials_are_named_without_the_password() {
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
        // The client says who it is and asks for a sign of life; then it is connected.
        let mut said = [0; 4_096];
        let _ = stream.read(&mut said).await;
        let _ = stream.write_all(b"PONG\r\n").await;
        // It goes by itself.
        while stream.read(&mut said).await.is_ok_and(|length| length > 0) {}
    });
    let address = format!("nats://ada:secret@127.0.0.1:{port}");
    let error = NatsTransport::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("\"2.9.10\""), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    old.await.unwrap();
}

async fn a_broken_address_is_refused() {
    for address in ["", "http://127.0.0.1:1", "nats://127.0.0.1:port"] {
        let error = NatsTransport::connect(address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{address}: {error}");
    }
}

async fn settings_that_cannot_work_are_refused() {
    use std::time::Duration;
    let place = Place::new();
    for builder in [
        place.builder().prefix("a.b"),
        place.builder().ack_wait(Duration::from_millis(10)),
        place.builder().replicas(0),
        place.builder().patience(Duration::ZERO),
        place.builder().deduplicate(Duration::ZERO),
    ] {
        assert_eq!(builder.connect().await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

async fn the_limit_of_bodies_comes_from_the_broker() {
    let place = Place::new();
    let most = place.jetstream().await.client().max_payload();
    let payload_max = place.open().await.capabilities().payload_max.unwrap();
    assert!(payload_max < most && payload_max > most / 2, "{payload_max} of {most}");
}
