//! A cluster for tests: the one inside the client library, with listeners on the loopback, or the one whose
//! address is given. The former is made new for each place and can be taken down and up again; it makes no
//! topics for clients, so those that tests need are made here.

#![allow(dead_code)] // each of the two test programs uses its part

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use punctual::clock::add;
use punctual::model::Topic;
use punctual::wire::Wire;
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
/// The most that anything here waits.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most letters that are read.
const LETTERS_MAX: usize = 1_000;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What the cluster's own thread is asked to do. The cluster cannot be moved between threads.
enum Ask {
    Topic(String, i32),
    Down,
    Up,
}

type Asked = (Ask, Sender<Result<()>>);

/// A cluster, and names on it that nobody else has.
pub(crate) struct Cluster {
    pub(crate) address: String,
    pub(crate) prefix: String,
    /// None when it is somebody else's.
    mock: Option<Sender<Asked>>,
}

impl Cluster {
    /// A cluster of our own, with nothing on it.
    pub(crate) fn new() -> Self {
        let (asks, asked) = channel();
        let (tell, told) = channel();
        thread::spawn(move || serve(&tell, &asked));
        let address = told.recv_timeout(PATIENCE).expect("the cluster has an address");
        Self { address, prefix: prefix(), mock: Some(asks) }
    }

    /// Somebody else's cluster.
    pub(crate) fn at(address: String) -> Self {
        Self { address, prefix: prefix(), mock: None }
    }

    /// A transport on it, with times short enough for tests.
    pub(crate) fn builder(&self) -> KafkaBuilder {
        KafkaTransport::builder(&self.address)
            .prefix(&self.prefix)
            .timeout(Duration::from_secs(5))
            .join_patience(PATIENCE)
            .revoke_patience(Duration::from_secs(2))
            // The cluster in the library lets a group that was left wait for so long, less one second.
            .property("session.timeout.ms", "4000")
            .property("heartbeat.interval.ms", "500")
    }

    /// Makes a topic, with what its groups need.
    pub(crate) fn make(&self, topic: &str, groups: &[&str]) -> Result<()> {
        self.make_with(topic, PARTITIONS, groups)
    }

    /// Makes a topic with so many partitions.
    pub(crate) fn make_with(&self, topic: &str, partitions: i32, groups: &[&str]) -> Result<()> {
        self.ask(Ask::Topic(format!("{}{topic}", self.prefix), partitions))?;
        for group in groups {
            for place in ["dead", "invalid"] {
                self.ask(Ask::Topic(format!("{}{topic}.{group}.{place}", self.prefix), 1))?;
            }
        }
        Ok(())
    }

    pub(crate) fn down(&self) -> Result<()> {
        self.ask(Ask::Down)
    }

    /// Takes it down and up again; every connection to it breaks.
    pub(crate) fn cut(&self) -> Result<()> {
        self.down()?;
        let broker = self.address.split(',').next().unwrap_or_default();
        let until = add(SystemClock.now(), PATIENCE);
        while std::net::TcpStream::connect(broker).is_ok() {
            assert!(SystemClock.now() < until, "the brokers do not go down");
        }
        self.up()
    }

    pub(crate) fn up(&self) -> Result<()> {
        self.ask(Ask::Up)
    }

    fn ask(&self, ask: Ask) -> Result<()> {
        let Some(mock) = &self.mock else { return Ok(()) };
        let (tell, told) = channel();
        mock.send((ask, tell)).map_err(|error| Error::internal(error.to_string()))?;
        told.recv_timeout(PATIENCE).map_err(|error| Error::internal(error.to_string()))?
    }

    /// Sends a record as somebody would who knows nothing of Punctual.
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
        let sent = producer.send(record, PATIENCE).await;
        sent.map(|_| ()).map_err(|(error, _)| failed(error))
    }

    /// All that lies in a topic of one partition, oldest first.
    pub(crate) async fn letters(&self, name: String) -> Result<Vec<Wire>> {
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
        producer.send(record, PATIENCE).await.unwrap();
    }

    /// Up to where a group has settled a partition, as the brokers know it.
    pub(crate) async fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let mut config = self.client();
        config.set("group.id", format!("{}{group}", self.prefix));
        let topic = format!("{}{topic}", self.prefix);
        let asking = tokio::task::spawn_blocking(move || {
            let consumer: BaseConsumer = config.create().unwrap();
            let mut wanted = TopicPartitionList::new();
            wanted.add_partition(&topic, partition);
            let found = consumer.committed_offsets(wanted, PATIENCE).unwrap();
            found.find_partition(&topic, partition).and_then(|found| found.offset().to_raw())
        });
        asking.await.unwrap().filter(|offset| *offset >= 0)
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address);
        config
    }
}

fn prefix() -> String {
    format!("t{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn serve(tell: &Sender<String>, asked: &Receiver<Asked>) {
    let cluster = MockCluster::new(BROKERS).expect("a cluster");
    let _ = tell.send(cluster.bootstrap_servers());
    // It ends with whoever asks.
    for (ask, tell) in asked {
        let answer = match ask {
            Ask::Topic(name, partitions) => cluster.create_topic(&name, partitions, 1),
            Ask::Down => cluster.broker_down(-1),
            Ask::Up => cluster.broker_up(-1),
        };
        let _ = tell.send(answer.map_err(failed));
    }
}

fn read_all(config: &ClientConfig, name: &str) -> Result<Vec<Wire>> {
    // The client assigns nothing without a group; nothing is committed for this one.
    let mut config = config.clone();
    config.set("group.id", "reader-of-letters").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().map_err(failed)?;
    let (first, end) = consumer.fetch_watermarks(name, 0, PATIENCE).map_err(failed)?;
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(name, 0, Offset::Offset(first)).map_err(failed)?;
    consumer.assign(&from).map_err(failed)?;
    let mut letters = Vec::new();
    let count = usize::try_from(end - first).unwrap_or(0).min(LETTERS_MAX);
    while letters.len() < count {
        let record = consumer.poll(PATIENCE).ok_or_else(|| Error::unavailable("no letter came"))?;
        letters.push(letter(&record.map_err(failed)?));
    }
    Ok(letters)
}

/// A record as it lies there, read by hand: not by the code that is tried.
fn letter(record: &impl Message) -> Wire {
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
