//! Errors: each names the place and the way out, and what comes back is found again.

use std::time::Duration;

use punctual::backend::transport::Subscription;
use punctual::clock::between;
use punctual::model::Topic;
use punctual::{Clock as _, ErrorKind, SystemClock, Transport as _};
use punctual_conformance::backend_tests::messaging::{
    ack, body, message, next, next_retrying, outgoing, publish, receipt, subscription,
};
use punctual_conformance::cases;
use punctual_servicebus::ServiceBusTransport;
use tokio::net::TcpListener;

use crate::fixture::{builder, double, open, subscribe};

cases! {
    a_wrong_key_is_refused_and_not_shown,
    an_unreachable_broker_is_reported_with_its_address,
    a_broker_that_does_not_respond_times_out,
    a_missing_subscription_is_named,
    a_missing_topic_is_named_and_found_once_it_exists,
    a_stopped_broker_is_unavailable_until_it_is_back,
    a_connection_string_for_one_entity_is_limited_to_it,
}

async fn a_wrong_key_is_refused_and_not_shown() {
    let double = double().await;
    let builder = ServiceBusTransport::builder(double.address_with("b3RoZXI="));
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains("127.0.0.1") && text.contains("SharedAccessKey"), "{text}");
    assert!(!text.contains("b3RoZXI"), "{text}");
}

async fn an_unreachable_broker_is_reported_with_its_address() {
    let double = double().await;
    let builder = builder(&double);
    double.stop().await;
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("127.0.0.1:"), "{error}");
}

async fn a_broker_that_does_not_respond_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = format!(
        "Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
    );
    let begun = SystemClock.now();
    let builder = ServiceBusTransport::builder(address).timeout(Duration::from_millis(300));
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(between(begun, SystemClock.now()) < Duration::from_secs(10));
}

async fn a_missing_subscription_is_named() {
    let double = double().await;
    let transport = open(&double).await;
    let Err(error) = transport.subscribe(subscription("missing", 1)).await else {
        panic!("it was subscribed to")
    };
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("orders/Subscriptions/missing"), "{error}");
    assert!(error.to_string().contains("create it"), "{error}");
}

async fn a_missing_topic_is_named_and_found_once_it_exists() {
    let double = double().await;
    let transport = builder(&double).prefix("shop").connect().await.unwrap();
    let error =
        transport.publish(vec![outgoing(message("1"))], SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("shop.orders"), "{error}");
    double.broker().create_subscription("shop.orders", "office");
    publish(&transport, &["2"]).await;
    let mut office = subscribe(&transport, "office").await;
    assert_eq!(body(&next(&mut *office).await), "2");
}

async fn a_stopped_broker_is_unavailable_until_it_is_back() {
    let double = double().await;
    let transport = open(&double).await;
    let mut office = subscribe(&transport, "office").await;
    publish(&transport, &["before"]).await;
    let first = next(&mut *office).await;
    double.stop().await;
    let error =
        transport.publish(vec![outgoing(message("no"))], SystemClock.now()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = office.receive(1).await.err().expect("nothing can come");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let error = receipt(first).ack().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    double.serve().await.unwrap();
    publish(&transport, &["after"]).await;
    let delivery = next_retrying(&mut *office).await;
    assert_eq!((body(&delivery).as_str(), delivery.attempt), ("after", 1));
    ack(delivery).await;
    // The in-flight message is delivered again when its lock has expired, and counts, because a handler received
    // it.
    let again = next_retrying(&mut *office).await;
    assert_eq!((body(&again).as_str(), again.attempt), ("before", 2));
    ack(again).await;
}

async fn a_connection_string_for_one_entity_is_limited_to_it() {
    let double = double().await;
    let address = format!("{};EntityPath=orders", double.address());
    let transport = ServiceBusTransport::builder(address).connect().await.unwrap();
    publish(&transport, &["1"]).await;
    let topic = Topic::new("invoices").unwrap();
    let invoices = Subscription { topic, ..subscription("office", 1) };
    let Err(error) = transport.subscribe(invoices).await else { panic!("it was subscribed to") };
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("EntityPath"), "{error}");
}
