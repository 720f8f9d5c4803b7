//! Tests of opening transports by address.

use super::*;

async fn refused(address: &str) -> String {
    open_transport(address).await.err().unwrap().to_string()
}

#[tokio::test]
async fn an_unknown_transport_is_refused_with_the_known_ones() {
    for (address, words) in [
        ("", "is empty"),
        ("carrier-pigeon://ada:secret@coop", "\"carrier-pigeon\""),
        ("data.db", "sqlite:path/to/file.db"),
    ] {
        let error = refused(address).await;
        assert!(error.contains(words), "{error}");
        assert!(error.contains("memory:") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_broker_that_is_not_built_in_is_refused_with_the_feature_to_turn_on() {
    let none = KINDS.iter().map(|kind| Kind { open: None, ..*kind }).collect::<Vec<_>>();
    for (address, product, feature) in [
        ("kafka://host:9092", "Kafka", "kafka"),
        ("mqtts://host", "MQTT", "mqtt"),
        ("amqp://ada:secret@host", "RabbitMQ", "rabbitmq"),
        ("AMQPS://ada:secret@host", "RabbitMQ", "rabbitmq"),
        ("redis://:secret@host", "Redis", "redis"),
        ("Endpoint=sb://name;SharedAccessKey=secret", "Service Bus", "servicebus"),
        ("sqs://eu-central-1", "SQS", "sqs"),
        ("nats://host", "NATS", "nats"),
    ] {
        let error = opener(&none, address).err().unwrap();
        assert_eq!(error.kind(), punctual::ErrorKind::Unsupported);
        assert_eq!(
            error.to_string(),
            format!(
                "this binary was built without {product}: rebuild with --features {feature} (or brokers for all)"
            )
        );
        // What this build really has: the same answer, or none.
        let built = KINDS.iter().any(|kind| kind.feature == feature && kind.open.is_some());
        assert_eq!(check_transport(address).is_ok(), built, "{address}");
    }
    let error = opener(&none, "sqlite:data.db").err().unwrap().to_string();
    assert_eq!(error, "this binary was built without SQLite: rebuild with --features sqlite");
}

/// The row of a table in the documentation, by the names of its columns.
fn row(table: &str, name: &str) -> Vec<(String, String)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let header = table.lines().find(|line| line.starts_with("|  |")).unwrap();
    let row = table.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
    cells(header).into_iter().zip(cells(row)).skip(1).collect()
}

// The capabilities that transports declare are rendered into the documentation.
#[test]
fn the_storage_need_of_a_transport_matches_its_capabilities() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/capabilities.md");
    let table = std::fs::read_to_string(file).unwrap();
    let (survives, publish, requeue) = (
        row(&table, "survives a restart"),
        row(&table, "delay on publish"),
        row(&table, "delay on requeue"),
    );
    let mut compared = 0;
    for (((name, survives), (_, publish)), (_, requeue)) in
        survives.iter().zip(&publish).zip(&requeue)
    {
        let known = |kind: &&Kind| kind.feature == name || kind.schemes.contains(&&**name);
        let Some(kind) = KINDS.iter().find(known) else { continue };
        compared += 1;
        let needs = survives == "yes" && (publish != "any" || requeue != "any");
        match kind.need {
            // The suite makes MQTT durable; an address cannot.
            StorageNeed::Any => assert!(!needs || name == "mqtt", "{name}"),
            StorageNeed::Durable => assert!(needs, "{name}"),
            StorageNeed::BrokerDecides => assert_eq!(name, "redis"),
        }
    }
    assert_eq!(compared, KINDS.len());
    let need = cfg!(feature = "nats").then_some(StorageNeed::Durable);
    assert_eq!(storage_need(" NATS://host:4222"), need);
    assert_eq!(storage_need("memory:"), Some(StorageNeed::Any));
    assert_eq!(storage_need("carrier-pigeon://coop"), None);
}

#[test]
fn a_queue_of_a_group_names_its_topic() {
    let topic = Topic::new("orders/eu").unwrap();
    assert_eq!(topic_of(&Queue::of_group(&topic, "office")), Some(topic));
    assert_eq!(topic_of(&Queue::default()), None);
}
