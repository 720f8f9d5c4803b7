//! Topics that are missing or differ from the settings.

use punctual::backend::transport::Subscription;
use punctual::{ErrorKind, Transport};

use crate::cluster::{Cluster, PARTITIONS};
use crate::fixture::{message, publish, topic};

fn mail() -> Subscription {
    Subscription { topic: topic("mail"), group: "office".to_owned(), prefetch: 1 }
}

#[tokio::test]
async fn a_missing_topic_is_named_when_it_may_not_be_created() {
    let cluster = Cluster::new();
    let transport = cluster.builder().declare(false).connect().await.unwrap();
    let name = format!("{}mail", cluster.prefix);
    let error = publish(&transport, vec![message("hello")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains(&name), "{error}");
    let error = transport.subscribe(mail()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn a_missing_dead_letter_topic_is_named_by_subscribe() {
    let cluster = Cluster::new();
    cluster.make("mail", &[]).unwrap();
    let transport = cluster.builder().declare(false).connect().await.unwrap();
    let error = transport.subscribe(mail()).await.err().unwrap();
    assert!(error.to_string().contains("mail.office.dead"), "{error}");
}

// The cluster in the library does not create topics for clients, and reports no error either.
#[tokio::test]
async fn a_broker_that_creates_no_topic_is_reported_as_unavailable() {
    let cluster = Cluster::new();
    let impatient = cluster.builder().timeout(std::time::Duration::from_secs(1));
    let transport = impatient.connect().await.unwrap();
    let error = publish(&transport, vec![message("hello")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().starts_with("declare"), "{error}");
}

#[tokio::test]
async fn a_topic_with_another_number_of_partitions_is_refused_with_both_numbers() {
    let cluster = Cluster::new();
    cluster.make("mail", &["office"]).unwrap();
    let transport = cluster.builder().partitions(PARTITIONS + 2).connect().await.unwrap();
    let error = transport.subscribe(mail()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains("4 partitions") && text.contains('6'), "{text}");
    let transport = cluster.builder().partitions(PARTITIONS).connect().await.unwrap();
    assert!(transport.subscribe(mail()).await.is_ok());
}
