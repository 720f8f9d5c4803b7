//! Settling a delivery. A log cannot take a record back, so what is put back is appended once more, for its
//! group alone and with its count, and what is rejected is appended to the group's letters; the broker confirms
//! that first, and only then is the delivery settled. A crash in between repeats it and loses nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::transport::{Acknowledge, Outgoing, Rejection};
use punctual::wire::Wire;
use punctual::{Error, Result};

use crate::desk::Desk;
use crate::lane::Parcel;
use crate::names::GroupNames;
use crate::producer::{Producer, Record};

/// What the receipts of a subscription have in common.
pub(crate) struct Settling {
    pub(crate) desk: Arc<Desk>,
    pub(crate) producer: Arc<Producer>,
    pub(crate) names: GroupNames,
    pub(crate) group: String,
}

/// How one delivery is settled. Dropped unsettled, it is delivered again.
pub(crate) struct KafkaReceipt {
    settling: Arc<Settling>,
    /// Gone once it is settled.
    parcel: Option<Parcel>,
}

impl KafkaReceipt {
    pub(crate) fn new(settling: Arc<Settling>, parcel: Parcel) -> Self {
        Self { settling, parcel: Some(parcel) }
    }

    /// Appends a copy of it; refused when its partition has moved, because there it comes again anyway.
    async fn append(&self, topic: &str, wire: &Wire, parcel: &Parcel) -> Result<()> {
        if !self.settling.desk.is_ours(parcel.slot) {
            return Err(stale(parcel));
        }
        let record = Record { topic, message: &parcel.message, wire };
        self.settling.producer.send(&[record]).await
    }

    fn settle(&mut self) -> Result<()> {
        let Some(parcel) = self.parcel.take() else { return Ok(()) };
        if self.settling.desk.settle(parcel.slot) { Ok(()) } else { Err(stale(&parcel)) }
    }
}

#[async_trait]
impl Acknowledge for KafkaReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.settle()
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        if !delay.is_zero() {
            return Err(Error::unsupported(format!(
                "Kafka cannot put a message back for {delay:?} later; give the builder a storage to keep it"
            )));
        }
        let Some(parcel) = self.parcel.clone() else { return Ok(()) };
        let outgoing = Outgoing {
            message: Arc::clone(&parcel.message),
            delay,
            attempt: parcel.attempt,
            group: Some(self.settling.group.clone()),
        };
        let (topic, wire) = (self.settling.names.topic.clone(), Wire::of(&outgoing)?);
        self.append(&topic, &wire, &parcel).await?;
        self.settle()
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let Some(parcel) = self.parcel.clone() else { return Ok(()) };
        let names = &self.settling.names;
        let topic = if rejection.is_invalid() { names.invalid.clone() } else { names.dead.clone() };
        let wire = Wire::dead(&parcel.message, rejection)?;
        self.append(&topic, &wire, &parcel).await?;
        self.settle()
    }
}

impl Drop for KafkaReceipt {
    fn drop(&mut self) {
        if let Some(parcel) = self.parcel.take() {
            self.settling.desk.put_back(parcel);
        }
    }
}

fn stale(parcel: &Parcel) -> Error {
    Error::conflict(format!(
        "partition {} has gone to another consumer of the group since this was received; it is delivered \
         again there",
        parcel.slot.partition
    ))
    .with("message", parcel.message.id)
}
