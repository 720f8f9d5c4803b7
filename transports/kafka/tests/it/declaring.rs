//! Topics that are missing, or other than they were asked for.

use punctual::transport::Subscription;
use punctual::{ErrorKind, Transport};

use crate::cluster::{Cluster, PARTITIONS};
use crate::node::{message, publish, topic};

fn mail() -> Subscription {
    Subscription { topic: topic("mail"), group: "office".to_owned(), prefetch: 1 }
}

#[tokio::test]
async fn a_topic_that_is_missing_is_named_when_it_may_not_be_made() {
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
async fn a_missing_place_for_letters_is_named_when_it_is_subscribed_to() {
    let cluster = Cluster::new();
    cluster.make("mail", &[]).unwrap();
    let transport = cluster.builder().declare(false).connect().await.unwrap();
    let error = transport.subscribe(mail()).await.err().unwrap();
    assert!(error.to_string().contains("mail.office.dead"), "{error}");
}

// The cluster in the library makes no topics for clients, and does not even say so.
#[tokio::test]
async fn a_broker_that_makes_no_topics_is_not_taken_for_one_that_did() {
    let cluster = Cluster::new();
    let hasty = cluster.builder().timeout(std::time::Duration::from_secs(1));
    let transport = hasty.connect().await.unwrap();
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
