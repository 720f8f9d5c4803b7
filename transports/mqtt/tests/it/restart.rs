//! A broker that is restarted while the consumers are away. The test starts a private one, because other tests share
//! the usual one, so it has to be installed on this machine.

use punctual_conformance::backend_tests::Proxy;
use punctual_conformance::backend_tests::messaging::{
    ack, body, next_retrying, publish, try_publish,
};
use punctual_conformance::cases;
use punctual_mqtt::{MqttTransport, Version};
use xtask::servers::{Durability, Mqtt, Running};

use crate::fixture::{Fixture, is_quiet, subscribe};

cases! {
    publishing_before_consumers_are_back_is_refused,
    with_3_1_1_a_message_is_confirmed_and_lost,
}

async fn publishing_before_consumers_are_back_is_refused() {
    let published = published_before_consumers_are_back(Version::V5).await;
    let error = published.unwrap_err();
    assert!(error.to_string().contains("no subscription"), "{error}");
}

/// The reason why no durable transport is declared with 3.1.1.
async fn with_3_1_1_a_message_is_confirmed_and_lost() {
    published_before_consumers_are_back(Version::V311).await.unwrap();
}

/// Returns the result of publishing at that moment. What was published before the restart is delivered, and what was
/// published at that moment never is.
async fn published_before_consumers_are_back(version: Version) -> punctual::Result<()> {
    let records = std::env::temp_dir()
        .join(format!("punctual-mqtt-restart-{}-{version:?}", std::process::id()));
    let start = || Running::start(&Mqtt, Durability::Relaxed, &records);
    let mut server = tokio::task::block_in_place(start).unwrap();
    let fixture = Fixture::new();
    let open = async |address: &str| -> MqttTransport {
        fixture.builder_at(address).version(version).connect().await.unwrap()
    };
    let proxy = Proxy::to(&server.address()).await;
    let mut consumer = subscribe(&open(proxy.address()).await, "billing").await;
    proxy.cut();
    publish(&open(&server.address()).await, &["before"]).await;
    tokio::task::block_in_place(|| server.halt().and_then(|()| server.serve())).unwrap();
    let published = try_publish(&open(&server.address()).await, &["meanwhile"]).await;
    proxy.mend();
    let delivery = next_retrying(&mut *consumer).await;
    assert_eq!(body(&delivery), "before");
    ack(delivery).await;
    assert!(is_quiet(&mut *consumer).await, "what was published meanwhile is lost");
    drop(server);
    let _ = std::fs::remove_dir_all(records);
    published
}
