//! Test cluster: the one inside the client library, listening on the loopback, or an external one with a given
//! address. The former is created for each test and can be taken down and up again. It does not let clients create
//! topics, so the tests create them here.

#![allow(dead_code)] // each of the two test programs uses its part

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use punctual::backend::wire::Wire;
use punctual::clock::add;
use punctual::model::Topic;
use punctual::{Clock, Error, Result, SystemClock};
use punctual_kafka::{KafkaBuilder, KafkaTransport};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};

const BROKERS: i32 = 2;
pub(crate) const PARTITIONS: i32 = 4;
/// Limit of every wait in this file.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Limit of the records read from a topic.
const LETTERS_MAX: usize = 1_000;

/// Commands to the thread that owns the cluster. The cluster cannot be moved between threads.
enum Command {
    Topic(String, i32),
    Down,
    Up,
    RoundTrip(Duration),
}

type Request = (Command, Sender<Result<()>>);

/// A cluster, and a prefix that no other test uses.
pub(crate) struct Cluster {
    pub(crate) address: String,
    pub(crate) prefix: String,
    /// None for an external cluster.
    mock: Option<Sender<Request>>,
}

impl Cluster {
    /// Starts an empty cluster.
    pub(crate) fn new() -> Self {
        let (commands, requests) = channel();
        let (report, reply) = channel();
        thread::spawn(move || serve(&report, &requests));
        let address = reply.recv_timeout(TIMEOUT).expect("the cluster has an address");
        Self { address, prefix: prefix(), mock: Some(commands) }
    }

    /// Uses an external cluster.
    pub(crate) fn at(address: String) -> Self {
        Self { address, prefix: prefix(), mock: None }
    }

    /// Returns the builder of a transport on it, with timeouts short enough for tests.
    pub(crate) fn builder(&self) -> KafkaBuilder {
        KafkaTransport::builder(&self.address)
            .prefix(&self.prefix)
            .timeout(Duration::from_secs(5))
            .join_timeout(TIMEOUT)
            .revoke_timeout(Duration::from_secs(2))
            // The cluster in the library waits this long, less one second, for a group that a member left.
            .property("session.timeout.ms", "4000")
            .property("heartbeat.interval.ms", "500")
    }

    /// Creates a topic and the dead-letter topics of its groups.
    pub(crate) fn make(&self, topic: &str, groups: &[&str]) -> Result<()> {
        self.make_with(topic, PARTITIONS, groups)
    }

    /// Creates a topic with a number of partitions.
    pub(crate) fn make_with(&self, topic: &str, partitions: i32, groups: &[&str]) -> Result<()> {
        self.ask(Command::Topic(format!("{}{topic}", self.prefix), partitions))?;
        for group in groups {
            for place in ["dead", "invalid"] {
                self.ask(Command::Topic(format!("{}{topic}.{group}.{place}", self.prefix), 1))?;
            }
        }
        Ok(())
    }

    pub(crate) fn down(&self) -> Result<()> {
        self.ask(Command::Down)
    }

    /// Takes it down and up again; every connection to it breaks.
    pub(crate) fn cut(&self) -> Result<()> {
        self.down()?;
        let broker = self.address.split(',').next().unwrap_or_default();
        let until = add(SystemClock.now(), TIMEOUT);
        while std::net::TcpStream::connect(broker).is_ok() {
            assert!(SystemClock.now() < until, "the brokers do not go down");
        }
        self.up()
    }

    pub(crate) fn up(&self) -> Result<()> {
        self.ask(Command::Up)
    }

    /// Delays every response of the brokers.
    pub(crate) fn slow_down(&self, round_trip: Duration) -> Result<()> {
        self.ask(Command::RoundTrip(round_trip))
    }

    fn ask(&self, ask: Command) -> Result<()> {
        let Some(mock) = &self.mock else { return Ok(()) };
        let (report, reply) = channel();
        mock.send((ask, report)).map_err(|error| Error::internal(error.to_string()))?;
        reply.recv_timeout(TIMEOUT).map_err(|error| Error::internal(error.to_string()))?
    }

    /// Sends a record as a producer would that does not know Punctual.
    pub(crate) async fn put(
        &self,
        topic: &Topic,
        body: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<()> {
        let producer: FutureProducer = self.client().create().map_err(failed)?;
        let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(*value) })
        });
        let name = format!("{}{topic}", self.prefix);
        let record: FutureRecord<'_, str, [u8]> =
            FutureRecord::to(&name).payload(body).headers(headers);
        let sent = producer.send(record, TIMEOUT).await;
        sent.map(|_| ()).map_err(|(error, _)| failed(error))
    }

    /// Returns all records of a topic with one partition, oldest first.
    pub(crate) async fn read_topic(&self, name: String) -> Result<Vec<Wire>> {
        let config = self.client();
        let name = format!("{}{name}", self.prefix);
        let reading = tokio::task::spawn_blocking(move || read_all(&config, &name));
        reading.await.map_err(|error| Error::internal(error.to_string()))?
    }

    /// Sends a record of any bytes to the topic `mail`.
    pub(crate) async fn put_raw(&self, body: Option<&[u8]>, headers: &[(&str, &[u8])]) {
        let producer: FutureProducer = self.client().create().unwrap();
        let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
            headers.insert(Header { key, value: Some(*value) })
        });
        let name = format!("{}mail", self.prefix);
        let mut record: FutureRecord<'_, str, [u8]> = FutureRecord::to(&name).headers(headers);
        record.payload = body;
        producer.send(record, TIMEOUT).await.unwrap();
    }

    /// Returns the committed offset of a group, as the brokers report it.
    pub(crate) async fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let mut config = self.client();
        config.set("group.id", format!("{}{group}", self.prefix));
        let topic = format!("{}{topic}", self.prefix);
        let request = tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let mut required = TopicPartitionList::new();
            required.add_partition(&topic, partition);
            let found = consumer.committed_offsets(required, TIMEOUT).unwrap();
            found.find_partition(&topic, partition).and_then(|found| found.offset().to_raw())
        });
        request.await.unwrap().filter(|offset| *offset >= 0)
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address);
        config
    }
}

fn prefix() -> String {
    format!("t{}-", punctual_conformance::backend_tests::unique_name())
}

fn serve(report: &Sender<String>, requests: &Receiver<Request>) {
    let cluster = MockCluster::new(BROKERS).expect("a cluster");
    let _ = report.send(cluster.bootstrap_servers());
    // It ends when the last sender is dropped.
    for (ask, report) in requests {
        let result = match ask {
            Command::Topic(name, partitions) => cluster.create_topic(&name, partitions, 1),
            Command::Down => cluster.broker_down(-1),
            Command::RoundTrip(timeout) => cluster.broker_round_trip_time(-1, timeout),
            Command::Up => cluster.broker_up(-1),
        };
        let _ = report.send(result.map_err(failed));
    }
}

fn read_all(config: &ClientConfig, name: &str) -> Result<Vec<Wire>> {
    // The client assigns nothing without a group; nothing is committed for this one.
    let mut config = config.clone();
    config.set("group.id", "reader-of-letters").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().map_err(failed)?;
    let (first, end) = consumer.fetch_watermarks(name, 0, TIMEOUT).map_err(failed)?;
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(name, 0, Offset::Offset(first)).map_err(failed)?;
    consumer.assign(&from).map_err(failed)?;
    let mut records = Vec::new();
    let count = usize::try_from(end - first).unwrap_or(0).min(LETTERS_MAX);
    while records.len() < count {
        let record = consumer.poll(TIMEOUT).ok_or_else(|| Error::unavailable("no record came"))?;
        records.push(decode(&record.map_err(failed)?));
    }
    Ok(records)
}

/// Decodes a record by hand, not with the code under test.
fn decode(record: &impl Message) -> Wire {
    let text =
        |value: Option<&[u8]>| String::from_utf8(value.unwrap_or_default().to_vec()).unwrap();
    let mut headers = Vec::new();
    if let Some(own) = record.headers() {
        headers.extend(own.iter().map(|one| (one.key.to_owned().into(), text(one.value))));
    }
    let typed = headers.iter().position(|(name, _)| name == "content-type");
    let content_type = typed.map(|at| headers.remove(at).1).unwrap_or_default().into();
    let body = record.payload().unwrap_or_default().to_vec().into();
    Wire { headers, body, content_type }
}

fn failed(error: rdkafka::error::KafkaError) -> Error {
    Error::unavailable(error.to_string())
}
