//! The reader: one thread per subscription that owns Kafka's consumer. It alone asks it for records and for
//! changes of the group, so a handler that takes long never costs the group its member, and it reads no
//! more of a partition than there is room for on the desk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual::Result;
use punctual::jiff::Timestamp;
use punctual::model::Topic;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};

use crate::desk::Desk;
use crate::fault;
use crate::lane::{Arrival, Parcel, Slot};
use crate::membership::Membership;
use crate::names::GroupNames;
use crate::settings::Settings;
use crate::trouble::Trouble;
use crate::wire;

/// The most the thread waits before it looks again, and with it what is settled waits to be noted.
const IDLE_MAX: Duration = Duration::from_millis(100);
/// How long the thread waits before it makes a new consumer in place of one that is over.
const RENEW_REST: Duration = Duration::from_secs(1);
/// The most records of one partition that are read in a row.
const READ_MAX: usize = 256;
/// How often the consumer is asked for news in a row. A call answers nothing also when it was busy with
/// itself, so one is not enough.
const NEWS_MAX: usize = 8;

type Client = BaseConsumer<Membership>;

/// What is read, for whom, and where it is put.
pub(crate) struct Reader {
    pub(crate) settings: Arc<Settings>,
    pub(crate) names: GroupNames,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) desk: Arc<Desk>,
}

/// The queue of one partition, and the number of its giving.
struct Queue {
    given: u64,
    records: PartitionQueue<Membership>,
}

/// A consumer that is over and has to be replaced.
struct Over;

impl Reader {
    /// A consumer that has joined the group, or will as soon as a broker is there.
    pub(crate) fn join(&self) -> Result<Arc<Client>> {
        let trouble = Trouble::default();
        let membership = Membership {
            desk: Arc::clone(&self.desk),
            trouble: trouble.clone(),
            patience: self.settings.revoke_patience,
        };
        let failed = |error| fault::from_kafka(&error, "subscribe", self.settings.at(None));
        let config = self.settings.consumer(&self.names.group);
        let mut client: Client = config.create_with_context(membership).map_err(failed)?;
        let bell = Arc::clone(&self.desk.bell);
        client.set_nonempty_callback(move || bell.ring());
        client.subscribe(&[self.names.topic.as_str()]).map_err(failed)?;
        self.desk.bell.ring();
        Ok(Arc::new(client))
    }

    /// Reads until the desk is closed. The whole life of the thread.
    pub(crate) fn run(self, first: Arc<Client>) {
        let mut client = Some(first);
        while !self.desk.is_closing() {
            let ended = match client.take() {
                Some(client) => self.read(&client),
                None => match self.join() {
                    Ok(joined) => {
                        client = Some(joined);
                        continue;
                    }
                    Err(error) => {
                        self.desk.trouble(error);
                        Some(Over)
                    }
                },
            };
            if ended.is_some() {
                let lanes = self.desk.lanes().into_iter();
                let lost: Vec<i32> = lanes.map(|(partition, _)| partition).collect();
                self.desk.take_away(&lost);
                self.desk.bell.wait(RENEW_REST);
            }
        }
        drop(client);
        self.desk.closed();
    }

    /// Reads until the desk is closed or the consumer is over.
    fn read(&self, client: &Arc<Client>) -> Option<Over> {
        let mut queues: BTreeMap<i32, Queue> = BTreeMap::new();
        while !self.desk.is_closing() {
            self.desk.bell.wait(IDLE_MAX);
            if self.hear(client).is_some() {
                return Some(Over);
            }
            if self.follow(client, &mut queues) && self.hear(client).is_some() {
                return Some(Over);
            }
            for (partition, queue) in &queues {
                self.fetch(*partition, queue);
            }
            note(client, &self.names.topic, &self.desk.progress());
        }
        None
    }

    /// Lets the consumer do what it has to do for the group, and hears what went wrong.
    fn hear(&self, client: &Arc<Client>) -> Option<Over> {
        for _ in 0..NEWS_MAX {
            match client.poll(Duration::ZERO) {
                None => {}
                // It was on its way before its partition had a queue of its own.
                Some(Ok(record)) => {
                    let given = self.desk.lanes().into_iter();
                    let given = given.filter(|(partition, _)| *partition == record.partition());
                    let now = self.settings.clock.now();
                    self.desk.arrive(given.map(|(_, given)| self.arrival(&record, given, now)));
                }
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    self.tell(code, client);
                    return Some(Over);
                }
                Some(Err(error)) => self.failed(&error, client),
            }
        }
        None
    }

    /// Gives each partition that is ours a queue of its own; whether there is a new one.
    fn follow(&self, client: &Arc<Client>, queues: &mut BTreeMap<i32, Queue>) -> bool {
        let lanes: BTreeMap<i32, u64> = self.desk.lanes().into_iter().collect();
        queues.retain(|partition, queue| lanes.get(partition) == Some(&queue.given));
        let mut grown = false;
        for (partition, given) in lanes {
            if queues.contains_key(&partition) {
                continue;
            }
            if let Some(mut records) = client.split_partition_queue(&self.names.topic, partition) {
                let bell = Arc::clone(&self.desk.bell);
                records.set_nonempty_callback(move || bell.ring());
                queues.insert(partition, Queue { given, records });
                grown = true;
            }
        }
        grown
    }

    /// Reads as many records of a partition as there is room for.
    fn fetch(&self, partition: i32, queue: &Queue) {
        let (room, now) = (self.desk.room(partition), self.settings.clock.now());
        let mut arrivals = Vec::new();
        while arrivals.len() < room.min(READ_MAX) {
            match queue.records.poll(Duration::ZERO) {
                None => break,
                Some(record) => arrivals.extend(self.read_one(record, queue.given, now)),
            }
        }
        if arrivals.len() == READ_MAX {
            // There may be more, and nothing rings for it.
            self.desk.bell.ring();
        }
        if !arrivals.is_empty() {
            self.desk.arrive(arrivals);
        }
    }

    fn read_one(
        &self,
        record: KafkaResult<BorrowedMessage<'_>>,
        given: u64,
        now: Timestamp,
    ) -> Option<Arrival> {
        match record {
            Ok(record) => Some(self.arrival(&record, given, now)),
            Err(error) => {
                let at = self.settings.at(None);
                self.desk.trouble(fault::from_kafka(&error, "receive", at));
                None
            }
        }
    }

    fn arrival(&self, record: &BorrowedMessage<'_>, given: u64, now: Timestamp) -> Arrival {
        let slot = Slot { partition: record.partition(), given, offset: record.offset() };
        let received = wire::read(record, &self.topic, now);
        if !received.is_for(&self.group) {
            return Arrival::PassedOver(slot);
        }
        Arrival::Parcel(Parcel {
            slot,
            message: Arc::new(received.message),
            attempt: received.attempt.saturating_add(1),
            poison: received.poison.map(Arc::from),
        })
    }

    fn failed(&self, error: &KafkaError, client: &Client) {
        match error.rdkafka_error_code() {
            // It is asked again by itself, and nobody can do anything about it.
            None | Some(RDKafkaErrorCode::PartitionEOF | RDKafkaErrorCode::NoError) => {}
            Some(code) => self.tell(code, client),
        }
    }

    fn tell(&self, code: RDKafkaErrorCode, client: &Client) {
        let reason = client.context().trouble.reason(code);
        let at = self.settings.at(reason.as_deref());
        self.desk.trouble(fault::from_code(code, "receive", at));
    }
}

/// Notes positions with the client, which tells them to the broker before long, and before it gives a
/// partition up.
pub(crate) fn note(client: &Client, topic: &str, progress: &[(i32, i64)]) {
    if progress.is_empty() {
        return;
    }
    let mut positions = TopicPartitionList::with_capacity(progress.len());
    for (partition, offset) in progress {
        // It fails for a negative offset only, and there is none.
        let _ = positions.add_partition_offset(topic, *partition, Offset::Offset(*offset));
    }
    // It fails for a partition that was taken away this moment: then its next owner begins where it must.
    let _ = client.store_offsets(&positions);
}
