//! Connecting, and the errors when that fails.

use std::time::Duration;

use punctual::clock::between;
use punctual::{Clock, ErrorKind, SystemClock};
use punctual_kafka::KafkaTransport;

use crate::cluster::Cluster;

#[tokio::test]
async fn an_unreachable_cluster_is_reported_at_once_with_its_address() {
    let started = SystemClock.now();
    let error = KafkaTransport::builder("127.0.0.1:1").connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("127.0.0.1:1") && text.to_lowercase().contains("refused"), "{text}");
    assert!(
        between(started, SystemClock.now()) < Duration::from_secs(5),
        "it does not wait for the timeout"
    );
}

#[tokio::test]
async fn refused_credentials_are_reported_without_the_password() {
    let cluster = Cluster::new();
    let address = format!("kafka://ada:secret@{}", cluster.address);
    let builder = KafkaTransport::builder(address).timeout(Duration::from_secs(5));
    let error = builder.connect().await.unwrap_err();
    let text = error.to_string();
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains(cluster.address.split(',').next().unwrap()), "{text}");
    // The cluster in the library supports no passwords at all, which is one way to refuse this one.
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
}

#[tokio::test]
async fn missing_encryption_support_is_reported_before_connecting() {
    let error = KafkaTransport::builder("kafkas://127.0.0.1:1").connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("feature"), "{error}");
}
