//! CloudEvents as an envelope: a message sent in any of them is received unchanged, and another Kafka client that
//! reads the topic finds the event.

use std::time::Duration;

use punctual::backend::transport::Receipt;
use punctual::backend::wire::Envelope;
use punctual::model::{Body, Key, Message};

use crate::cluster::Cluster;
use crate::fixture::{ack, message, publish, subscribe};

const ENVELOPES: [Envelope; 3] =
    [Envelope::Own, Envelope::CloudEventsBinary, Envelope::CloudEventsStructured];

/// Returns a message with everything that an envelope has to carry.
fn full(message: Message) -> Message {
    let mut full = Message {
        key: Some(Key::new("order-7").unwrap()),
        body: Body::raw(r#"{"total":7.50}"#, "application/json"),
        ..message
    };
    full.headers.insert("tenant", "acme").unwrap();
    full.correlation.id = Some("story-1".into());
    full
}

#[tokio::test]
async fn a_message_survives_every_envelope_and_a_requeue() {
    for envelope in ENVELOPES {
        let cluster = Cluster::new();
        cluster.make_with("mail", 1, &["office"]).unwrap();
        let builder = cluster.builder().envelope(envelope.sent_by("/shop"));
        let transport = builder.connect().await.unwrap();
        let mut office = subscribe(&transport, "office", 5).await;
        let message = full(message(""));
        publish(&transport, vec![message.clone()]).await.unwrap();
        let delivery = office.next().await;
        assert_eq!(*delivery.message, message, "{envelope:?}");
        assert_eq!((delivery.attempt, &delivery.poison), (1, &None), "{envelope:?}");
        let Receipt::Broker(receipt) = delivery.receipt else { panic!("no leases") };
        receipt.requeue(Duration::ZERO).await.unwrap();
        let delivery = office.next().await;
        assert_eq!((delivery.attempt, &*delivery.message), (2, &message), "{envelope:?}");
        ack(delivery).await.unwrap();
        office.close().await;
        let written = cluster.read_topic("mail".to_owned()).await.unwrap();
        let source = written.iter().map(|wire| wire.header("ce_source")).collect::<Vec<_>>();
        let first = (envelope == Envelope::CloudEventsBinary).then_some("/shop");
        assert_eq!(source, [first, None], "what is put back is in our own envelope");
    }
}
