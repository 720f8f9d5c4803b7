//! Bare client of Kafka, on the mock cluster inside librdkafka: no disk and only the loopback network, so that the
//! clients alone are compared.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_kafka::{KafkaBuilder, KafkaTransport};
use rdkafka::ClientConfig;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::message::Message as _;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::comparison::{BenchClient, Names};
use crate::rates::BODY;

const BROKERS: i32 = 2;
const PARTITIONS: i32 = 4;
/// Longest wait for the cluster to start and for joining a group.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Longest wait of an empty fetch, in milliseconds. The mock cluster does not complete a waiting fetch when a record
/// arrives, so a longer wait would dominate both sides.
const FETCH_WAIT: &str = "5";

/// Mock cluster, stopped when dropped. It cannot be moved between threads, so it has a thread of its own.
pub(super) struct Cluster {
    pub(super) address: String,
    _alive: Sender<()>,
}

impl Cluster {
    /// Starts the cluster with the topics of both sides.
    pub(super) fn start(names: &Names) -> Result<Self> {
        let own = format!("{}-tick", names.prefix);
        let topics = [
            (names.bare(), PARTITIONS),
            (own.clone(), PARTITIONS),
            (format!("{own}.bench.dead"), 1),
            (format!("{own}.bench.invalid"), 1),
        ];
        let (started_sender, started_receiver) = channel();
        let (alive, ended) = channel::<()>();
        std::thread::spawn(move || {
            let started = MockCluster::new(BROKERS).and_then(|cluster| {
                for (name, partitions) in &topics {
                    cluster.create_topic(name, *partitions, 1)?;
                }
                Ok(cluster)
            });
            match started {
                Ok(cluster) => {
                    let _ = started_sender.send(Ok(cluster.bootstrap_servers()));
                    let _ = ended.recv();
                }
                Err(error) => drop(started_sender.send(Err(error))),
            }
        });
        let address =
            started_receiver.recv_timeout(TIMEOUT).context("the cluster does not start")??;
        Ok(Self { address, _alive: alive })
    }

    /// Returns a builder of our transport on this cluster.
    pub(super) fn our_transport(&self, names: &Names) -> KafkaBuilder {
        let transport = KafkaTransport::builder(&self.address).prefix(format!("{}-", names.prefix));
        let transport = transport.join_timeout(TIMEOUT).property("session.timeout.ms", "6000");
        transport.property("fetch.wait.max.ms", FETCH_WAIT)
    }
}

/// Topic with a producer and a consumer in a group.
pub(super) struct BareClient {
    topic: String,
    producer: FutureProducer,
    consumer: StreamConsumer,
}

impl BareClient {
    pub(super) fn open(cluster: &Cluster, names: &Names) -> Result<Self> {
        let topic = names.bare();
        let client = |settings: &[(&str, &str)]| {
            let mut config = ClientConfig::new();
            config.set("bootstrap.servers", &cluster.address);
            for (name, value) in settings {
                config.set(*name, *value);
            }
            config
        };
        // The same settings as our transport.
        let producer =
            client(&[("acks", "all"), ("enable.idempotence", "true"), ("linger.ms", "1")]);
        let consumer = client(&[
            ("group.id", &topic),
            ("auto.offset.reset", "earliest"),
            ("session.timeout.ms", "6000"),
            ("enable.auto.commit", "true"),
            ("enable.auto.offset.store", "false"),
            ("auto.commit.interval.ms", "250"),
            ("queued.min.messages", "10000"),
            ("fetch.error.backoff.ms", "100"),
            ("fetch.queue.backoff.ms", "20"),
            ("fetch.wait.max.ms", FETCH_WAIT),
        ]);
        let consumer: StreamConsumer = consumer.create()?;
        consumer.subscribe(&[&topic])?;
        Ok(Self { topic, producer: producer.create()?, consumer })
    }
}

impl BenchClient for BareClient {
    fn how(&self) -> &'static str {
        "the mock cluster of librdkafka; records with the body alone, all confirmations of a batch awaited \
                               together, each record's offset stored, committed in the background"
    }

    async fn publish(&mut self, count: usize) -> Result<()> {
        let mut unconfirmed = Vec::with_capacity(count);
        for _ in 0..count {
            let record = FutureRecord::<(), _>::to(&self.topic).payload(&BODY[..]);
            let sent = self.producer.send_result(record);
            unconfirmed.push(sent.map_err(|(error, _)| error)?);
        }
        for confirmation in unconfirmed {
            confirmation.await?.map_err(|(error, _)| error)?;
        }
        Ok(())
    }

    async fn consume(&mut self, limit: usize) -> Result<usize> {
        for _ in 0..limit {
            let record = self.consumer.recv().await?;
            anyhow::ensure!(
                record.payload().is_some_and(|body| body == BODY),
                "a message has a different body"
            );
            self.consumer.store_offset_from_message(&record)?;
        }
        Ok(limit)
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}
