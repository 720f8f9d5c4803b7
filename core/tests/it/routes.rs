//! Routes: the transport of a topic when its sender names none.

use punctual::{Builder, Punctual};

use crate::broker::{Broker, PLAIN};
use crate::harness::{Bench, world};

#[tokio::test]
async fn a_route_names_the_transport_of_its_topics() {
    let world = world();
    let brokers = ["orders", "paid", "rest"].map(|_| Broker::new(&world.0, PLAIN));
    let bench = Bench::start_in(world, |builder| {
        let [orders, paid, rest] = brokers.clone();
        let builder = builder.transport("orders", orders).transport("paid", paid);
        builder
            .transport("rest", rest)
            .route("orders.*", "orders")
            .route("orders.paid", "paid")
            .route("orders.paid.*", "rest")
            .via_default("rest")
    })
    .await;
    let publisher = bench.punctual.publisher();
    for topic in ["orders.new", "orders.paid", "orders.paid.late", "mail"] {
        publisher.publish(topic, "x").await.unwrap();
    }
    assert_eq!(brokers.each_ref().map(|broker| broker.waiting()), [1, 1, 2]);
    publisher.publish("orders.new", "x").via("paid").await.unwrap();
    let stored = publisher.publish("orders.new", "x").via_storage().await.unwrap();
    assert_eq!(brokers.each_ref().map(|broker| broker.waiting()), [1, 2, 2]);
    assert_eq!(bench.message(stored.id).await.message.queue.as_str(), "default");
    let batch = publisher.batch([publisher.publish("mail", "x")]).await.unwrap();
    let member = bench.message(batch.members[0].id).await;
    assert_eq!(member.message.queue.as_str(), "default", "batches are the storage's");
}

#[test]
fn routes_that_cannot_be_right_are_refused_when_the_process_is_built() {
    let refused = |build: fn(Builder) -> Builder| {
        let (clock, _) = world();
        let broker = Broker::new(&clock, PLAIN);
        build(Punctual::builder().transport("post", broker)).build().err().unwrap().to_string()
    };
    for (error, words) in [
        (refused(|builder| builder.route("mail", "pots")), "\"pots\""),
        (refused(|builder| builder.via_default("pots")), "via_default()"),
        (refused(|builder| builder.prefer_storage("pots")), "prefer_storage()"),
        (refused(|builder| builder.route("*", "post")), "use via_default()"),
        (refused(|builder| builder.route("a.*.b*", "post")), "can only stand last"),
        (refused(|builder| builder.route("", "post")), "must not be empty"),
        (refused(|builder| builder.route("a*", "post").route("a*", "post")), "given twice"),
        (refused(|builder| builder.route("a", "post").route(" a", "post")), "given twice"),
    ] {
        assert!(error.contains(words), "{error}");
    }
}
