//! Settling one delivery. What is put back or given up is published first, confirmed, and acknowledged
//! then: a crash in between repeats it and loses nothing. What is dropped comes again from where it is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual::transport::{Acknowledge, Outgoing, Rejection};
use punctual::wire::Wire;
use punctual::{Error, Result};
use tokio::sync::OwnedSemaphorePermit;

use crate::hand::{Hand, Taken};
use crate::wire::Parcel;

/// How one delivery is settled.
pub(crate) struct MqttReceipt {
    pub(crate) hand: Arc<Hand>,
    pub(crate) taken: Option<Taken>,
    /// Room for one more delivery, once this one is settled.
    pub(crate) _room: OwnedSemaphorePermit,
}

impl MqttReceipt {
    fn settle(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.hand.settle(taken.spot, taken.message.id);
        }
    }

    /// Publishes in its place; answers whether anybody gets it.
    async fn publish(&self, name: &str, wire: Wire) -> Result<bool> {
        let parcel = Parcel::new(Arc::from(name), wire, self.hand.version)?;
        self.hand.publish(Parcel { is_awaited: true, ..parcel }).await
    }

    fn outgoing(&self) -> Result<Outgoing> {
        let taken = self.taken.as_ref().ok_or_else(settled)?;
        Ok(Outgoing {
            message: taken.message.clone(),
            delay: Duration::ZERO,
            attempt: taken.attempt,
            group: Some(self.hand.group.clone()),
        })
    }
}

#[async_trait]
impl Acknowledge for MqttReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.settle();
        Ok(())
    }

    async fn requeue(mut self: Box<Self>, delay: Duration) -> Result<()> {
        if !delay.is_zero() {
            return Err(Error::unsupported(format!(
                "MQTT cannot delay a delivery by {delay:?}; it is put back at once or kept in the storage"
            )));
        }
        let wire = Wire::of(&self.outgoing()?)?;
        if !self
            .publish(&self.hand.names.own, wire)
            .await
            .map_err(|error| error.during("requeue"))?
        {
            return Err(Error::unavailable(format!(
                "no session of the group {:?} is on the MQTT broker at {}; the delivery comes again",
                self.hand.group, self.hand.place
            ))
            .during("requeue"));
        }
        self.settle();
        Ok(())
    }

    async fn reject(mut self: Box<Self>, rejection: &Rejection) -> Result<()> {
        let message = self.outgoing()?.message;
        let names = &self.hand.names;
        let name = if rejection.is_invalid() { &names.invalid } else { &names.dead };
        let wire = Wire::dead(&message, rejection)?;
        if !self.publish(name, wire).await.map_err(|error| error.during("reject"))? {
            tracing::warn!(
                message = %message.id,
                name,
                "a dead letter was thrown away by the broker, because nobody has subscribed to them"
            );
        }
        self.settle();
        Ok(())
    }
}

impl Drop for MqttReceipt {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            // MQTT has no word for "not now", so it comes again from our own hand, and from the session
            // when we are gone.
            let attempt = taken.attempt.saturating_add(1);
            self.hand.give(Taken { attempt, ..taken });
        }
    }
}

fn settled() -> Error {
    Error::internal("the delivery is settled already")
}
