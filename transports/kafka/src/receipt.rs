//! Receipt: settles one delivery. A log cannot take a record back, so a requeued message is appended again, for its
//! group only and with its attempt, and a rejected one is appended to the group's dead letters. The broker confirms
//! that first, and only then is the delivery settled: a crash in between repeats the message and loses nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::backend::transport::limits::check_delay;
use punctual::backend::transport::{Acknowledge, Delay, OutgoingMessage, Rejection};
use punctual::backend::wire::Wire;
use punctual::{Error, Result};

use crate::assignment::FetchedRecord;
use crate::in_flight::InFlight;
use crate::names::GroupNames;
use crate::producer::{Producer, Record};

/// Shared by all receipts of a subscription.
pub(crate) struct ConsumerContext {
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) producer: Arc<Producer>,
    pub(crate) names: GroupNames,
    pub(crate) group: String,
}

/// Settles one delivery. If dropped unsettled, the message is delivered again.
pub(crate) struct KafkaReceipt {
    context: Arc<ConsumerContext>,
    /// None once it is settled.
    record: Option<FetchedRecord>,
}

impl KafkaReceipt {
    pub(crate) fn new(context: Arc<ConsumerContext>, record: FetchedRecord) -> Self {
        Self { context, record: Some(record) }
    }

    /// Appends a copy of the message; refused when its partition has moved, because the new owner delivers it again
    /// anyway.
    async fn append(&self, topic: &str, wire: &Wire, record: &FetchedRecord) -> Result<()> {
        if !self.context.in_flight.is_assigned(record.position) {
            return Err(stale(record));
        }
        let copy = Record { topic, message: &record.message, wire };
        self.context.producer.send(&[copy]).await
    }

    fn settle(&mut self) -> Result<()> {
        let Some(record) = self.record.take() else { return Ok(()) };
        if self.context.in_flight.settle(record.position) { Ok(()) } else { Err(stale(&record)) }
    }
}

#[async_trait]
impl Acknowledge for KafkaReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.settle()
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        let Some(record) = self.record.clone() else { return Ok(()) };
        check_delay("Kafka", Delay::None, record.message.id, delay)?;
        let outgoing = OutgoingMessage {
            message: Arc::clone(&record.message),
            delay,
            attempt: record.attempt,
            group: Some(self.context.group.clone()),
        };
        let (topic, wire) = (self.context.names.topic.clone(), Wire::of(&outgoing)?);
        self.append(&topic, &wire, &record).await?;
        self.settle()
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let Some(record) = self.record.clone() else { return Ok(()) };
        let names = &self.context.names;
        let topic = if rejection.is_invalid() { names.invalid.clone() } else { names.dead.clone() };
        let wire = Wire::dead(&record.message, rejection)?;
        self.append(&topic, &wire, &record).await?;
        self.settle()
    }
}

impl Drop for KafkaReceipt {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.context.in_flight.release(record);
        }
    }
}

fn stale(record: &FetchedRecord) -> Error {
    Error::conflict(format!(
        "partition {} has moved to another consumer of the group since this message was received; it is \
         delivered again there",
        record.position.partition
    ))
    .with("message", record.message.id)
}
