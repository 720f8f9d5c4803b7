//! Reader: one thread per subscription that owns Kafka's consumer. It alone polls for records and for changes of the
//! group, so a handler that takes long does not cost the group its member, and it fetches no more of a partition than
//! the in-flight set has room for.

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

use crate::assignment::{FetchedRecord, ReaderItem, RecordPosition};
use crate::error;
use crate::in_flight::InFlight;
use crate::last_error::LastError;
use crate::membership::Membership;
use crate::names::GroupNames;
use crate::settings::Settings;
use crate::wire;

/// Longest wait between two polls; also the longest delay until a settled position is stored.
const IDLE_MAX: Duration = Duration::from_millis(100);
/// Pause before a consumer that failed fatally is replaced.
const RENEW_PAUSE: Duration = Duration::from_secs(1);
/// Limit of the records of one partition that are read in a row.
const READ_MAX: usize = 256;
/// How often the consumer is polled in a row. A poll also returns nothing when the client served an internal event,
/// so one is not enough.
const POLLS_MAX: usize = 8;

type Client = BaseConsumer<Membership>;

/// Configuration of the reader and the in-flight set it fills.
pub(crate) struct Reader {
    pub(crate) settings: Arc<Settings>,
    pub(crate) names: GroupNames,
    pub(crate) topic: Topic,
    pub(crate) group: String,
    pub(crate) in_flight: Arc<InFlight>,
}

/// Queue of one partition, and the generation of its assignment.
struct Queue {
    generation: u64,
    records: PartitionQueue<Membership>,
}

/// Signals that the consumer failed fatally and must be replaced.
struct ConsumerFailed;

impl Reader {
    /// Returns a consumer that has joined the group, or will as soon as a broker is reachable.
    pub(crate) fn join(&self) -> Result<Arc<Client>> {
        let last_error = LastError::default();
        let membership = Membership {
            in_flight: Arc::clone(&self.in_flight),
            last_error: last_error.clone(),
            revoke_timeout: self.settings.revoke_timeout,
        };
        let failed =
            |error| error::map_error(&error, "subscribe", self.settings.error_context(None));
        let config = self.settings.consumer(&self.names.group);
        let mut client: Client = config.create_with_context(membership).map_err(failed)?;
        let notifier = Arc::clone(&self.in_flight.notifier);
        client.set_nonempty_callback(move || notifier.notify());
        client.subscribe(&[self.names.topic.as_str()]).map_err(failed)?;
        self.in_flight.notifier.notify();
        Ok(Arc::new(client))
    }

    /// Reads until the subscription is closed. Main function of the thread.
    pub(crate) fn run(self, first: Arc<Client>) {
        let mut client = Some(first);
        while !self.in_flight.is_closing() {
            let ended = match client.take() {
                Some(client) => self.read(&client),
                None => match self.join() {
                    Ok(joined) => {
                        client = Some(joined);
                        continue;
                    }
                    Err(error) => {
                        self.in_flight.report_error(error);
                        Some(ConsumerFailed)
                    }
                },
            };
            if ended.is_some() {
                let assignments = self.in_flight.assignments().into_iter();
                let lost: Vec<i32> = assignments.map(|(partition, _)| partition).collect();
                self.in_flight.revoke(&lost);
                self.in_flight.notifier.wait(RENEW_PAUSE);
            }
        }
        drop(client);
        self.in_flight.mark_closed();
    }

    /// Reads until the subscription is closed or the consumer fails fatally.
    fn read(&self, client: &Arc<Client>) -> Option<ConsumerFailed> {
        let mut queues: BTreeMap<i32, Queue> = BTreeMap::new();
        while !self.in_flight.is_closing() {
            self.in_flight.notifier.wait(IDLE_MAX);
            if self.poll_group(client).is_some() {
                return Some(ConsumerFailed);
            }
            if self.update_queues(client, &mut queues) && self.poll_group(client).is_some() {
                return Some(ConsumerFailed);
            }
            for (partition, queue) in &queues {
                self.fetch(*partition, queue);
            }
            store_positions(client, &self.names.topic, &self.in_flight.new_positions());
        }
        None
    }

    /// Polls the consumer, which lets it serve the group, and reports its errors.
    fn poll_group(&self, client: &Arc<Client>) -> Option<ConsumerFailed> {
        for _ in 0..POLLS_MAX {
            match client.poll(Duration::ZERO) {
                None => {}
                // This record was fetched before its partition had a queue of its own.
                Some(Ok(record)) => {
                    let generation = self.in_flight.assignments().into_iter();
                    let generation =
                        generation.filter(|(partition, _)| *partition == record.partition());
                    let now = self.settings.clock.now();
                    self.in_flight
                        .add(generation.map(|(_, generation)| self.item(&record, generation, now)));
                }
                Some(Err(KafkaError::MessageConsumptionFatal(code))) => {
                    self.report(code, client);
                    return Some(ConsumerFailed);
                }
                Some(Err(error)) => self.handle_error(&error, client),
            }
        }
        None
    }

    /// Gives each assigned partition a queue of its own; returns whether one was added.
    fn update_queues(&self, client: &Arc<Client>, queues: &mut BTreeMap<i32, Queue>) -> bool {
        let assignments: BTreeMap<i32, u64> = self.in_flight.assignments().into_iter().collect();
        queues.retain(|partition, queue| assignments.get(partition) == Some(&queue.generation));
        let mut has_new = false;
        for (partition, generation) in assignments {
            if queues.contains_key(&partition) {
                continue;
            }
            if let Some(mut records) = client.split_partition_queue(&self.names.topic, partition) {
                let notifier = Arc::clone(&self.in_flight.notifier);
                records.set_nonempty_callback(move || notifier.notify());
                queues.insert(partition, Queue { generation, records });
                has_new = true;
            }
        }
        has_new
    }

    /// Reads as many records of a partition as there is room for.
    fn fetch(&self, partition: i32, queue: &Queue) {
        let (room, now) = (self.in_flight.room(partition), self.settings.clock.now());
        let mut items = Vec::new();
        while items.len() < room.min(READ_MAX) {
            match queue.records.poll(Duration::ZERO) {
                None => break,
                Some(record) => items.extend(self.read_one(record, queue.generation, now)),
            }
        }
        if items.len() == READ_MAX {
            // There may be more records, and the client does not notify for them.
            self.in_flight.notifier.notify();
        }
        if !items.is_empty() {
            self.in_flight.add(items);
        }
    }

    fn read_one(
        &self,
        record: KafkaResult<BorrowedMessage<'_>>,
        generation: u64,
        now: Timestamp,
    ) -> Option<ReaderItem> {
        match record {
            Ok(record) => Some(self.item(&record, generation, now)),
            Err(error) => {
                let context = self.settings.error_context(None);
                self.in_flight.report_error(error::map_error(&error, "receive", context));
                None
            }
        }
    }

    fn item(&self, record: &BorrowedMessage<'_>, generation: u64, now: Timestamp) -> ReaderItem {
        let position =
            RecordPosition { partition: record.partition(), generation, offset: record.offset() };
        let received = wire::read(record, &self.topic, now);
        if !received.is_for(&self.group) {
            return ReaderItem::Skipped(position);
        }
        ReaderItem::Record(FetchedRecord {
            position,
            message: Arc::new(received.message),
            attempt: received.attempt.saturating_add(1),
            poison: received.poison.map(Arc::from),
        })
    }

    fn handle_error(&self, error: &KafkaError, client: &Client) {
        match error.rdkafka_error_code() {
            // The client retries these by itself, and the caller can do nothing about them.
            None | Some(RDKafkaErrorCode::PartitionEOF | RDKafkaErrorCode::NoError) => {}
            Some(code) => self.report(code, client),
        }
    }

    fn report(&self, code: RDKafkaErrorCode, client: &Client) {
        let reason = client.context().last_error.reason(code);
        let context = self.settings.error_context(reason.as_deref());
        self.in_flight.report_error(error::map_code(code, "receive", context));
    }
}

/// Stores positions in the client, which commits them at its interval and before it gives a partition up.
pub(crate) fn store_positions(client: &Client, topic: &str, new_positions: &[(i32, i64)]) {
    if new_positions.is_empty() {
        return;
    }
    let mut positions = TopicPartitionList::with_capacity(new_positions.len());
    for (partition, offset) in new_positions {
        // It fails for a negative offset only, which cannot occur.
        let _ = positions.add_partition_offset(topic, *partition, Offset::Offset(*offset));
    }
    // It fails for a partition that is revoked at this moment: its next owner starts at the committed position.
    let _ = client.store_offsets(&positions);
}
